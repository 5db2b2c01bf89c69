"""Shares that follow measured times: the same on all ranks, the best, and steady."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.runtime import Balance, Share, balanced_shares
from tests.in_threads import SumOverRanks, run
from tests.test_runtime_sampler import shares_of

Seconds = Callable[[int, int, int], float]
"""The time of a rank in a step with so many samples."""


def follow(
    begin: Sequence[int], steps: int, seconds: Seconds, every: int = 5, gain: float = 0.03
) -> list[dict[int, tuple[int, ...]]]:
    """Return what each rank decided, by step; new shares count from the next step on."""
    shares = shares_of(begin)

    def work(rank: int, sum_over_ranks: SumOverRanks) -> dict[int, tuple[int, ...]]:
        balance = Balance(shares[rank], sum_over_ranks, every, gain)
        decided = {}
        samples = begin[rank]
        for step in range(steps):
            found = balance.rebalance(seconds(rank, step, samples), samples)
            if found is not None:
                decided[step] = found
                samples = found[rank]
            assert balance.shares[rank] == samples
        return decided

    return run(len(begin), work)


def same(decided: list[dict[int, tuple[int, ...]]]) -> dict[int, tuple[int, ...]]:
    """Return what every rank decided."""
    assert all(other == decided[0] for other in decided)
    return decided[0]


def test_equal_shares_become_the_best_ones_at_the_first_exchange_and_stay() -> None:
    costs = [1.0, 1.0, 1.7]
    decided = same(follow([8, 8, 8], 40, lambda rank, step, samples: costs[rank] * samples))
    assert decided == {4: (10, 9, 5)}
    assert balanced_shares(24, costs) == (10, 9, 5)


@given(
    prices=st.lists(st.sampled_from([0.5, 1.0, 1.5, 3.0, 11.0]), min_size=2, max_size=4),
    samples=st.integers(4, 24),
    seed=st.integers(0, 99),
)
def test_all_ranks_decide_alike_and_keep_the_total(
    prices: list[float], samples: int, seed: int
) -> None:
    begin = balanced_shares(samples, [1.0] * len(prices))

    def seconds(rank: int, step: int, mine: int) -> float:
        noise = random.Random(f"{seed} {rank} {step}").uniform(0.8, 1.25)
        return prices[rank] * mine * noise

    decided = same(follow(begin, 17, seconds, every=4, gain=0.0))
    for step, shares in decided.items():
        assert step % 4 == 3
        assert sum(shares) == samples
        assert min(shares) >= 1


def test_ranks_may_start_in_any_order() -> None:
    shares = shares_of([6, 6, 6])

    def work(rank: int, sum_over_ranks: SumOverRanks) -> tuple[int, ...] | None:
        # A third is no binary fraction, and each rank adds in an order of its own.
        return Balance(shares[rank], sum_over_ranks, 1).rebalance((rank + 1) / 3, 0.7)

    found = {tuple(run(3, work, order)) for order in permutations(range(3))}
    assert found == {((10, 5, 3),) * 3}


def test_one_slow_step_of_a_window_changes_nothing() -> None:
    decided = follow(
        [5, 3],
        30,
        lambda rank, step, samples: samples * (1 + 99 * (step % 5 == rank)) * (3 + 2 * rank),
    )
    assert same(decided) == {}


def test_small_gains_change_nothing() -> None:
    def seconds(rank: int, step: int, samples: int) -> float:
        return samples * (1.05 if rank else 1.0)

    # 105 against 103, 102 x 1.05 = 107.1: less than 3 % and more than 1 %.
    assert balanced_shares(200, [1.0, 1.05]) == (102, 98)
    assert same(follow([100, 100], 20, seconds)) == {}
    assert same(follow([100, 100], 20, seconds, gain=0.01)) == {4: (102, 98)}


def test_shares_follow_a_card_that_slows_down_and_recovers() -> None:
    def seconds(rank: int, step: int, samples: int) -> float:
        return samples * (2.0 if rank == 1 and 12 <= step < 30 else 1.0)

    decided = same(follow([12, 12], 50, seconds))
    # Three of the five steps 10 to 14 are slow already.
    assert decided == {14: (16, 8), 34: (12, 12)}


def test_a_fixed_part_of_a_step_is_approached_without_swinging() -> None:
    def seconds(rank: int, step: int, samples: int) -> float:
        return 10.0 + samples * (3.0 if rank else 1.0)

    decided = same(follow([20, 20], 100, seconds, gain=0.0))
    firsts = [shares[0] for shares in decided.values()]
    assert firsts == sorted(firsts), "each change goes the same way"
    best = min(range(1, 40), key=lambda first: max(seconds(0, 0, first), seconds(1, 0, 40 - first)))
    assert firsts[-1] == best


@pytest.mark.parametrize("nothing", [math.nan, math.inf, 0.0, -1.0, 1e-60])
def test_what_is_no_measurement_leaves_the_last_one(nothing: float) -> None:
    def sometimes(rank: int, step: int, samples: int) -> float:
        if rank == 0:
            return samples * (1.0 if step < 20 else 4.0)
        return nothing if step >= 7 else samples * 2.0

    assert same(follow([9, 9], 30, sometimes)) == {4: (12, 6), 24: (6, 12)}

    def never(rank: int, step: int, samples: int) -> float:
        return nothing if rank == 1 else float(samples)

    assert same(follow([9, 9], 30, never)) == {}


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_what_an_exchange_loses_is_no_measurement(lost: float) -> None:
    balance = Balance(shares_of([4])[0], lambda sent: [lost, sent[1]], 1)
    assert balance.rebalance(1.0, 4) is None
    assert balance.costs == (0.0,)


@pytest.mark.parametrize("work", [0.0, math.nan, -4.0])
def test_a_step_without_work_is_no_measurement(work: float) -> None:
    alone = Balance(shares_of([4])[0], list, 1)
    assert alone.rebalance(1.0, work) is None
    assert alone.costs == (0.0,)


def test_no_replica_is_left_without_a_sample() -> None:
    decided = same(follow([4, 4], 5, lambda rank, step, samples: samples * (1e9 if rank else 1.0)))
    assert decided == {4: (7, 1)}


def test_the_slowest_rank_of_a_replica_counts() -> None:
    pair = shares_of([9, 9])
    shares = [replace(pair[rank // 2], rank=rank, world_size=4) for rank in range(4)]
    seconds = [2.0, 1.0, 1.0, 1.0]

    def work(rank: int, sum_over_ranks: SumOverRanks) -> tuple[int, ...] | None:
        return Balance(shares[rank], sum_over_ranks, 1).rebalance(seconds[rank] * 9, 9)

    assert set(run(4, work)) == {(6, 12)}


def test_tokens_measure_where_samples_are_of_unlike_lengths() -> None:
    shares = shares_of([12, 12])

    def work(rank: int, sum_over_ranks: SumOverRanks) -> tuple[int, ...] | None:
        # The strong card happens to get long sequences: by samples both seem equally fast.
        tokens = 12 * (200 if rank == 0 else 100)
        balance = Balance(shares[rank], sum_over_ranks, 1)
        return balance.rebalance(tokens * (1.0 if rank == 0 else 2.0), tokens)

    assert set(run(2, work)) == {(16, 8)}


def test_ranks_exchange_only_where_shares_may_change() -> None:
    calls: list[int] = []

    def count(values: list[float]) -> list[float]:
        calls.append(len(values))
        return values

    balance = Balance(shares_of([4])[0], count, 7)
    for _ in range(20):
        assert balance.rebalance(1.0, 4) is None
    assert len(calls) == 2


def test_wrong_use_is_told() -> None:
    (share,) = shares_of([4])
    with pytest.raises(ValueError, match="every is 0"):
        Balance(share, list, 0)
    with pytest.raises(ValueError, match="least_gain nan"):
        Balance(share, list, 5, math.nan)
    with pytest.raises(ValueError, match="other replicas are not known"):
        Balance(Share(0, 1, "h100", "h100-sxm", 4, 0, 4), list)
    with pytest.raises(ValueError, match="sum_over_ranks took 2 numbers and returned 0"):
        Balance(share, lambda values: [], 1).rebalance(1.0, 4)
