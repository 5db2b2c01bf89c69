"""Layers over stages of unlike kinds such that the whole step is shortest, not its pipeline alone.

After the pipeline gradients are summed, which the slowest stage ends last or another one, and
parameters are updated, which the fullest device ends last. A split that loses a little in the
pipeline may win more there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .case import Numbers

Counts = NDArray[np.int64]

CLOSE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class WholeLoad:
    """Seconds of a stage with 1, 2, ... layers, as many as it can hold; none of them falls."""

    time_s: Numbers
    """Of a micro-batch."""
    end_s: Numbers
    """From the start to the last sum of its gradients, were it never idle."""
    update_s: Numbers
    fixed_s: float
    """Of a micro-batch besides its layers."""
    layer_s: float


def whole_s(stages: Sequence[WholeLoad], split: Sequence[int]) -> float:
    """Return the step time of a split, but for what no split changes."""
    pairs = list(zip(stages, split, strict=True))
    times = [float(stage.time_s[count - 1]) for stage, count in pairs]
    end = max(float(stage.end_s[count - 1]) for stage, count in pairs)
    return sum(times) - max(times) + end + max(float(it.update_s[n - 1]) for it, n in pairs)


def better_split(
    total: int, stages: Sequence[WholeLoad], known: tuple[int, ...], limit_s: float
) -> tuple[int, ...]:
    """Return the split of the shortest step, ``known`` where none beats it and the limit.

    A split is best under its own end and its own update: for each pair of these the layers are
    dealt such that the stages besides the slowest take least.
    """
    dealt = _Dealt(total, stages)
    best, best_s = known, min(whole_s(stages, known), limit_s)
    ends = _values([stage.end_s for stage in stages])
    holds = dealt.holds([stage.end_s for stage in stages], ends)
    rest = dealt.rest_s(holds)[0]
    updates = _values([stage.update_s for stage in stages])
    below = dealt.holds([stage.update_s for stage in stages], updates)
    if not np.isfinite(rest).any():
        return known
    feasible = below.sum(axis=0) >= total
    bounds = ends + rest + float(updates[feasible].min())
    for place in np.argsort(bounds, kind="stable"):
        if bounds[place] >= best_s * (1 - CLOSE):
            break
        both = np.minimum(holds[:, place, None], below)
        left, which = dealt.rest_s(both)
        found = ends[place] + updates + left
        least = int(np.argmin(found))
        if found[least] < best_s * (1 - CLOSE):
            best_s = float(found[least])
            best = dealt.split(both[:, least], int(which[least]))
    return best


class _Dealt:
    """Layers dealt to stages, each with a limit, such that all but one take least."""

    def __init__(self, total: int, stages: Sequence[WholeLoad]) -> None:
        self.total, self.stages = total, stages
        self._fixed = np.array([stage.fixed_s for stage in stages])
        self._layer = np.array([stage.layer_s for stage in stages])

    def holds(self, values: Sequence[Numbers], limits: Numbers) -> Counts:
        """Return the most layers of each stage whose value is within each limit."""
        found: dict[int, Counts] = {}
        for value in values:
            if id(value) not in found:
                found[id(value)] = np.searchsorted(value, limits * (1 + CLOSE), side="right")
        return np.stack([found[id(value)] for value in values])

    def rest_s(self, holds: Counts) -> tuple[Numbers, Counts]:
        """Return for each column of limits what the stages but the slowest take, and which it is.

        Infinite where the stages do not hold all layers. The one that is left out is filled; any
        other choice of it leaves out less.
        """
        count = len(self.stages)
        kinds = {id(stage): index for index, stage in enumerate(self.stages)}
        alone = [*kinds.values()]
        once = self._fixed + self._layer
        filled = np.minimum(holds[alone], self.total - count + 1)
        left = (self.total - count + 1 - filled).astype(np.float64)
        spent = np.broadcast_to((once.sum() - once[alone])[:, None], left.shape).copy()
        for layer_s, mine in self._rising():
            room = (holds[mine] - 1).sum(axis=0) - np.where(
                (self._layer[alone] == layer_s)[:, None], holds[alone] - 1, 0
            )
            given = np.minimum(left, room)
            spent, left = spent + layer_s * given, left - given
        short = (left > 0) | (holds.min(axis=0) < 1)
        spent = np.where(short, np.inf, spent)
        which = np.argmin(spent, axis=0)
        return spent.min(axis=0), np.array(alone)[which]

    def split(self, holds: Counts, slowest: int) -> tuple[int, ...]:
        """Return the split under these limits that leaves out this stage, its equals alike."""
        counts = np.ones(len(self.stages), np.int64)
        counts[slowest] = min(int(holds[slowest]), self.total - len(self.stages) + 1)
        for _, mine in self._rising():
            others = mine[mine != slowest]
            while others.size and counts.sum() < self.total:
                # Late stages hold fewer micro-batches.
                open_ = others[counts[others] < holds[others]][::-1]
                if not open_.size:
                    break
                counts[open_[np.argmin(counts[open_])]] += 1
        return tuple(map(int, counts))

    def _rising(self) -> Iterator[tuple[float, Counts]]:
        """Yield the stages by the time of a layer, the fastest first."""
        for layer_s in np.unique(self._layer):
            yield float(layer_s), np.flatnonzero(self._layer == layer_s)


def _values(columns: Sequence[Numbers]) -> Numbers:
    different = {id(column): column for column in columns}
    return np.unique(np.concatenate(list(different.values())))
