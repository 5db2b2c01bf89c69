"""Rows of a table of runs: each is read for itself, and nothing is guessed without a word."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from supernode_slurm.calibration.cards import card_of
from supernode_slurm.calibration.document import read_runs
from supernode_slurm.calibration.judge import judge, judge_all, order
from supernode_slurm.calibration.runs import Run, run_of, runs_of
from supernode_slurm.calibration.sections import sections_of
from supernode_slurm.calibration.stacks import profile_of
from supernode_slurm.calibration.words import attention_of, precision_of, recompute_of
from supernode_slurm.errors import PlanError
from supernode_slurm.planner import predict
from tests.test_calibration import ROOT, RUN, a_run, write_runs
from tests.test_cli import run

PUBLISHED = ROOT / "benchmarks/published.yaml"
SHARED = ROOT.parent / "shared/data/published_measurements.yaml"

EXPERTS = {
    **{"layers": 48, "hidden": 2048, "heads": 32, "kv_heads": 4, "head_dim": 128},
    **{"ffn_hidden": 6144, "gated_mlp": True, "vocab": 151936, "seq": 4096},
    **{"experts": 128, "topk": 8, "moe_ffn_hidden": 768},
}
MIX = {
    "mix": {"V100-16GB": 12, "T4": 4},
    "count": 16,
    "cards_per_node": 4,
    "inter": "10 Gb/s / 50 Gb/s",
}


def changed(**changes: Any) -> dict[str, Any]:
    raw = copy.deepcopy(RUN)
    for name, value in changes.items():
        part, _, key = name.partition("__")
        if key:
            raw[part][key] = value
        else:
            raw[part] = value
    return raw


def mixed(**parallel: Any) -> dict[str, Any]:
    raw = changed(hardware=MIX)
    raw["parallel"] |= {"pp": 4, "tp": 1, "precision": "fp16", **parallel}
    return raw


WRONG = [
    (changed(hardware__intra_bw_GBs_per_dir="fast"), "hardware.intra_bw_GBs_per_dir", "'fast'"),
    (changed(hardware__inter_bw_Gbps_per_card=0), "hardware.inter_bw_Gbps_per_card", "0"),
    (changed(hardware__inter_bw_Gbps_per_card=-5), "hardware.inter_bw_Gbps_per_card", "-5"),
    (changed(hardware__mem_gib="80GB"), "hardware.mem_gib", "'80GB'"),
    (changed(hardware__hbm_bw_TBs=float("inf")), "hardware.hbm_bw_TBs", "inf"),
    (changed(hardware__count=12), "hardware.count 12", "whole nodes of 8"),
    (changed(hardware__accelerator=None), "does not print", "accelerator"),
    (changed(hardware__count=None), "does not print", "count"),
    (changed(parallel__zero_stage=9), "parallel.zero_stage", "9"),
    (changed(parallel__zero_stage="hybrid"), "parallel.zero_stage", "'hybrid'"),
    (changed(parallel__dp=7), "tp 2 x cp 1 x pp 2 x dp 7 is 28", "hardware.count 16"),
    (changed(parallel__global_batch=66), "parallel.global_batch 66", "dp 4"),
    (changed(parallel__micro_batch=32), "parallel.global_batch 64", "micro_batch 32"),
    (changed(parallel__vpp=40), "parallel.vpp 40", "32 layers"),
    (changed(parallel__layers_per_stage=[8, 8]), "parallel.layers_per_stage", "adds up to 16"),
    (changed(parallel__layers_per_stage=[32]), "parallel.layers_per_stage", "2 numbers"),
    (changed(parallel__layers_per_stage=[-2, 34]), "parallel.layers_per_stage", "-2"),
    (changed(parallel__partition=[0, 40, 32]), "parallel.partition", "32 layers"),
    (changed(parallel__ep=2), "parallel.ep is 2", "model.experts"),
    (changed(model=EXPERTS, parallel__ep=64), "parallel.ep 64", "tp x cp x dp"),
    (changed(model={**EXPERTS, "topk": 129}), "model.topk 129", "128"),
    (changed(model__heads=31, model__kv_heads=31), "model.heads 31", "head_dim"),
    (changed(model__kv_heads=5), "model.kv_heads 5", "model.heads 32"),
    (changed(model__attention="linear attention"), "model.attention", "linear"),
    (changed(parallel__precision="fp32"), "parallel.precision 'fp32'", "not planned"),
    (changed(parallel__recompute="sometimes"), "parallel.recompute 'sometimes'", "not understood"),
    (changed(measured={"step_time_s": -1}), "measured.step_time_s", "-1"),
    (changed(measured={"step_time_s": 0}), "measured.step_time_s", "0"),
    (changed(measured={"step_time_s": float("nan")}), "measured.step_time_s", "nan"),
    (changed(measured={"tokens_per_s_per_gpu": "1,707"}), "tokens_per_s_per_gpu", "'1,707'"),
    (changed(measured={"peak_mem_gib": [1]}), "measured.peak_mem_gib", "[1]"),
    (changed(training="qlora"), "training 'qlora'", "lora"),
    (changed(hardware={**MIX, "mix": ["V100", "T4"]}), "hardware.mix", "number of each"),
    (changed(hardware={**MIX, "mix": {"V100": 0, "T4": 4}}), "hardware.mix.V100", "0"),
    (changed(hardware={**MIX, "count": 7}), "hardware.count 7", "16"),
    (mixed(vpp=2), "parallel.vpp 2", "several kinds"),
    (mixed(stage_devices=[["T4x4"]]), "parallel.stage_devices", "4 stages"),
    (mixed(stage_devices=[["A100x4"], ["T4"], ["T4"], ["T4"]]), "'A100x4'", "V100-16GB, T4"),
    (mixed() | {"model": EXPERTS}, "model.experts 128", "several kinds"),
    ("just text", "must have model", "just text"),
    (None, "must have model", "None"),
    (changed(model=None), "model is missing", ""),
    (changed(parallel=[1]), "parallel is [1]", ""),
]


@pytest.mark.parametrize(("raw", "field", "more"), WRONG)
def test_a_wrong_row_is_left_out_alone_with_field_and_value(
    raw: object, field: str, more: str
) -> None:
    before, after = {**RUN, "id": "before"}, {**RUN, "id": "after"}
    runs, skipped = runs_of({"measurements": [before, raw, after]})
    assert [one.id for one in runs] == ["before", "after"]
    assert field in skipped[0].why
    assert more in skipped[0].why


def test_all_wrong_rows_together_lose_no_other(tmp_path: Path) -> None:
    rows = [raw for raw, *_ in WRONG if "nan" not in str(raw) and "inf" not in str(raw)]
    path = write_runs(tmp_path / "odd.json", [RUN, *rows])  # type: ignore[list-item]
    done = run("calibrate", str(path), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["id"] for one in found["runs"]] == ["ours"]
    assert len(found["skipped"]) == len(rows)


def test_a_prediction_that_fails_is_left_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [a_run(), a_run(id="fails"), a_run(id="third")]

    def broken(chosen: list[Run], values: object = None) -> object:
        if any(one.id == "fails" for one in chosen):
            raise PlanError("no such thing")
        return judge(chosen)

    monkeypatch.setattr("supernode_slurm.calibration.judge.judge", broken)
    judged, skipped = judge_all(runs)
    assert [item.run.id for item in judged] == ["ours", "third"]
    assert [(item.id, "no such thing" in item.why) for item in skipped] == [("fails", True)]


def test_a_row_without_a_name_is_called_by_its_place() -> None:
    rows = [RUN, {**RUN, "id": None}, {key: value for key, value in RUN.items() if key != "id"}, 7]
    runs, skipped = runs_of({"measurements": rows})
    assert [one.id for one in runs] == ["ours", "measurements[1]", "measurements[2]"]
    assert [item.id for item in skipped] == ["measurements[3]"]


def test_a_node_of_which_the_run_says_nothing_is_one_that_divides_its_devices() -> None:
    found = a_run(hardware__count=12, hardware__cards_per_node=None, parallel__dp=3,
                  parallel__global_batch=63)  # fmt: skip
    assert (found.offers[0].devices, found.offers[0].node_devices) == (12, 4)
    assert "cards_per_node 4: not printed" in found.assumed


def test_numbers_and_switches_in_quotes_are_what_they_say() -> None:
    plain = a_run(hardware__intra_bw_GBs_per_dir=450, parallel__flash_attention=False)
    quoted = a_run(
        hardware__intra_bw_GBs_per_dir="450",
        parallel__flash_attention="no",
        parallel__tp="2",
        parallel__dp=4.0,
        model__seq="4096",
        parallel__sequence_parallel="yes",
        parallel__layers_per_stage="16, 16",
        measured={"step_time_s": "4.0"},
    )
    (one,), (other,) = judge([plain]), judge([quoted])
    assert one.step_time_s == other.step_time_s
    assert other.run.measured_s == 4.0
    assert not quoted.layout.flash


@pytest.mark.parametrize(
    "measured", [{"step_time_s": "OOM"}, {"status": "out of memory"}, {"oom": "true"}]
)
def test_a_failure_in_place_of_a_number_is_one(measured: dict[str, Any]) -> None:
    failed = a_run(measured=measured)
    assert (failed.failed, failed.measured_s) == ("oom", None)


@pytest.mark.parametrize("path", [PUBLISHED, SHARED], ids=["committed", "shared"])
def test_the_published_runs_stay_usable(path: Path) -> None:
    if not path.is_file():
        pytest.skip(f"{path} is not on this machine")
    runs, skipped = runs_of(read_runs(path))
    assert (len(runs), len(skipped)) == (404, 15)
    assert all(item.why.startswith("does not print ") for item in skipped)
    judged, strange = judge_all(runs)
    assert (len(judged), strange) == (404, [])
    long = [item for item in judged if "moe" in item.run.modules]
    assert len(long) == 6
    assert all(item.fits for item in long)


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        ("fp8", ["float8", "FP8-CS", "fp8-ds", "fp8_hybrid", "FP8 (E4M3, blockwise 128x128)"]),
        ("mxfp8", ["FP8-MX", "MXFP8", "mx-fp8", "fp8 (mx)"]),
        ("nvfp4", ["NVFP4", "FP4", "nv-fp4"]),
        ("fp16", ["half", "float16", "fp16", "mixed (fp16)", "16-mixed"]),
        ("bf16", ["bf16", "bfloat16", "amp bf16", "amp(bf16)", "bf16 (fp32 reduce)"]),
    ],
)
def test_precisions_are_understood_as_sources_write_them(precision: str, words: list[str]) -> None:
    assert {word: precision_of(word) for word in words} == dict.fromkeys(words, (precision, ""))


@pytest.mark.parametrize("word", ["fp32", "TF32", "int8", "MXFP4", "W8A8", "fp7", 16, "best"])
def test_precisions_that_are_not_planned_are_told(word: object) -> None:
    with pytest.raises(PlanError, match=r"parallel\.precision"):
        precision_of(word)


@pytest.mark.parametrize("word", [None, "amp", "fp16 or fp32 (see --fp16)", "mixed precision"])
def test_precisions_that_are_open_are_assumed(word: object) -> None:
    assert precision_of(word)[0] == "bf16"
    assert "precision" in precision_of(word)[1]


@pytest.mark.parametrize(
    ("words", "kind", "layers", "share"),
    [
        ("None", "none", 0, None),
        (False, "none", 0, None),
        ("off", "none", 0, None),
        ("Full", "full", 0, None),
        (True, "full", 0, None),
        ("gradient checkpointing", "full", 0, None),
        ("full (uniform,1)", "full", 0, None),
        ("full (block, 2)", "full", 2, None),
        ("block 3", "full", 3, None),
        ("full, 2 layers per stage", "full", 2, None),
        ([2, 1, 0, 0], "full", 0, 3 / 32),
        ("by stage: 4,4,2,0", "full", 0, 10 / 32),
        ([0, 0, 0, 0], "none", 0, None),
        ("selective 2", "full", 0, 0.5),
        ("Selective", "selective", 0, None),
        ("selective(attention core)", "selective", 0, None),
        (["mlp", "layernorm"], "selective", 0, None),
    ],
)
def test_recomputation_is_understood_as_sources_write_it(
    words: object, kind: str, layers: int, share: float | None
) -> None:
    found = recompute_of(words, 4, 32)
    assert (found.kind, found.layers) == (kind, layers)
    assert found.share == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    "words", ["maybe", 1, "4", [1, 2], "by stage: 40,40,40,40", "selective: x"]
)
def test_recomputation_that_is_not_understood_is_told(words: object) -> None:
    with pytest.raises(PlanError, match=r"parallel\.recompute"):
        recompute_of(words, 4, 32)


def test_blocks_and_stages_of_recomputation_lie_between_none_and_all() -> None:
    def at(words: object) -> float:
        return judge([a_run(parallel__recompute=words)])[0].step_time_s

    none, half, all_of_it = at("none"), at("full (block, 8)"), at("full (block, 16)")
    assert all_of_it == at("full") == at("full (block, 40)")
    assert half == pytest.approx((none + all_of_it) / 2, rel=0.02)
    assert at([8, 8]) == pytest.approx(half)
    assert none < at([2, 0]) < half


def test_a_mixture_that_recomputes_its_experts_keeps_none_of_them() -> None:
    def of(words: str) -> Run:
        return a_run(model=EXPERTS, parallel__ep=8, parallel__recompute=words)

    named = of("selective: layernorm, moe")
    assert named.layout.recompute == "full"
    assert named.modules == ("layernorm", "moe")
    assert any("layernorm, moe" in note for note in named.assumed)
    assert of("selective: norm, act").layout.recompute == "selective"
    assert a_run(parallel__recompute="selective: layernorm, moe").layout.recompute == "selective"


@pytest.mark.parametrize(
    ("words", "window", "layers"),
    [
        ("sliding window 4096", 4096, 48),
        ("GQA, sliding window 4096 in all layers", 4096, 48),
        ("alternating sliding window 128", 128, 24),
        ("window 512 in every other layer", 512, 24),
        ("5:1 sliding window 1024", 1024, 40),
        ("sliding window 1k in 12 of 48 layers", 1024, 12),
        ("GQA", 0, 0),
        (None, 0, 0),
    ],
)
def test_windows_of_attention_are_read(words: object, window: int, layers: int) -> None:
    found = attention_of(words, 48)
    assert (found.window, found.window_layers) == (window, layers)


@pytest.mark.parametrize("words", ["DSA", "sliding window", "gated deltanet"])
def test_attention_that_is_not_understood_is_told(words: str) -> None:
    with pytest.raises(PlanError, match=r"model\.attention"):
        attention_of(words, 48)


@pytest.mark.parametrize(
    ("words", "memory", "card"),
    [
        ("H100 PCIe 80GB", 80, "h100-pcie"),
        ("NVIDIA H100 80GB HBM3", 80, "h100-sxm"),
        ("H100 NVL 94GB", None, "h100-nvl"),
        ("H100 96GB HBM2e 500W (Grand Teton)", 96, "h100-sxm-96g"),
        ("V100-SXM3-32GB", 32, "v100-sxm-32g"),
        ("Tesla V100", 32, "v100-sxm-32g"),
        ("V100 (32GB)", None, "v100-sxm-32g"),
        ("A100", 40, "a100-sxm-40g"),
        ("A100 40GB PCIe", None, "a100-pcie-40g"),
        ("RTX 4090 24GB", 24, "rtx-4090"),
        ("8x H100 SXM5", 80, "h100-sxm"),
        ("Ascend 910B3", 64, "ascend-910b3"),
        ("Ascend 910C (CloudMatrix 384)", 64, "ascend-910c"),
        ("GH200-96GB (Alps Clariden)", 96, "gh200"),
        ("NVIDIA GH200 480GB", 96, "gh200"),
        ("GB300 NVL72", 277, "gb300"),
    ],
)
def test_cards_are_found_by_name_form_and_memory(
    words: str, memory: float | None, card: str
) -> None:
    found, assumed = card_of(words, memory)
    assert (found.id, assumed) == (card, "")


@pytest.mark.parametrize("words", ["Ascend 910B", "Ascend910B", "Atlas 800T A2"])
def test_a_server_that_leaves_its_card_open_is_assumed(words: str) -> None:
    found, assumed = card_of(words, 64)
    assert found.id == "ascend-910b2"
    assert words in assumed


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("TPU v5p", "sn show accelerators"),
        ("H200 NVL", "h200-sxm"),
        ("A100-SXM4-60GB", "a100-sxm-80g"),
        ("MI210", "mi250"),
    ],
)
def test_an_unknown_card_is_told_with_those_near(words: str, near: str) -> None:
    with pytest.raises(PlanError, match=f"{words}.*not in the catalogue.*{near}"):
        card_of(words, None)


SHARDED = {"zero_stage": 3}


@pytest.mark.parametrize(
    ("source", "parallel", "stack"),
    [
        ("PTD-P (Narayanan 2021)", {}, "megatron-2021"),
        (
            "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
            {},
            "megatron-2021",
        ),
        (
            "Reducing Activation Recomputation in Large Transformer Models",
            {},
            "megatron-2021",
        ),
        (
            "MegaScale: Scaling Large Language Model Training to More Than 10,000 GPUs",
            {},
            "megascale",
        ),
        ("MosaicML LLM benchmark", {}, "llm-foundry"),
        ("mosaicml/llm-foundry README", {"fsdp_mixed_precision": "PURE"}, "llm-foundry-pure"),
        ("TorchTitan paper (arXiv 2410.06511)", {}, "torchtitan"),
        ("pytorch/TORCHTITAN", {"torch_compile": True}, "torchtitan-compiled"),
        ("NVIDIA NeMo performance_summary.md, NeMo24.07", {}, "megatron-bridge-25.09"),
        ("NVIDIA/Megatron-Bridge, 26.04 NeMo Container", {}, "megatron-bridge-26.04"),
        ("AMP (NeurIPS22) cached real trials", {}, "deepspeed-pipeline-2022"),
        ("Sailor (SOSP25) simulator validation data", {}, "eager-2025"),
    ],
)
def test_published_sources_are_known_by_any_of_their_names(
    source: str, parallel: dict[str, Any], stack: str
) -> None:
    assert profile_of({"source": {"ref": source}, "parallel": parallel}) == (stack, "")
    assert profile_of({"source": source, "parallel": parallel})[0] == stack
    assert profile_of({"source": {"title": source}, "parallel": parallel})[0] == stack


@pytest.mark.parametrize(
    ("row", "stack"),
    [
        ({"source": "NeMo AutoModel docs", "parallel": SHARDED}, "torch"),
        ({"source": "our AMP run", "parallel": {}}, "megatron"),
        ({"source": "AMPerf", "parallel": SHARDED}, "torch"),
        ({"source": "Sailor-7B model card", "parallel": {}}, "megatron"),
        ({"source": "OPT 2022", "parallel": SHARDED}, "deepspeed-2021"),
        ({"source": "a report", "date": "2023-05", "parallel": {}}, "megatron-2023"),
        ({"source": "arXiv 2406.01234", "parallel": {}}, "megatron-2024"),
        ({"framework": "DeepSpeed 0.16", "parallel": SHARDED}, "deepspeed"),
        ({"parallel": {"framework": "FSDP2"}}, "torch"),
        ({"parallel": {"zero_stage": 3, "torch_compile": True}}, "torchtitan-compiled"),
        ({"parallel": {"tp_comm_overlap": True}}, "megatron-2024"),
        ({"stack": "my-stack", "parallel": {}}, "megatron"),
        ({"stack": "our own PyTorch", "parallel": {}}, "torch"),
        ({"stack": "", "parallel": {}}, "megatron"),
    ],
)
def test_an_unknown_source_is_inferred_from_the_run_and_said_to_be(
    row: dict[str, Any], stack: str
) -> None:
    found, assumed = profile_of(row)
    assert found == stack
    assert assumed.startswith(f"stack {stack}: ")


def test_the_name_of_a_row_decides_nothing() -> None:
    for name in ("x", "megascale_t2_175B_MegaScale_256", "sc21_zero3", "torchtitan"):
        assert run_of(changed(id=name)).stack == "megatron"
        assert run_of(changed(id=name, source={"ref": "MegaScale Table 2"})).stack == "megascale"


def test_assumed_words_are_told_in_json_and_text(tmp_path: Path) -> None:
    told = changed(stack="megatron")
    told["parallel"] |= {"zero_stage": 1}
    told["hardware"] |= {"inter_bw_Gbps_per_card": 400}
    opened = changed(id="open", model__vocab=None, parallel__micro_batch=None, model__colour="red")
    opened["parallel"] |= {"precision": None, "recompute": None}
    path = write_runs(tmp_path / "runs.json", [told, opened])
    first, second = json.loads(run("calibrate", str(path), "--json").stdout)["runs"]
    assert (first["assumed"], first["stack"], first["stack_assumed"]) == ([], "megatron", False)
    assert (second["stack"], second["stack_assumed"]) == ("megatron", True)
    said = [note.split()[0] for note in second["assumed"]]
    assert {"vocab", "precision", "stack", "micro_batch", "recompute", "model.colour"} <= set(said)
    shown = run("calibrate", str(path), "--rows").stdout
    assert "not all is printed of 1 run:" in shown
    assert "megatron (assumed)" in shown
    assert "fitted to published runs" not in shown
    write_runs(path, [changed(source="TorchTitan paper")])
    assert "fitted to published runs" in run("calibrate", str(path)).stdout


def test_a_run_of_adapters_is_predicted_as_the_planner_predicts_adapters() -> None:
    full, lora = judge([a_run(), a_run(training="LoRA", parallel__lora_rank=8)])
    one = lora.run
    workload = replace(one.workload, framework=one.stack)
    assert (workload.training, workload.lora_rank) == ("lora", 8)
    alone = predict(workload, one.offers[0], one.layout)
    assert lora.step_time_s == pytest.approx(alone.step_time_s)
    assert lora.step_time_s < full.step_time_s
    assert lora.memory_gib < full.memory_gib


def test_layouts_are_compared_within_one_model_machine_batch_and_stack() -> None:
    base = a_run(stack="megatron", model=EXPERTS, parallel__ep=8)
    other = a_run(stack="megatron", model=EXPERTS, parallel__ep=4)
    assert order([base, other], [1.0, 2.0]).groups == 1
    renamed = a_run(stack="megatron", model=EXPERTS, parallel__ep=4, source={"ref": "elsewhere"})
    assert order([base, renamed], [1.0, 2.0]).groups == 1
    fewer = a_run(stack="megatron", model={**EXPERTS, "experts": 64}, parallel__ep=4)
    assert order([base, fewer], [1.0, 2.0]).groups == 0
    assert order([base, a_run(stack="torch", model=EXPERTS, parallel__ep=4)], [1, 2]).groups == 0
    slower = a_run(
        stack="megatron", model=EXPERTS, parallel__ep=4, hardware__inter_bw_Gbps_per_card=100
    )
    assert order([base, slower], [1.0, 2.0]).groups == 0


LAYER: dict[str, Any] = {
    "id": "layer",
    "source": {"ref": "Korthikanti 2022 Table 4"},
    "model": {
        **{"layers": 48, "hidden": 6144, "heads": 64, "kv_heads": 64, "ffn_hidden": 24576},
        **{"gated_mlp": False, "vocab": 51200, "seq": 2048},
    },
    "hardware": {"accelerator": "A100-SXM4-80GB", "count": 8, "cards_per_node": 8},
    "parallel": {"tp": 8, "pp": 1, "micro_batch": 4, "recompute": "none"},
    "measured": {"forward_ms": 7.7, "backward_ms": 11.9, "combined_ms": 19.6},
}


def test_times_of_a_layer_are_predicted_and_full_recomputation_adds_a_forward_pass() -> None:
    full = copy.deepcopy(LAYER)
    full["parallel"]["recompute"] = "full"
    found = sections_of({"layer_timing": [LAYER, full]})
    plain, again = found.layers[:3], found.layers[3:]
    assert [item.quantity for item in plain] == ["forward_ms", "backward_ms", "combined_ms"]
    forward, backward, both = (item.predicted for item in plain)
    assert both == pytest.approx(forward + backward)
    assert abs(plain[0].off) < 0.1
    assert again[2].predicted == pytest.approx(both + forward)
    assert (found.memory, found.skipped) == ([], [])


def test_parts_of_memory_are_predicted_without_a_card() -> None:
    row = {key: value for key, value in LAYER.items() if key != "hardware"}
    row["measured"] = {"params_opt_gib": 45.5625, "activations_gib": 59.25}
    state, kept = sections_of({"memory": [row]}).memory
    assert abs(kept.off) < 0.02
    # Gradients in 16 bit and a copy in 32 for Adam: 20 bytes per parameter; Figure 1 has 18.
    assert state.off == pytest.approx(20 / 18 - 1, abs=0.03)
    assert any("accelerator" in note for note in state.assumed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": None}, "does not print the model"),
        ({"measured": {"pct_of_tp_baseline": {"none": 100}}}, "measures none of"),
        ({"measured": {"forward_ms": -1}}, "measured.forward_ms"),
        ({"parallel": {"tp": "many"}}, "parallel.tp"),
        ({"hardware": 7}, "hardware is 7"),
    ],
)
def test_rows_of_layers_that_cannot_be_mapped_are_left_out(
    change: dict[str, Any], said: str
) -> None:
    found = sections_of({"layer_timing": [{**LAYER, **change}, LAYER]})
    assert said in found.skipped[0].why
    assert len(found.layers) == 3


@pytest.mark.skipif(not SHARED.is_file(), reason=f"{SHARED} is not on this machine")
def test_a_file_with_nothing_but_sections_is_compared(tmp_path: Path) -> None:
    tables = yaml.load(SHARED.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    path = tmp_path / "sections.json"
    kept = {name: tables[name] for name in ("layer_timing", "memory")}
    path.write_text(json.dumps(kept), encoding="utf-8")
    found = json.loads(run("calibrate", str(path), "--json").stdout)
    assert (len(found["layers"]), len(found["memory"]), len(found["skipped"])) == (15, 10, 3)
    kept_gib = [item for item in found["memory"] if item["quantity"] == "activations_gib"]
    assert all(abs(item["error"]) < 0.03 for item in kept_gib)
    shown = run("calibrate", str(path)).stdout
    assert "15 times of layers" in shown
    assert "10 parts of memory" in shown


def test_the_sample_of_the_document_is_a_likely_run(tmp_path: Path) -> None:
    text = (ROOT / "docs/calibrate.md").read_text(encoding="utf-8")
    lines = text[text.index("    measurements:\n") :].split("\n\n")[0].split("\n")
    path = tmp_path / "sample.yaml"
    path.write_text("\n".join(line[4:] for line in lines) + "\n", encoding="utf-8")
    runs, skipped = runs_of(read_runs(path))
    (found,) = judge(runs)
    assert not skipped
    assert found.off == pytest.approx(0, abs=0.1)
    assert found.memory_off == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize(
    ("part", "slip", "meant"),
    [
        ("parallel", "recmpute", "parallel.recompute"),
        ("parallel", "micro_bath", "parallel.micro_batch"),
        ("measured", "step_time", "measured.step_time_s"),
        ("", "modle", "model"),
    ],
)
def test_the_slip_of_a_name_is_no_run(part: str, slip: str, meant: str) -> None:
    row = {**RUN, "id": "slip"}
    row = {**row, part: {**row[part], slip: 1}} if part else {**row, slip: 1}
    runs, skipped = runs_of({"measurements": [row, {**RUN, "id": "other"}]})
    assert [run.id for run in runs] == ["other"]
    assert f"did you mean {meant}?" in skipped[0].why


def test_an_id_stands_for_one_run() -> None:
    runs, skipped = runs_of({"measurements": [{**RUN, "id": "a"}, {**RUN, "id": "a"}]})
    assert len(runs) == len(skipped) == 1
    assert "another run has this id" in skipped[0].why
