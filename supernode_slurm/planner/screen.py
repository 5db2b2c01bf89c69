"""Closer step times that pipelines over several meshes cannot beat, with whole layers.

``bounds`` divides layers; here a stage holds whole ones, as many as its place leaves it memory for,
and waits for its neighbours. Of two pipelines that are as fast with fractions, one may lose a
tenth by this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .bounds import Values, rising_parts
from .combine import AT_ONCE, Combinations, Rows
from .tables import Table

HALVES = 12
"""Of the time in which the slowest stage ends."""
PIECES = 4
"""Of the time between the earliest and the latest end."""
SLACK = 1e-9
"""By which rounding may err."""
FIRST, MOST = 1 << 4, 1 << 9
"""Sets of meshes that are put in order first, and later at once."""
FEW = 1 << 3
"""Pipelines that are costed before bounds are looked at again."""
GUESS = 1.05
"""Over the lowest bound."""


@dataclass(frozen=True, slots=True)
class Stages:
    """Parts of pipelines, a row for each part: what stages take besides layers.

    In a micro-batch, and by its end: until a stage's gradients are summed.
    """

    pp: Values
    layer_s: Values
    end_layer_s: Values
    room: Values
    fixed_s: Values
    """Sum of all its stages, in a micro-batch."""
    one_s: Values
    """Of the stage at one end or the only one, by its end."""
    other_s: Values
    """Of the stage at the other end, where there is one."""
    middle_s: Values
    """Of each stage between them."""

    def beyond(self, more: Values) -> Stages:
        """Return stages that hold so many layers before any that are dealt to them."""
        all_s, end_s = self.pp * more * self.layer_s, more * self.end_layer_s
        return replace(
            self,
            room=self.room - self.pp * more,
            fixed_s=self.fixed_s + all_s,
            one_s=self.one_s + end_s,
            other_s=self.other_s + end_s,
            middle_s=self.middle_s + end_s,
        )

    def chunked(self, virtual: Values) -> Stages:
        """Return stages whose layer is one in each of so many chunks."""
        return replace(
            self,
            layer_s=self.layer_s * virtual,
            end_layer_s=self.end_layer_s * virtual,
            room=np.floor(self.room / virtual),
        )

    def some(self, chosen: NDArray[np.bool_]) -> Stages:
        """Return some of the pipelines."""
        return Stages(*(getattr(self, name)[:, chosen] for name in Stages.__slots__))

    def first_end_s(self) -> Values:
        """Return by when all stages have ended if each has one layer."""
        slow = np.where(self.pp > 1, np.maximum(self.one_s, self.other_s), self.one_s)
        slow = np.where(self.pp > 2, np.maximum(slow, self.middle_s), slow)
        found: Values = (slow + self.end_layer_s).max(axis=0)
        return found

    def holds(self, end_s: Values) -> Values:
        """Return the most layers of each part whose stages all end by then."""
        found = np.floor((end_s - self.one_s) / self.end_layer_s + SLACK)
        others = np.floor((end_s - self.other_s) / self.end_layer_s + SLACK)
        middle = np.floor((end_s - self.middle_s) / self.end_layer_s + SLACK)
        found = found + (self.pp > 1) * others + np.maximum(self.pp - 2, 0) * middle
        return np.asarray(np.minimum(found, self.room))


def whole_layers_s(
    stages: Stages, layers: Values, micro_batches: Values, limit_s: Values
) -> Values:
    """Return for each pipeline a step time that no split of whole layers beats.

    ``inf`` where none is below the limit. With n micro-batches and a last end at n x E, a step
    takes (n - 1) x E at least and one micro-batch's way through all stages, for the slowest takes
    E of it at most. That way takes least when the fastest parts are filled, as far as they
    end by E. Both together leave a latest E below the limit; by the earliest E the stages hold
    all layers.
    """
    low = stages.first_end_s()
    # Nothing is gained once each stage could hold all layers.
    high = low + layers * stages.end_layer_s.max(axis=0)
    full = np.maximum(micro_batches - 1, SLACK)
    found = np.full(low.size, np.inf)
    left = np.arange(low.size)
    for _ in range(3):
        deal = _Deal.of(stages, layers[left])
        high = np.minimum(high, (limit_s[left] - deal.way_s(high)) / full * (1 + SLACK))
        holds = stages.holds(high)
        some = (high >= low) & (holds.sum(axis=0) >= layers[left])
        some &= (holds >= stages.pp).all(axis=0)
        left, low, high, full = left[some], low[some], high[some], full[some]
        stages = stages.some(some)
    if not left.size:
        return found
    layers = layers[left]
    top = np.where(stages.holds(low).sum(axis=0) >= layers, low, high)
    for _ in range(HALVES):
        half = (low + top) / 2
        enough = stages.holds(half).sum(axis=0) >= layers
        low, top = np.where(enough, low, half), np.where(enough, half, top)
    # From one time to the next, the earlier is when the last stage ends, the later fills.
    ends = np.linspace(low, high, PIECES + 1)
    deal = _Deal.of(stages, layers)
    ways = np.stack([deal.way_s(end) for end in ends[1:]])
    least = ((micro_batches[left] - 1) * ends[:-1] + ways).min(axis=0) * (1 - SLACK)
    found[left] = np.where(least < limit_s[left], least, np.inf)
    return found


@dataclass(frozen=True, slots=True)
class _Deal:
    """Layers dealt to parts such that a micro-batch's way through all stages is shortest."""

    stages: Stages
    order: NDArray[np.intp]
    """The parts of each pipeline, the fastest first."""
    times: Values
    pp: Values
    least_s: Values
    """With one layer on each stage."""
    rest: Values

    @classmethod
    def of(cls, stages: Stages, layers: Values) -> _Deal:
        """Return it for pipelines of so many layers."""
        order = np.argsort(stages.layer_s, axis=0)
        times = np.take_along_axis(stages.layer_s, order, axis=0)
        pp = np.take_along_axis(stages.pp, order, axis=0)
        least_s = (pp * times).sum(axis=0) + stages.fixed_s.sum(axis=0)
        return cls(stages, order, times, pp, least_s, layers - pp.sum(axis=0))

    def way_s(self, end_s: Values) -> Values:
        """Return the least way if all stages end by then."""
        room = np.take_along_axis(self.stages.holds(end_s), self.order, axis=0) - self.pp
        reached = np.minimum(np.cumsum(np.maximum(room, 0), axis=0), self.rest)
        given = np.diff(reached, axis=0, prepend=0.0)
        slowest_s = (self.rest - reached[-1]) * self.times[-1]
        found: Values = self.least_s + (given * self.times).sum(axis=0) + slowest_s
        return found


@dataclass(frozen=True, slots=True)
class Screen:
    """Meshes of several kinds, and the orders in which the kinds may stand in a pipeline."""

    tables: Sequence[Table]
    orders: Sequence[Sequence[int]]
    staged: NDArray[np.bool_]
    """Which kinds meet through host memory."""
    layers: int
    once_s: float
    """Of each step, whatever its plan."""
    front: int = 0
    """Layers before those that are split."""

    def pipelines(
        self, combinations: Combinations, limit: Callable[[], float]
    ) -> Iterator[tuple[Rows, int, float]]:
        """Yield sets of meshes, the place of their order, and their bound, where below the limit.

        ``limit`` is asked again and again: it may have fallen.
        """
        for rows, counts in combinations.waves(limit):
            bounds = self._sets_s(rows, counts, limit())
            possible = np.flatnonzero(bounds < np.inf)
            for part in rising_parts(bounds[possible], FIRST, MOST):
                chosen = possible[part]
                chosen = chosen[bounds[chosen] < limit()]
                if not chosen.size:
                    break
                yield from self._ordered(rows[:, chosen], counts[chosen], limit)

    def _ordered(
        self, rows: Rows, counts: Values, limit: Callable[[], float]
    ) -> Iterator[tuple[Rows, int, float]]:
        """Yield as ``pipelines``, of these sets.

        The less time there is the higher are the bounds. As long as no limit is known, a little
        more than the lowest bound stands for it.
        """
        bounds = self.orders_s(rows, counts, limit())
        while np.isfinite(bounds).any():
            known, guess = limit(), GUESS * float(bounds.min())
            closer = self.orders_s(rows, counts, min(known, guess))
            bounds = np.where(bounds < known, np.maximum(bounds, np.minimum(closer, guess)), np.inf)
            for place in np.argsort(bounds, axis=None, kind="stable")[:FEW]:
                one, order = divmod(int(place), len(self.orders))
                bound = float(bounds[one, order])
                if bound >= min(limit(), guess):
                    break
                bounds[one, order] = np.inf
                yield rows[:, one], order, bound
            some = np.isfinite(bounds).any(axis=1)
            rows, counts, bounds = rows[:, some], counts[some], bounds[some]

    def _sets_s(self, rows: Rows, counts: Values, limit_s: float) -> Values:
        found = np.empty(counts.size)
        for start in range(0, counts.size, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            found[some] = self.sets_s(rows[:, some], counts[some], limit_s)
        return found

    def sets_s(self, rows: Rows, micro_batches: Values, limit_s: float) -> Values:
        """Return for each set of meshes a step time that it beats in no order, or ``inf``.

        With v virtual stages and n micro-batches a step is as long as the v-th part of one with
        v x n micro-batches, which ``micro_batches`` is.
        """
        pp, inner, end = (self._taken(name, rows) for name in ("pp", "inner_s", "end_s"))
        ways = self._ways(rows)
        # It has a neighbour in another mesh.
        beside = np.minimum(ways.min(axis=0), ways.min(axis=1))
        stages = Stages(
            pp=pp,
            layer_s=self._taken("layer_s", rows),
            end_layer_s=self._taken("end_layer_s", rows),
            room=self._taken("room", rows),
            fixed_s=beside + 2 * (pp - 1) * inner,
            one_s=beside + (pp > 1) * inner + end,
            other_s=inner + end,
            middle_s=2 * inner + end,
        )
        virtual = self._virtual(rows)
        ends = sum(self._taken(name, rows).min(axis=0) for name in ("first_s", "last_s"))
        ends = ends + 2 * beside.min(axis=0) * (virtual - 1) / virtual
        rest = (limit_s - self.once_s) * virtual - ends
        whole_s = self._whole_s(stages, virtual, micro_batches, rest) + ends
        return np.asarray(whole_s / virtual + self.once_s)

    def orders_s(self, rows: Rows, micro_batches: Values, limit_s: float) -> Values:
        """Return the same of each set in each order, along the second axis."""
        ways, shape = self._ways(rows), (len(rows), rows.shape[1], len(self.orders))
        pp, inner, end = (self._taken(name, rows)[..., None] for name in ("pp", "inner_s", "end_s"))
        before, after, room = np.zeros(shape), np.zeros(shape), np.empty(shape)
        virtual = self._virtual(rows)
        for at, order in enumerate(self.orders):
            for one, other in pairwise(order):
                after[one, :, at] = before[other, :, at] = ways[one, other]
            room[:, :, at] = self._rooms(rows, order)
            # From the last mesh back to the first between two chunks.
            back = ways[order[-1], order[0]] * (virtual - 1) / virtual
            before[order[0], :, at] = after[order[-1], :, at] = back
        fixed = before + 2 * (pp - 1) * inner + after
        for at, order in enumerate(self.orders):
            for kind, side, name in ((order[0], before, "first"), (order[-1], after, "last")):
                table, row = self.tables[kind], rows[kind]
                fixed[kind, :, at] += getattr(table, f"{name}_s")[row]
                side[kind, :, at] += getattr(table, f"{name}_end_s")[row]
        many = pp > 1
        stages = (
            pp,
            self._taken("layer_s", rows)[..., None],
            self._taken("end_layer_s", rows)[..., None],
            room,
            fixed,
            before + np.where(many, inner, after) + end,
            after + inner + end,
            2 * inner + end,
        )
        flat = (np.broadcast_to(each, shape).reshape(len(rows), -1) for each in stages)
        counts = np.repeat(micro_batches, len(self.orders))
        chunks = np.repeat(virtual, len(self.orders))
        rest_s = (limit_s - self.once_s) * chunks
        found = self._whole_s(Stages(*flat), chunks, counts, rest_s)
        return found.reshape(shape[1:]) / virtual[:, None] + self.once_s

    def _whole_s(
        self, stages: Stages, virtual: Values, micro_batches: Values, limit_s: Values
    ) -> Values:
        """Return ``whole_layers_s`` of stages whose chunks hold as many layers, one at least."""
        if not self.front:
            layers = self.layers / virtual
            return whole_layers_s(stages.chunked(virtual), layers, micro_batches, limit_s)
        # The first chunk of the first stage may hold none of those that are split.
        more = np.maximum(virtual - 1 - (self.front == 1), 0.0)
        layers = self.layers - stages.pp.sum(axis=0) * more
        return whole_layers_s(stages.beyond(more), layers, micro_batches, limit_s)

    def _rooms(self, rows: Rows, order: Sequence[int]) -> Values:
        """Return how many layers each part holds in its place."""
        found = np.empty(rows.shape)
        behind = np.zeros(rows.shape[1], np.intp)
        for kind in reversed(order):
            table, row = self.tables[kind], rows[kind]
            ahead = behind + table.pp[row].astype(np.intp)
            found[kind] = table.rooms[row, ahead] - table.rooms[row, behind]
            if kind == order[0]:
                found[kind] -= table.first_rooms[row, ahead]
            if kind == order[-1]:
                found[kind] -= table.last_room[row]
            behind = ahead
        return found

    def _ways(self, rows: Rows) -> Values:
        """Return the way from each mesh to each other, ``inf`` to itself."""
        plain, staged = (self._taken(name, rows)[:, None] for name in ("way_s", "staged_s"))
        each = np.where(self.staged[:, :, None], staged, plain)
        slower = np.maximum(each, np.swapaxes(each, 0, 1))
        found: Values = slower + self._taken("start_s", rows)[:, None]
        found[np.arange(len(rows)), np.arange(len(rows))] = np.inf
        return found

    def _virtual(self, rows: Rows) -> Values:
        """Return the virtual stages of each set: all its meshes have as many."""
        return np.asarray(self.tables[0].virtual[rows[0]])

    def _taken(self, name: str, rows: Rows) -> Values:
        return np.stack(
            [getattr(table, name)[row] for table, row in zip(self.tables, rows, strict=True)]
        )
