from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.planner.split import StageLoad, split_layers, split_samples

loads = st.builds(
    StageLoad,
    fixed_s=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    layer_s=st.sampled_from([0.25, 1.0, 1.5, 2.0, 7.0]),
    most=st.integers(0, 9),
)


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    for split in product(range(1, total + 1), repeat=parts):
        if sum(split) == total:
            yield split


def pipeline_s(split: tuple[int, ...], stages: list[StageLoad], micro_batches: int) -> float:
    times = [stage.time_s(count) for stage, count in zip(stages, split, strict=True)]
    return (micro_batches - 1) * max(times) + sum(times)


@given(
    total=st.integers(1, 9),
    stages=st.lists(loads, min_size=1, max_size=4),
    micro_batches=st.sampled_from([1, 2, 3, 8, 50]),
)
def test_no_other_split_of_layers_is_a_faster_pipeline(
    total: int, stages: list[StageLoad], micro_batches: int
) -> None:
    legal = [
        split
        for split in compositions(total, len(stages))
        if all(count <= stage.most for count, stage in zip(split, stages, strict=True))
    ]
    found = split_layers(total, stages, micro_batches)
    if not legal:
        assert found is None
        return
    assert found in legal
    # Exact, because all numbers are binary fractions.
    fastest = min(pipeline_s(split, stages, micro_batches) for split in legal)
    assert pipeline_s(found, stages, micro_batches) == fastest


def rising(steps: list[int]) -> Callable[[int], float]:
    """Return a function that never falls, with flat stretches."""
    return lambda samples: float(
        sum(steps[index % len(steps)] for index in range(samples)) if samples else 0
    )


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
    replicas = [count for count, _ in kinds]
    times = [rising(steps) for _, steps in kinds]

    def slowest(samples: tuple[int, ...]) -> float:
        pairs = zip(samples, replicas, times, strict=True)
        return max(time_s(-(-share // count)) for share, count, time_s in pairs)

    legal = [
        split
        for split in compositions(total, len(kinds))
        if all(share >= count for share, count in zip(split, replicas, strict=True))
    ]
    found = split_samples(total, replicas, times)
    if not legal:
        assert found is None
        return
    assert found in legal
    assert slowest(found) == min(map(slowest, legal))


def test_a_million_samples_are_dealt_in_few_steps() -> None:
    calls = []

    def time_s(samples: int) -> float:
        calls.append(samples)
        return 3.0 * samples

    assert split_samples(1_000_000, [4, 4], [time_s, lambda samples: samples]) == (250_000, 750_000)
    assert len(calls) < 2000


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
