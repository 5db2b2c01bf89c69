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


def bound_s(parts: Sequence[PartLoad], layers: int, micro_batches: int) -> float:
    """Return the step time of these parts in order if layers were divisible and memory endless.

    It is a linear program: its best point fills the fastest parts to one common end, for
    some number of them, and gives the others nothing.
    """
    fixed = [part.fixed_s for part in parts]
    fixed[0] += parts[0].embedding_s
    fixed[-1] += parts[-1].head_s
    rate, spent, stages, idle_s = 0.0, 0.0, 0, sum(fixed)
    end_s, best_s = 0.0, math.inf
    for part, fixed_s in sorted(zip(parts, fixed, strict=True), key=lambda pair: pair[0].layer_s):
        rate += part.stages / part.layer_s
        spent += fixed_s / part.layer_s
        stages += part.stages
        idle_s -= fixed_s
        end_s = (layers + spent) / rate
        best_s = min(best_s, (micro_batches - 1 + stages) * end_s + idle_s)
    # Where a part would hold less than nothing, the end and the sum apart say more.
    fastest_s = layers * min(part.layer_s for part in parts) + sum(fixed)
    return max(best_s, (micro_batches - 1) * end_s + fastest_s)


def bounds_s(
    options: Sequence[Sequence[PartLoad]], layers: int, micro_batches: int
) -> NDArray[np.float64]:
    """Return for each choice of one part per axis what ``bound_s`` of no order goes below.

    While the pipeline is full every stage ends at once; to fill it, the layers pass the
    fastest stage.
    """
    import numpy as np

    def terms(values: Sequence[Sequence[float]]) -> list[NDArray[np.float64]]:
        """Return one array per axis, each along its own."""
        return [
            np.array(kind, float).reshape([-1 if axis == own else 1 for axis in range(len(values))])
            for own, kind in enumerate(values)
        ]

    layer_s = terms([[part.layer_s for part in kind] for kind in options])
    rate = sum(terms([[part.stages / part.layer_s for part in kind] for kind in options]))
    fixed = sum(terms([[part.fixed_s for part in kind] for kind in options]))
    spent = sum(terms([[part.fixed_s / part.layer_s for part in kind] for kind in options]))
    filling = layers * reduce(np.minimum, layer_s) + fixed
    for ends in (
        [[part.embedding_s for part in kind] for kind in options],
        [[part.head_s for part in kind] for kind in options],
    ):
        least = terms(ends)
        filling = filling + reduce(np.minimum, least)
        shares = [end / each for end, each in zip(least, layer_s, strict=True)]
        spent = spent + reduce(np.minimum, shares)
    found: NDArray[np.float64] = (micro_batches - 1) * (layers + spent) / rate + filling
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
