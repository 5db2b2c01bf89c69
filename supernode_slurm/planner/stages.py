"""Layers of the stages of many pipelines at once: the split whose slowest stage is fastest.

The first and the last stage hold what they may, those between them differ by one layer at most.
Within this rule ``best_split`` gives the fastest pipeline: the sum over all stages is the same for
every split, so the one of the fastest slowest stage wins. ``refine`` looks at those that lose a
little there and win more after the pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .case import Numbers

CLOSE = 1e-9

HALVINGS = 36
"""Of the range of a limit, until less is left than what counts as equal."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Seconds per micro-batch of the parts of each pipeline."""

    total: int
    """Layers of the model."""
    dense: Numbers
    """Layers without experts, which come first; all of a dense model."""
    dense_s: Numbers
    layer_s: Numbers
    first_s: Numbers
    """Of the first stage besides its layers."""
    last_s: Numbers
    middle_s: Numbers
    pp: Numbers
    least: Numbers
    """Layers that each stage must hold."""

    @property
    def whole_s(self) -> Numbers:
        """Return one micro-batch's way through all stages."""
        inner = self.dense * self.dense_s + (self.total - self.dense) * self.layer_s
        return inner + self.first_s + self.last_s + np.maximum(self.pp - 2, 0.0) * self.middle_s

    @property
    def mean_s(self) -> Numbers:
        """Return what the slowest stage takes at least.

        A layer without experts behind the first stage is counted as one with them.
        """
        spared = self.dense * np.maximum(self.dense_s - self.layer_s, 0.0)
        return (self.whole_s - spared) / self.pp


@dataclass(frozen=True, slots=True)
class Most:
    """Most layers that memory allows in the first, in a middle and in the last stage."""

    first: Numbers
    middle: Numbers
    last: Numbers


@dataclass(frozen=True, slots=True)
class Split:
    """Layers of the first, the second and the last stage; which pipelines have one at all."""

    first: Numbers
    second: Numbers
    last: Numbers
    legal: NDArray[np.bool_]

    def taken(self, index: NDArray[np.intp]) -> Split:
        """Return the splits of some pipelines."""
        return Split(self.first[index], self.second[index], self.last[index], self.legal[index])

    def put(self, index: NDArray[np.intp], other: Split) -> Split:
        """Return the splits with those of some pipelines replaced."""
        held = [self.first.copy(), self.second.copy(), self.last.copy()]
        for layers, new in zip(held, (other.first, other.second, other.last), strict=True):
            layers[index] = new
        return Split(held[0], held[1], held[2], self.legal)


def endless(loads: Loads) -> Most:
    """Return the limits of unlimited memory."""
    most = np.full(loads.pp.shape, float(loads.total))
    return Most(most, most, most)


def best_split(loads: Loads, most: Most) -> Split:
    """Return the fastest split of each pipeline: the least limit at which the stages hold all."""
    low = np.zeros(loads.pp.shape)
    each = np.maximum(loads.dense_s, loads.layer_s)
    high = loads.first_s + loads.middle_s + loads.last_s + loads.total * each
    legal = _enough(loads, _capacity(loads, most, high))
    for _ in range(HALVINGS):
        limit = (low + high) / 2
        enough = _enough(loads, _capacity(loads, most, limit))
        low, high = np.where(enough, low, limit), np.where(enough, limit, high)
    return _fitted(loads, _capacity(loads, most, high), legal)


def _enough(loads: Loads, caps: tuple[Numbers, Numbers, Numbers]) -> NDArray[np.bool_]:
    """Tell whether stages that hold so many layers hold all, and none holds too few."""
    first, middle, last = caps
    pp, least = loads.pp, loads.least
    held = np.where(pp == 1, first, first + last + np.maximum(pp - 2, 0.0) * middle)
    enough = (held >= loads.total) & (first >= least)
    ends = ((pp == 1) | (last >= least)) & ((pp <= 2) | (middle >= least))
    return np.asarray(enough & ends)


def splits_below(loads: Loads, limit: Numbers) -> tuple[NDArray[np.intp], Split]:
    """Return every split whose stages all end by their pipeline's limit, and its pipeline."""
    total, least = float(loads.total), loads.least
    between = np.maximum(loads.pp - 2, 0.0)
    first, middle, last = _capacity(loads, endless(loads), limit)
    inner = np.where(middle >= least, between * middle, 0.0)
    most = total - (between + 1) * least
    row, early = _ranges(np.maximum(least, total - last - inner), np.minimum(first, most))
    left = total - early
    least_last = np.maximum(least[row], left - inner[row])
    pair, late = _ranges(least_last, np.minimum(last[row], left - (between * least)[row]))
    row, early = row[pair], early[pair]
    second = np.ceil((total - early - late) / np.maximum(between[row], 1.0) - CLOSE)
    return row, Split(early, second, late, np.ones(row.shape, np.bool_))


def _ranges(low: Numbers, high: Numbers) -> tuple[NDArray[np.intp], Numbers]:
    """Return all whole numbers of each range, and the range of each."""
    counts = np.maximum(high - low + 1, 0.0).astype(np.intp)
    row = np.repeat(np.arange(low.size), counts)
    place = np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, low[row] + place


def even_split(total: int, pp: Numbers, least: Numbers) -> Split:
    """Return the even split, legal where the layers divide."""
    each = total / pp
    legal = (each == np.floor(each)) & (each >= least)
    return Split(each, np.where(pp > 2, each, 0.0), np.where(pp > 1, each, 0.0), legal)


def _fitted(
    loads: Loads, caps: tuple[Numbers, Numbers, Numbers], legal: NDArray[np.bool_]
) -> Split:
    """Return the split that fills the stages, the surplus taken from where memory is short."""
    total, pp = float(loads.total), loads.pp
    first, middle, last = caps
    between = np.maximum(pp - 2, 0.0)
    surplus = np.where(pp == 1, 0.0, first + last + between * middle - total)
    # Early stages hold most micro-batches: what need not be there goes further back.
    even = np.floor(total / pp)
    cut = np.clip(np.minimum(surplus, first - np.minimum(even, first)), 0.0, None)
    first, surplus = first - cut, surplus - cut
    cut = np.where(between > 0, 0.0, np.clip(np.minimum(surplus, last - loads.least), 0.0, None))
    last = last - cut
    left = total - first - last
    short = np.clip(between * loads.least - left, 0.0, None)
    give = np.minimum(short, np.clip(first - loads.least, 0.0, None))
    first = np.where(between > 0, first - give, first)
    last = np.where(between > 0, last - (short - give), last)
    second = np.ceil((total - first - last) / np.maximum(between, 1.0) - CLOSE)
    alone = pp == 1
    first = np.where(alone, total, np.where(pp == 2, total - last, first))
    return Split(
        first,
        np.where(between > 0, second, 0.0),
        np.where(alone, 0.0, last),
        legal & (first >= 1),
    )


def _capacity(loads: Loads, most: Most, limit: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the layers that the stages hold if each ends by the limit."""
    slack = limit * (1 + CLOSE)
    room = slack - loads.first_s
    early = np.minimum(loads.dense, np.floor(room / loads.dense_s))
    more = np.floor((room - loads.dense * loads.dense_s) / loads.layer_s)
    first = np.where(early < loads.dense, early, loads.dense + np.maximum(more, 0.0))
    middle = np.floor((slack - loads.middle_s) / loads.layer_s)
    last = np.floor((slack - loads.last_s) / loads.layer_s)
    limits = (most.first, most.middle, most.last)
    found = (np.clip(cap, 0.0, top) for cap, top in zip((first, middle, last), limits, strict=True))
    one, two, three = found
    return one, two, three
