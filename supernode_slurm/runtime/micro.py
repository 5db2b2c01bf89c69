"""Cuts of a global batch: over replicas, and of a replica's samples into micro-steps.

Python 3.8, standard library only. Every rank makes these cuts for itself: only operations
that IEEE 754 rounds alike everywhere are used, and ``math.fsum`` where ``sum`` adds
differently from Python 3.12 on.
"""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect_right
from typing import Sequence

_LEAST, _MOST = 1e-100, 1e100
"""Between these no sum of costs or of their inverses overflows."""
_CLOSE = 1e-4
"""Of the least time, how much longer a cut by lengths may take."""


def micro_steps(
    shares: Sequence[int], micro_batches: Sequence[int], equal_steps: bool = True
) -> tuple[tuple[int, ...], ...]:
    """Return the samples of each micro-step of each replica.

    No micro-step is larger than the replica's micro-batch, and those of a replica differ by
    one sample at most. With ``equal_steps`` all replicas take the same number of them, the
    least possible, as frameworks need that communicate in each (FSDP); else each takes its
    own least (DDP with ``no_sync``). A micro-step of 0 samples is an empty one, which only a
    replica has whose samples are fewer than its micro-steps. Raises ``ValueError`` for sizes
    below one.
    """
    counts = _counts(shares, micro_batches, equal_steps)
    return tuple(_even(samples, count) for samples, count in zip(shares, counts))


def own_steps(
    shares: Sequence[int], micro_batches: Sequence[int], equal_steps: bool, replica: int
) -> tuple[int, ...]:
    """Return the row of one replica in ``micro_steps``."""
    return _even(shares[replica], _counts(shares, micro_batches, equal_steps)[replica])


def balanced_shares(total: int, costs: Sequence[float]) -> tuple[int, ...]:
    """Return whole samples per replica, at least one each, whose slowest replica is fastest.

    ``costs`` are seconds (or any unit) per sample; ties go to the first replicas. Raises
    ``ValueError`` for fewer samples than replicas, and for costs that are not positive numbers.
    """
    if total < len(costs) or not costs:
        raise ValueError(f"{total} samples for {len(costs)} replicas; each takes at least one")
    if not all(_LEAST < cost < _MOST for cost in costs):
        raise ValueError(f"costs {list(costs)}: each must be a positive number")
    # All samples that end before the even cut with fractions are in the best one.
    even = total / math.fsum(1 / cost for cost in costs) * (1 - 1e-12)
    counts = [max(1, math.floor(even / cost)) for cost in costs]
    if sum(counts) > total:
        counts = [1] * len(costs)
    ready = [((count + 1) * cost, index) for index, (count, cost) in enumerate(zip(counts, costs))]
    heapq.heapify(ready)
    for _ in range(total - sum(counts)):
        index = ready[0][1]
        counts[index] += 1
        heapq.heapreplace(ready, ((counts[index] + 1) * costs[index], index))
    return tuple(counts)


def cut_by_length(lengths: Sequence[int], speeds: Sequence[float]) -> tuple[int, ...]:
    """Return how many of these samples, in their order, each replica takes, at least one.

    The slowest replica, tokens over speed, is within 0.01 % of the fastest such cut. Raises
    ``ValueError`` for fewer samples than replicas.
    """
    if len(lengths) < len(speeds) or not speeds:
        raise ValueError(f"{len(lengths)} samples for {len(speeds)} replicas; each takes one")
    ends = [0, *itertools.accumulate(max(1, length) for length in lengths)]
    least, slack = ends[-1] / math.fsum(speeds), max(1, *lengths) / min(speeds)
    best, most = None, least
    while best is None:
        most += slack
        slack *= 2
        best = _cut_within(ends, speeds, most)
    while most - least > _CLOSE * least:
        limit = (least + most) / 2
        found = _cut_within(ends, speeds, limit)
        if found is None:
            least = limit
        else:
            best, most = found, limit
    return best


def _cut_within(
    ends: Sequence[int], speeds: Sequence[float], limit: float
) -> tuple[int, ...] | None:
    """Return the cut where each replica takes what it can by the limit, None if some is left."""
    counts: list[int] = []
    first, last = 0, len(ends) - 1
    for place, speed in enumerate(speeds):
        most = last - (len(speeds) - place - 1)
        end = min(most, bisect_right(ends, ends[first] + limit * speed) - 1)
        if end <= first:
            return None
        counts.append(end - first)
        first = end
    return tuple(counts) if first == last else None


def _counts(shares: Sequence[int], micro_batches: Sequence[int], equal_steps: bool) -> list[int]:
    if len(shares) != len(micro_batches):
        raise ValueError(f"{len(shares)} shares, {len(micro_batches)} micro-batches; give as many")
    if any(size < 1 for size in (*shares, *micro_batches)):
        raise ValueError(f"shares {shares}, micro-batches {micro_batches}: give whole numbers >= 1")
    counts = [-(-samples // size) for samples, size in zip(shares, micro_batches)]
    return [max(counts)] * len(counts) if equal_steps else counts


def _even(samples: int, count: int) -> tuple[int, ...]:
    each, more = divmod(samples, count)
    return tuple(each + (index < more) for index in range(count))
