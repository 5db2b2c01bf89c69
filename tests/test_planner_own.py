"""A layout of the user's own is refused exactly where the search does not have it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm.catalogue import Model
from supernode_slurm.frameworks import capabilities, names
from supernode_slurm.planner import (
    RECOMPUTE,
    Capabilities,
    Fixed,
    Layout,
    Offer,
    Workload,
    examine,
    plan_uniform,
    predict,
    rejected,
)
from supernode_slurm.planner.build import layers_of_stages
from supernode_slurm.planner.constants import DEFAULT
from supernode_slurm.planner.costs import usable_gib
from tests.test_planner import offer, workload
from tests.test_planner_search import A100, DEEP, DENSE, MIXED, key_of, rows, sized

sizes = st.sampled_from([1, 1, 1, 2, 4, 8])
layouts = st.builds(
    lambda tp, cp, ep, etp, pp, dp, virtual, micro, layers, zero, shard, recompute: Layout(
        tp,
        dp,
        micro,
        layers_of_stages(layers, pp),
        recompute,
        zero,
        sequence_parallel=tp > 1,
        virtual_stages=virtual,
        cp=cp,
        ep=ep,
        etp=etp,
        shard=shard,
    ),
    tp=sizes,
    cp=sizes,
    ep=sizes,
    etp=sizes,
    pp=st.sampled_from([1, 2, 3, 4]),
    dp=sizes,
    virtual=st.sampled_from([1, 1, 2, 3]),
    micro=st.sampled_from([1, 1, 2, 3, 6]),
    layers=st.sampled_from([6, 7]),
    zero=st.sampled_from([0, 1, 1, 2, 3, 3]),
    shard=st.sampled_from([0, 0, 0, 2, 3]),
    recompute=st.sampled_from(RECOMPUTE),
)


def problems(asked: Workload, given_: Offer, layout: Layout, able: Capabilities) -> tuple[str, ...]:
    return examine(asked, given_, layout, able).problems


def searched(layout: Layout, asked: Workload, able: Capabilities) -> Layout:
    """Return the layout that the search has in place of one that it says it leaves out.

    Those are Megatron's hybrid of ZeRO-1, a hybrid of one copy, plain replicas beside ZeRO-1, and
    ZeRO on a single copy.
    """
    mixture = asked.model.mixture is not None
    copies = layout.dp * layout.cp * (layout.tp if mixture and able.expert_tensor else 1)
    zero = layout.zero
    if copies == 1:
        zero = 0
    elif zero == 0 and 1 in able.zero:
        zero = 1
    shard = layout.shard if layout.shard < layout.dp and zero != 1 else 0
    return replace(layout, zero=zero, shard=shard)


@given(
    layout=layouts,
    model=st.sampled_from([DENSE, MIXED, DEEP]),
    framework=st.sampled_from(names()),
    nodes=st.sampled_from([1, 2, 4]),
    sequence=st.sampled_from([1024, 1000, 1028]),
    kv_heads=st.sampled_from([2, 8]),
)
@settings(max_examples=600)
def test_what_the_search_has_runs_and_nothing_else(
    layout: Layout, model: Model, framework: str, nodes: int, sequence: int, kv_heads: int
) -> None:
    dims: Model = replace(model, layers=sum(layout.layers), kv_heads=kv_heads)
    asked, able = Workload(dims, sequence, 24, framework=framework), capabilities(framework)
    if dims.mixture is None:
        layout = replace(layout, ep=1, etp=1)
    devices = layout.tp * layout.cp * layout.pp * layout.dp
    nodes = nodes if devices % nodes == 0 else 1
    given_ = sized(offer("a100", nodes, devices // nodes), 1e6)
    found = problems(asked, given_, layout, able)
    other = searched(layout, asked, able)
    if other != layout:
        # What is left out is legal, or has a reason of its own.
        assert not found or layout.shard or problems(asked, given_, other, able)
        found = problems(asked, given_, other, able)
    uneven = len(set(layout.layers)) > 1 and layout.virtual_stages > 1
    legal = key_of(other) in set(rows(asked, given_, able))
    split = (able.uneven_stages or len(set(layout.layers)) == 1) and (
        able.uneven_virtual or not uneven
    )
    assert (not found) == (legal and split), found


def test_torch_has_a_micro_batch_for_each_stage() -> None:
    asked = Workload(DENSE, 1024, 8, framework="torchtitan", fixed=Fixed(pp=4, virtual_stages=1))
    able = capabilities("torchtitan")
    for plan in plan_uniform(asked, A100, able):
        (mesh,) = plan.pipelines[0].meshes
        assert plan.global_batch // (mesh.dp * mesh.micro_batch) >= 4
    layout = Layout(1, 2, 2, (1, 2, 2, 1), "none", 3)
    (problem,) = problems(asked, A100, layout, able)
    assert problem == "torchtitan runs 4 stages with 4 micro-batches or more, not with 2"
    asked = replace(asked, framework="megatron")
    assert not problems(asked, A100, replace(layout, zero=1), capabilities("megatron"))


@pytest.mark.parametrize("framework", ["megatron", "mindspeed", "torchtitan", "deepspeed", "torch"])
@pytest.mark.parametrize("model", [DENSE, MIXED])
def test_no_plan_of_the_search_has_a_problem(framework: str, model: Model) -> None:
    asked = Workload(model, 1024, 16, framework=framework)
    able = capabilities(framework)
    for plan in plan_uniform(asked, A100, able):
        (pipeline,) = plan.pipelines
        (mesh,) = pipeline.meshes
        layout = Layout(
            mesh.tp,
            mesh.dp,
            mesh.micro_batch,
            tuple(stage.layers for stage in pipeline.stages),
            mesh.recompute,
            mesh.zero,
            mesh.sequence_parallel,
            pipeline.virtual_stages,
            mesh.cp,
            mesh.ep,
            mesh.etp,
            mesh.shard,
            mesh.recompute_layers,
        )
        found = examine(asked, A100, layout, able)
        assert found.problems == ()
        assert found.predicted == plan.predicted


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dp": 4}, "tp x cp x pp x dp is 8, there are 16 devices"),
        ({"layers": (30,)}, "the stages hold 30 layers, meta-llama/Meta-Llama-3-8B has 32"),
        ({"tp": 16, "dp": 1}, "tp 16 leaves the fabric of 8 devices"),
        ({"micro_batch": 3}, "256 is no multiple of dp x micro-batch, 24"),
        ({"cp": 3, "dp": 8}, "a sequence of 4096 is no multiple of 6 for cp 3"),
        ({"ep": 2}, "has no experts for ep 2"),
        ({"zero": 3}, "megatron has no zero 3"),
        ({"virtual_stages": 2}, "2 virtual stages are of one stage, not of two or more"),
    ],
)
def test_a_problem_says_what_stands_in_the_way(change: dict[str, object], reason: str) -> None:
    layout = replace(Layout(2, 8, 1, (32,)), **change)  # type: ignore[arg-type]
    found = problems(workload(), offer("h100", 2), layout, capabilities("megatron"))
    assert any(reason in problem for problem in found), found


def test_a_layout_that_does_not_fit_says_by_how_much() -> None:
    asked, given_ = workload("llama-3-70b", 64), offer("h100", 2)
    layout = Layout(8, 2, 1, (80,))
    (problem,) = problems(asked, given_, layout, capabilities("megatron"))
    need = predict(asked, given_, layout).memory_gib[0]
    assert problem == f"needs {need:.1f} GiB, {usable_gib(given_):.1f} there"


def test_near_misses_are_faster_and_do_not_fit() -> None:
    asked, able = Workload(DENSE, 1024, 32), capabilities("megatron")
    tight = sized(A100, 4)
    best = plan_uniform(asked, tight, able)[0]
    missed = rejected(asked, tight, able)
    assert missed
    assert best.predicted is not None
    assert missed[0].predicted.step_time_s < best.predicted.step_time_s
    for item in missed:
        assert usable_gib(tight) < item.predicted.memory_gib[0] <= 2 * usable_gib(tight)
        assert item.why in problems(asked, tight, item.layout, able)
    assert rejected(asked, A100, able) == ()


def test_some_layers_recomputed_lie_between_none_and_all() -> None:
    asked, able = Workload(DENSE, 1024, 16), capabilities("megatron")
    deep = replace(asked, model=replace(DENSE, layers=16))
    plain = Layout(1, 4, 2, (8, 8), "none")
    found = [
        examine(deep, A100, replace(plain, recompute=kind, recompute_layers=some), able).predicted
        for kind, some in (("none", 0), ("full", 2), ("full", 4), ("full", 6), ("full", 0))
    ]
    times = [item.step_time_s for item in found]
    assert times == sorted(set(times))
    memory = [item.memory_gib[0] for item in found[1:]]
    assert memory == sorted(set(memory), reverse=True)
    # Two of eight layers cost a quarter of what all of them cost.
    assert times[1] - times[0] == pytest.approx((times[4] - times[0]) / 4)


def test_some_layers_are_recomputed_where_none_do_not_fit() -> None:
    asked, able = Workload(replace(DENSE, layers=16), 1024, 16), capabilities("megatron")
    fixed = Fixed(tp=1, pp=2, cp=1, micro_batch=2, virtual_stages=1, zero=1)
    asked = replace(asked, fixed=fixed)
    need = [
        examine(asked, A100, Layout(1, 4, 2, (8, 8), again), able).predicted.memory_gib[0]
        for again in ("selective", "full")
    ]
    tight = replace(
        A100, accelerator=replace(A100.accelerator, card_memory_gib=sum(need) / 2 / DEFAULT.usable)
    )
    best = plan_uniform(asked, tight, able)[0]
    (mesh,) = best.pipelines[0].meshes
    assert mesh.recompute == "full"
    assert 0 < mesh.recompute_layers < 8
    whole = plan_uniform(asked, tight, replace(able, recompute_some=False))[0]
    assert whole.predicted is not None
    assert best.predicted is not None
    assert best.predicted.step_time_s < whole.predicted.step_time_s


@pytest.mark.parametrize(
    ("framework", "some", "why"),
    [
        ("deepspeed", 2, "deepspeed has no recomputation of some layers"),
        ("megatron", 9, "no stage has 9 layers to recompute, but"),
    ],
)
def test_some_layers_that_cannot_be_recomputed(framework: str, some: int, why: str) -> None:
    layout = Layout(1, 8, 1, (DENSE.layers,), "full", zero=1, recompute_layers=some)
    found = examine(Workload(DENSE, 1024, 16), A100, layout, capabilities(framework))
    assert any(why in problem for problem in found.problems)
