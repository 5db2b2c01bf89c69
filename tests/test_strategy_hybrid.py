"""Sharded replicas of unlike cards: hybrid sharding with uneven samples."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.plan import Plan
from supernode_slurm.planner import Layout, predict
from supernode_slurm.planner.hybrid import _best_deal, hybrid_plans
from supernode_slurm.runtime.rank import part_of
from tests.brute import sharded_deal_s, sharded_kinds
from tests.test_planner import offer, step_s, workload

TORCH = capabilities("torch")


def plans(
    batch: int = 96, model: str = "llama-3-8b", nodes: tuple[int, int] = (1, 1)
) -> list[Plan]:
    asked = replace(workload(model, batch), framework="torch")
    offers = [offer("h100", nodes[0]), offer("a100", nodes[1])]
    return hybrid_plans(asked, offers, TORCH)


def test_every_rank_has_as_many_micro_steps_and_samples_sum_up() -> None:
    for batch in (16, 50, 96, 250):
        for plan in plans(batch, "qwen2.5-7b"):
            parts = [part_of(plan, rank) for rank in range(plan.devices)]
            assert len({part.accumulation for part in parts if part}) == 1
            assert sum(part.samples for part in parts if part) == batch


def test_a_copy_of_the_weights_lies_within_a_node() -> None:
    for plan in plans():
        for pipeline in plan.pipelines:
            (mesh,) = pipeline.meshes
            assert mesh.zero == 3
            assert mesh.shard in (2, 4, 8)
            assert mesh.dp % mesh.shard == 0
    assert {plan.pipelines[0].meshes[0].shard for plan in plans()} <= {2, 4, 8}


def test_it_holds_models_that_no_card_holds_whole() -> None:
    plan = plans(256, "qwen2.5-14b")[0]
    assert plan.predicted is not None
    assert all(gib < 80 for gib in plan.predicted.memory_gib)


def test_two_equal_kinds_cost_what_one_kind_of_both_costs() -> None:
    asked = replace(workload("llama-3-8b", 64), framework="torch")
    whole = offer("h100", 2)
    halves = [replace(offer("h100", 1), group=replace(whole.group, nodes=1)) for _ in range(2)]
    for plan in hybrid_plans(asked, halves, TORCH):
        mesh = plan.pipelines[0].meshes[0]
        layout = Layout(
            1, 16, mesh.micro_batch, (asked.model.layers,), mesh.recompute, 3,
            sequence_parallel=False, shard=mesh.shard,
        )  # fmt: skip
        if 64 % (16 * mesh.micro_batch):
            continue
        assert step_s(plan) == pytest.approx(predict(asked, whole, layout).step_time_s)


@pytest.mark.parametrize("batch", [5, 7, 12, 23])
@pytest.mark.parametrize("second", [2, 3])
def test_no_other_deal_ends_sooner(batch: int, second: int) -> None:
    kinds = sharded_kinds(batch, (2, second))
    deal, least = _best_deal(kinds, batch, 2 + second), sharded_deal_s(kinds, batch)
    if least == math.inf:
        assert deal is None
    else:
        assert deal is not None
        assert deal.end_s == pytest.approx(least)
        assert sum(deal.samples) == batch
        runs = [
            kind.run(samples, deal.steps) for kind, samples in zip(kinds, deal.samples, strict=True)
        ]
        assert max(run.end_s for run in runs) == pytest.approx(deal.end_s)


def test_what_it_cannot_plan_is_refused() -> None:
    asked = replace(workload("llama-3-8b", 96), framework="megatron")
    offers = [offer("h100", 1), offer("a100", 1)]
    with pytest.raises(
        PlanError, match=r"megatron gives groups .* equal samples; --framework torch"
    ):
        hybrid_plans(asked, offers, capabilities("megatron"))
    with pytest.raises(PlanError, match="leaves some of the 16 devices without a sample"):
        plans(12)
    with pytest.raises(PlanError, match="no number above one divides 3 and 8"):
        hybrid_plans(asked, [offer("h100", 1, 3), offer("a100", 1)], TORCH)
    with pytest.raises(PlanError, match="does not fit"):
        plans(96, "llama-3.1-405b")
