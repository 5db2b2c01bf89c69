"""Cuts of a global batch against brute force."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.planner.split import split_samples
from supernode_slurm.runtime import balanced_shares, cut_by_length, micro_steps

costs = st.lists(st.sampled_from([0.25, 1.0, 1.5, 2.0, 7.0, 40.0]), min_size=1, max_size=4)
replicas = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 8)), min_size=1, max_size=5
)  # fmt: skip


def cuts(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to cut a total into parts of at least one."""
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in cuts(total - first, parts - 1):
            yield (first, *rest)


def slowest(shares: tuple[int, ...], prices: list[float]) -> float:
    return max(samples * cost for samples, cost in zip(shares, prices, strict=True))


@given(extra=st.integers(0, 14), prices=costs)
def test_no_other_shares_have_a_faster_slowest_replica(extra: int, prices: list[float]) -> None:
    total = len(prices) + extra
    found = balanced_shares(total, prices)
    assert sum(found) == total
    assert min(found) >= 1
    # Exact, because all numbers are binary fractions.
    assert slowest(found, prices) == min(
        slowest(other, prices) for other in cuts(total, len(prices))
    )


@given(
    extra=st.integers(0, 5000),
    prices=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40),
)
def test_the_planner_would_split_alike(extra: int, prices: list[float]) -> None:
    total = len(prices) + extra
    planned = split_samples(total, [1] * len(prices), [cost.__mul__ for cost in prices])
    assert planned is not None
    assert slowest(balanced_shares(total, prices), prices) == pytest.approx(
        slowest(planned, prices), rel=1e-9
    )


def test_equal_costs_give_equal_shares() -> None:
    assert balanced_shares(11, [0.1] * 4) == (3, 3, 3, 2)
    assert balanced_shares(2048 * 8, [1.0] * 2048) == (8,) * 2048


@pytest.mark.parametrize(
    ("total", "prices"), [(1, [1, 1]), (4, []), (4, [1, 0]), (4, [1, math.nan]), (4, [1, math.inf])]
)
def test_shares_of_nonsense_are_refused(total: int, prices: list[float]) -> None:
    with pytest.raises(ValueError):
        balanced_shares(total, prices)


@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=9),
    speeds=st.lists(st.sampled_from([1.0, 2.0, 3.0, 5.0]), min_size=1, max_size=4),
)
def test_a_cut_by_length_is_as_fast_as_any_in_that_order(
    lengths: list[int], speeds: list[float]
) -> None:
    if len(lengths) < len(speeds):
        with pytest.raises(ValueError, match="each takes one"):
            cut_by_length(lengths, speeds)
        return

    def time(counts: tuple[int, ...]) -> float:
        first, most = 0, 0.0
        for count, speed in zip(counts, speeds, strict=True):
            tokens = sum(max(1, length) for length in lengths[first : first + count])
            most, first = max(most, tokens / speed), first + count
        return most

    found = cut_by_length(lengths, speeds)
    assert sum(found) == len(lengths)
    assert min(found) >= 1
    best = min(time(other) for other in cuts(len(lengths), len(speeds)))
    assert time(found) <= best * (1 + 1e-4)


@given(sizes=replicas, equal=st.booleans())
def test_micro_steps_cover_each_share_and_fit(sizes: list[tuple[int, int]], equal: bool) -> None:
    shares, limits = zip(*sizes, strict=True)
    found = micro_steps(shares, limits, equal)
    least = [-(-samples // limit) for samples, limit in sizes]
    for steps, samples, limit, count in zip(found, shares, limits, least, strict=True):
        assert sum(steps) == samples
        assert max(steps) <= limit
        assert max(steps) - min(steps) <= 1
        assert len(steps) == (max(least) if equal else count)
        assert (0 in steps) == (samples < len(steps))


def test_fsdp_and_ddp_take_other_micro_steps() -> None:
    assert micro_steps([5, 3], [2, 2]) == ((2, 2, 1), (1, 1, 1))
    assert micro_steps([5, 3], [2, 2], equal_steps=False) == ((2, 2, 1), (2, 1))
    assert micro_steps([5, 1], [2, 2]) == ((2, 2, 1), (1, 0, 0))
    for shares, limits in (([5], [2, 2]), ([5, 0], [2, 2]), ([5, 3], [2, 0])):
        with pytest.raises(ValueError):
            micro_steps(shares, limits)
