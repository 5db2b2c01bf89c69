"""Combinations of one mesh per kind of device, in the order of a step time they cannot beat.

With four kinds there are tens of millions. Those of the last two kinds are looked at only where
the meshes of the others leave them a chance.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bounds import Loads, bounds_of, rising

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Axis:
    """The meshes of one kind of device, as arrays."""

    loads: Loads
    pp: Values
    tp: Values
    dp: Values


@dataclass(frozen=True, slots=True)
class Block:
    """Meshes of every kind that pass on equal micro-batches; ``rules`` hold for all of them."""

    axes: tuple[Axis, ...]
    layers: int
    micro_batches: int
    stages: frozenset[int]
    """Legal lengths of the pipeline."""
    alike: bool
    """All meshes have the same TP and DP."""

    def relaxed(self) -> Values:
        """Return for the meshes of all kinds but two a time that no choice for these beats."""
        first, last = self.axes[:-2], self.axes[-2:]
        loads = [*(axis.loads for axis in first), *(axis.loads.extreme() for axis in last)]
        found = bounds_of(loads, self.layers, self.micro_batches).reshape(
            [len(axis.pp) for axis in first]
        )
        room = _sum([axis.loads.room for axis in first])
        room = room + sum(float(axis.loads.room.max()) for axis in last)
        return np.where(self._equal([*first]) & (room >= self.layers), found, math.inf)

    def exact(self, place: Sequence[int]) -> tuple[Values, bool]:
        """Return the bounds of the last two kinds beside these meshes of the others.

        ``inf`` where a choice is illegal or has no room; and whether room alone was wanting.
        """
        first = [_taken(axis, at) for axis, at in zip(self.axes[:-2], place, strict=True)]
        axes = [*first, *self.axes[-2:]]
        bounds = bounds_of([axis.loads for axis in axes], self.layers, self.micro_batches)
        shape = bounds.shape
        lengths = _sum([axis.pp for axis in axes]).reshape(shape)
        legal = np.isin(lengths, list(self.stages)) & self._equal(axes).reshape(shape)
        roomy = _sum([axis.loads.room for axis in axes]).reshape(shape) >= self.layers
        cramped = bool((legal & ~roomy).any())
        found = np.where(legal & roomy, bounds, math.inf)
        return found.reshape(shape[-2:]), cramped

    def _equal(self, axes: Sequence[Axis]) -> NDArray[np.bool_]:
        equal = np.ones([len(axis.pp) for axis in axes], np.bool_)
        if not self.alike or not axes:
            return equal
        for name in ("tp", "dp"):
            first, *others = np.ix_(*(getattr(axis, name) for axis in axes))
            for other in others:
                equal = equal & (first == other)
        return equal


@dataclass(slots=True)
class Combinations:
    """The combinations of several blocks, the lowest bound first."""

    blocks: Sequence[Block]
    cramped: bool = False
    """Memory stood in the way of a combination that was looked at."""

    def __iter__(self) -> Iterator[tuple[float, int, tuple[int, ...]]]:
        """Yield the bound, the block, and the place of each kind's mesh in it."""
        if not self.blocks:
            return
        relaxed = [block.relaxed() for block in self.blocks]
        flat = np.concatenate([values.ravel() for values in relaxed])
        starts = np.cumsum([0] + [values.size for values in relaxed])
        possible = np.flatnonzero(flat < math.inf)
        opened: list[_Opened] = []
        waiting: list[tuple[float, int, int]] = []
        for item in rising(flat[possible]):
            index = int(possible[item])
            while waiting and waiting[0][0] <= flat[index]:
                yield _next(opened, waiting)
            block = int(np.searchsorted(starts, index, side="right")) - 1
            at = np.unravel_index(index - starts[block], relaxed[block].shape)
            place = tuple(int(axis) for axis in at)
            bounds, cramped = self.blocks[block].exact(place)
            self.cramped |= cramped
            opened.append(_Opened(block, place, bounds))
            opened[-1].push(len(opened) - 1, waiting)
        while waiting:
            yield _next(opened, waiting)


class _Opened:
    """The meshes of all kinds but two, with the choices for these in rising order."""

    def __init__(self, block: int, place: tuple[int, ...], bounds: Values) -> None:
        self.block, self.place, self.width = block, place, bounds.shape[1]
        self.legal = np.flatnonzero(bounds.ravel() < math.inf)
        self.bounds = bounds.ravel()[self.legal]
        self.order = rising(self.bounds)

    def push(self, number: int, waiting: list[tuple[float, int, int]]) -> None:
        """Put the next choice on the heap, if there is one."""
        for item in self.order:
            heapq.heappush(waiting, (float(self.bounds[item]), number, int(self.legal[item])))
            return


def _next(
    opened: Sequence[_Opened], waiting: list[tuple[float, int, int]]
) -> tuple[float, int, tuple[int, ...]]:
    bound, number, index = heapq.heappop(waiting)
    found = opened[number]
    found.push(number, waiting)
    return bound, found.block, (*found.place, *divmod(index, found.width))


def _sum(values: Sequence[Values]) -> Values:
    """Return the sums of every combination of one of each, along an axis for each."""
    found: Values = np.zeros(())
    for each in np.ix_(*values) if values else ():
        found = found + each
    return found


def _taken(axis: Axis, at: int) -> Axis:
    """Return one mesh of an axis."""
    one = slice(at, at + 1)
    return Axis(axis.loads.taken(one), axis.pp[one], axis.tp[one], axis.dp[one])
