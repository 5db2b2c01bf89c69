"""What the user asks, from words: one meaning for sn-submit, #SN lines and sn plan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..catalogue import UnknownName, find_accelerator, find_model
from ..errors import UsageError, nearest
from ..frameworks import capabilities
from ..frameworks import names as framework_names
from ..inventory import Inventory
from ..placement import Ask, device_types
from .settings import Settings

_CARDS = re.compile(r"(?:([A-Za-z0-9_.\-]+):)?([0-9]{1,6})\Z")


def make_ask(inventory: Inventory, said: Mapping[str, str], given: Settings) -> Ask:
    """Return what the planning options ask for, within the partitions of sbatch's.

    Raises ``UsageError`` that names the option.
    """
    if "cards" not in said:
        raise UsageError("--cards is missing: how many, like --cards 64 or --cards h100:8,a100:8")
    model = None
    if "model" in said:
        try:
            model = find_model(said["model"])
        except UnknownName as error:
            hint = "'sn show models' lists the names; else give the path of a config.json"
            raise UsageError(f"--model: {error}; {hint}") from error
    framework = said.get("framework")
    if framework is not None and framework not in framework_names():
        hint = nearest(framework, framework_names())
        raise UsageError(f"--framework: no framework '{framework}'; {hint}")
    cards = _cards(inventory, said["cards"])
    return Ask(
        cards=cards,
        able=capabilities(framework or default_framework(inventory, [kind for kind, _ in cards])),
        model=model,
        sequence=_positive(said, "sequence", 4096),
        global_batch=_positive(said, "global-batch", 1024),
        partitions=_partitions(inventory, given),
        prefer=_prefer(inventory, cards),
        notes=_converted(inventory, said["cards"], cards),
    )


def _partitions(inventory: Inventory, given: Settings) -> tuple[str, ...]:
    """Return the partitions that the user allows, none for all."""
    text = given.values.get("partition")
    names = text.split(",") if text else []
    known = [partition.name for partition in inventory.partitions]
    for name in names:
        if name not in known:
            raise UsageError(f"{given.said('partition')}: no '{name}'; {nearest(name, known)}")
    return tuple(names)


def _prefer(inventory: Inventory, cards: Sequence[tuple[str | None, int]]) -> str | None:
    """Return the partition that the site's policy gives small jobs whose kind is open."""
    policy = inventory.policy
    small = policy.whole_supernode_from is None or cards[0][1] < policy.whole_supernode_from
    return policy.small_jobs_to if small and cards[0][0] is None else None


def _converted(
    inventory: Inventory, text: str, cards: Sequence[tuple[str | None, int]]
) -> tuple[str, ...]:
    """Return a note for each kind of card that Slurm counts as several devices."""
    found = []
    for part, (kind, devices) in zip(text.split(","), cards, strict=True):
        count = int(part.rpartition(":")[2])
        if kind is not None and devices != count:
            found.append(f"{count} {kind} cards are {devices} devices")
    return tuple(found)


def default_framework(inventory: Inventory, kinds: Sequence[str | None]) -> str:
    """Return the framework that can run such a job: several kinds need one that can mix."""
    if len(kinds) == 1:
        return "megatron"
    vendors = {
        find_accelerator(devices.accelerator).vendor
        for nodes in inventory.node_classes
        for devices in nodes.devices
        if devices.type in kinds
    }
    return "torch" if len(vendors) == 1 else "flagscale"


def _positive(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise UsageError(f"--{name}: expected a positive whole number, got {text!r:.80}")
    return int(text)


def _cards(inventory: Inventory, text: str) -> tuple[tuple[str | None, int], ...]:
    """Return (GRES type, devices) of each group; cards are converted to devices."""
    found: list[tuple[str | None, int]] = []
    for part in text.split(","):
        match = _CARDS.match(part.strip())
        if match is None or int(match.group(2)) == 0:
            example = "'64' or 'h100:8,a100:8'"
            raise UsageError(f"--cards: expected a number like {example}, got {text!r:.80}")
        kind, count = match.group(1), int(match.group(2))
        if kind is None:
            found.append((None, count))
            continue
        gres_type, devices_per_card = _kind(inventory, kind)
        found.append((gres_type, count * devices_per_card))
    kinds = [kind for kind, _ in found]
    if len(set(kinds)) < len(kinds):
        raise UsageError(f"--cards: a kind stands twice in {text!r:.80}")
    if len(kinds) > 1 and None in kinds:
        raise UsageError("--cards: several groups need their kinds, like h100:16,a100:8")
    return tuple(found)


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
