"""Context, experts, virtual stages, hybrid sharding and low precision in a framework's words."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import yaml

from supernode_slurm.catalogue import find_model
from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities, emit, names
from supernode_slurm.frameworks.chunks import chunks
from supernode_slurm.plan import DeviceGroup, Mesh, Pipeline, Plan, Stage
from supernode_slurm.planner import PRECISIONS, Workload, plan_mixed
from tests.test_emission import package
from tests.test_planner import offer

MIXTURE = "layers=8,hidden=1024,heads=16,kv-heads=8,vocab=32000,experts=8,topk=2,expert-ffn=2048"
GROUP = DeviceGroup("h100", "h100-sxm", "nvidia", (), "gpu", "n[1-8]", 8, 8)


def plan(
    framework: str, mesh: Mesh, layers: Sequence[int] = (32,), virtual: int = 1, model: str = "own"
) -> Plan:
    """Return a plan of 64 sequences per step on one mesh."""
    last = len(layers) - 1
    stages = tuple(
        Stage(0, count, embedding=index == 0, head=index == last)
        for index, count in enumerate(layers)
    )
    schedule = "interleaved" if virtual > 1 else "1f1b"
    group = replace(GROUP, nodes=1, devices_per_node=mesh.devices)
    pipeline = Pipeline(64, (mesh,), stages, schedule, virtual)
    return Plan(model, 64, 4096, framework, (group,), (pipeline,))


def mesh(framework: str = "megatron", **sizes: int) -> Mesh:
    """Return a mesh with the sharding of a framework."""
    zero = 3 if framework in ("torchtitan", "hf-fsdp") else 1
    whole: dict[str, object] = {"group": 0, "tp": 1, "pp": 1, "dp": 1, "micro_batch": 1}
    whole |= {"zero": zero, "sequence_parallel": sizes.get("tp", 1) > 1} | sizes
    return Mesh(**whole)  # type: ignore[arg-type]


def value(words: Sequence[str], option: str) -> str | None:
    """Return the word after an option, None where it is not given."""
    return words[list(words).index(option) + 1] if option in words else None


def test_megatron_is_told_context_and_experts() -> None:
    words = emit(plan("megatron", mesh(tp=2, cp=2, dp=4, ep=8, etp=1))).arguments
    assert value(words, "--context-parallel-size") == "2"
    assert value(words, "--expert-model-parallel-size") == "8"
    assert value(words, "--expert-tensor-parallel-size") == "1"
    dense = emit(plan("megatron", mesh(tp=8))).arguments
    assert "--expert-tensor-parallel-size" not in dense
    uncut = emit(plan("megatron", mesh(tp=8), layers=(8,), model=MIXTURE)).arguments
    # Megatron's own default is the size of the rest.
    assert value(uncut, "--expert-tensor-parallel-size") == "1"


def test_a_plan_with_parallel_experts_says_how_tokens_must_travel() -> None:
    assert "alltoall" in emit(plan("megatron", mesh(dp=8, ep=8))).notes[0]
    assert emit(plan("megatron", mesh(dp=8))).notes == ()


def test_the_ring_of_context_parallelism_is_named_where_there_are_others() -> None:
    words = emit(plan("mindspeed", mesh(cp=2, dp=4))).arguments
    assert value(words, "--context-parallel-algo") == "megatron_cp_algo"
    assert "--context-parallel-algo" not in emit(plan("megatron", mesh(cp=2, dp=4))).arguments


@pytest.mark.parametrize("framework", ["megatron", "mindspeed", "flagscale"])
def test_even_virtual_stages_are_counted_in_layers(framework: str) -> None:
    words = emit(plan(framework, mesh(pp=4, dp=2), (8,) * 4, 4)).arguments
    assert value(words, "--num-layers-per-virtual-pipeline-stage") == "2"
    assert "--pipeline-model-parallel-layout" not in words


def test_uneven_virtual_stages_are_laid_out_turn_by_turn() -> None:
    words = emit(plan("megatron", mesh(pp=2, dp=4), (5, 5), 2)).arguments
    # The first stage starts with the embedding, the last ends with the head: both with less.
    assert value(words, "--pipeline-model-parallel-layout") == "Et*2|t*3|t*3|t*2,L"
    four = emit(plan("megatron", mesh(pp=4, dp=2), (7, 8, 8, 7), 2)).arguments
    layout = "Et*3|t*4|t*4|t*4|t*4|t*4|t*4|t*3,L"
    assert value(four, "--pipeline-model-parallel-layout") == layout
    assert "--num-layers-per-virtual-pipeline-stage" not in four


def test_prediction_of_more_tokens_stands_before_the_loss() -> None:
    stages = (16, 15, 15, 15)
    found = emit(plan("megatron", mesh(pp=4, dp=2), stages, model="deepseek-v3"))
    layout = value(found.arguments, "--pipeline-model-parallel-layout")
    assert layout == "Et*16|t*15|t*15|t*15,m*1,L"
    assert "--mtp-num-layers 1" in found.notes[-1]


def test_chunks_cover_the_layers_in_order() -> None:
    pipeline = plan("megatron", mesh(pp=3, dp=2), (7, 8, 5), 2).pipelines[0]
    found = chunks(pipeline)
    assert [chunk.first for chunk in found] == [0, 3, 7, 10, 14, 18]
    assert [sum(found[index + turn].layers for turn in (0, 3)) for index in range(3)] == [7, 8, 5]
    assert [chunk.embedding for chunk in found] == [True, *[False] * 5]
    assert [chunk.head for chunk in found] == [*[False] * 5, True]
    with pytest.raises(PlanError, match="stage 2 has 5 layers for 6 virtual stages"):
        chunks(replace(pipeline, virtual_stages=6))


def test_torchtitan_interleaves_the_modules_of_uneven_chunks() -> None:
    words = emit(plan("torchtitan", mesh("torchtitan", pp=2, dp=4), (3, 4), 2)).arguments
    assert value(words, "--parallelism.pipeline_parallel_schedule") == "Interleaved1F1B"
    start = words.index("--parallelism.module_fqns_per_model_part") + 1
    assert words[start : start + 4] == (
        "tok_embeddings,layers.0",
        "layers.1,layers.2",
        "layers.3,layers.4",
        "layers.5,layers.6,norm,lm_head",
    )


def test_torchtitan_is_told_context_experts_and_hybrid_sharding() -> None:
    cut = mesh("torchtitan", tp=2, cp=2, dp=4, shard=2, ep=8)
    words = emit(plan("torchtitan", cut)).arguments
    assert value(words, "--parallelism.data_parallel_replicate_degree") == "2"
    assert value(words, "--parallelism.data_parallel_shard_degree") == "2"
    assert value(words, "--parallelism.context_parallel_degree") == "2"
    assert value(words, "--parallelism.expert_parallel_degree") == "8"
    assert "--training.disable_cuda_graphs" in words
    alone = emit(plan("torchtitan", mesh("torchtitan", dp=8))).arguments
    # A configuration has its own, which the plan's must replace.
    assert value(alone, "--parallelism.expert_parallel_degree") == "1"
    assert "--training.disable_cuda_graphs" not in alone


def test_megatron_shares_the_optimizer_among_some_of_the_replicas() -> None:
    words = emit(plan("megatron", mesh(tp=2, dp=8, shard=2))).arguments
    assert value(words, "--num-distributed-optimizer-instances") == "4"
    for whole in (mesh(tp=2, dp=8), mesh(tp=2, dp=8, shard=8)):
        assert (
            "--num-distributed-optimizer-instances" not in emit(plan("megatron", whole)).arguments
        )


def test_deepspeed_is_told_parallel_experts() -> None:
    found = json.loads(emit(plan("deepspeed", mesh(dp=8, ep=4))).files["deepspeed.json"])
    assert found["expert_parallel"] == {"enabled": True, "autoep_size": 4}
    alone = json.loads(emit(plan("deepspeed", mesh(dp=8))).files["deepspeed.json"])
    assert "expert_parallel" not in alone


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        ("fp8", "--bf16 --fp8-format hybrid --fp8-recipe tensorwise"),
        ("mxfp8", "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8"),
        ("nvfp4", "--bf16 --fp4-format e2m1 --fp4-recipe nvfp4"),
    ],
)
def test_low_precision_is_a_format_and_a_recipe(precision: str, words: str) -> None:
    found = emit(replace(plan("megatron", mesh(dp=8)), precision=precision))
    assert words in " ".join(found.arguments)


@pytest.mark.parametrize("precision", ["fp8", "mxfp8", "nvfp4"])
def test_torchtitans_low_precision_is_its_configurations(precision: str) -> None:
    found = emit(replace(plan("torchtitan", mesh("torchtitan", dp=8)), precision=precision))
    assert f"{precision} is the configuration's" in found.notes[-1]


@pytest.mark.parametrize("framework", names())
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_precision_is_told_or_refused_as_the_table_says(framework: str, precision: str) -> None:
    asked = replace(plan(framework, mesh(framework, dp=8)), precision=precision)
    if precision in capabilities(framework).precisions:
        emit(asked)
        return
    if framework == "torch":
        assert emit(asked).arguments == ()
        return
    with pytest.raises(PlanError, match=r"bf16"):
        emit(asked)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (plan("mindspeed", mesh(pp=2, dp=4), (5, 7), 2), "mindspeed has no uneven virtual stages"),
        (plan("megatron", mesh(dp=8), (32,), 2), "2 virtual stages are of one stage"),
        (
            plan("megatron", mesh(pp=2, dp=4, micro_batch=16), (4, 4), 2),
            "1 micro-batches are no multiple of 2 stages, which virtual stages demand",
        ),
        (plan("megatron", mesh(dp=4, ep=3)), "tp x cp x dp = 4 is no multiple of ep x etp = 3"),
        (
            replace(plan("megatron", mesh(cp=4, dp=2)), sequence=4100),
            "a sequence of 4100 is no multiple of 8 for cp 4, tp 1",
        ),
        (
            plan("megatron", mesh(tp=2, dp=2, ep=2, sequence_parallel=False)),
            "experts under tensor parallelism with sequence parallelism only",
        ),
        (plan("mindspeed", mesh(dp=8, shard=4)), "cannot share the optimiser among 4 of 8"),
        (plan("megatron", mesh(dp=8, ep=4, shard=2)), "4 of the experts|2 of the experts"),
        (plan("hf", mesh(dp=8, ep=2)), "hf is not planned with parallel experts"),
        (plan("deepspeed", mesh(dp=8, shard=2, zero=3)), "shards over all 8 devices, not 2"),
        (
            plan("torchtitan", mesh("torchtitan", tp=2, dp=4, ep=4, etp=2)),
            "experts have etp 1 under tp 2 and ep 4, the plan's 2",
        ),
        (
            plan("torchtitan", mesh("torchtitan", dp=8, shard=2, ep=4)),
            "tp x cp x shards = 2 is no multiple of ep x etp = 4",
        ),
        (
            plan("torchtitan", mesh("torchtitan", pp=2, dp=4), (31, 30), model="deepseek-v3"),
            "no pipeline for the MTP",
        ),
        (
            plan("torchtitan", mesh("torchtitan", pp=4, dp=2, micro_batch=16), (8, 8, 8, 8)),
            "torchtitan runs 4 stages with 4 micro-batches or more, not with 2",
        ),
    ],
)
def test_what_a_framework_cannot_cut_is_refused(asked: Plan, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        emit(asked)


@pytest.mark.parametrize(
    ("model", "modules"),
    [
        ("llama-3-8b", "mlp"),
        ("mixtral-8x7b", "moe_act layernorm"),
        ("deepseek-v3", "moe_act layernorm mla_up_proj shared_experts mlp"),
    ],
)
def test_selective_recomputation_is_what_the_planner_leaves_out_of_memory(
    model: str, modules: str
) -> None:
    cut = replace(mesh(dp=8), recompute="selective")
    layers = (find_model(model).layers,)
    asked = replace(plan("megatron", cut, layers, model=model), precision="fp8")
    emitted = emit(asked)
    assert f"--recompute-modules {modules} --context" in " ".join(emitted.arguments)
    assert any("--moe-grouped-gemm" in note for note in emitted.notes) == (modules != "mlp")
    inside = yaml.safe_load(emit(replace(asked, framework="flagscale")).files["flagscale.yaml"])
    found = inside["system"]["recompute_modules"]
    assert (found if isinstance(found, list) else [found]) == modules.split()
    words = " ".join(emit(replace(asked, framework="flagscale")).arguments)
    assert f"--recompute-modules {modules} --" in words


def test_flagscale_on_one_kind_is_the_megatron_inside_it() -> None:
    asked = plan("flagscale", mesh(tp=2, pp=2, cp=2, dp=2, ep=4), (15, 17), 2)
    emitted = emit(replace(asked, precision="fp8"))
    found = yaml.safe_load(emitted.files["flagscale.yaml"])
    assert found["system"]["pipeline_model_parallel_layout"] == "Et*7|t*9|t*8|t*8,L"
    assert found["system"]["fp8_format"] == "hybrid"
    assert found["system"]["sequence_parallel"] is True
    assert found["system"]["expert_model_parallel_size"] == 4
    assert "hetero" not in found["system"]
    assert found["model"]["num_layers"] == 32
    words = emitted.arguments
    assert value(words, "--pipeline-model-parallel-layout") == "Et*7|t*9|t*8|t*8,L"
    assert value(words, "--context-parallel-size") == "2"
    assert "--hetero-process-meshes" not in words


CUTS = (
    ({"pp": 4, "dp": 2}, (8, 8, 8, 8), 2),
    ({"tp": 2, "pp": 2, "cp": 2, "dp": 2, "ep": 4}, (15, 17), 3),
    ({"pp": 8}, (3, 4, 5, 4, 4, 4, 5, 3), 1),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("sizes", "layers", "virtual"), CUTS)
def test_megatrons_own_class_reads_layouts_with_virtual_stages(
    sizes: dict[str, int], layers: tuple[int, ...], virtual: int
) -> None:
    module = package("megatron.core.transformer.pipeline_parallel_layer_layout")
    kinds = importlib.import_module("megatron.core.transformer.enums")
    asked = plan("megatron", mesh("megatron", **sizes), layers, virtual, "deepseek-v3")
    text = value(emit(asked).arguments, "--pipeline-model-parallel-layout")
    if text is None:
        assert len(set(layers)) == 1
        return
    found = module.PipelineParallelLayerLayout(text, len(layers))
    found.validate_layer_layout(sum(layers), 1)
    counts = [sum(part.count(kinds.LayerType.decoder) for part in row) for row in found.layout]
    assert counts == list(layers)
    assert {len(row) for row in found.layout} == {virtual}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("sizes", "layers", "virtual"), CUTS)
def test_torchtitans_own_parser_reads_cuts(
    sizes: dict[str, int], layers: tuple[int, ...], virtual: int
) -> None:
    package("torchtitan.models.deepseek_v3.config_registry")
    manager = package("torchtitan.config.manager")
    words = ["--module", "deepseek_v3", "--config", "deepseek_v3_16b"]
    words += emit(plan("torchtitan", mesh("torchtitan", **sizes), layers, virtual)).arguments
    found = manager.ConfigManager().parse_args(words).parallelism
    assert found.context_parallel_degree == sizes.get("cp", 1)
    assert found.expert_parallel_degree == sizes.get("ep", 1)
    assert len(found.module_fqns_per_model_part) == len(layers) * virtual


def over_kinds(framework: str, model: str) -> Plan:
    """Return a plan with virtual stages on two kinds of cards."""
    asked = Workload(find_model(model), 4096, 96, framework=framework)
    offers = [offer("a100", 1), offer("h100", 1)]
    found = plan_mixed(asked, offers, capabilities(framework))[0]
    (pipeline,) = found.pipelines
    assert pipeline.virtual_stages > 1 and len({stage.layers for stage in pipeline.stages}) > 1
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", ["llama-3-8b", "deepseek-v2-lite"])
def test_megatrons_own_class_reads_virtual_stages_over_two_kinds(model: str) -> None:
    module = package("megatron.core.transformer.pipeline_parallel_layer_layout")
    kinds = importlib.import_module("megatron.core.transformer.enums")
    asked = over_kinds("megatron", model)
    (pipeline,) = asked.pipelines
    text = value(emit(asked).arguments, "--pipeline-model-parallel-layout")
    found = module.PipelineParallelLayerLayout(text, len(pipeline.stages))
    found.validate_layer_layout(find_model(model).layers, None)
    counts = [sum(part.count(kinds.LayerType.decoder) for part in row) for row in found.layout]
    assert counts == [stage.layers for stage in pipeline.stages]
    assert {len(row) for row in found.layout} == {pipeline.virtual_stages}


@pytest.mark.filterwarnings("ignore")
def test_torchtitans_own_parser_reads_virtual_stages_over_two_kinds() -> None:
    asked = over_kinds("torchtitan", "llama-3-8b")
    (pipeline,) = asked.pipelines
    parts = [
        [name for name in words.split(",") if name.startswith("layers.")]
        for words in modules(emit(asked).arguments)
    ]
    stages = len(pipeline.stages)
    held = [sum(map(len, parts[index::stages])) for index in range(stages)]
    assert held == [stage.layers for stage in pipeline.stages]
    layers = [name for part in parts for name in part]
    assert layers == [f"layers.{index}" for index in range(32)]
    package("torchtitan.models.llama3.config_registry")
    manager = package("torchtitan.config.manager")
    words = ["--module", "llama3", "--config", "llama3_8b", *emit(asked).arguments]
    found = manager.ConfigManager().parse_args(words).parallelism
    assert found.module_fqns_per_model_part == [
        part.split(",") for part in modules(emit(asked).arguments)
    ]
    assert found.pipeline_parallel_schedule == "Interleaved1F1B"


def modules(words: Sequence[str]) -> list[str]:
    """Return the modules of each chunk as torchtitan is told."""
    start = list(words).index("--parallelism.module_fqns_per_model_part") + 1
    rest = words[start:]
    return list(rest[: next(i for i, word in enumerate(rest) if word.startswith("--"))])


def test_deepspeeds_own_class_reads_parallel_experts() -> None:
    config = package("deepspeed.module_inject.auto_ep_config")
    raw = json.loads(emit(plan("deepspeed", mesh(dp=8, ep=4))).files["deepspeed.json"])
    found = config.parse_autoep_config(raw["expert_parallel"])
    assert (found.enabled, found.autoep_size) == (True, 4)
    config.validate_autoep_config(found, world_size=8, pp_size=1, tp_size=1, sp_size=1)


@pytest.mark.parametrize(("some", "method"), [(0, ("uniform", 1)), (3, ("block", 3))])
def test_full_recomputation_of_all_or_some_layers(some: int, method: tuple[str, int]) -> None:
    cut = replace(mesh(dp=8), recompute="full", recompute_layers=some)
    asked = plan("megatron", cut, (32,), model="llama-3-8b")
    words = " ".join(emit(asked).arguments)
    assert f"--recompute-method {method[0]} --recompute-num-layers {method[1]} " in words
    inside = yaml.safe_load(emit(replace(asked, framework="flagscale")).files["flagscale.yaml"])
    system = inside["system"]
    assert (system["recompute_method"], system["recompute_num_layers"]) == method
