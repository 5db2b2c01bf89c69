from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.planner.split import StageLoad, split_layers, split_samples
from tests.brute import layers_over, pipeline_s, rising, samples_over, slowest_s

loads = st.builds(
    StageLoad,
    fixed_s=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    layer_s=st.sampled_from([0.25, 1.0, 1.5, 2.0, 7.0]),
    most=st.integers(0, 9),
)


@given(
    total=st.integers(1, 9),
    stages=st.lists(loads, min_size=1, max_size=4),
    micro_batches=st.sampled_from([1, 2, 3, 8, 50]),
)
def test_no_other_split_of_layers_is_a_faster_pipeline(
    total: int, stages: list[StageLoad], micro_batches: int
) -> None:
    legal = layers_over(stages, total)
    found = split_layers(total, stages, micro_batches)
    if not legal:
        assert found is None
        return
    assert found in legal
    # Exact, because all numbers are binary fractions.
    fastest = min(pipeline_s(split, stages, micro_batches) for split in legal)
    assert pipeline_s(found, stages, micro_batches) == fastest


@given(
    total=st.integers(1, 14),
    kinds=st.lists(
        st.tuples(st.integers(1, 3), st.lists(st.integers(0, 4), min_size=1, max_size=3)),
        min_size=1,
        max_size=3,
    ),
)
def test_no_split_of_samples_has_a_faster_slowest_replica(
    total: int, kinds: list[tuple[int, list[int]]]
) -> None:
    timed = [(count, rising(steps)) for count, steps in kinds]
    legal = samples_over(timed, total)
    found = split_samples(total, [count for count, _ in timed], [time for _, time in timed])
    if not legal:
        assert found is None
        return
    assert found in legal
    assert slowest_s(found, timed) == min(slowest_s(split, timed) for split in legal)


def test_a_million_samples_are_dealt_in_few_steps() -> None:
    calls = []

    def time_s(samples: int) -> float:
        calls.append(samples)
        return 3.0 * samples

    assert split_samples(1_000_000, [4, 4], [time_s, lambda samples: samples]) == (250_000, 750_000)
    assert len(calls) < 2000


def test_equally_fast_stages_hold_as_many_layers() -> None:
    stages = [StageLoad(0, 1.0, 9)] * 4 + [StageLoad(0, 3.0, 5)]
    assert split_layers(13, stages, 2) == (3, 3, 3, 3, 1)
    assert split_layers(11, stages, 1) == (3, 3, 2, 2, 1)


def test_layers_follow_the_speed_of_the_stages() -> None:
    stages = [StageLoad(0, 3, 99), StageLoad(0, 1, 99)]
    assert split_layers(32, stages, 100) == (8, 24)


def test_few_micro_batches_spare_the_slow_stage() -> None:
    # One micro-batch passes each stage once: only the sum counts.
    stages = [StageLoad(0, 3, 99), StageLoad(0, 1, 99)]
    assert split_layers(32, stages, 1) == (1, 31)


def test_a_full_stage_passes_its_layers_on() -> None:
    stages = [StageLoad(0, 3, 99), StageLoad(0, 1, 20)]
    assert split_layers(32, stages, 100) == (12, 20)


def test_samples_follow_the_speed_of_the_replicas() -> None:
    # Two replicas at a third of the speed of the other two.
    assert split_samples(32, [2, 2], [lambda b: 3.0 * b, lambda b: 1.0 * b]) == (8, 24)
    assert split_samples(33, [2, 2], [lambda b: 3.0 * b, lambda b: 1.0 * b]) in ((8, 25), (9, 24))
