"""How many cards of which kinds: from ``--cards``, or from what sbatch is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..catalogue import UnknownName, find_accelerator
from ..errors import SlurmError, UsageError, nearest
from ..inventory import Inventory
from ..placement import device_types
from ..slurm import parse
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
        groups = parse_cards(inventory, said.values["cards"])
        if len(parts) not in (1, len(groups)):
            raise UsageError(
                f"{said.said('cards')} asks for {len(groups)} kinds of cards, the command for "
                f"{len(parts)} components: give one kind for each, in their order"
            )
    kinds = [group.kind for group in groups]
    if len(kinds) > 1 and None in kinds:
        raise UsageError("--cards: several groups need their kinds, like h100:16,a100:8")
    if len(set(kinds)) < len(kinds):
        raise UsageError(f"--cards: a kind stands twice in {','.join(map(str, kinds))}")
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
            found.append(Group(None, count))
            continue
        gres_type, per_card = _kind(inventory, kind)
        devices = count * per_card
        note = f"{count} {gres_type} cards are {devices} devices" if per_card > 1 else ""
        found.append(Group(gres_type, devices, note))
    return tuple(found)


def devices_per_node(given: Settings) -> tuple[str | None, int, str] | None:
    """Return (kind, devices on each node, option) of sbatch's options; None if they say none.

    ``--gres``, ``--gpus-per-node``, and ``--gpus-per-task`` with ``--ntasks-per-node``.
    Raises ``UsageError`` for what cannot be read.
    """
    for option in ("gres", "gpus-per-node", "gpus-per-task"):
        text = given.values.get(option)
        if not text:
            continue
        if option != "gres":
            text = f"gpu:{text}"
        try:
            items = [item for item in parse.gres(text) if item.name not in ("shard", "mps")]
        except SlurmError as error:
            raise UsageError(f"{given.said(option)}: {error}") from error
        if not items:
            continue
        if len(items) > 1:
            raise UsageError(f"{given.said(option)}: one kind of card for each component")
        tasks = _number(given, "ntasks-per-node") if option == "gpus-per-task" else 1
        if tasks is not None:
            return items[0].type or None, items[0].count * tasks, option
    return None


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
    total = given.values.get("gpus")
    if total:
        try:
            item = parse.gres(f"gpu:{total}")[0]
        except SlurmError as error:
            raise UsageError(f"{given.said('gpus')}: {error}") from error
        return _known(inventory, given, "gpus", item.type or None, item.count)
    each, nodes = devices_per_node(given), node_range(given)
    if each is None:
        raise UsageError(_MISSING)
    if nodes is None:
        tasks, per_node = _number(given, "ntasks"), _number(given, "ntasks-per-node")
        count = tasks // per_node if tasks and per_node else 1
        nodes = (count, count)
    if nodes[0] != nodes[1]:
        raise UsageError(f"{given.said('nodes')}: say how many --cards, or one number of nodes")
    kind, per_node, option = each
    return _known(inventory, given, option, kind, nodes[0] * per_node)


def _known(
    inventory: Inventory, given: Settings, option: str, kind: str | None, devices: int
) -> Group:
    types = device_types(inventory)
    if kind is not None and kind not in types:
        raise UsageError(f"{given.said(option)}: no '{kind}' at this site; {nearest(kind, types)}")
    if kind is None and len(types) > 1:
        named = _kind_of_constraint(given, types)
        return Group(named, devices)
    return Group(kind, devices)


def _kind_of_constraint(given: Settings, types: Sequence[str]) -> str | None:
    """Return the one kind of card that ``--constraint`` names, None for any other case."""
    words = set(re.findall(r"[A-Za-z0-9_.\-]+", given.values.get("constraint", "")))
    named = [kind for kind in types if kind in words]
    return named[0] if len(named) == 1 else None


def _number(given: Settings, option: str) -> int | None:
    text = given.values.get(option, "")
    return int(text) if text.isdecimal() and int(text) else None


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
