from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from supernode_slurm.catalogue import UnknownName
from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities, flagscale, megatron, names
from supernode_slurm.frameworks.chunks import chunks
from supernode_slurm.plan import Mesh, Pipeline, Plan, Stage
from supernode_slurm.planner import plan_mixed, plan_uniform
from tests.test_planner import offer, workload


def across(vendor: str = "huawei") -> Plan:
    """Return 16 devices as two meshes: TP 2 x DP 4, then TP 4 x DP 2."""
    second = replace(offer("ascend910b2", 1).group, vendor=vendor)
    return Plan(
        model="own",
        global_batch=64,
        sequence=4096,
        framework="flagscale",
        groups=(offer("h100", 1).group, second),
        pipelines=(
            Pipeline(
                64,
                (
                    Mesh(0, 2, 1, 4, 1, sequence_parallel=True, zero=1),
                    Mesh(1, 4, 1, 2, 2, sequence_parallel=True, zero=1),
                ),
                (Stage(0, 24, embedding=True), Stage(1, 8, head=True)),
            ),
        ),
    )


def with_pipeline(plan: Plan, **change: object) -> Plan:
    return replace(plan, pipelines=(replace(plan.pipelines[0], **change),))  # type: ignore[arg-type]


def with_meshes(plan: Plan, *changes: dict[str, object]) -> Plan:
    pairs = zip(plan.pipelines[0].meshes, changes, strict=True)
    meshes = tuple(replace(mesh, **change) for mesh, change in pairs)  # type: ignore[arg-type]
    return with_pipeline(plan, meshes=meshes)


def test_every_framework_has_its_row() -> None:
    assert set(names()) == {
        "megatron",
        "mindspeed",
        "flagscale",
        "deepspeed",
        "hf",
        "hf-fsdp",
        "llamafactory",
        "swift",
        "torchtitan",
        "torch",
    }
    assert all(capabilities(name).name == name for name in names())
    assert [name for name in names() if capabilities(name).mixed_vendors] == ["flagscale"]
    assert [name for name in names() if capabilities(name).uneven_samples] == ["torch"]
    with pytest.raises(UnknownName, match="did you mean megatron"):
        capabilities("megatrn")


def test_flagscales_layout_lists_the_meshes() -> None:
    found = yaml.safe_load(flagscale.layout(across()))
    assert found["system"]["hetero"] == {
        "enable_hetero": True,
        "hetero_device_types": ["h100", "ascend910b2"],
        "hetero_current_device_type": "h100",
        "hetero_process_meshes": [2, 1, 1, 4, 1, 4, 1, 1, 2, 1],
        "hetero_pipeline_layer_split": [24, 8],
        "hetero_use_cpu_communication": True,
    }
    assert found["system"]["pipeline_model_parallel_size"] == 2
    assert found["system"]["use_distributed_optimizer"] is True
    assert "distributed_backend" not in found["system"]
    assert found["model"] == {
        "num_layers": 32,
        "seq_length": 4096,
        "micro_batch_size": 1,
        "global_batch_size": 64,
        "untie_embeddings_and_output_weights": True,
    }


@pytest.mark.parametrize(("model", "untied"), [("qwen2.5-3b", False), ("llama-3-8b", True)])
def test_flagscale_is_told_whether_tables_are_tied(model: str, untied: bool) -> None:
    # Its default is tied, whatever the model.
    asked = replace(workload(model, 64), framework="flagscale")
    plans = plan_mixed(asked, [offer("a100", 1), offer("h100", 1)], capabilities("flagscale"))
    for plan in plans:
        told = yaml.safe_load(flagscale.layout(plan))["model"]
        assert told["untie_embeddings_and_output_weights"] is untied


def test_vendors_that_flagcx_joins_need_no_detour_over_the_host() -> None:
    found = yaml.safe_load(flagscale.layout(across("cambricon")))["system"]
    assert found["distributed_backend"] == "flagcx"
    assert found["hetero"]["hetero_use_cpu_communication"] is False


def test_every_plan_across_meshes_is_one_that_flagscale_accepts() -> None:
    offers = [offer("h100", 4), offer("ascend910c", 1, 16, 48)]
    asked = replace(workload("qwen2.5-32b", 256), framework="flagscale")
    for plan in plan_mixed(asked, offers, capabilities("flagscale")):
        found = yaml.safe_load(flagscale.layout(plan))["system"]
        meshes = found["hetero"]["hetero_process_meshes"]
        assert len(meshes) == 10
        assert meshes[4] + meshes[9] == found["pipeline_model_parallel_size"]
        assert sum(found["hetero"]["hetero_pipeline_layer_split"]) == 64


@pytest.mark.parametrize(
    ("plan", "rule"),
    [
        (with_meshes(across(), {}, {"micro_batch": 1}), "dp x micro-batch must be 4, got 2 x 1"),
        (with_meshes(across(), {"cp": 2, "dp": 2, "micro_batch": 2}, {}), "context parallelism"),
        (with_meshes(across(), {"ep": 2}, {}), "on all meshes or on none"),
        (with_meshes(across(), {"tp": 4}, {}), "has 16 devices, its group 8"),
        (with_meshes(across(), {"recompute": "selective"}, {}), "must recompute alike"),
        (with_meshes(across(), {"recompute_layers": 2}, {}), "all of their layers or none"),
        (with_meshes(across(), {"zero": 3}, {}), "ZeRO-1, no further"),
        (with_meshes(across(), {"etp": 16}, {}), "no multiple of etp x ep x pp"),
        (with_pipeline(across(), virtual_stages=2), "virtual stages must be 1"),
        (with_pipeline(across(), stages=(Stage(1, 8), Stage(0, 24))), "consecutive stages"),
        (with_pipeline(across(), stages=(Stage(0, 32), Stage(1, 0))), "must hold a layer"),
        (replace(across(), global_batch=66), "must be a multiple of 4"),
        (replace(across(), tied_embeddings=True), "equal tp and dp on the first and last"),
        (replace(across(), pipelines=across().pipelines * 2), "the plan has 2"),
    ],
)
def test_a_broken_rule_of_flagscale_is_named(plan: Plan, rule: str) -> None:
    with pytest.raises(PlanError, match=rule):
        flagscale.layout(plan)


def test_a_device_type_that_comes_twice_must_be_contiguous() -> None:
    plan = across()
    first, second = plan.pipelines[0].meshes
    torn = replace(
        plan,
        groups=(*plan.groups, plan.groups[0]),
        pipelines=(
            Pipeline(
                64,
                (first, second, replace(first, group=2)),
                (Stage(0, 8), Stage(1, 8), Stage(2, 16)),
            ),
        ),
    )
    with pytest.raises(PlanError, match="must follow each other"):
        flagscale.layout(torn)


def even(recompute: str = "none") -> Plan:
    return Plan(
        model="own",
        global_batch=128,
        sequence=4096,
        framework="megatron",
        groups=(offer("h100", 4).group,),
        pipelines=(
            Pipeline(
                128,
                (Mesh(0, 4, 4, 2, 1, sequence_parallel=True, recompute=recompute, zero=1),),
                tuple(Stage(0, 8, index == 0, index == 3) for index in range(4)),
            ),
        ),
    )


def test_megatrons_arguments_of_an_even_plan() -> None:
    assert megatron.arguments(even()) == [
        "--tensor-model-parallel-size",
        "4",
        "--pipeline-model-parallel-size",
        "4",
        "--micro-batch-size",
        "1",
        "--global-batch-size",
        "128",
        "--bf16",
        "--context-parallel-size",
        "1",
        "--sequence-parallel",
        "--overlap-grad-reduce",
        "--use-distributed-optimizer",
        "--overlap-param-gather",
    ]


def test_megatrons_recomputation() -> None:
    full = megatron.arguments(even("full"))
    assert full[full.index("--recompute-method") + 1] == "uniform"
    selective = megatron.arguments(even("selective"))
    assert selective[selective.index("--recompute-modules") + 1] == "mlp"


def test_uneven_stages_are_spelled_out() -> None:
    stages = tuple(Stage(0, count) for count in (6, 10, 10, 6))
    plan = with_pipeline(even(), stages=stages)
    assert megatron.arguments(plan)[-2:] == [
        "--pipeline-model-parallel-layout",
        "Et*6|t*10|t*10|t*6,L",
    ]
    on_ascend = replace(plan, framework="mindspeed")
    assert megatron.arguments(on_ascend)[-2:] == ["--num-layer-list", "6,10,10,6"]


def test_what_megatron_cannot_say_is_refused() -> None:
    with pytest.raises(PlanError, match="meshes differ; plan for flagscale"):
        megatron.arguments(across())
    with pytest.raises(PlanError, match="the plan has 2"):
        megatron.arguments(replace(even(), pipelines=even().pipelines * 2))
    with pytest.raises(PlanError, match="ZeRO-3"):
        megatron.arguments(with_meshes(even(), {"zero": 3}))
    with pytest.raises(PlanError, match="no multiple of micro-batch x DP = 3 x 2"):
        megatron.arguments(with_meshes(even(), {"micro_batch": 3}))


def test_every_plan_for_megatron_has_its_arguments() -> None:
    plans = plan_uniform(workload("llama-3-70b", 512), offer("h100", 8), capabilities("megatron"))
    for plan in plans:
        given = megatron.arguments(plan)
        mesh = plan.pipelines[0].meshes[0]
        assert given[given.index("--tensor-model-parallel-size") + 1] == str(mesh.tp)
        uneven = len({chunk.layers for chunk in chunks(plan.pipelines[0])}) > 1
        assert ("--pipeline-model-parallel-layout" in given) == uneven
