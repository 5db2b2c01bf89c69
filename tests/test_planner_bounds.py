from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.planner import bounds, chain, plan_mixed
from supernode_slurm.planner.bounds import PartLoad, bounds_s, ordered_s, rising
from supernode_slurm.planner.split import StageLoad, split_layers
from tests.test_planner import offer, step_s, workload

seconds = st.floats(0.01, 5)
parts = st.builds(
    PartLoad,
    stages=st.integers(1, 3),
    layer_s=seconds,
    fixed_s=seconds,
    embedding_s=seconds,
    head_s=seconds,
)


def bound_s(order: Sequence[PartLoad], layers: int, micro_batches: int) -> float:
    """Return the bound of parts in this order."""
    fixed = np.array([part.fixed_s for part in order])
    fixed[0] += order[0].embedding_s
    fixed[-1] += order[-1].head_s
    return ordered_s(order, fixed[None], layers, micro_batches).item()


def fastest_s(order: tuple[PartLoad, ...], layers: int, micro_batches: int) -> float:
    """Return the step time of the best integer split, memory without end."""
    loads = []
    for place, part in enumerate(order):
        for stage in range(part.stages):
            fixed = part.fixed_s / part.stages
            fixed += part.embedding_s if place == stage == 0 else 0
            last = place == len(order) - 1 and stage == part.stages - 1
            fixed += part.head_s if last else 0
            loads.append(StageLoad(fixed, part.layer_s, layers))
    split = split_layers(layers, loads, micro_batches)
    assert split is not None
    times = [load.time_s(count) for load, count in zip(loads, split, strict=True)]
    return (micro_batches - 1) * max(times) + sum(times)


@given(
    order=st.lists(parts, min_size=2, max_size=3).map(tuple),
    layers=st.integers(9, 40),
    micro_batches=st.sampled_from([1, 2, 9, 100]),
)
def test_no_split_beats_the_bound(
    order: tuple[PartLoad, ...], layers: int, micro_batches: int
) -> None:
    bound = bound_s(order, layers, micro_batches)
    assert bound <= fastest_s(order, layers, micro_batches) * (1 + 1e-9)


def test_the_bound_is_reached_where_layers_divide() -> None:
    order = (PartLoad(2, 1.0, 2.0, 3.0, 0.0), PartLoad(1, 1.0, 1.0, 0.0, 3.0))
    # 3 + 1 + 5 layers, 1 + 8 layers, 3 + 1 + 5 layers: every stage takes 9.
    assert bound_s(order, 18, 10) == fastest_s(order, 18, 10) == 9 * 9 + 27


@example(
    # Where a part would hold less than nothing, the bound of an order is the looser one.
    kinds=[[PartLoad(1, 1.5, 2, 1, 1)], [PartLoad(2, 1, 1, 1, 1)], [PartLoad(2, 0.5, 1, 1, 0.125)]],
    layers=9,
    micro_batches=9,
)
@given(
    kinds=st.lists(st.lists(parts, min_size=1, max_size=3), min_size=2, max_size=3),
    layers=st.integers(9, 40),
    micro_batches=st.sampled_from([1, 2, 9, 100]),
)
def test_no_order_goes_below_the_bound_of_its_parts(
    kinds: list[list[PartLoad]], layers: int, micro_batches: int
) -> None:
    found = bounds_s(kinds, layers, micro_batches)
    for index in product(*(range(len(kind)) for kind in kinds)):
        chosen = [kind[item] for kind, item in zip(kinds, index, strict=True)]
        least = min(fastest_s(order, layers, micro_batches) for order in permutations(chosen))
        assert found[index] <= least * (1 + 1e-9)
        # Of equal ends and hops, the order does not matter, and nothing is given away.
        alike = [[PartLoad(item.stages, item.layer_s, 1, 1, 1)] for item in chosen]
        same = [kind[0] for kind in alike]
        if len({item.layer_s for item in same}) == 1:
            exact = bound_s(same, layers, micro_batches)
            assert bounds_s(alike, layers, micro_batches).item() == pytest.approx(exact)


@pytest.mark.parametrize("few", [1, 7, 1000])
def test_indices_come_in_rising_order_of_their_values(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "FEW", few)
    values = np.random.default_rng(0).integers(0, 50, 400).astype(float)
    order = list(rising(values))
    assert sorted(order) == list(range(400))
    assert list(values[order]) == sorted(values)


def test_cards_without_room_for_a_layer_do_not_hold_the_search_up() -> None:
    # At 128 Ki tokens a layer without recomputation fits nowhere at TP 1.
    asked = workload("llama-3-70b", 8, 131072)
    offers = [offer("a100", 4), offer("h100", 4)]
    search = chain._Search(asked, offers, capabilities("flagscale"))
    taken = list(search.candidates())
    assert search.cramped
    assert taken
    for candidate in taken:
        for part in candidate.parts:
            stage = search._stage(part, False, False, 1)
            assert stage.most >= 1


def test_five_kinds_of_devices_are_refused_with_a_way_out() -> None:
    offers = [offer(name, 1) for name in ("a100", "h100", "h20", "h200", "a800")]
    with pytest.raises(PlanError, match="4 at most; leave out the slowest or the smallest group"):
        plan_mixed(workload("llama-3-8b", 64), offers, capabilities("flagscale"))


@pytest.mark.parametrize("framework", ["flagscale", "megatron"])
def test_a_pipeline_of_four_kinds_is_as_fast_as_any_but_for_what_is_allowed(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = [offer(name, 1, 2) for name in ("a100", "h100", "h20", "v100-sxm-32g")]
    asked = replace(workload("qwen2.5-7b", 8, 1024), framework=framework)
    found = step_s(plan_mixed(asked, offers, capabilities(framework))[0])
    close = chain.CLOSE[4]
    monkeypatch.setattr(chain, "CLOSE", {})
    least = step_s(plan_mixed(asked, offers, capabilities(framework))[0])
    assert least <= found <= least / (1 - close)
    monkeypatch.setattr(chain, "ordered_s", lambda _parts, fixed, *_: np.zeros(len(fixed)))
    assert step_s(plan_mixed(asked, offers, capabilities(framework), keep=1)[0]) == least
