"""Cuts of a global batch: over replicas, and of a replica's samples into micro-steps.

Python 3.8, standard library only. Every rank makes these cuts for itself: only operations
that IEEE 754 rounds alike everywhere are used, and ``math.fsum`` where ``sum`` adds
differently from Python 3.12 on.
"""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect_left, bisect_right
from typing import Iterable, Iterator, Sequence

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
    batch = _Batch(lengths)
    least = batch.ends[-1] / math.fsum(speeds)
    most = batch.ends[-1] / min(speeds) * (1 + _CLOSE)  # any cut will do
    best = batch.cut(speeds, most)
    while most - least > _CLOSE * least:
        limit = (least + most) / 2
        found = batch.cut(speeds, limit)
        if found is None:
            least = limit
        else:
            best, most = found, limit
    return best or ()


class _Batch:
    """Samples of unlike lengths, in order; one without a token counts as one token."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = [max(1, int(length)) for length in lengths]
        self._longest = max(self._lengths)
        self.ends = [0, *itertools.accumulate(self._lengths)]

    def cut(self, speeds: Sequence[float], limit: float) -> tuple[int, ...] | None:
        """Return a cut in which every replica is done by the limit, None if there is none."""
        last = len(self._lengths)
        rooms = [math.floor(limit * speed) for speed in speeds]
        too_long = {room: self._longer(room) for room in set(rooms)}
        reached = [[(0, 0)]]
        for place, room in enumerate(rooms):
            most = last - (len(rooms) - place - 1)
            useful = _without(reached[-1], too_long[room])
            reached.append(self._reach(useful, room, most))
        if not reached[-1] or reached[-1][-1][1] < last:
            return None
        counts: list[int] = []
        for room, starts in zip(reversed(rooms), reversed(reached[:-1])):
            lowest = bisect_left(self.ends, self.ends[last] - room)
            start = next(
                max(first, lowest)
                for first, end in starts
                if max(first, lowest) <= min(end, last - 1)
            )
            counts.append(last - start)
            last = start
        return tuple(reversed(counts))

    def _longer(self, room: int) -> list[int]:
        """Return the samples that are too long by themselves."""
        if self._longest <= room:
            return []
        return [place for place, length in enumerate(self._lengths) if length > room]

    def _reach(
        self, starts: Iterable[tuple[int, int]], room: int, most: int
    ) -> list[tuple[int, int]]:
        """Return where a replica can end that starts in one of these ranges, as ranges."""
        found: list[tuple[int, int]] = []
        for first, end in starts:
            reach = min(most, bisect_right(self.ends, self.ends[end] + room) - 1)
            if found and first <= found[-1][1]:
                found[-1] = (found[-1][0], reach)
            else:
                found.append((first + 1, reach))
        return found


def _without(ranges: Iterable[tuple[int, int]], places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges without these places, which rise."""
    for first, end in ranges:
        start = first
        for place in places[bisect_left(places, first) : bisect_right(places, end)]:
            if start < place:
                yield start, place - 1
            start = place + 1
        if start <= end:
            yield start, end


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
