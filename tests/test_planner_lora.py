from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm.catalogue import Model, find_model
from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.plan import dumps, loads
from supernode_slurm.planner import Layout, Workload, plan_mixed, plan_uniform, predict
from supernode_slurm.planner.constants import DEFAULT
from supernode_slurm.planner.costs import model_operations
from supernode_slurm.planner.lora import adapter_params
from tests.test_planner import layouts, offer, placed, step_s, workload

SMALL = Model("own", 2, 64, 4, 2, 16, 256, 1000, gated=True, tied=False, params=0)
# Per layer: queries and output 64 x 64, keys and values 64 x 32, three of 64 x 256.
SMALL_LAYER = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 256
SMALL = replace(SMALL, params=2 * SMALL_LAYER + 2 * 64_000)
SMALL_ADAPTERS = 2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 256)
"""Times the rank, per layer."""


def lora(asked: Workload, rank: int = 16) -> Workload:
    return replace(asked, training="lora", lora_rank=rank)


@pytest.mark.parametrize(
    ("model", "rank", "published"),
    # As PEFT prints them for target_modules="all-linear"; QLoRA's 7B has rank 64.
    [
        ("llama-2-7b", 16, 39_976_960),
        ("llama-2-7b", 64, 159_907_840),
        ("llama-3-8b", 16, 41_943_040),
    ],
)
def test_adapters_stand_on_every_linear_map(model: str, rank: int, published: int) -> None:
    asked = lora(workload(model), rank)
    assert adapter_params(asked) * asked.model.layers == published


def test_lora_needs_no_products_for_gradients_of_frozen_weights() -> None:
    sequence, rank = 8, 4
    weights = 2 * SMALL_LAYER + 64_000
    forward = 2 * weights + 2 * 2 * rank * SMALL_ADAPTERS + 2 * 2 * sequence * 64
    # Backward: twice the forward ones, less one product per frozen weight; the first layer's
    # queries, keys and values (width 128) and their adapters pass no gradient on.
    idle = 2 * weights + 2 * 64 * (128 + 3 * rank)
    asked = lora(Workload(SMALL, sequence, 3), rank)
    assert model_operations(asked) == 3 * sequence * (3 * forward - idle)
    assert model_operations(replace(asked, training="full")) == 3 * sequence * 3 * (
        2 * weights + 2 * 2 * sequence * 64
    )


def test_frozen_weights_take_2_bytes_and_adapters_18() -> None:
    asked = lora(workload("llama-2-7b", 8, 1))
    frozen, adapters = 6_738_415_616, 39_976_960
    layout = Layout(1, 8, 1, (32,), "full", 0, False)
    for zero, expected in (
        (0, 2 * frozen + 18 * adapters),
        (1, 2 * frozen + (6 + 12 / 8) * adapters),
        (2, 2 * frozen + (2 + 16 / 8) * adapters),
    ):
        need = predict(asked, offer("h100", 1), replace(layout, zero=zero)).memory_gib[0]
        assert need - DEFAULT.context_gib == pytest.approx(expected / 2**30, rel=1e-3)
    # Sharded, but for two layers and both tables while they compute.
    sharded = predict(asked, offer("h100", 1), replace(layout, zero=3)).memory_gib[0]
    tables = 2 * 32000 * 4096
    whole = 4 * (frozen - tables) / 32 + 2 * tables
    expected = (2 * frozen + 18 * adapters) / 8 + whole
    assert sharded - DEFAULT.context_gib == pytest.approx(expected / 2**30, rel=5e-3)


def test_only_gradients_of_adapters_travel() -> None:
    asked, given_ = workload("llama-2-7b", 32), offer("h100", 4)
    layout = Layout(1, 32, 1, (32,), "full", 0, False, overlap=False)
    full = predict(asked, given_, layout).breakdown_s
    thin = predict(lora(asked), given_, layout).breakdown_s
    share = 39_976_960 / 6_738_415_616
    # But for the starts of four rings of 32 ranks.
    starts = 4 * (DEFAULT.collective_s + 31 * DEFAULT.hop_s)
    assert thin["dp"] == pytest.approx(share * full["dp"], abs=starts)
    passes = [parts["optimizer"] - DEFAULT.step_s for parts in (thin, full)]
    assert passes[0] == pytest.approx(share * passes[1])
    # Under ZeRO-3 the frozen weights are gathered all the same, two of three transfers.
    sharded = replace(layout, zero=3)
    full = predict(asked, given_, sharded).breakdown_s
    thin = predict(lora(asked), given_, sharded).breakdown_s
    # Gradients take 4 bytes of 8; the rest and three starts per layer stay.
    starts = 3 * 32 * (DEFAULT.collective_s + 31 * DEFAULT.hop_s)
    assert thin["dp"] - starts == pytest.approx((full["dp"] - starts) / 2, rel=0.02)


@given(layout=layouts, rank=st.sampled_from([8, 16, 64]))
@settings(max_examples=30)
def test_lora_never_needs_more_memory_and_a_rank_costs(layout: Layout, rank: int) -> None:
    base = placed(layout)
    full = predict(workload(), base, layout)
    thin = predict(lora(workload(), rank), base, layout)
    thick = predict(lora(workload(), 2 * rank), base, layout)
    assert thin.memory_gib[0] < full.memory_gib[0]
    assert thin.memory_gib[0] < thick.memory_gib[0]
    assert thin.step_time_s < thick.step_time_s
    assert thin.breakdown_s["dp"] <= full.breakdown_s["dp"]
    assert 0 < thin.mfu < 0.8


def test_a_model_too_large_to_train_is_tuned_on_one_node() -> None:
    asked = workload("llama-3-70b", 64)
    with pytest.raises(PlanError, match="does not fit"):
        plan_uniform(asked, offer("h100", 1), capabilities("megatron"))
    best = plan_uniform(lora(asked), offer("h100", 1), capabilities("megatron"))[0]
    assert best.training == "lora"
    assert loads(dumps(best)) == best


def test_lora_is_planned_across_kinds_of_devices() -> None:
    asked = lora(replace(workload("qwen2.5-7b", 64), framework="flagscale"))
    offers = [offer("a100", 1), offer("h100", 1)]
    plans = plan_mixed(asked, offers, capabilities("flagscale"))
    assert {plan.training for plan in plans} == {"lora"}
    by_speed = plan_mixed(replace(asked, framework="torch"), offers, capabilities("torch"))
    assert by_speed[0].training == "lora"
    assert step_s(by_speed[0]) > 0


@pytest.mark.parametrize(
    ("model", "measured_s"),
    # NVIDIA-NeMo/Automodel docs/performance-summary.md (2025-10), DGX H100, BF16: one device,
    # micro-batch 2, 32 sequences of 4096, rank 16 on all linear maps, nothing recomputed.
    [("llama-3-8b", 10.51), ("qwen2.5-7b", 9.29)],
)
def test_published_lora_runs_on_an_h100_are_predicted(model: str, measured_s: float) -> None:
    found = predict(
        lora(workload(model, 32)),
        offer("h100", 1, 1),
        Layout(1, 1, 2, (find_model(model).layers,), "none", 0, False),
    )
    assert found.step_time_s == pytest.approx(measured_s, rel=0.2)
    assert found.memory_gib[0] < 79.6


QWEN_7B = replace(
    find_model("qwen2.5-7b"),
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=32,
    ffn=11008,
    vocab=151936,
    params=7_721_324_544,
)
QWEN_14B = replace(
    QWEN_7B, layers=40, hidden=5120, heads=40, kv_heads=40, ffn=13696, params=14_167_290_880
)
QWEN_72B = replace(
    QWEN_7B, layers=80, hidden=8192, heads=64, kv_heads=64, ffn=24576, params=72_287_920_128
)


@pytest.mark.parametrize(
    ("model", "devices", "sequence", "gigabytes", "measured_s"),
    # QwenLM/Qwen README (2023-12), A100 80 GB, micro-batch 1, 8 of them per step, rank 64 on all
    # linear maps, gradient checkpointing; 72B under ZeRO-3, its memory the sum of 4 devices.
    [
        (QWEN_7B, 1, 2048, 23.8, 5.2),
        (QWEN_7B, 1, 4096, 29.7, 10.1),
        (QWEN_7B, 1, 8192, 36.6, 21.3),
        (QWEN_14B, 1, 2048, 37.4, 8.4),
        (QWEN_14B, 1, 4096, 42.5, 17.0),
        (QWEN_14B, 1, 8192, 55.2, 36.0),
        (QWEN_72B, 4, 4096, 249.0 / 4, 83.4),
        (QWEN_72B, 4, 8192, 289.2 / 4, 161.5),
    ],
)
def test_published_lora_runs_on_a100_are_predicted(
    model: Model, devices: int, sequence: int, gigabytes: float, measured_s: float
) -> None:
    zero = 3 if devices > 1 else 0
    found = predict(
        lora(Workload(model, sequence, 8 * devices, framework="hf"), 64),
        offer("a100-sxm-80g", 1, devices),
        Layout(1, devices, 1, (model.layers,), "full", zero, False),
    )
    assert found.step_time_s == pytest.approx(measured_s, rel=0.15)
    # The allocator's figure; Transformers keeps more copies of the logits than a fused loss.
    allocated = (found.memory_gib[0] - DEFAULT.context_gib) * 2**30 / 1e9
    assert 0.8 < allocated / gigabytes < 1.05


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"training": "qlora"}, "training 'qlora' is not planned; use full or lora"),
        ({"lora_rank": 0}, "rank of LoRA must be positive, got 0"),
    ],
)
def test_training_that_is_not_planned_is_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        replace(workload(), **change)  # type: ignore[arg-type]
