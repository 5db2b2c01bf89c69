"""Hugging Face's Trainer with FSDP2: its words, its files, and what it cannot run."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities, emit
from supernode_slurm.plan import Plan
from supernode_slurm.planner import Fixed, plan_uniform
from supernode_slurm.planner.stacks import stack_of
from supernode_slurm.runtime.rank import job_variables
from tests.test_emission import best, options, package, plans
from tests.test_frameworks import across, even, with_meshes
from tests.test_planner import offer, workload

FILES = ["fsdp.json", "accelerator.json"]


def words_of(plan: Plan) -> dict[str, str]:
    """Return the options with their values; the flag has none."""
    words = emit(plan).arguments
    at = words.index("--fsdp")
    return options(words[:at] + words[at + 1 :])


def shared(shard: int) -> Plan:
    return with_meshes(best("hf-fsdp"), {"shard": shard})


def test_the_trainer_is_told_batch_precision_and_files() -> None:
    plan = best("hf-fsdp", micro_batch=2, recompute="full")
    emitted = emit(plan)
    assert words_of(plan) == {
        "--per_device_train_batch_size": "2",
        "--gradient_accumulation_steps": "2",
        "--bf16": "true",
        "--gradient_checkpointing": "false",
        "--fsdp_config": "{fsdp.json}",
        "--accelerator_config": "{accelerator.json}",
    }
    assert list(emitted.files) == FILES
    assert json.loads(emitted.files["fsdp.json"]) == {
        "version": 2,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "reshard_after_forward": True,
        "activation_checkpointing": True,
        "state_dict_type": "FULL_STATE_DICT",
        "cpu_ram_efficient_loading": True,
    }
    assert words_of(replace(plan, precision="fp16"))["--fp16"] == "true"


def test_only_several_micro_batches_need_sums_of_each() -> None:
    several = best("hf-fsdp", micro_batch=1)
    found = json.loads(emit(several).files["accelerator.json"])
    assert found == {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
    once = emit(best("hf-fsdp", micro_batch=4))
    assert list(once.files) == FILES[:1]
    assert "--accelerator_config" not in once.arguments


def test_recomputation_is_the_files_or_the_trainers_on_a_device_alone() -> None:
    for recompute in ("none", "full"):
        plan = best("hf-fsdp", micro_batch=1, recompute=recompute)
        found = json.loads(emit(plan).files["fsdp.json"])
        assert found["activation_checkpointing"] == (recompute == "full")
        alone = emit(with_meshes(plan, {"dp": 1}))
        assert alone.files == {}
        assert options(alone.arguments) == {
            "--per_device_train_batch_size": "1",
            "--gradient_accumulation_steps": "64",
            "--bf16": "true",
            "--gradient_checkpointing": "true" if recompute == "full" else "false",
        }


def test_a_part_of_the_devices_is_told_by_variables() -> None:
    plan = shared(8)
    (found,) = emit(plan).variables.values()
    assert found == {
        "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
        "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": "2",
        "PARALLELISM_CONFIG_DP_SHARD_SIZE": "8",
    }
    # Those are what the launcher sets.
    assert (
        found.items() <= {name: str(value) for name, value in job_variables(plan).items()}.items()
    )
    assert any("sharded over 8 devices" in note for note in emit(plan).notes)
    for whole in (shared(0), shared(16), replace(plan, framework="torchtitan")):
        assert not any("PARALLELISM" in name for name in job_variables(whole))
    assert emit(shared(0)).variables == {}


def test_it_is_planned_with_sharded_weights_alone_over_all_or_a_part() -> None:
    meshes = [plan.pipelines[0].meshes[0] for plan in plans("hf-fsdp", nodes=4)]
    assert {(mesh.zero, mesh.tp, mesh.cp, mesh.pp, mesh.ep) for mesh in meshes} == {(3, 1, 1, 1, 1)}
    assert {mesh.recompute for mesh in meshes} <= {"none", "full"}
    assert len({mesh.shard for mesh in meshes}) > 1
    with pytest.raises(PlanError, match="can have zero 3 here"):
        best("hf-fsdp", zero=1)


def test_its_sums_are_in_the_precision_of_the_weights() -> None:
    with pytest.raises(PlanError, match="does not sum gradients in fp32; use bf16"):
        plans("hf-fsdp", reduction="fp32")
    assert stack_of("hf-fsdp").wire_bytes == 2
    plan = replace(best("hf-fsdp"), reduction="bf16", precision="fp16")
    with pytest.raises(PlanError, match="sums gradients in fp16 as it computes, the plan in bf16"):
        emit(plan)


def test_joined_checkpoints_and_the_optimizer_are_told() -> None:
    notes = emit(best("hf-fsdp")).notes
    assert "takes none from the script" in notes[0]
    # 8.03e9 parameters of 12 bytes.
    assert notes[-1] == "rank 0 joins checkpoints: 90 GiB of its node's memory"
    assert "GiB" not in str(emit(plans("hf-fsdp", training="lora")[0]).notes)
    assert "GiB" not in str(emit(replace(best("hf-fsdp"), model="own")).notes)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (even(), "the plan has tp 4, cp 1, pp 4; take dp 32 under ZeRO-3"),
        (across(), "meshes differ; plan for flagscale"),
        (replace(even(), pipelines=even().pipelines * 2), "one pipeline, the plan has 2; plan for"),
        (best("deepspeed", zero=2), "the plan has ZeRO-2; take zero 3, or plan for hf"),
        (with_meshes(best("hf-fsdp"), {"recompute": "selective"}), "take recompute full"),
        (shared(3), "over a divisor of dp 16, the plan over 3"),
        (with_meshes(best("hf-fsdp"), {"ep": 2}), "not planned with parallel experts"),
    ],
)
def test_what_it_cannot_run_is_refused_with_what_would(plan: Plan, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        emit(replace(plan, framework="hf-fsdp"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_transformers_own_parser_and_accelerates_plugin_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recompute: str
) -> None:
    transformers, accelerate = package("transformers"), package("accelerate.utils")
    wrap = package("torch.distributed.fsdp.wrap")
    # Both write to the environment.
    monkeypatch.setattr(os, "environ", os.environ.copy())
    asked = replace(
        workload("qwen2.5-0.5b", 16),
        framework="hf-fsdp",
        fixed=Fixed(micro_batch=2, recompute=recompute),
    )
    emitted = emit(plan_uniform(asked, offer("h100", 1, 2), capabilities("hf-fsdp"))[0])
    words = [*emitted.arguments, "--output_dir", str(tmp_path), "--use_cpu", "true"]
    for name, text in emitted.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        words = [word.replace(f"{{{name}}}", str(tmp_path / name)) for word in words]
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    (found,) = parser.parse_args_into_dataclasses(words)
    assert (found.per_device_train_batch_size, found.gradient_accumulation_steps) == (2, 4)
    assert found.fsdp is True
    assert found.accelerator_config.gradient_accumulation_kwargs == {"sync_each_batch": True}
    # The Trainer refuses what recomputes twice.
    assert not found.activation_checkpointing
    plugin = accelerate.FullyShardedDataParallelPlugin(**found.fsdp_plugin_args)
    assert (plugin.fsdp_version, plugin.reshard_after_forward) == (2, True)
    assert plugin.activation_checkpointing == (recompute == "full")
    assert plugin.auto_wrap_policy is wrap.transformer_auto_wrap_policy
    assert "FULL_STATE_DICT" in str(plugin.state_dict_type)
    plugin.set_mixed_precision("bf16")
    assert str(plugin.mixed_precision_policy.reduce_dtype) == "torch.bfloat16"
    # All that the file says is known: the plugin's fields, or the Trainer's names for them.
    said = set(json.loads(emitted.files["fsdp.json"])) - {"version"}
    assert said <= set(found.fsdp_plugin_args)


def test_accelerate_reads_the_sizes_of_a_hybrid(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerate = package("accelerate")
    for name, value in job_variables(shared(8)).items():
        monkeypatch.setenv(name, str(value))
    found = accelerate.ParallelismConfig()
    assert (found.dp_replicate_size, found.dp_shard_size) == (2, 8)
    assert found.fsdp_dim_names == ["dp_replicate", "dp_shard_cp"]
