"""Step times that a pipeline over several meshes cannot beat, and the search's order by them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW = 1 << 12
"""Candidates that are sorted first; most searches need no more."""


@dataclass(frozen=True, slots=True)
class PartLoad:
    """Equal stages of a pipeline, their seconds per micro-batch: ``layers`` are dealt to all."""

    stages: int
    layer_s: float
    fixed_s: float
    """Sum of what its stages take besides layers."""
    embedding_s: float
    head_s: float


def ordered_s(
    parts: Sequence[PartLoad], fixed_s: NDArray[np.float64], layers: int, micro_batches: int
) -> NDArray[np.float64]:
    """Return the step time of several orders if layers were divisible and memory endless.

    It is a linear program: its best point fills the fastest parts to one common end, for
    some number of them, and gives the others nothing. ``fixed_s`` has a row for each order and
    a column for each part, in the order of ``parts``: what its stages take besides layers
    there, with the embedding or the head.
    """
    import numpy as np

    layer_s = np.array([part.layer_s for part in parts])
    rising_s = np.argsort(layer_s, kind="stable")
    layer_s, fixed = layer_s[rising_s], fixed_s[:, rising_s]
    stages = np.array([part.stages for part in parts], float)[rising_s]
    end_s = (layers + np.cumsum(fixed / layer_s, axis=1)) / np.cumsum(stages / layer_s)
    sum_s = fixed.sum(axis=1, keepdims=True)
    idle_s = sum_s - np.cumsum(fixed, axis=1)
    best_s = ((micro_batches - 1 + np.cumsum(stages)) * end_s + idle_s).min(axis=1)
    # Where a part would hold less than nothing, the end and the sum apart say more.
    fastest_s = layers * layer_s[0] + sum_s[:, 0]
    return np.asarray(np.maximum(best_s, (micro_batches - 1) * end_s[:, -1] + fastest_s))


def bounds_s(
    options: Sequence[Sequence[PartLoad]], layers: int, micro_batches: int
) -> NDArray[np.float64]:
    """Return for each choice of one part per axis what ``ordered_s`` of no order goes below."""
    loads = [loads_of(kind, [math.inf] * len(kind)) for kind in options]
    return bounds_of(loads, layers, micro_batches)


@dataclass(frozen=True, slots=True)
class Loads:
    """Parts of one kind as arrays, and what the bound needs of them."""

    layer_s: NDArray[np.float64]
    rate: NDArray[np.float64]
    """Layers per second of all stages."""
    fixed: NDArray[np.float64]
    spent: NDArray[np.float64]
    """What its stages take besides layers, in layers."""
    embedding: NDArray[np.float64]
    embedding_spent: NDArray[np.float64]
    head: NDArray[np.float64]
    head_spent: NDArray[np.float64]
    room: NDArray[np.float64]
    """Layers that it holds at most."""

    def extreme(self) -> Loads:
        """Return a part that is as good as the best of them in every respect."""
        found = {name: getattr(self, name).min(keepdims=True) for name in Loads.__slots__}
        found |= {name: getattr(self, name).max(keepdims=True) for name in ("rate", "room")}
        return Loads(**found)

    def taken(self, chosen: slice) -> Loads:
        """Return some of the parts."""
        return Loads(*(getattr(self, name)[chosen] for name in Loads.__slots__))


def loads_of(kind: Sequence[PartLoad], rooms: Sequence[float]) -> Loads:
    """Return parts of one kind as arrays, with the layers that each holds at most."""
    import numpy as np

    rows = [
        (
            *(part.layer_s, part.stages / part.layer_s),
            *(part.fixed_s, part.fixed_s / part.layer_s),
            *(part.embedding_s, part.embedding_s / part.layer_s),
            *(part.head_s, part.head_s / part.layer_s, room),
        )
        for part, room in zip(kind, rooms, strict=True)
    ]
    return Loads(*np.array(rows, float).T)


def bounds_of(options: Sequence[Loads], layers: int, micro_batches: int) -> NDArray[np.float64]:
    """Return for each choice of one part per kind what ``ordered_s`` of no order goes below.

    While the pipeline is full every stage ends at once, but for parts that hold no more layers;
    to fill it, the layers pass the fastest parts that have room.
    """
    import numpy as np

    def along(name: str) -> tuple[NDArray[np.float64], ...]:
        """Return one array per kind, each along its own axis."""
        return np.ix_(*(getattr(kind, name) for kind in options))

    ends = reduce(np.minimum, along("embedding")) + reduce(np.minimum, along("head"))
    more = reduce(np.minimum, along("embedding_spent")) + reduce(np.minimum, along("head_spent"))
    shape = np.broadcast_shapes(*(each.shape for each in along("rate")))
    layer_s, rates, spent, rooms = (
        np.stack([np.broadcast_to(each, shape) for each in along(name)])
        for name in ("layer_s", "rate", "spent", "room")
    )
    end_s = _end_s(rates, spent, rooms, layers + more)
    held = np.minimum(rates * end_s - spent, rooms)
    dealt_s = (held * layer_s).sum(axis=0) - more * layer_s.max(axis=0)
    # To end later, so that faster parts hold more, costs more than the micro-batch saves.
    saved = (rates * (layer_s.max(axis=0) - layer_s)).sum(axis=0)
    bound = (saved <= micro_batches - 1) & (held >= 0).all(axis=0)
    filled_s = _filled_s(layer_s, rooms, layers)
    filling = np.where(bound, np.maximum(dealt_s, filled_s), filled_s)
    found: NDArray[np.float64] = (micro_batches - 1) * end_s + filling + ends + sum(along("fixed"))
    return found


def _end_s(
    rates: NDArray[np.float64],
    spent: NDArray[np.float64],
    rooms: NDArray[np.float64],
    layers: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the least common end of all parts, those that are full left out of the rest."""
    import numpy as np

    end_s = (layers + spent.sum(axis=0)) / rates.sum(axis=0)
    for _ in rates[1:]:
        full = rates * end_s - spent > rooms
        left = layers + np.where(full, -rooms, spent).sum(axis=0)
        rate = np.where(full, 0.0, rates).sum(axis=0)
        # Where all are full the rest has nowhere to go.
        later = np.where(rate > 0, left / np.where(rate > 0, rate, 1.0), end_s)
        end_s = np.maximum(end_s, later)
    return np.asarray(end_s)


def _filled_s(
    layer_s: NDArray[np.float64], rooms: NDArray[np.float64], layers: int
) -> NDArray[np.float64]:
    """Return the least time of one micro-batch through all layers."""
    import numpy as np

    order = np.argsort(layer_s, axis=0)
    times = np.take_along_axis(layer_s, order, axis=0)
    reached = np.cumsum(np.take_along_axis(rooms, order, axis=0), axis=0).clip(0, layers)
    held = np.diff(reached, axis=0, prepend=0.0)
    # What has no room at all is told elsewhere.
    found: NDArray[np.float64] = (held * times).sum(axis=0) + (layers - reached[-1]) * times[-1]
    return found


def rising(values: NDArray[np.float64]) -> Iterator[int]:
    """Yield the indices of all values in rising order, sorting no more than is taken."""
    for part in rising_parts(values, FEW, values.size):
        yield from map(int, part)


def rising_parts(values: NDArray[np.float64], first: int, most: int) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of all values in rising order: ``first`` of them, then up to ``most``.

    Each part has eight times as many as the one before; no more is sorted than is taken.
    """
    import numpy as np

    rest, few = np.arange(values.size), min(first, max(most, 1))
    while rest.size:
        chosen, rest = rest, rest[:0]
        if chosen.size > few:
            parted = np.argpartition(values[chosen], few)
            chosen, rest = np.sort(chosen[parted[:few]]), chosen[parted[few:]]
        yield chosen[np.argsort(values[chosen], kind="stable")]
        few = min(few * 8, max(most, 1))
