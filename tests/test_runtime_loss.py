"""The weight of a rank's loss: the gradient is that of the mean over all tokens."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.runtime import loss_scale
from tests.in_threads import SumOverRanks, run

# Each rank's micro-steps, each a list of its tokens' losses.
batches = st.lists(
    st.lists(st.lists(st.integers(-50, 50), max_size=4), max_size=3), min_size=1, max_size=5
).filter(lambda ranks: any(any(micro) for rank in ranks for micro in rank))


@pytest.mark.parametrize("averages", [True, False])
@given(ranks=batches)
def test_the_sum_after_the_frameworks_reduction_is_the_mean_over_all_tokens(
    averages: bool, ranks: list[list[list[int]]]
) -> None:
    def step(rank: int, sum_over_ranks: SumOverRanks) -> float:
        scale = loss_scale(sum(map(len, ranks[rank])), sum_over_ranks, averages)
        return sum(scale * sum(micro) for micro in ranks[rank])

    found = math.fsum(run(len(ranks), step)) / (len(ranks) if averages else 1)
    tokens = [loss for rank in ranks for micro in rank for loss in micro]
    # Some roundings of doubles: of values up to 50, and of the scales.
    assert found == pytest.approx(float(Fraction(sum(tokens), len(tokens))), abs=1e-12)


def test_a_mean_of_means_would_be_another_number() -> None:
    scales = run(2, lambda rank, total: loss_scale([3, 1][rank], total))
    assert scales == [0.5, 0.5]


def test_a_step_without_any_token_has_no_gradient() -> None:
    assert run(2, lambda rank, total: loss_scale(0, total)) == [0.0, 0.0]


@pytest.mark.parametrize("tokens", [-1, math.nan, math.inf])
def test_a_count_that_is_none_is_refused(tokens: float) -> None:
    with pytest.raises(ValueError, match="number of tokens in the loss"):
        loss_scale(tokens, list)
