"""Combinations of one mesh per kind of device, those that could be fast enough.

With four kinds there are tens of millions. Beginnings of one mesh each of the first kinds are gone
through by a step time that they cannot beat, whatever the meshes of the others; the next kind's
meshes are put only to those whose bound leaves them a chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bounds import Values, bounds_s, loads_of, rising_parts, taken
from .tables import Table

Rows = NDArray[np.intp]

FIRST, MOST = 1 << 2, 1 << 8
"""Beginnings that are continued first, and later at once."""
AT_ONCE = 1 << 14
"""Combinations whose bounds are computed at once: as many as the caches hold."""


@dataclass(frozen=True, slots=True)
class Block:
    """Meshes that pass on equal micro-batches; the rules hold for all combinations of them."""

    starts: tuple[int, ...]
    """Where each kind's meshes start in its table."""
    sizes: tuple[int, ...]
    """How many of each kind there are."""
    micro_batches: int
    virtual: int
    """Virtual stages of each stage."""
    stages: frozenset[int]
    """Legal lengths of the pipeline."""


class Combinations:
    """The combinations of several blocks.

    In every table the meshes of the first block stand first, then those of the next. Where
    ``alike``, all meshes of a pipeline have the same cut and DP.
    """

    def __init__(
        self, tables: Sequence[Table], blocks: Sequence[Block], layers: int, alike: bool
    ) -> None:
        self.tables, self.layers, self.alike = tables, layers, alike
        self.cramped = False
        """A legal combination was looked at, or one that has no room whatever follows."""
        self._starts = np.array([block.starts for block in blocks], np.intp).T
        self._sizes = np.array([block.sizes for block in blocks], np.intp).T
        self._virtual = np.array([block.virtual for block in blocks], float)
        self._counts = np.array([block.micro_batches for block in blocks], float) * self._virtual
        """Of chunks that each stage passes on."""
        self._lengths = np.zeros((len(blocks), layers + 1), np.bool_)
        for place, block in enumerate(blocks):
            self._lengths[place, list(block.stages)] = True
        loads = [loads_of(table) for table in tables]
        # After each kind's meshes one for each block that none of it beats.
        self._loads = [
            kind.followed(kind.extremes(starts))
            for kind, starts in zip(loads, self._starts, strict=True)
        ]

    def waves(self, limit: Callable[[], float]) -> Iterator[tuple[Rows, Values]]:
        """Yield the combinations that could be below the limit, as it is by then.

        They have a column with the row of each kind's mesh in its table; and their numbers of
        micro-batches, each counted for each virtual stage.
        """
        block, rows = np.arange(self._counts.size), np.zeros((0, self._counts.size), np.intp)
        for _ in range(max(len(self.tables) - 2, 1)):
            block, rows = self._continued(block, rows)
        bounds = self._bounds(block, rows)
        possible = np.flatnonzero(bounds < np.inf)
        self.cramped |= possible.size < bounds.size
        for part in rising_parts(bounds[possible], FIRST, MOST):
            chosen = possible[part]
            chosen = chosen[bounds[chosen] < limit()]
            if not chosen.size:
                return
            yield self._completed(block[chosen], rows[:, chosen], limit())

    def _completed(self, block: Rows, rows: Rows, limit_s: float) -> tuple[Rows, Values]:
        """Return all that these beginnings can become below the limit."""
        block, rows = self._continued(block, rows)
        while len(rows) < len(self.tables):
            chosen = self._bounds(block, rows) < limit_s
            block, rows = self._continued(block[chosen], rows[:, chosen])
        pp, room = (
            sum(getattr(table, name)[row] for table, row in zip(self.tables, rows, strict=True))
            for name in ("pp", "room")
        )
        length = np.minimum(pp, self.layers).astype(np.intp)
        legal = (pp <= self.layers) & self._lengths[block, length]
        self.cramped |= bool(legal.any())
        chosen = legal & (room >= self.layers)
        return rows[:, chosen], self._counts[block[chosen]]

    def _continued(self, block: Rows, rows: Rows) -> tuple[Rows, Rows]:
        """Return these beginnings with each mesh of the next kind that goes with them."""
        kind = len(rows)
        sizes = self._sizes[kind][block]
        which = np.repeat(np.arange(block.size), sizes)
        inside = np.arange(which.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        block = block[which]
        rows = np.vstack([rows[:, which], self._starts[kind][block] + inside])
        if not self.alike or not kind:
            return block, rows
        first, last = self.tables[0], self.tables[kind]
        equal = first.cut[rows[0]] == last.cut[rows[-1]]
        equal &= first.dp[rows[0]] == last.dp[rows[-1]]
        return block[equal], rows[:, equal]

    def _bounds(self, block: Rows, rows: Rows) -> Values:
        """Return a time that no continuation beats, ``inf`` for those without room."""
        found = np.empty(block.size)
        for start in range(0, block.size, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            rest = [table.pp.size + block[some] for table in self.tables[len(rows) :]]
            loads = taken(self._loads, np.vstack([rows[:, some], *rest]))
            roomy = (loads.room > 0).all(axis=0) & (loads.room.sum(axis=0) >= self.layers)
            bounds = np.full(roomy.size, np.inf)
            mine = block[some][roomy]
            whole_s = bounds_s(loads.some(roomy), self.layers, self._counts[mine])
            bounds[roomy] = whole_s / self._virtual[mine]
            found[some] = bounds
        return found
