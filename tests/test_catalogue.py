from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supernode_slurm.catalogue import (
    UnknownName,
    accelerators,
    find_accelerator,
    find_model,
    models,
    platform,
)
from supernode_slurm.catalogue.model import FAMILIES, count_params
from supernode_slurm.catalogue.names import fold, packaged
from supernode_slurm.errors import ConfigError, PlanError

LLAMA_3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


def write_config(folder: Path, config: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def test_no_two_accelerators_answer_to_one_name() -> None:
    seen: dict[str, str] = {}
    for item in accelerators():
        for name in (item.id, *item.aliases):
            assert seen.setdefault(fold(name), item.id) == item.id
    assert len(accelerators()) == 50


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("H100", "h100-sxm"),
        ("h100-sxm", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80g"),
        ("ascend910c", "ascend-910c"),
        ("Ascend_910B2", "ascend-910b2"),
        ("思元590", "mlu590"),
        ("kunlunp800", "kunlun-p800"),
    ],
)
def test_an_accelerator_is_found_by_id_alias_and_gres_type(name: str, found: str) -> None:
    assert find_accelerator(name).id == found


def test_an_unknown_accelerator_is_answered_with_near_names() -> None:
    with pytest.raises(UnknownName, match=r"no accelerator 'h10'; did you mean h100-sxm"):
        find_accelerator("h10")
    with pytest.raises(UnknownName) as caught:
        find_accelerator("'; x\n\u202e" * 1000)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("h100-sxm", "h100"),
        ("a100-sxm-40g", "a100"),
        ("ascend-910c", "ascend910c"),
        ("mlu370-x8", "mlu370"),
        ("dcu-k100-ai", "dcuk100"),
    ],
)
def test_the_gres_type_ends_with_the_first_part_that_has_a_digit(name: str, short: str) -> None:
    assert find_accelerator(name).gres_type == short


def test_figures_of_a_card_with_two_devices_are_halved() -> None:
    card = find_accelerator("ascend-910c")
    assert card.card_bf16_tflops == 707.8
    assert card.peak_tflops("bf16") == pytest.approx(353.9)
    assert card.peak_tflops("fp16") == 376
    assert (card.memory_gib, card.memory_gbs, card.scale_up_gbs) == (64, 1759, 196)
    assert card.devices_per_node == 16


def test_measured_matmul_rates_replace_the_prior() -> None:
    assert find_accelerator("a100-sxm-80g").matmul_tflops("bf16") == pytest.approx(271.2)
    assert find_accelerator("h20-96g").matmul_tflops("bf16") == pytest.approx(0.7 * 148)
    # The rate measured in bf16 carries over to fp16 by the peaks: 376 / 353.9.
    assert find_accelerator("910b2").matmul_tflops("fp16") == pytest.approx(304.3 * 376 / 353.9)


def test_what_nobody_has_said_stays_unknown() -> None:
    card = find_accelerator("br166")
    assert card.memory_gib is None
    assert card.peak_tflops("bf16") is None
    assert card.matmul_tflops("fp8") is None
    assert find_accelerator("ascend-910a").peak_tflops("bf16") is None


def test_every_accelerator_has_a_platform_that_slurm_accepts() -> None:
    flags = {"nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "no_gpu_env"}
    for item in accelerators():
        found = platform(item.vendor)
        assert found.slurm_env_flag in flags
        assert found.visible_env
        assert all(name.isidentifier() for name in found.visible_env)
        assert all(" " not in name for name in found.files(0) + found.control_files)
    with pytest.raises(UnknownName, match="did you mean nvidia"):
        platform("nvidea")


def test_device_files_follow_the_index() -> None:
    assert platform("nvidia").files(3) == ("/dev/nvidia3",)
    assert platform("amd").files(3) == ("/dev/dri/renderD131", "/dev/dri/card3")
    assert platform("huawei").files(10) == ("/dev/davinci10",)


def test_one_variable_hides_devices_of_amd() -> None:
    # ROCR_ is applied first and HIP_ counts inside it: set both and devices vanish.
    assert platform("amd").visible_env == ("ROCR_VISIBLE_DEVICES",)
    assert platform("hygon").slurm_env_flag == "no_gpu_env"


@pytest.mark.parametrize(
    "raw", [raw for raw in packaged("models.yaml")["models"] if raw["type"] in FAMILIES], ids=str
)
def test_the_formula_counts_every_parameter_of_a_dense_model(raw: dict[str, Any]) -> None:
    model = find_model(raw["name"])
    assert count_params(model, FAMILIES[raw["type"]], raw.get("positions", 0)) == raw["params"]
    assert model.params == raw["params"]


@pytest.mark.parametrize(
    "name",
    [
        "Llama-3-70B",
        "llama-3-70b",
        "LLAMA_3_70B",
        "meta-llama/Meta-Llama-3-70B",
        "Llama-3.3-70B-Instruct",
        "meta-llama/Llama-3.1-70B",
    ],
)
def test_a_model_is_found_by_each_spelling(name: str) -> None:
    assert find_model(name).name == "meta-llama/Meta-Llama-3-70B"
    assert find_model(name).params == 70_553_706_496


def test_an_unknown_model_is_answered_with_near_names() -> None:
    with pytest.raises(UnknownName, match=r"no model 'llama-3-71b'; did you mean .*Llama-3-70B"):
        find_model("llama-3-71b")


def test_short_names_of_models_are_unique() -> None:
    assert len({find_model(model.name.split("/")[1]).name for model in models()}) == len(models())


def test_a_config_file_gives_the_exact_count(hostile_path: Path) -> None:
    path = write_config(hostile_path, LLAMA_3_8B)
    assert find_model(str(path)).params == 8_030_261_248
    assert find_model(str(hostile_path)).layers == 32


@pytest.mark.parametrize(
    ("config", "params"),
    [
        (
            {
                "model_type": "qwen2",
                "hidden_size": 896,
                "num_hidden_layers": 24,
                "num_attention_heads": 14,
                "num_key_value_heads": 2,
                "intermediate_size": 4864,
                "vocab_size": 151936,
                "tie_word_embeddings": True,
            },
            494_032_768,
        ),
        (
            {
                "model_type": "gpt2",
                "n_embd": 768,
                "n_layer": 12,
                "n_head": 12,
                "n_inner": None,
                "n_positions": 1024,
                "vocab_size": 50257,
            },
            124_439_808,
        ),
    ],
)
def test_config_files_of_other_families(
    tmp_path: Path, config: dict[str, object], params: int
) -> None:
    assert find_model(str(write_config(tmp_path, config))).params == params


def test_a_bad_config_file_names_every_problem(tmp_path: Path) -> None:
    bad = {**LLAMA_3_8B, "hidden_size": "sixteen", "num_hidden_layers": True, "vocab_size": -1}
    path = write_config(tmp_path, bad)
    with pytest.raises(ConfigError) as caught:
        find_model(str(path))
    assert len(caught.value.problems) == 3
    assert f"{path}: hidden_size must be a positive integer, got 'sixteen'" in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, " " * (1 << 21), '{"model_type": {}}'])
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        find_model(str(path))
    assert str(path) in str(caught.value)


def test_a_missing_or_binary_config_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(ConfigError, match="No such file"):
        find_model(str(path))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        find_model(str(path))


def test_a_mixture_of_experts_in_a_file_is_not_planned(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="mixture of experts"):
        find_model(str(write_config(tmp_path, {**LLAMA_3_8B, "model_type": "mixtral"})))
