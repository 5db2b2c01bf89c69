"""How many cards of which kinds: from ``--cards``, or from what sbatch is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..catalogue import UnknownName, find_accelerator
from ..errors import UsageError, nearest
from ..inventory import Inventory
from ..placement import device_types
from .devices import Asked, asked_devices, in_all, number, per_node
from .settings import Settings

_CARDS = re.compile(r"(?:([A-Za-z0-9_.\-]+):)?([0-9]{1,6})\Z")
_MISSING = (
    "--cards is missing: how many, like --cards 64 or --cards h100:8,a100:8; "
    "or ask sbatch for them with -N and --gres"
)


@dataclass(frozen=True, slots=True)
class Group:
    """Cards of one kind that a job asks for, or that one component asks for."""

    kind: str | None
    """GRES type, None for any."""
    devices: int
    note: str = ""
    """How cards were counted as devices."""
    cards: bool = False
    """The number counts cards of a kind that is still open, not Slurm's devices."""


def asked_groups(
    inventory: Inventory, said: Settings, parts: Sequence[Settings]
) -> tuple[Group, ...]:
    """Return the groups of ``--cards``; where it is missing, those of the components.

    Raises ``UsageError`` that names the option, and both where components and kinds differ
    in number.
    """
    if "cards" not in said.values:
        groups = tuple(group for part in parts for group in [_component_group(inventory, part)])
    else:
        text = said.values["cards"]
        if text.isdecimal() and len(parts) == 1:
            named = {item.kind for item in asked_devices(inventory, parts[0]).values()} - {""}
            text = f"{named.pop()}:{text}" if len(named) == 1 else text
        groups = parse_cards(inventory, text)
        if len(parts) not in (1, len(groups)):
            raise UsageError(
                f"{said.said('cards')} asks for {len(groups)} kinds of cards, the command for "
                f"{len(parts)} components: give one kind for each, in their order"
            )
    kinds = [group.kind for group in groups]
    if len(kinds) > 1 and None in kinds:
        raise UsageError("several groups of cards need their kinds: --cards h100:16,a100:8")
    if len(set(kinds)) < len(kinds):
        shown = ",".join(map(str, kinds))
        raise UsageError(f"a kind of cards stands twice ({shown}): ask for all of it at once")
    return groups


def parse_cards(inventory: Inventory, text: str) -> tuple[Group, ...]:
    """Return the groups of ``64`` or ``h100:8,a100:8``; cards are converted to devices."""
    found: list[Group] = []
    for part in text.split(","):
        match = _CARDS.match(part.strip())
        if match is None or int(match.group(2)) == 0:
            example = "'64' or 'h100:8,a100:8'"
            raise UsageError(f"--cards: expected a number like {example}, got {text!r:.80}")
        kind, count = match.group(1), int(match.group(2))
        if kind is None:
            found.append(Group(None, count, cards=True))
            continue
        gres_type, per_card = _kind(inventory, kind)
        devices = count * per_card
        note = f"{count} {gres_type} cards are {devices} devices" if per_card > 1 else ""
        found.append(Group(gres_type, devices, note))
    return tuple(found)


def node_range(given: Settings) -> tuple[int, int] | None:
    """Return the least and most nodes of ``--nodes``, None where it says nothing."""
    text = given.values.get("nodes")
    if not text:
        return None
    found = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", text)
    if found is None or int(found[1]) < 1:
        raise UsageError(f"{given.said('nodes')}: expected a number, or two like 2-4")
    least, most = int(found[1]), int(found[2] or found[1])
    if most < least:
        raise UsageError(f"{given.said('nodes')}: the most is less than the least")
    return least, most


def _component_group(inventory: Inventory, given: Settings) -> Group:
    """Return the devices that sbatch's own options ask for."""
    asked = asked_devices(inventory, given)
    each, whole, nodes = per_node(given, asked), in_all(given, asked), node_range(given)
    if whole is not None:
        return _known(inventory, given, whole, whole.count)
    if each is None:
        raise UsageError(_MISSING)
    if nodes is None:
        tasks, on_node = number(given, "ntasks"), number(given, "ntasks-per-node")
        count = tasks // on_node if tasks and on_node else 1
        nodes = (count, count)
    if nodes[0] != nodes[1]:
        raise UsageError(f"{given.said('nodes')}: say how many --cards, or one number of nodes")
    return _known(inventory, given, each, nodes[0] * each.count)


def _known(inventory: Inventory, given: Settings, asked: Asked, devices: int) -> Group:
    types = device_types(inventory)
    if asked.kind and asked.kind not in types:
        hint = nearest(asked.kind, types)
        raise UsageError(f"{given.said(asked.option)}: no '{asked.kind}' at this site; {hint}")
    return Group(asked.kind or _only_kind(inventory, given, types), devices)


def _only_kind(inventory: Inventory, given: Settings, types: Sequence[str]) -> str | None:
    """Return the one kind of card that the constraint names, or the partitions hold."""
    words = set(re.findall(r"[A-Za-z0-9_.\-]+", given.values.get("constraint", "")))
    named = [kind for kind in types if kind in words]
    if not named and "partition" in given.values:
        wanted = given.values["partition"].split(",")
        hosts = {
            host for part in inventory.partitions if part.name in wanted for host in part.hosts
        }
        named = [
            item.type
            for nodes in inventory.node_classes
            if hosts.intersection(nodes.hosts)
            for item in nodes.devices
        ]
    return named[0] if len(set(named)) == 1 else None


def _kind(inventory: Inventory, name: str) -> tuple[str, int]:
    """Return the GRES type that a user means and its devices per card."""
    try:
        wanted = find_accelerator(name).id
    except UnknownName:
        wanted = name
    for nodes in inventory.node_classes:
        for devices in nodes.devices:
            if name == devices.type or wanted == devices.accelerator:
                return devices.type, find_accelerator(devices.accelerator).devices_per_card
    known = device_types(inventory)
    raise UsageError(f"--cards: no '{name}' at this site; {nearest(name, known)}")
