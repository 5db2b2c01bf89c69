"""Integer splits that are optimal: layers over stages, samples over replicas."""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageLoad:
    """A stage that takes ``fixed_s + layers * layer_s`` and holds 1 to ``most`` layers."""

    fixed_s: float
    layer_s: float
    most: int

    def time_s(self, layers: int) -> float:
        """Return the time of the stage with this many layers."""
        return self.fixed_s + layers * self.layer_s


def split_layers(
    total: int, stages: Sequence[StageLoad], micro_batches: int, limit_s: float = math.inf
) -> tuple[int, ...] | None:
    """Return the layers per stage of the fastest pipeline, None if they do not fit.

    Fastest: (micro-batches - 1) x the slowest stage + the sum of all stages is least. None
    as well if that is not below the limit.
    """
    if total < len(stages) or any(stage.most < 1 for stage in stages):
        return None
    if sum(stage.most for stage in stages) < total:
        return None
    best = _level(total, stages)
    fastest = max(_times(stages, best))
    best_s = _pipeline_s(stages, best, micro_batches)
    filling_s = sum(_times(stages, _pack(total, stages, math.inf)))
    # The slowest stage of the best split ends at one of these times; under each of them the
    # packed split has the least sum.
    within = math.inf
    if micro_batches > 1:
        within = (min(best_s, limit_s) - filling_s) / (micro_batches - 1)
    if within < fastest * (1 - 1e-9):
        return None
    for slowest in _ends(stages, fastest, within):
        if (micro_batches - 1) * slowest + filling_s >= best_s * (1 - 1e-9):
            break
        packed = _pack(total, stages, slowest)
        packed_s = _pipeline_s(stages, packed, micro_batches)
        if sum(packed) == total and packed_s < best_s * (1 - 1e-9):
            best, best_s = packed, packed_s
    return _evened(best, stages) if best_s < limit_s else None


def split_samples(
    total: int, replicas: Sequence[int], time_s: Sequence[Callable[[int], float]]
) -> tuple[int, ...] | None:
    """Return each kind's samples: they sum to ``total`` and the slowest replica is fastest.

    Kind i has ``replicas[i]`` equal replicas, of which one takes ``time_s[i](samples)``, a
    function that never falls. Samples of a kind are dealt evenly, the rest one each to its
    first replicas. Every replica takes at least one sample; None if there are too few.
    """
    if total < sum(replicas):
        return None
    if total == sum(replicas):
        return tuple(replicas)

    def within(limit_s: float, cut: Callable[..., int]) -> list[int]:
        """Return each kind's samples that end by the limit, at least one per replica."""
        pairs = zip(replicas, time_s, strict=True)
        return [
            count * max(1, cut(range(1, total // count + 2), limit_s, key=time))
            for count, time in pairs
        ]

    def least_s(kind: int) -> float:
        """Return the first end of this kind by which all samples are dealt."""
        shares = range(1, -(-total // replicas[kind]) + 1)
        enough = bisect.bisect_left(
            shares,
            True,
            key=lambda share: sum(within(time_s[kind](share), bisect.bisect_right)) >= total,
        )
        return time_s[kind](shares[min(enough, len(shares) - 1)])

    limit_s = min(map(least_s, range(len(replicas))))
    # Flat stretches of real times are flat but for rounding.
    samples = within(limit_s * (1 - 1e-12), bisect.bisect_left)
    left = total - sum(samples)
    for kind, most in enumerate(within(limit_s * (1 + 1e-12), bisect.bisect_right)):
        more = min(left, most - samples[kind])
        samples[kind] += more
        left -= more
    return tuple(samples)


def _level(total: int, stages: Sequence[StageLoad]) -> tuple[int, ...]:
    # No split is faster than the even one with fractions, so what fits under it is given
    # at once and only the rest is dealt layer by layer.
    weight = sum(1 / stage.layer_s for stage in stages)
    even = (total + sum(stage.fixed_s / stage.layer_s for stage in stages)) / weight
    counts = [
        max(1, min(stage.most, int((even - stage.fixed_s) / stage.layer_s * (1 - 1e-12))))
        for stage in stages
    ]
    if sum(counts) > total:
        counts = [1] * len(stages)
    ready = [
        (stage.time_s(count + 1), index)
        for index, (stage, count) in enumerate(zip(stages, counts, strict=True))
        if count < stage.most
    ]
    heapq.heapify(ready)
    for _ in range(total - sum(counts)):
        _, index = heapq.heappop(ready)
        counts[index] += 1
        if counts[index] < stages[index].most:
            heapq.heappush(ready, (stages[index].time_s(counts[index] + 1), index))
    return tuple(counts)


def _ends(stages: Sequence[StageLoad], least_s: float, most_s: float) -> list[float]:
    """Return all times in this range at which a stage can end, in rising order."""
    found = {least_s}
    for stage in set(stages):
        first = max(1, math.ceil((least_s - stage.fixed_s) / stage.layer_s))
        last = min(stage.most, (most_s - stage.fixed_s) / stage.layer_s)
        found.update(stage.time_s(count) for count in range(first, math.floor(last) + 1))
    return sorted(found)


def _pack(total: int, stages: Sequence[StageLoad], slowest: float) -> tuple[int, ...]:
    """Return the split of least sum whose stages all end by ``slowest``."""
    counts = [1] * len(stages)
    left = total - len(stages)
    for index in sorted(range(len(stages)), key=lambda index: stages[index].layer_s):
        stage = stages[index]
        most = min(stage.most, (slowest * (1 + 1e-12) - stage.fixed_s) / stage.layer_s)
        counts[index] += max(0, min(left, int(most) - 1))
        left -= counts[index] - 1
    return tuple(counts)


def _evened(split: Sequence[int], stages: Sequence[StageLoad]) -> tuple[int, ...]:
    """Return the split with the layers of equally fast stages dealt so that none is left over.

    Their sum stays, and the slowest of them becomes no slower.
    """
    found = list(split)
    for layer_s in {stage.layer_s for stage in stages}:
        mine = [index for index, stage in enumerate(stages) if stage.layer_s == layer_s]
        total = sum(split[index] for index in mine)
        dealt = _level(total, [stages[index] for index in mine])
        for index, count in zip(mine, dealt, strict=True):
            found[index] = count
    return tuple(found)


def _times(stages: Sequence[StageLoad], split: Sequence[int]) -> list[float]:
    return [stage.time_s(count) for stage, count in zip(stages, split, strict=True)]


def _pipeline_s(stages: Sequence[StageLoad], split: Sequence[int], micro_batches: int) -> float:
    times = _times(stages, split)
    return (micro_batches - 1) * max(times) + sum(times)
