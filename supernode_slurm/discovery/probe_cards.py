"""Which accelerators the devices of a probe are, and what Slurm should count of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..catalogue import (
    Accelerator,
    UnknownName,
    accelerators,
    find_accelerator,
    platform,
)
from ..inventory import Devices, OtherGres
from .files import tidy
from .gpus import accelerator_of
from .probe_facts import Probe, ProbedCard

MEMORY_SLACK = 0.15
"""A tool shows what is left of a card's memory, a vendor sells a round number."""
_ODD = re.compile(r"[^a-z0-9.]+")
_NUMBERED = re.compile(r"/dev/[a-z_]+\.?\{i\}\Z")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Cards that no accelerator of the catalogue stands for."""

    key: str
    """What ``--accelerator`` would call them: the tool's name, else the vendor."""
    count: int
    why: str


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards of a node."""

    devices: tuple[Devices, ...]
    others: tuple[OtherGres, ...]
    unknown: tuple[Unknown, ...]
    uneven_mig: bool = False
    """MIG is on, and not the same on all cards."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What equal nodes have, as they are: 0 and nothing where no tool said."""

    sockets: int
    cores: int
    """Per socket."""
    threads: int
    memory_mib: int
    devices: tuple[Devices, ...]
    others: tuple[OtherGres, ...]
    adapters: tuple[str, ...]
    """Network cards that carry data."""


def cards_of(probe: Probe, given: Mapping[str, str]) -> Cards:
    """Return the cards of a node; ``given`` maps names of tools, or vendors, to the catalogue."""
    kinds: dict[tuple[str, str], list[ProbedCard]] = {}
    whys: dict[str, str] = {}
    for card in probe.cards:
        found, why = accelerator_for(card, given)
        key = card.name or card.vendor or "unnamed"
        whys.setdefault(key, why)
        kinds.setdefault((found.id if found else "", "" if found else key), []).append(card)
    devices, others, unknown, uneven = [], [], [], False
    vendors: list[str] = []
    for (accelerator, key), cards in kinds.items():
        if not accelerator:
            unknown.append(Unknown(key, len(cards), whys[key]))
            kind = _ODD.sub("-", key.casefold()).strip("-.")[:40] or "unknown"
            others.append(OtherGres("gpu", kind, len(cards)))
            continue
        vendor = find_accelerator(accelerator).vendor
        if vendor not in vendors:
            vendors.append(vendor)
        # One name of GRES cannot hold the cards of two vendors: slurmd takes one flag for each.
        gres = "gpu" if vendor == vendors[0] else platform(vendor).torch_device
        gres = vendor if gres in ("gpu", "cuda") and vendor != vendors[0] else gres
        mig, even = _mig(cards)
        uneven = uneven or not even
        devices.append(_devices(accelerator, gres, cards, mig))
    return Cards(tidy(devices), tuple(others), tuple(unknown), uneven)


def accelerator_for(card: ProbedCard, given: Mapping[str, str]) -> tuple[Accelerator | None, str]:
    """Return the accelerator that a card is, or why none: the nearest names, or its memory."""
    for key in (card.name, card.vendor):
        if key and key in given:
            return find_accelerator(given[key]), ""
    if not card.name:
        return None, "the tool names no kind of card"
    found = accelerator_of(card.name, {})
    if found is None or (card.vendor and found.vendor != card.vendor):
        try:
            find_accelerator(card.name)
        except UnknownName as error:
            return None, str(error)
        return None, f"no {card.vendor} accelerator has this name"
    if _fits(found, card):
        return found, ""
    same = [
        item
        for item in accelerators()
        if item.vendor == found.vendor and item.gres_type == found.gres_type and _fits(item, card)
    ]
    if len(same) == 1:
        return same[0], ""
    has = f"{card.memory_mib / 1024:.0f} GiB, {found.id} has {found.memory_gib:g}"
    return None, f"it shows {has}"


def _fits(item: Accelerator, card: ProbedCard) -> bool:
    memory = item.memory_gib
    if not memory or not card.memory_mib:
        return True
    return abs(card.memory_mib / 1024 - memory) <= MEMORY_SLACK * memory


def _devices(
    accelerator: str,
    gres: str,
    cards: Sequence[ProbedCard],
    mig: tuple[tuple[str, tuple[int, ...]], ...],
) -> Devices:
    kind = find_accelerator(accelerator)
    usual = platform(kind.vendor)
    minors = sorted(card.minor for card in cards if card.minor is not None)
    numbered = _NUMBERED.match(usual.device_files[0])
    files: tuple[str, ...] = ()
    if numbered and len(set(minors)) == len(cards):
        files = tuple(usual.files(minor)[0] for minor in minors)
    return Devices(
        accelerator=accelerator,
        count=len(cards),
        gres=gres,
        type=kind.gres_type,
        files=files,
        mig=mig,
    )


def _mig(cards: Sequence[ProbedCard]) -> tuple[tuple[tuple[str, tuple[int, ...]], ...], bool]:
    """Return the MIG instances of each card, and whether all have the same."""
    if not any(card.is_split for card in cards):
        return (), True
    kinds = {card.instances if card.is_split else () for card in cards}
    if len(kinds) > 1 or not all(kinds):
        return (), False
    profiles: dict[str, list[int]] = {}
    for profile, number in kinds.pop():
        profiles.setdefault(profile, []).append(number)
    return tuple((name, tuple(sorted(ids))) for name, ids in profiles.items()), True
