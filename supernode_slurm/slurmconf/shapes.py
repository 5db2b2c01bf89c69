"""Rings and toruses, for the releases that have them.

Rules from Slurm's source (topology/ring, topology/torus3d): a ring has at most 16 nodes;
the nodes of a torus are as many as its dimensions hold, x fastest; a job whose size is
that of no placement is never started.
"""

from __future__ import annotations

import math
from itertools import permutations, product

from ..inventory import Supernode
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
