"""Device files, cores and MIG instances as records name them, said the short way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from .. import hostlist
from ..catalogue import find_accelerator, platform
from ..inventory import Devices
from ..inventory.cards import DEVICE_LIMIT, device_files, mig_instance

MOST_MISSING = 4
"""Cards out of order in one node that are said as such; with more, files are named."""


def tidy(kinds: Sequence[Devices]) -> tuple[Devices, ...]:
    """Return the cards of a node without files that are the vendor's usual ones."""
    usual = [replace(devices, files=()) for devices in kinds]
    if all(devices.files for devices in kinds):
        written = [devices.files for devices in kinds]
        for found in (usual, _with_gaps(kinds)):
            if device_files(found) == written:
                return tuple(found)
    return tuple(kinds)


def one_text(files: Sequence[str]) -> bool:
    """Return whether device files fold into one text, as an inventory has them."""
    folders = {file.rpartition("/")[0] for file in files}
    folded = hostlist.fold([file.rpartition("/")[2] for file in files], sort=False)
    return (
        len(folders) == 1
        and files[0].startswith("/dev/")
        and "," not in re.sub(r"\[[^\]]*\]", "", folded)
    )


def core_shares(cores: list[str], node: tuple[int, int]) -> tuple[tuple[str, ...], str]:
    """Return the cores near equal shares of the cards, and what is wrong with them.

    ``node`` are sockets and cores of each: slurmd refuses cores that end inside a socket.
    """
    if not any(cores):
        return (), ""
    if not all(cores):
        return (), "some cards have none"
    sockets, size = node
    for text in dict.fromkeys(cores):
        wrong = _not_sockets(text, sockets, size)
        if wrong:
            return (), wrong
    number = len(cores)
    for shares in range(1, number + 1):
        if number % shares == 0:
            found = [cores[index * number // shares] for index in range(shares)]
            if all(cores[i] == found[i * shares // number] for i in range(number)):
                return tuple(found), ""
    return tuple(cores), ""


def mig_of(
    listed: list[tuple[str, tuple[str, ...]]],
) -> tuple[list[str], tuple[tuple[str, tuple[int, ...]], ...]]:
    """Return the cards and the instances that each has, nothing where they differ.

    ``listed`` are profile and files (that of the card, then of its instance).
    """
    cards: dict[str, dict[str, list[int]]] = {}
    for profile, files in listed:
        instance = mig_instance(files)
        if instance is None:
            return [], ()
        cards.setdefault(files[0], {}).setdefault(profile, []).append(instance)
    kinds = {
        tuple((profile, tuple(ids)) for profile, ids in profiles.items())
        for profiles in cards.values()
    }
    return (list(cards), kinds.pop()) if len(kinds) == 1 else ([], ())


def _with_gaps(kinds: Sequence[Devices]) -> list[Devices]:
    """Return the cards with the gaps between the usual files said as missing cards."""
    indexes = []
    for devices in kinds:
        usual = _indexes(find_accelerator(devices.accelerator).vendor)
        indexes.append({usual[file] for file in devices.files if file in usual})
    there = set().union(*indexes)
    gaps = [number for number in range(max(there, default=0)) if number not in there]
    if len(gaps) > MOST_MISSING or 0 in gaps:
        return list(kinds)
    after = [min(n for n in there if n > gap) for gap in gaps]
    return [
        replace(
            devices,
            files=(),
            missing=tuple(gap for gap, n in zip(gaps, after, strict=True) if n in mine),
        )
        for devices, mine in zip(kinds, indexes, strict=True)
    ]


@cache
def _indexes(vendor: str) -> dict[str, int]:
    """Return the index of each of a vendor's usual files."""
    usual = platform(vendor)
    return {usual.files(number)[0]: number for number in range(DEVICE_LIMIT)}


def _not_sockets(text: str, sockets: int, size: int) -> str:
    try:
        found = {int(core) for core in hostlist.expand(f"c[{text}]") for core in [core[1:]]}
    except ValueError:
        return f"'{text}' are no cores"
    if max(found) >= sockets * size:
        return f"{text} of a node with cores 0-{sockets * size - 1}"
    whole = {core // size for core in found}
    if len(found) != len(whole) * size:
        return f"{text} end inside a socket of {size}, which slurmd refuses"
    return ""
