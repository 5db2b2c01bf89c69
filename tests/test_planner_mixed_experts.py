"""Mixtures of experts over several kinds of cards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supernode_slurm.catalogue import find_model
from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities, emit
from supernode_slurm.frameworks.chunks import chunks
from supernode_slurm.plan import Plan
from supernode_slurm.planner import Offer, Workload, ideal_rate, plan_mixed, plan_strategy
from supernode_slurm.planner.costs import usable_gib
from supernode_slurm.planner.trust import UNSEEN, expected_error
from tests.test_planner import offer, step_s, workload

OFFERS = [offer("h100", 4), offer("a100", 4)]
GIANTS = [offer("h100", 32), offer("a100", 96)]


def mixed(model: str, framework: str, offers: list[Offer], batch: int = 256) -> Plan:
    asked = replace(workload(model, batch), framework=framework)
    return plan_mixed(asked, offers, capabilities(framework))[0]


def test_the_experts_of_all_stages_are_spread_alike_where_the_framework_says_one_size() -> None:
    plan = mixed("mixtral-8x7b", "megatron", OFFERS)
    (pipeline,) = plan.pipelines
    assert len({(mesh.tp, mesh.dp, mesh.ep, mesh.etp) for mesh in pipeline.meshes}) == 1
    assert pipeline.meshes[0].ep > 1
    assert sum(stage.layers for stage in pipeline.stages) == 32
    words = " ".join(emit(plan).arguments)
    assert f"--expert-model-parallel-size {pipeline.meshes[0].ep} " in words
    # A chunk of each mesh in turn, as often as there are virtual stages.
    assert pipeline.virtual_stages > 1 and pipeline.schedule == "interleaved"
    layout = "|".join(f"t*{chunk.layers}" for chunk in chunks(pipeline))
    assert f"--pipeline-model-parallel-layout E{layout},L" in words


def test_the_layers_without_experts_are_in_the_first_stage() -> None:
    plan = mixed("deepseek-v3", "megatron", GIANTS, 1024)
    stages = plan.pipelines[0].stages
    assert sum(stage.layers for stage in stages) == 61
    mixture = find_model("deepseek-v3").mixture
    assert mixture is not None and mixture.dense_layers == (0, 1, 2)
    assert stages[0].layers > 3
    # 61 layers make no equal chunks.
    assert plan.pipelines[0].virtual_stages == 1
    assert f"t*{stages[-1].layers},m*1,L" in " ".join(emit(plan).arguments)


def test_meshes_of_flagscale_cut_experts_as_the_rest() -> None:
    plan = mixed("mixtral-8x7b", "flagscale", OFFERS)
    meshes = plan.pipelines[0].meshes
    assert all(mesh.ep == 1 and mesh.etp == mesh.tp for mesh in meshes)
    assert "hetero_process_meshes" in emit(plan).files["flagscale.yaml"]
    odd = replace(meshes[0], tp=8, dp=1, micro_batch=meshes[0].micro_batch, etp=1)
    broken = replace(plan.pipelines[0], meshes=(odd, *meshes[1:]))
    with pytest.raises(PlanError, match="etp must be its tp"):
        emit(replace(plan, pipelines=(broken,)))


@pytest.mark.parametrize("framework", ["megatron", "flagscale"])
@pytest.mark.parametrize("model", ["mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite"])
def test_a_mixed_plan_fits_and_stays_below_what_the_cards_can(model: str, framework: str) -> None:
    plan = mixed(model, framework, OFFERS)
    assert plan.predicted is not None
    limits = {item.group.name: usable_gib(item) for item in OFFERS}
    for group, needed in zip(plan.groups, plan.predicted.memory_gib, strict=True):
        assert needed <= limits[group.name]
    asked = replace(workload(model, 256), framework=framework)
    bound = sum(ideal_rate(asked, item, capabilities(framework)) for item in OFFERS)
    assert 256 / step_s(plan) < bound


def test_sharded_replicas_hold_all_experts() -> None:
    asked = replace(workload("deepseek-v2-lite", 256), framework="torch")
    able = capabilities("torch")
    plan = plan_strategy("hierarchical", asked, OFFERS, able)[0]
    fast, slow = plan.pipelines
    assert fast.samples > slow.samples and fast.samples + slow.samples == 256
    assert [stage.layers for stage in fast.stages] == [27]
    assert {mesh.ep for item in plan.pipelines for mesh in item.meshes} == {1}


def test_tables_of_both_ends_that_mtp_shares_need_equal_cuts() -> None:
    plan = mixed("deepseek-v3", "flagscale", GIANTS, 1024)
    meshes = plan.pipelines[0].meshes
    assert (meshes[0].tp, meshes[0].dp) == (meshes[-1].tp, meshes[-1].dp)


def test_no_pipeline_of_torchtitan_predicts_several_tokens() -> None:
    asked = Workload(find_model("deepseek-v3"), 4096, 1024, framework="torchtitan")
    with pytest.raises(PlanError, match="no pipeline for the MTP"):
        plan_mixed(asked, GIANTS, capabilities("torchtitan"))


def test_nothing_was_published_of_mixtures_on_several_kinds() -> None:
    found = expected_error(mixed("mixtral-8x7b", "megatron", OFFERS))
    assert (found.share, found.runs) == (UNSEEN, 0)
    assert found.kind.startswith("mixtures of experts on a100-sxm-80g and h100-sxm")
