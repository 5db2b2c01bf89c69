"""Rings and toruses, for the releases that have them.

Rules from Slurm's source (topology/ring, topology/torus3d): a ring has at most 16 nodes;
the nodes of a torus are as many as its dimensions hold, x fastest; a job whose size is
that of no placement is never started.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from itertools import count, permutations, product

from .. import hostlist
from ..inventory import Partition, Supernode
from .render import Rings, Torus, Toruses

MAX_RING = 16
"""MAX_RING_SIZE of topology/ring."""


def rings(members: list[Supernode]) -> Rings:
    """Return the rings of a class of supernodes, nodes in the order written."""
    return Rings(tuple((item.name, item.hosts) for item in members))


def toruses(members: list[Supernode]) -> Toruses:
    """Return the toruses of a class of supernodes."""
    return Toruses(
        tuple(
            Torus(
                item.name,
                item.hosts,
                item.interconnect.dims,
                _placements(item),
            )
            for item in members
        )
    )


def refusals(
    kind: str, members: list[Supernode], users: list[Partition]
) -> tuple[list[str], dict[str, str]]:
    """Return what rings or toruses refuse, and why partitions are better off without them.

    A job never leaves its ring or torus but by --segment. A partition of parts of several
    would have most of its jobs refused; a part of one serves if it is a shape itself.
    """
    notes: dict[str, None] = {}
    refused: dict[str, str] = {}
    for partition in users:
        mine = set(partition.hosts)
        held = [item for item in members if not mine.isdisjoint(item.hosts)]
        parts = [[host for host in item.hosts if host in mine] for item in held]
        is_whole = all(len(part) == len(item.hosts) for part, item in zip(parts, held, strict=True))
        taken = {size for item in held for size in _sizes(kind, item, mine)}
        names = hostlist.fold(item.name for item in held)
        who = names if is_whole else f"partition '{partition.name}'"
        if is_whole or (len(held) == 1 and len(parts[0]) in taken):
            notes |= dict.fromkeys(_note(f"{who}: topology/{kind}", taken, sum(map(len, parts))))
        else:
            first = next(size for size in count(1) if size not in taken)
            refused[partition.name] = (
                f"topology/{kind} would refuse some of its jobs of {first} nodes and more"
            )
    return list(notes), refused


def _note(who: str, taken: Collection[int], total: int) -> list[str]:
    """Return which sizes of jobs find a place, if there are others."""
    most = max(taken)
    if len(taken) < most:
        sizes = ", ".join(map(str, sorted(taken)))
        larger = ", larger jobs need --segment" if most < total else ""
        return [f"{who} takes jobs of {sizes} nodes and refuses others{larger}"]
    if most < total:
        return [f"{who} takes jobs of up to {most} nodes, larger jobs need --segment"]
    return []


def _sizes(kind: str, item: Supernode, hosts: Collection[str]) -> set[int]:
    """Return the numbers of nodes that a job may have on some hosts of a ring or torus.

    Seen on 26.05: the boxes of a shape stand at multiples of its edges, and none wraps around.
    """
    places = [place for place, host in enumerate(item.hosts) if host in hosts]
    if kind == "ring":
        return set(range(1, _longest_row(places, len(item.hosts)) + 1))
    if len(places) == len(item.hosts):
        return job_sizes(item)
    x, y, _ = item.interconnect.dims
    points = [(place % x, place // x % y, place // (x * y)) for place in places]
    found = set()
    for shape in _placements(item):
        boxes = Counter(tuple(a // b for a, b in zip(p, shape, strict=True)) for p in points)
        if math.prod(shape) in boxes.values():
            found.add(math.prod(shape))
    return found


def _longest_row(places: Collection[int], size: int) -> int:
    """Return the most places that follow each other on a ring of a size."""
    best = row = 0
    for place in range(2 * size):
        row = row + 1 if place % size in places else 0
        best = max(best, row)
    return min(best, size)


def job_sizes(torus: Supernode) -> set[int]:
    """Return the numbers of nodes that a job may have in a torus."""
    return {math.prod(shape) for shape in _placements(torus)}


def _placements(torus: Supernode) -> tuple[tuple[int, ...], ...]:
    return torus.interconnect.placements or compact_shapes(torus.interconnect.dims)


def compact_shapes(dims: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return, for each size that halving the dimensions gives, the most compact shapes.

    All orientations that fit; smallest size first.
    """
    choices = [_halves(size) for size in dims]
    best: dict[int, tuple[int, ...]] = {}
    for shape in product(*choices):
        size = math.prod(shape)
        if size not in best or max(shape) < max(best[size]):
            best[size] = shape
    found = []
    for size in sorted(best):
        turned = sorted(set(permutations(best[size])), reverse=True)
        fits = [
            shape
            for shape in turned
            if all(edge in choice for edge, choice in zip(shape, choices, strict=True))
        ]
        found += fits
    return tuple(found)


def _halves(size: int) -> list[int]:
    """Return 1 and what halving a size gives while it is even."""
    found = {1, size}
    while size % 2 == 0:
        size //= 2
        found.add(size)
    return sorted(found)
