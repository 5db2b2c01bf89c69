from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from supernode_slurm.catalogue import Model, UnknownName, find_model, models
from supernode_slurm.catalogue.names import packaged
from supernode_slurm.cli.main import cli
from supernode_slurm.data import data_dir
from supernode_slurm.errors import ConfigError, PlanError

PUBLISHED = Path(__file__).resolve().parents[2] / "shared/data/models.yaml"
ENTRIES = packaged("models.yaml")["models"]

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


@pytest.mark.parametrize("raw", ENTRIES, ids=[raw["name"] for raw in ENTRIES])
def test_the_formula_counts_every_parameter(raw: dict[str, Any]) -> None:
    model = find_model(raw["name"])
    assert model.params == raw["params"]
    assert model.params_active == raw.get("active", raw["params"])
    assert (model.mixture is None) == ("active" not in raw)


def published() -> list[dict[str, Any]]:
    """Return the models of the table of published counts; none where it is not at hand."""
    if not PUBLISHED.is_file():
        return []
    found = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))["models"]
    assert isinstance(found, list)
    return found


def test_all_models_of_the_table_are_in_the_catalogue_with_its_counts() -> None:
    table = published()
    if not table:
        pytest.skip(f"{PUBLISHED} is not at hand")
    assert {row["name"] for row in table} <= {model.name for model in models()}
    for row in table:
        model = find_model(row["name"])
        assert model.params == row["params_total_exact"], row["name"]
        assert model.params_active == row["params_active_exact"] or model.mixture is None


@pytest.mark.parametrize("row", published(), ids=lambda row: str(row["name"]))
def test_the_published_configuration_reads_as_the_model(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    config = dict(row["hf_config"], _name_or_path=row["name"])
    if config["model_type"] == "gpt2":
        names = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer"}
        names["num_attention_heads"] = "n_head"
        config = {names.get(key, key): value for key, value in config.items()}
    # The table leaves this out of its copy of DeepSeek-V3's.
    config["num_nextn_predict_layers"] = find_model(row["name"]).mtp
    assert find_model(str(write_config(tmp_path, config))) == find_model(row["name"])


DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "num_nextn_predict_layers": 1,
    "attention_bias": False,
}


def read(folder: Path, config: dict[str, object], **changes: object) -> Model:
    return find_model(str(write_config(folder, {**config, **changes})))


def test_a_mixture_with_latent_attention_is_read_whole(tmp_path: Path) -> None:
    model = read(tmp_path, DEEPSEEK_V3, _name_or_path="deepseek-ai/DeepSeek-V3")
    assert model == find_model("deepseek-v3")
    assert (model.attention, model.head_dim) == ("MLA", 192)
    assert model.mixture is not None
    assert model.mixture.dense_layers == (0, 1, 2)
    # Multi-token prediction is no part of the published 671B.
    assert model.params == 671_026_419_200
    assert model.params_active == 37_552_297_472


def test_queries_are_compressed_unless_the_rank_is_null(tmp_path: Path) -> None:
    plain = read(tmp_path, DEEPSEEK_V3, q_lora_rank=None)
    assert plain.latent is not None
    assert plain.latent.query_rank == 0
    low = 1536 * (7168 + 1 + 128 * 192)
    assert plain.params - read(tmp_path, DEEPSEEK_V3).params == 61 * (7168 * 128 * 192 - low)
    unsaid = {key: value for key, value in DEEPSEEK_V3.items() if key != "q_lora_rank"}
    with pytest.raises(ConfigError, match="q_lora_rank is missing"):
        read(tmp_path, unsaid)


QWEN_MOE = {
    "model_type": "qwen2_moe",
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 100,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
}


def test_dense_layers_of_a_mixture_are_where_the_configuration_says(tmp_path: Path) -> None:
    every = read(tmp_path, QWEN_MOE)
    assert every.mixture is not None
    assert every.mixture.dense_layers == ()
    some = read(tmp_path, QWEN_MOE, decoder_sparse_step=2, mlp_only_layers=[5])
    assert some.mixture is not None
    assert some.mixture.dense_layers == (0, 2, 4, 5)
    # Per layer: eight experts, one shared, a router and a gate against one MLP of 96.
    experts = 3 * 64 * (8 * 32 + 48) + 8 * 64 + 64
    assert every.params - some.params == 4 * (experts - 3 * 64 * 96)
    assert some.params - some.params_active == 2 * 6 * 3 * 64 * 32


GPT_OSS: dict[str, object] = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2880,
    "vocab_size": 201088,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
}


def test_a_configuration_of_gpt_oss_reads_as_the_model(tmp_path: Path) -> None:
    known = find_model("gpt-oss-20b")
    assert read(tmp_path, GPT_OSS, _name_or_path=known.name) == known
    unsaid = {
        key: value for key, value in GPT_OSS.items() if key not in ("layer_types", "head_dim")
    }
    assert read(tmp_path, unsaid, _name_or_path=known.name) == known


def test_the_text_of_a_model_that_sees_is_read_with_what_its_class_implies(tmp_path: Path) -> None:
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    whole: dict[str, object] = {
        "model_type": "gemma3",
        "text_config": text,
        "_name_or_path": "google/gemma-3-4b",
    }
    assert read(tmp_path, whole) == find_model("gemma-3-4b")
    with pytest.raises(ConfigError, match="model_type 'gemma3' is not known"):
        read(tmp_path, {"model_type": "gemma3"})


@pytest.mark.parametrize(
    ("kind", "changes", "window"),
    [
        ("mistral", {}, (4096, 32)),
        ("mistral", {"sliding_window": None}, (0, 0)),
        ("llama", {"sliding_window": 4096}, (0, 0)),
        ("qwen2", {"sliding_window": 4096}, (0, 0)),
        ("qwen2", {"sliding_window": 4096, "use_sliding_window": True}, (4096, 4)),
        ("qwen3", {"sliding_window": 4096, "use_sliding_window": True}, (4096, 4)),
        (
            "qwen2",
            {"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 40},
            (0, 0),
        ),
        ("gemma2", {}, (4096, 16)),
        ("gemma2", {"num_hidden_layers": 5}, (4096, 3)),
        ("gemma3_text", {"sliding_window": 512}, (512, 27)),
        ("gemma3_text", {"sliding_window": 512, "sliding_window_pattern": 4}, (512, 24)),
        ("gemma3_text", {"sliding_window": 512, "_sliding_window_pattern": 2}, (512, 16)),
        ("gemma2", {"layer_types": ["full_attention"] * 32}, (0, 0)),
        ("qwen3", {"layer_types": ["sliding_attention"] * 32}, (0, 0)),
    ],
)
def test_windows_are_where_the_class_of_the_type_has_them(
    tmp_path: Path, kind: str, changes: dict[str, object], window: tuple[int, int]
) -> None:
    model = read(tmp_path, LLAMA_3_8B, model_type=kind, **changes)
    assert (model.window, model.window_layers) == window


def test_windows_of_a_mixture(tmp_path: Path) -> None:
    used = {"use_sliding_window": True, "sliding_window": 64}
    early = read(tmp_path, QWEN_MOE, **used, max_window_layers=5)
    assert (early.window, early.window_layers) == (64, 3)
    every = read(tmp_path, QWEN_MOE, model_type="qwen3_moe", **used)
    assert (every.window, every.window_layers) == (64, 6)


@pytest.mark.parametrize("kinds", ["all", ["sliding_attention"], 7])
def test_kinds_of_layers_that_are_no_list_of_all_are_refused(tmp_path: Path, kinds: object) -> None:
    with pytest.raises(ConfigError, match="layer_types must be a list of 32, one for each layer"):
        read(tmp_path, LLAMA_3_8B, model_type="gemma2", layer_types=kinds)


@pytest.mark.parametrize(
    ("kind", "changes", "more"),
    [
        ("llama", {"attention_bias": True}, 4096 + 2 * 1024 + 4096),
        ("llama", {"mlp_bias": True}, 2 * 14336 + 4096),
        ("qwen3", {"attention_bias": True, "head_dim": 128}, 4096 + 2 * 1024 + 4096),
        # These types have no such option; transformers ignores it.
        ("mistral", {"attention_bias": True}, 0),
        ("qwen2", {"attention_bias": False}, 0),
    ],
)
def test_biases_are_counted_where_the_type_has_them(
    tmp_path: Path, kind: str, changes: dict[str, object], more: int
) -> None:
    base = read(tmp_path, LLAMA_3_8B, model_type=kind)
    assert read(tmp_path, LLAMA_3_8B, model_type=kind, **changes).params == base.params + 32 * more


def test_what_a_configuration_leaves_out_is_the_default_of_its_type(tmp_path: Path) -> None:
    assert read(tmp_path, LLAMA_3_8B, model_type="gemma", hidden_size=2048).head_dim == 256
    assert read(tmp_path, LLAMA_3_8B, model_type="qwen3", hidden_size=2048).head_dim == 128
    assert read(tmp_path, LLAMA_3_8B, hidden_size=2048).head_dim == 64
    assert read(tmp_path, LLAMA_3_8B, model_type="gemma").tied


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_experts_per_tok": 9}, "num_experts_per_tok is 9, more than num_experts, 8"),
        ({"num_experts": 0}, "num_experts must be a positive integer, got '0'"),
        ({"mlp_only_layers": "all"}, "mlp_only_layers must be a list of integers, got 'all'"),
        ({"num_hidden_layers": 1 << 20}, "num_hidden_layers must be a positive integer"),
        ({"moe_intermediate_size": None}, "moe_intermediate_size is missing"),
        ({"decoder_sparse_step": 0}, "decoder_sparse_step must be a positive integer"),
    ],
)
def test_an_impossible_mixture_is_refused(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        read(tmp_path, QWEN_MOE, **changes)


def test_a_model_says_how_its_heads_share_keys() -> None:
    shares = {name: find_model(name).attention for name in ("gpt2", "llama-3-8b", "gemma-2b")}
    assert shares == {"gpt2": "MHA", "llama-3-8b": "GQA", "gemma-2b": "MQA"}
    assert dataclasses.replace(find_model("deepseek-v2"), latent=None).attention == "MHA"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistralai/Mixtral-8x7B-v0.1"),
        ("deepseek-v2-lite-16b", "deepseek-ai/DeepSeek-V2-Lite"),
        ("gpt2-345m", "openai-community/gpt2-medium"),
        ("llama3.1-405b", "meta-llama/Llama-3.1-405B"),
        ("kimi-k2", "moonshotai/Kimi-K2"),
        ("qwen2-1.5b", "Qwen/Qwen2.5-1.5B"),
    ],
)
def test_names_that_published_measurements_use_are_found(name: str, found: str) -> None:
    assert find_model(name).name == found


def test_a_mixture_is_read_and_planned_where_it_fits(tmp_path: Path) -> None:
    path = write_config(tmp_path, DEEPSEEK_V3)
    inventory = Path(str(data_dir("topology_conf"))) / "inventories/mixed.yaml"
    asked = ["plan", "-i", str(inventory), "--model", str(path), "--cards"]
    found = CliRunner().invoke(cli, [*asked, "8"], standalone_mode=False)
    assert isinstance(found.exception, PlanError)
    # Each place where the job could run says what it lacks.
    words = str(found.exception)
    assert words.count("does not fit on 8 x") >= 2
    mixed = CliRunner().invoke(cli, [*asked, "h100:64,a100:16"], standalone_mode=False)
    assert isinstance(mixed.exception, PlanError)
    assert "does not fit on 64 x h100-sxm + 16 x a100-sxm-80g" in str(mixed.exception)


def test_the_table_of_models_tells_kind_and_active_parameters() -> None:
    shown = CliRunner().invoke(cli, ["show", "models"])
    lines = shown.stdout.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 100
    rows = {cells[0]: cells[1:] for cells in map(str.split, lines) if len(cells) == 7}
    assert len(rows) == len(models()) + 1
    dense = ["6738415616", "6738415616", "dense", "MHA", "32", "4096"]
    assert rows["meta-llama/Llama-2-7b"] == dense
    mixture = ["671026419200", "37552297472", "MoE", "MLA", "61", "7168"]
    assert rows["deepseek-ai/DeepSeek-V3"] == mixture
