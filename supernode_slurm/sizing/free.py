"""What could run on the cards that nobody uses now."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import PlanError
from ..placement import Ask, Room, View, Wanted, choose, device_types, find_slots
from .curve import capacity, node_devices
from .question import predicted_of


def free_room(room: Room) -> Room:
    """Return the room as if its busy nodes did not exist."""
    return Room(room.inventory, View(room.view.free, room.view.free, room.view.notes), room.blocks)


def fastest_free(room: Room, ask_for: Callable[[str], Ask]) -> Ask:
    """Return what to ask for to get the fastest plan on free cards of one kind.

    ``ask_for`` makes it from words of ``--cards``. Of each kind all are taken, or as many nodes
    as a power of two where all have no plan. Raises ``PlanError`` where nothing is free.
    """
    found: list[tuple[float, Ask]] = []
    reasons = ["no cards are free"]
    for kind in device_types(room.inventory):
        for words in _sizes(room, kind):
            ask = ask_for(words)
            try:
                found.append((predicted_of(choose(room, ask)[0].plan).step_time_s, ask))
                break
            except PlanError as error:
                reasons.append(f"{words}: {error}")
    if not found:
        raise PlanError("\n".join(reasons[1:] or reasons))
    return min(found, key=lambda item: item[0])[1]


def _sizes(room: Room, kind: str) -> Iterator[str]:
    """Yield words of ``--cards`` for the free cards of a kind: all, then a power of two nodes."""
    each = node_devices(room, kind)
    try:
        slots = find_slots(room, Wanted(kind, each))
    except PlanError:
        return
    nodes = max(capacity(room, slot) for slot in slots) // each
    card = room.inventory.accelerator(slots[0].group.accelerator)
    for count in dict.fromkeys((nodes, 1 << (nodes.bit_length() - 1))):
        yield f"{kind}:{count * each // card.devices_per_card}"
