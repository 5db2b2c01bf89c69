"""From what the user asks to plans with a place, the fastest first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, product

from ..errors import PlanError
from ..hostlist import expand
from ..inventory import Inventory
from ..plan import Plan
from ..planner import KEEP, Capabilities, expected_error, ideal_rate, plan_strategy
from .ask import Ask, Choice, Reached, rank, workload_of
from .gain import against, as_pool, in_supernode
from .slots import Room, Slot, Wanted, device_types, find_slots
from .strategy import Contest, Way


def choose(room: Room, ask: Ask) -> list[Choice]:
    """Return plans with their slots, the fastest predicted first.

    Cards that the framework is not known to run on come last. Where nobody named a framework,
    the fastest counts. Without a model the devices are placed and not planned.
    Raises ``PlanError`` with every reason if nothing fits.
    """
    if ask.is_open:
        return _of_all(room, ask)
    if ask.model is not None:
        workload_of(ask, ask.model)  # Refused once for what is planned nowhere, not by each place.
    if ask.prefer is not None and not ask.limits[0].partitions:
        preferred = tuple(replace(item, partitions=(ask.prefer,)) for item in ask.limits)
        with suppress(PlanError):
            found = choose(room, replace(ask, limits=preferred, prefer=None))
            if not ask.doubtful(found[0].slots):
                return found
    within, reasons = places(room, ask)
    if len(ask.cards) > 1 and ask.model is not None and within:
        return _by_strategy(room, ask, within)
    choices = _fastest(room, ask, within, partial(_plans, room.inventory, ask), reasons)
    return _weighed(room.inventory, ask.on(choices[0].slots), choices)


def _by_strategy(room: Room, ask: Ask, within: Sequence[tuple[Slot, ...]]) -> list[Choice]:
    """Return the plans of the strategy asked for, or of the fastest."""
    if ask.strategy == "grouped" and ask.whole:
        raise PlanError(
            "--strategy grouped takes one kind of cards, the job's own options or nodes have "
            "all of them; ask for nodes of one kind, or take --strategy mixed"
        )

    def planned(way: Way, below_s: float, keep: int) -> list[Choice]:
        plans = partial(
            _plans, room.inventory, ask, strategy=way.strategy, below_s=below_s, keep=keep
        )
        return _fastest(room, ask, _parts(within, way.groups), plans)

    contest = Contest(
        asked=ask.strategy,
        names=[f"{kind} x {count}" for kind, count in ask.cards],
        batch=ask.global_batch,
        planned=planned,
        rank=lambda item: rank(item, ask.spare),
        ideals=[_ideal(ask, slot) for slot in within[0]],
        margin=lambda item: _margin(room.inventory, item),
        whole=ask.whole,
        apart=not any(_are_joined(room, slots) for slots in within),
    )
    found, compared = contest.run()
    best, *others = _weighed(room.inventory, ask, found)
    return [replace(best, compared=compared), *others]


def _fastest(
    room: Room,
    ask: Ask,
    within: Sequence[tuple[Slot, ...]],
    plans: Callable[[tuple[Slot, ...]], list[Choice]],
    reasons: Sequence[str] = (),
) -> list[Choice]:
    """Return the plans of all places, the fastest first; raises ``PlanError`` with every reason.

    ``reasons`` are those known before.
    """
    found, refused = [], list(reasons)
    if not within and not refused:
        raise PlanError(
            "no node that may be used has a card of the catalogue: see 'sn show room'; what a "
            "GRES without a name of the catalogue is, 'sn import --accelerator TYPE=NAME' takes"
        )
    for slots in within:
        try:
            _joined(room, slots)
            found += plans(slots)
        except PlanError as error:
            where = " + ".join(slot.domains[0] for slot in slots)
            refused.append(f"{where}: {error}")
    if not found:
        raise PlanError("\n".join(dict.fromkeys(refused)))
    return sorted(found, key=partial(_order, ask))


def _order(ask: Ask, choice: Choice) -> tuple[bool, bool, float, float]:
    """Return what is less of a better choice: where its framework is known to run goes first."""
    return bool(ask.doubtful(choice.slots)), *rank(choice, ask.spare)


def _are_joined(room: Room, slots: tuple[Slot, ...]) -> bool:
    with suppress(PlanError):
        _joined(room, slots)
        return True
    return False


def _joined(room: Room, slots: tuple[Slot, ...]) -> None:
    """Refuse several groups that cannot be in one job."""
    if len(slots) > 1:
        _enough_nodes(room, slots)
        _common_fabric(room.inventory, slots)


def _margin(inventory: Inventory, choice: Choice) -> float:
    """Return how much slower a plan may be predicted that may be as fast as another."""
    return expected_error(choice.plan, inventory.calibration.errors).share / 2


def _parts(within: Sequence[tuple[Slot, ...]], groups: Sequence[int]) -> list[tuple[Slot, ...]]:
    """Return where some of the groups could lie, each place once."""
    found: list[tuple[Slot, ...]] = []
    for slots in within:
        part = tuple(slots[index] for index in groups)
        if part not in found:
            found.append(part)
    return found


def _ideal(ask: Ask, slot: Slot) -> float | None:
    """Return the samples per second of a group that loses nothing, where the equations say it."""
    if ask.model is None:
        return None
    with suppress(PlanError):
        return ideal_rate(workload_of(ask, ask.model), slot.offer, ask.able)
    return None


def _of_all(room: Room, ask: Ask) -> list[Choice]:
    """Return the plans of the framework that is fastest; the error has what each lacks.

    Where one kind alone is fastest, what is planned for on such cards counts too.
    """
    found: list[list[Choice]] = []
    reasons: dict[str, str] = {}
    ables = {able.name: able for able in (ask.able, *ask.others)}

    def try_on(able: Capabilities) -> None:
        try:
            found.append(choose(room, ask.of(able)))
        except PlanError as error:
            reasons[able.name] = "; ".join(str(error).split("\n"))

    def order(choices: Sequence[Choice]) -> tuple[bool, bool, float, float]:
        return _order(ask.settled_by(choices[0]), choices[0])

    for able in ables.values():
        try_on(able)
        if found and ask.model is None:
            break
    if not found:
        if len(set(reasons.values())) == 1:
            raise PlanError(reasons[ask.able.name])  # The frameworks do not stand in the way.
        raise PlanError("\n".join(f"{name}: {text}" for name, text in reasons.items()))
    slot, *more = min(found, key=order)[0].slots
    own = ask.by_maker.get(slot.group.vendor)
    if own is not None and not more and own.name not in ables:
        try_on(own)
    best, *others = sorted(found, key=order)
    reached = tuple(_reached(choices[0], ask.spare) for choices in (best, *others))
    return [replace(best[0], reached=reached), *best[1:]]


def _reached(choice: Choice, spare: float) -> Reached:
    predicted = choice.plan.predicted
    step_s = predicted.step_time_s if predicted else None
    return Reached(choice.plan.framework, step_s, rank(choice, spare)[0])


def settled(room: Room, ask: Ask) -> Ask:
    """Return the ask for the framework alone that its best plan is for; raises ``PlanError``."""
    return ask.settled_by(choose(room, ask)[0]) if ask.is_open else ask


def places(room: Room, ask: Ask) -> tuple[list[tuple[Slot, ...]], list[str]]:
    """Return where the groups could lie, one slot for each, and why some kinds lie nowhere."""
    found: list[tuple[Slot, ...]] = []
    reasons: list[str] = []
    for wanted in _kinds(room.inventory, ask):
        try:
            found += product(*[find_slots(room, item) for item in wanted])
        except PlanError as error:
            reasons.append(str(error))
    return found, reasons


def _weighed(inventory: Inventory, ask: Ask, choices: list[Choice]) -> list[Choice]:
    """Return the choices with a pool first where the best one's supernode gains too little."""
    best = choices[0]
    if ask.model is None or not in_supernode(inventory, best.slots):
        return choices
    slot = best.slots[0]
    pools = [item for item in choices if _in_pool(inventory, item)]
    alike = [item for item in pools if item.slots[0].group.accelerator == slot.group.accelerator]
    for pool in [*alike, *pools][:1]:
        gain = against(best.plan, pool.plan, pool.slots[0].domains[0])
        if gain and ask.least_gain is not None and gain.share < ask.least_gain:
            return [replace(pool, gain=gain), *(item for item in choices if item is not pool)]
    # What another card is faster by is no merit of the supernode.
    if alike:
        gain = against(best.plan, alike[0].plan, alike[0].slots[0].domains[0])
    elif slot.group.nodes == 1:
        return choices
    else:
        card = inventory.card_in(slot.domains[0], slot.group.accelerator)
        plan = as_pool(slot, card, workload_of(ask, ask.model), ask.able)
        gain = against(best.plan, plan, "the same cards in ordinary nodes") if plan else None
    return [replace(best, gain=gain), *choices[1:]]


def _in_pool(inventory: Inventory, choice: Choice) -> bool:
    return len(choice.slots) == 1 and not in_supernode(inventory, choice.slots)


def _kinds(inventory: Inventory, ask: Ask) -> Iterable[tuple[Wanted, ...]]:
    """Return each assignment of kinds of cards to the groups asked for."""
    limits = ask.limits * len(ask.cards) if len(ask.limits) == 1 else ask.limits
    if len(ask.cards) == 1 and ask.cards[0][0] is None:
        count = ask.cards[0][1]
        each = _devices_per_card(inventory) if ask.open_cards else {}
        return [
            (Wanted(kind, count * each.get(kind, 1), limits[0]),)
            for kind in device_types(inventory)
        ]
    asked = zip(ask.cards, limits, strict=True)
    return [tuple(Wanted(str(kind), n, where) for (kind, n), where in asked)]


def _devices_per_card(inventory: Inventory) -> dict[str, int]:
    return {
        item.type: inventory.accelerator(item.accelerator).devices_per_card
        for nodes in inventory.node_classes
        for item in nodes.devices
    }


def _plans(
    inventory: Inventory,
    ask: Ask,
    slots: tuple[Slot, ...],
    strategy: str = "mixed",
    below_s: float = math.inf,
    keep: int = KEEP,
) -> list[Choice]:
    ask = ask.on(slots)
    if ask.model is None:
        groups = tuple(slot.group for slot in slots)
        plan = Plan("", ask.global_batch, ask.sequence, ask.able.name, groups)
        return [Choice(plan, slots)]
    for slot in slots:
        if slot.unknown:
            raise PlanError(slot.unknown)
    offers = [slot.offer for slot in slots]
    workload = workload_of(ask, ask.model)
    plans = plan_strategy(strategy, workload, offers, ask.able, keep, below_s)
    return [Choice(plan, _in_order(plan, slots)) for plan in plans]


def _in_order(plan: Plan, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """Return the slots in the order of the plan's groups."""
    return tuple(next(slot for slot in slots if slot.group == group) for group in plan.groups)


def _enough_nodes(room: Room, slots: tuple[Slot, ...]) -> None:
    """Refuse groups that would have to share nodes: each gets nodes of its own."""
    for first, second in combinations(slots, 2):
        mine, others = (set(expand(slot.group.hosts)) for slot in (first, second))
        wanted = first.group.nodes + second.group.nodes
        usable = len((mine | others) & room.view.usable)
        if mine & others and wanted > usable:
            raise PlanError(
                f"plans give {first.group.name} and {second.group.name} nodes of their own: "
                f"{wanted} nodes wanted, {usable} usable"
            )


def _common_fabric(inventory: Inventory, slots: tuple[Slot, ...]) -> None:
    """Refuse a job over networks that do not meet, or over one of which nothing is known."""
    fabrics = {}
    for name in (name for slot in slots for name in slot.domains):
        fabric = inventory.fabric_of(inventory.domain(name).hosts[0])
        fabrics[name] = fabric.name if fabric else "none"
    if len(fabrics) > 1 and not inventory.fabrics:
        raise PlanError(
            f"nobody has said what joins {', '.join(fabrics)}: add the network under 'fabrics'"
        )
    if len(set(fabrics.values())) > 1 or "none" in fabrics.values():
        shown = ", ".join(f"{name} on {fabric}" for name, fabric in fabrics.items())
        raise PlanError(f"a job never spans networks that do not meet: {shown}")
