from __future__ import annotations

import importlib
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import Emitted, capabilities, emit, names, ranks
from supernode_slurm.plan import Plan, dumps, loads
from supernode_slurm.planner import Fixed, plan_mixed, plan_uniform
from supernode_slurm.planner.constants import DEFAULT
from tests.test_frameworks import across, even, with_meshes, with_pipeline
from tests.test_planner import offer, workload

ON_DEEPSPEED = ("deepspeed", "hf", "llamafactory", "swift")


def plans(
    framework: str, model: str = "llama-3-8b", nodes: int = 2, **change: object
) -> list[Plan]:
    asked = replace(workload(model, 64), framework=framework, **change)  # type: ignore[arg-type]
    return list(plan_uniform(asked, offer("h100", nodes), capabilities(framework)))


def best(framework: str, **fixed: object) -> Plan:
    return plans(framework, fixed=Fixed(**fixed))[0]  # type: ignore[arg-type]


def options(words: tuple[str, ...]) -> dict[str, str]:
    """Return options with one value each."""
    return dict(zip(words[::2], words[1::2], strict=True))


def deepspeed_json(plan: Plan) -> dict[str, object]:
    found: dict[str, object] = json.loads(emit(plan).files["deepspeed.json"])
    return found


def zero_of(plan: Plan) -> dict[str, int]:
    found = deepspeed_json(plan)["zero_optimization"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("framework", names())
@pytest.mark.parametrize("training", ["full", "lora"])
def test_every_plan_of_every_framework_is_emitted_and_stays_small(
    framework: str, training: str
) -> None:
    for plan in plans(framework, training=training):
        emitted = emit(plan)
        whole = replace(plan, arguments=emitted.arguments, files=emitted.files)
        assert loads(dumps(whole)) == whole
        assert len(dumps(whole)) < 4096
        asked = re.findall(r"\{(.+?)\}", " ".join(emitted.arguments))
        assert set(asked) <= set(emitted.files)
        assert "lora" not in " ".join(emitted.arguments).lower()


def test_a_loop_of_ones_own_is_told_by_variables_and_a_placed_job_nothing() -> None:
    assert emit(replace(even(), pipelines=())) == Emitted()
    assert emit(best("torch")).arguments == ()
    uneven = plan_mixed(
        replace(workload("qwen2.5-1.5b", 64), framework="torch"),
        [offer("a100", 1), offer("h100", 1)],
        capabilities("torch"),
    )
    slow, fast = uneven[0].pipelines
    assert (slow.samples, fast.samples) == (16, 48)
    assert list(ranks(uneven[0]).items()) == [("a100", (0, 7)), ("h100", (8, 15))]
    found = emit(uneven[0])
    assert found.files == {}
    whole, first, other = found.variables.values()
    assert (whole["SN_GLOBAL_BATCH"], whole["SN_SHARES"]) == ("64", "2x8,6x8")
    assert list(found.variables)[1:] == ["rank 0, the first of a100", "rank 8, the first of h100"]
    assert (first["SN_SAMPLES"], first["SN_SAMPLE_OFFSET"]) == ("2", "0")
    assert (other["SN_SAMPLES"], other["SN_SAMPLE_OFFSET"]) == ("6", "16")


@pytest.mark.parametrize("framework", ON_DEEPSPEED)
def test_deepspeeds_batch_is_the_plans(framework: str) -> None:
    for plan in plans(framework):
        mesh = plan.pipelines[0].meshes[0]
        found = deepspeed_json(plan)
        size, steps = (
            found["train_micro_batch_size_per_gpu"],
            found["gradient_accumulation_steps"],
        )
        assert size == mesh.micro_batch
        assert isinstance(steps, int)
        assert mesh.micro_batch * steps * mesh.dp == found["train_batch_size"] == 64
        assert found["bf16"] == {"enabled": True}
        assert found["communication_data_type"] == "bf16"
        assert zero_of(plan)["stage"] == mesh.zero
        # What sums unequal batches is none of a plan's with equal ones.
        assert "gradient_allreduce_op" not in found


def test_a_file_in_fp16_says_so() -> None:
    found = deepspeed_json(replace(best("hf"), precision="fp16"))
    assert found["fp16"] == {"enabled": True}
    assert "bf16" not in found
    assert found["communication_data_type"] == "fp16"


def test_each_program_on_deepspeed_has_its_own_words() -> None:
    plan = best("hf", micro_batch=2, zero=2, recompute="none")
    words = options(emit(plan).arguments)
    assert words == {
        "--per_device_train_batch_size": "2",
        "--gradient_accumulation_steps": "2",
        "--bf16": "true",
        "--gradient_checkpointing": "false",
        "--deepspeed": "{deepspeed.json}",
    }
    on_swift = options(emit(replace(plan, framework="swift")).arguments)
    assert on_swift.pop("--torch_dtype") == "bfloat16"
    assert on_swift.items() <= words.items()
    assert emit(replace(plan, framework="llamafactory")).arguments == (
        "per_device_train_batch_size=2",
        "gradient_accumulation_steps=2",
        "bf16=true",
        "deepspeed={deepspeed.json}",
        "disable_gradient_checkpointing=true",
    )
    alone = emit(replace(plan, framework="deepspeed"))
    assert alone.arguments == ("--deepspeed", "--deepspeed_config", "{deepspeed.json}")
    assert "holds no optimiser" in alone.notes[0]


def test_transformers_keeps_its_limit_of_gradients_and_saves_whole_weights() -> None:
    plan = best("hf", zero=3)
    assert deepspeed_json(plan)["gradient_clipping"] == "auto"
    assert zero_of(plan)["stage3_gather_16bit_weights_on_model_save"] is True
    own = replace(plan, framework="deepspeed")
    assert "gradient_clipping" not in deepspeed_json(own)
    assert "stage3_gather_16bit_weights_on_model_save" not in zero_of(own)


def test_buckets_follow_bandwidth_memory_and_what_is_trained() -> None:
    plan = best("hf", zero=1)
    size = zero_of(plan)["reduce_bucket_size"]
    # Bytes of the weights, the start of a collective, bytes per second; in elements of 2 B.
    whole = math.sqrt(16.06e9 * DEFAULT.collective_s * DEFAULT.network * 50e9) / 2
    assert size == zero_of(plan)["allgather_bucket_size"] == whole // 1e6 * 1e6
    inside = plans("hf", "qwen2.5-3b", 1, fixed=Fixed(zero=1))[0]
    outside = plans("hf", "qwen2.5-3b", 2, fixed=Fixed(zero=1))[0]
    sizes = [zero_of(item)["reduce_bucket_size"] for item in (inside, outside)]
    assert sizes[0] > 2 * sizes[1]
    adapters = replace(plan, training="lora")
    assert zero_of(adapters)["reduce_bucket_size"] < size / 8
    assert plan.predicted is not None
    # Half of the last GiB that is usable, over 4.5 buffers of both kinds.
    usable = 79.6 * DEFAULT.usable
    tight = replace(plan, predicted=replace(plan.predicted, memory_gib=(usable - 1,)))
    assert zero_of(tight)["reduce_bucket_size"] == 29_000_000
    full = replace(plan, predicted=replace(plan.predicted, memory_gib=(usable,)))
    assert zero_of(full)["reduce_bucket_size"] == 1_000_000


def test_sharded_weights_are_fetched_a_layer_ahead() -> None:
    found = zero_of(best("deepspeed", zero=3))
    layer = (8_030_261_248 - 2 * 128256 * 4096) // 32
    assert found["stage3_prefetch_bucket_size"] == layer
    assert found["stage3_max_live_parameters"] == 2 * layer + 128256 * 4096
    # The weights of a norm stay whole, those of a product do not.
    assert 4096 < found["stage3_param_persistence_threshold"] < 4096 * 1024
    assert "allgather_bucket_size" not in found


def test_a_model_without_dimensions_keeps_deepspeeds_sizes() -> None:
    plan = replace(best("hf", zero=3), model="own")
    assert "reduce_bucket_size" not in zero_of(plan)
    assert "own has no known dimensions" in emit(plan).notes[-1]


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (replace(even(), framework="hf"), "the plan has tp 4, cp 1, pp 4; take dp 32 under ZeRO-3"),
        (replace(across(), framework="deepspeed"), "meshes differ; plan for flagscale"),
        (
            with_meshes(best("swift"), {"recompute": "selective"}),
            "recomputes whole layers or nothing, the plan only their MLP; take recompute full",
        ),
        (with_meshes(best("hf"), {"micro_batch": 3}), "no multiple of micro-batch x DP = 3 x 16"),
        (replace(even(), framework="torchtitan"), "shards by ZeRO-3 or not, the plan by ZeRO-1"),
        (
            with_meshes(best("torchtitan"), {"recompute": "selective"}),
            "selective recomputation is not the plan's; take none or full",
        ),
        (
            with_meshes(best("torchtitan"), {"tp": 2, "dp": 8, "sequence_parallel": False}),
            "planned with sequence parallelism",
        ),
        (with_meshes(best("torchtitan"), {"zero": 1}), "ZeRO-3 or not"),
        (with_meshes(even(), {"zero": 2}), "Megatron shards by ZeRO-1, the plan by ZeRO-2"),
        (replace(even(), pipelines=even().pipelines * 2), "plan has 2; plan for torch"),
    ],
)
def test_what_a_framework_cannot_say_is_refused_with_what_would_run(
    plan: Plan, reason: str
) -> None:
    with pytest.raises(PlanError, match=reason):
        emit(plan)


@pytest.mark.parametrize("framework", [*ON_DEEPSPEED, "torchtitan"])
def test_no_recomputation_is_planned_that_the_framework_has_not(framework: str) -> None:
    found = {plan.pipelines[0].meshes[0].recompute for plan in plans(framework)}
    found.add(best(framework, recompute="full").pipelines[0].meshes[0].recompute)
    assert found == {"none", "full"}
    with pytest.raises(PlanError, match="can have recompute none, full here"):
        best(framework, recompute="selective")


def test_torchtitan_lists_the_modules_of_uneven_stages() -> None:
    plan = best("torchtitan", pp=2, micro_batch=1, virtual_stages=1)
    parts = (
        replace(plan.pipelines[0].stages[0], layers=2),
        replace(plan.pipelines[0].stages[1], layers=1),
    )
    words = emit(with_pipeline(plan, stages=parts)).arguments
    assert words[:5] == (
        "--parallelism.pipeline_parallel_schedule",
        "1F1B",
        "--parallelism.module_fqns_per_model_part",
        "tok_embeddings,layers.0,layers.1",
        "layers.2,norm,lm_head",
    )
    # A subcommand of its parser: the options of others must stand before.
    assert words[-2:] == ("--training.disable_cuda_graphs", "activation-checkpoint:none")
    sizes = options(words[5:-2])
    mesh = plan.pipelines[0].meshes[0]
    assert sizes["--training.local_batch_size"] == str(64 // mesh.dp)
    assert sizes["--parallelism.pipeline_parallel_microbatch_size"] == "1"


def test_torchtitan_shards_or_replicates() -> None:
    for zero, shard, shards in ((0, 0, 1), (3, 0, 4), (3, 2, 2)):
        found = plans("torchtitan", fixed=Fixed(tp=4, dp=4, zero=zero))
        plan = next(item for item in found if item.pipelines[0].meshes[0].shard == shard)
        sizes = options(emit(plan).arguments[:-1])
        assert sizes["--parallelism.data_parallel_replicate_degree"] == str(4 // shards)
        assert sizes["--parallelism.data_parallel_shard_degree"] == str(shards)
        assert sizes["--parallelism.tensor_parallel_degree"] == "4"


def test_megatron_gathers_parameters_only_beside_reduced_gradients() -> None:
    # It asserts the one for the other, replicas or not.
    words = emit(best("megatron", dp=1, zero=1)).arguments
    assert {"--overlap-grad-reduce", "--overlap-param-gather"} <= set(words)


def test_megatron_has_no_lora_of_its_own_and_says_so() -> None:
    assert "no LoRA" in emit(plans("megatron", training="lora")[0]).notes[0]
    assert emit(plans("mindspeed", training="lora")[0]).notes == ()


def test_flagscales_words_say_what_its_file_says() -> None:
    emitted = emit(across())
    found = yaml.safe_load(emitted.files["flagscale.yaml"])
    words = emitted.arguments
    start = words.index("--hetero-process-meshes")
    meshes = found["system"]["hetero"]["hetero_process_meshes"]
    assert [int(word) for word in words[start + 1 : start + 11]] == meshes
    assert "--bf16" in words
    assert "--hetero-use-cpu-communication" in words
    # Each node has its own.
    assert "--hetero-current-device-type" not in words


def package(name: str) -> ModuleType:
    """Return a package of a training framework, which this project does not depend on."""
    return pytest.importorskip(name, reason=f"{name} is not installed here", exc_type=ImportError)


@pytest.mark.filterwarnings("ignore")
def test_deepspeeds_own_class_reads_the_file() -> None:
    config = package("deepspeed.runtime.config")
    for zero in (0, 1, 2, 3):
        asked = replace(workload("qwen2.5-0.5b", 64), framework="deepspeed", fixed=Fixed(zero=zero))
        plan = plan_uniform(asked, offer("h100", 1, 1), capabilities("deepspeed"))[0]
        found = config.DeepSpeedConfig(deepspeed_json(plan))
        assert found.zero_config.stage == zero
        assert found.train_batch_size == 64
        if zero:
            sizes = zero_of(plan)
            assert found.zero_config.reduce_bucket_size == sizes["reduce_bucket_size"]
        if zero == 3:
            assert found.zero_config.prefetch_bucket_size == sizes["stage3_prefetch_bucket_size"]


@pytest.mark.filterwarnings("ignore")
def test_transformers_own_parser_reads_words_and_file(tmp_path: Path) -> None:
    package("deepspeed")
    transformers = package("transformers")
    asked = replace(
        workload("qwen2.5-0.5b", 16), framework="hf", fixed=Fixed(micro_batch=2, zero=2)
    )
    emitted = emit(plan_uniform(asked, offer("h100", 1, 1), capabilities("hf"))[0])
    file = tmp_path / "deepspeed.json"
    file.write_text(emitted.files["deepspeed.json"], encoding="utf-8")
    words = [word.replace("{deepspeed.json}", str(file)) for word in emitted.arguments]
    words += ["--output_dir", str(tmp_path), "--use_cpu", "true"]
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    (found,) = parser.parse_args_into_dataclasses(words)
    assert (found.per_device_train_batch_size, found.gradient_accumulation_steps) == (2, 8)
    # It compares the file with the words, and fills in what is "auto".
    assert found.hf_deepspeed_config.config["gradient_clipping"] == found.max_grad_norm


@pytest.mark.filterwarnings("ignore")
def test_megatrons_own_class_reads_the_layouts() -> None:
    module = package("megatron.core.transformer.pipeline_parallel_layer_layout")
    kinds = importlib.import_module("megatron.core.transformer.enums")
    seen = 0
    for plan in plans("megatron", "llama-3-70b", 8):
        words = emit(plan).arguments
        option = "--pipeline-model-parallel-layout"
        if option not in words:
            continue
        stages = plan.pipelines[0].stages
        text = words[words.index(option) + 1]
        found = module.PipelineParallelLayerLayout(text, len(stages))
        found.validate_layer_layout(80, None)
        # A row for each rank, of its virtual stages.
        counts = [
            sum(chunk.count(kinds.LayerType.decoder) for chunk in row) for row in found.layout
        ]
        assert counts == [stage.layers for stage in stages]
        seen += 1
    assert seen


@pytest.mark.filterwarnings("ignore")
def test_torchtitans_own_parser_reads_the_words() -> None:
    package("torchtitan.models.llama3.config_registry")
    manager = package("torchtitan.config.manager")
    for plan in plans("torchtitan")[:20]:
        mesh, stages = plan.pipelines[0].meshes[0], plan.pipelines[0].stages
        words = ["--module", "llama3", "--config", "llama3_8b", *emit(plan).arguments]
        found = manager.ConfigManager().parse_args(words)
        sizes = found.parallelism
        assert sizes.tensor_parallel_degree == mesh.tp
        shards = sizes.data_parallel_replicate_degree * sizes.data_parallel_shard_degree
        assert shards == mesh.dp
        assert (found.activation_checkpoint is None) == (mesh.recompute == "none")
        if len(stages) > 1:
            counts = [
                sum(name.startswith("layers.") for name in part)
                for part in sizes.module_fqns_per_model_part
            ]
            # Chunk by chunk, each over all ranks.
            held = [sum(counts[rank :: len(stages)]) for rank in range(len(stages))]
            assert held == [stage.layers for stage in stages]
