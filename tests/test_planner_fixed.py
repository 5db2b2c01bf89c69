from __future__ import annotations

from dataclasses import replace

import pytest

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.plan import Plan
from supernode_slurm.planner import Fixed, plan_mixed, plan_strategy, plan_uniform
from tests.test_planner import offer, step_s, uniform, workload


def with_fixed(fixed: Fixed, batch: int = 256, framework: str = "megatron") -> tuple[Plan, ...]:
    asked = replace(workload(batch=batch), fixed=fixed)
    return uniform(asked, offer("h100", 2), framework)


@pytest.mark.parametrize(
    "fixed",
    [
        Fixed(tp=4),
        Fixed(pp=2, micro_batch=2),
        Fixed(dp=2, recompute="full"),
        Fixed(tp=2, pp=2, dp=4, micro_batch=1, recompute="selective", zero=0),
        Fixed(cp=2, pp=4, virtual_stages=2),
    ],
)
def test_fixed_sizes_are_kept_and_the_rest_is_searched(fixed: Fixed) -> None:
    found = with_fixed(fixed)
    for plan in found:
        mesh = plan.pipelines[0].meshes[0]
        for name in ("tp", "cp", "pp", "dp", "micro_batch", "recompute", "zero"):
            assert getattr(fixed, name) in (None, getattr(mesh, name))
        assert fixed.virtual_stages in (None, plan.pipelines[0].virtual_stages)
    assert found


def test_what_is_left_open_is_as_fast_as_it_can_be() -> None:
    free = with_fixed(Fixed())
    for tp in (1, 2, 4, 8):
        of_size = [plan for plan in free if plan.pipelines[0].meshes[0].tp == tp]
        assert with_fixed(Fixed(tp=tp))[: len(of_size)] == tuple(of_size)


def test_a_single_replica_keeps_the_zero_stage_that_is_fixed() -> None:
    plans = with_fixed(Fixed(dp=1, zero=1))
    assert {plan.pipelines[0].meshes[0].zero for plan in plans} == {1}


@pytest.mark.parametrize(
    ("fixed", "reason"),
    [
        (Fixed(tp=3), "tp 3 fixed: megatron can have tp 1, 2, 4, 8 here; left open, the fastest"),
        (Fixed(tp=8, pp=3), "tp 8, pp 3 fixed: megatron can have pp 1, 2, 4, 8, 16 here"),
        (Fixed(tp=8, pp=4), "tp 8, pp 4 fixed: tp x cp x pp x dp must be its 16 devices"),
        (Fixed(zero=3), "zero 3 fixed: megatron can have zero 0, 1 here"),
        (Fixed(recompute="some"), "can have recompute none, selective, full here"),
        (Fixed(cp=3), "can have cp 1, 2, 4, 8, 16 here"),
        (Fixed(ep=2), "can have ep 1 here"),
        (
            Fixed(pp=16, virtual_stages=3),
            "cannot have virtual-stages 3 beside the other sizes",
        ),
        (Fixed(micro_batch=7), "256 is no multiple of dp x micro-batch"),
        (
            Fixed(micro_batch=256, recompute="none"),
            r"recompute none fixed: they need \d+\.\d GiB per device, a training process gets 77",
        ),
    ],
)
def test_impossible_sizes_are_named_with_what_would_run(fixed: Fixed, reason: str) -> None:
    with pytest.raises(PlanError, match=reason) as caught:
        with_fixed(fixed)
    assert "left open, the fastest is tp" in str(caught.value)


def test_sizes_are_not_blamed_where_nothing_fits_anyway() -> None:
    asked = replace(workload("llama-3-70b", 512), fixed=Fixed(tp=8))
    with pytest.raises(PlanError, match="70B does not fit on 8 x h100") as caught:
        uniform(asked, offer("h100", 1))
    assert "fixed" not in str(caught.value)


MIXED = [offer("a100", 1), offer("h100", 1)]


def over_kinds(strategy: str, framework: str, fixed: Fixed, model: str = "llama-3-8b") -> Plan:
    asked = replace(workload(model, 96), framework=framework, fixed=fixed)
    return plan_strategy(strategy, asked, MIXED, capabilities(framework))[0]


@pytest.mark.parametrize(
    "fixed",
    [
        *(Fixed(tp=2), Fixed(pp=4), Fixed(micro_batch=3), Fixed(recompute="full")),
        *(Fixed(zero=0, dp=4), Fixed(virtual_stages=1), Fixed(virtual_stages=4, pp=4)),
    ],
)
def test_stages_over_several_kinds_keep_what_is_fixed(fixed: Fixed) -> None:
    plan = over_kinds("mixed", "megatron", fixed)
    (pipeline,) = plan.pipelines
    assert len(pipeline.meshes) == 2
    assert fixed.pp in (None, len(pipeline.stages))
    assert fixed.virtual_stages in (None, pipeline.virtual_stages)
    for mesh in pipeline.meshes:
        for name in ("tp", "dp", "micro_batch", "recompute", "zero"):
            assert getattr(fixed, name) in (None, getattr(mesh, name))
    free = over_kinds("mixed", "megatron", Fixed())
    assert step_s(free) <= step_s(plan)
    # Sizes that the best plan has anyway change nothing.
    mesh = free.pipelines[0].meshes[0]
    same = Fixed(tp=mesh.tp, micro_batch=mesh.micro_batch, recompute=mesh.recompute)
    assert over_kinds("mixed", "megatron", same) == free


@pytest.mark.parametrize("strategy", ["mixed", "dynamic"])
def test_replicas_of_several_kinds_keep_what_is_fixed(strategy: str) -> None:
    plan = over_kinds(strategy, "torch", Fixed(micro_batch=2, recompute="full", zero=1))
    for pipeline in plan.pipelines:
        (mesh,) = pipeline.meshes
        assert (mesh.micro_batch, mesh.recompute, mesh.zero) == (2, "full", 1)
    assert over_kinds("hierarchical", "torch", Fixed(zero=3)).pipelines[0].meshes[0].zero == 3


@pytest.mark.parametrize(
    "strategy, framework, fixed, reason",
    [
        ("mixed", "megatron", Fixed(cp=2), "cp 2 is not planned of a pipeline over several kinds"),
        (
            "mixed",
            "flagscale",
            Fixed(virtual_stages=2),
            "virtual-stages 2 is not planned .* has none",
        ),
        ("mixed", "megatron", Fixed(virtual_stages=3), "equal, and 3 does not divide 32 layers"),
        ("mixed", "megatron", Fixed(virtual_stages=32), "megatron has no layout for 8 x a100"),
        ("mixed", "megatron", Fixed(zero=3), "zero 3 is not planned .* only 1 or less"),
        ("mixed", "megatron", Fixed(tp=16), "megatron has no layout for 8 x a100"),
        ("mixed", "torch", Fixed(tp=2), "tp 2 is not planned of replicas of one device each"),
        ("mixed", "torch", Fixed(zero=3), "zero 3 is not planned of replicas of unlike speed"),
        ("dynamic", "torch", Fixed(dp=8), "dp 8 is not planned of replicas .* only 16"),
        ("hierarchical", "torch", Fixed(micro_batch=2), "take zero 3 and micro-batches of unlike"),
    ],
)
def test_sizes_that_no_mix_can_have_are_named_with_what_would_run(
    strategy: str, framework: str, fixed: Fixed, reason: str
) -> None:
    with pytest.raises(PlanError, match=reason) as caught:
        over_kinds(strategy, framework, fixed)
    assert f"with {fixed.words()} fixed: " in str(caught.value)
    assert "left open, the fastest is tp " in str(caught.value)


def test_one_kind_among_several_strategies_keeps_what_is_fixed() -> None:
    asked = replace(workload(), framework="flagscale", fixed=Fixed(tp=4, micro_batch=1))
    alone = plan_mixed(asked, MIXED[1:], capabilities("flagscale"))
    assert alone == plan_uniform(asked, MIXED[1], capabilities("flagscale"))
