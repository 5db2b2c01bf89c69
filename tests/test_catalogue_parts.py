"""The parameters of a model's parts, against counts that were published."""

from __future__ import annotations

import pytest

from supernode_slurm.catalogue import Model, find_model, models


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_the_parts_of_a_model_make_its_parameters(model: Model) -> None:
    experts = model.mixture.experts if model.mixture else 0
    dense = model.layers - model.mixture_layers
    mixture = model.router_params + model.shared_params + experts * model.expert_params
    assert model.params == (
        model.layers * model.attention_params
        + dense * model.dense_mlp_params
        + model.mixture_layers * mixture
        + (1 if model.tied else 2) * model.table_params
        + model.outside_params
    )
    assert model.parts_params == model.params
    assert bool(model.router_params) == bool(model.expert_params) == bool(model.mixture)


def parts(name: str) -> tuple[int, ...]:
    model = find_model(name)
    first = (model.attention_params, model.dense_mlp_params, model.router_params)
    return (*first, model.shared_params, model.expert_params, model.outside_params)


def test_norms_and_biases_belong_to_the_part_that_has_them() -> None:
    # gpt2: two norms with biases, a bias of each matrix, 1024 positions.
    attention = 4 * 768 * 768 + 4 * 768 + 2 * 2 * 768
    mlp = 2 * 768 * 3072 + 3072 + 768
    assert parts("gpt2") == (attention, mlp, 0, 0, 0, 2 * 768 + 1024 * 768)
    # Qwen1.5-MoE: biases of queries, keys and values; a gate of the shared experts.
    expert = 3 * 2048 * 1408
    attention = 4 * 2048 * 2048 + 3 * 2048 + 2 * 2048
    found = parts("qwen1.5-moe-a2.7b")
    assert found == (attention, 3 * 2048 * 5632, 60 * 2048, 3 * 2048 * 5632 + 2048, expert, 2048)
    # DeepSeek-V3: norms of both ranks, a correction of each expert.
    query = 7168 * 1536 + 1536 + 1536 * 128 * 192
    key_value = 7168 * (512 + 64) + 512 + 512 * 128 * (128 + 128)
    attention = query + key_value + 128 * 128 * 7168 + 2 * 7168
    expert = 3 * 7168 * 2048
    router = 256 * 7168 + 256
    assert parts("deepseek-v3") == (attention, 3 * 7168 * 18432, router, expert, expert, 7168)


def test_a_module_of_multi_token_prediction_is_a_layer_and_a_projection() -> None:
    model = find_model("deepseek-v3")
    assert model.mtp == 1
    layer = model.attention_params + model.router_params + model.shared_params
    layer += 256 * model.expert_params
    assert model.mtp_params == layer + 2 * 7168 * 7168 + 3 * 7168
    # Published: 11.5B of its own, beside the embedding and the head that it shares.
    assert model.mtp_params == pytest.approx(11.5e9, rel=0.02)
    dense = find_model("llama-3-8b")
    layer = dense.attention_params + dense.dense_mlp_params
    assert (dense.mtp, dense.mtp_params) == (0, layer + 2 * 4096 * 4096 + 3 * 4096)


VISION = {"hidden": 1152, "ffn": 4304, "layers": 27, "patch": 14, "positions": 4096}


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("gemma-3-4b", 4_300_079_472),
        ("gemma-3-12b", 12_187_325_040),
        ("gemma-3-27b", 27_432_406_640),
    ],
)
def test_gemma_3_and_its_eyes_make_the_published_count(name: str, published: int) -> None:
    width, ffn = VISION["hidden"], VISION["ffn"]
    layer = 4 * (width * width + width) + 2 * width * ffn + ffn + width + 4 * width
    tower = VISION["layers"] * layer + 2 * width
    tower += 3 * VISION["patch"] ** 2 * width + width + VISION["positions"] * width
    model = find_model(name)
    assert model.params + tower + width * model.hidden + width == published


@pytest.mark.parametrize(
    ("name", "total", "experts", "attention", "active"),
    [("gpt-oss-20b", 20.91, 19.12, 0.64, 3.61), ("gpt-oss-120b", 116.83, 114.71, 0.96, 5.13)],
)
def test_gpt_oss_is_counted_as_its_model_card_does(
    name: str, total: float, experts: float, attention: float, active: float
) -> None:
    model = find_model(name)
    assert model.mixture is not None
    mlp = model.router_params + model.mixture.experts * model.expert_params
    # The card leaves the embedding out of the active parameters.
    shares = (model.params, model.layers * mlp, model.layers * model.attention_params)
    counts = (*shares, model.params_active - model.table_params)
    assert [round(count / 1e9, 2) for count in counts] == [total, experts, attention, active]
