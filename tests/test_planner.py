from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm.catalogue import find_accelerator, find_model, platform
from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.plan import DeviceGroup, Plan, dumps, loads
from supernode_slurm.planner import Layout, Offer, Workload, plan_uniform, predict
from supernode_slurm.planner.constants import DEFAULT
from supernode_slurm.planner.space import divisors, tensor_sizes
from supernode_slurm.planner.workload import agree_precision

PARTS = ["compute", "tp", "cp", "ep", "pp", "bubble", "dp", "optimizer", "data"]


def offer(name: str, nodes: int, per_node: int = 8, domain: int = 1) -> Offer:
    card = find_accelerator(name)
    group = DeviceGroup(
        name=card.gres_type,
        accelerator=card.id,
        vendor=card.vendor,
        visible_env=platform(card.vendor).visible_env,
        gres="gpu",
        hosts=f"{card.gres_type}-[01-{nodes:02}]",
        nodes=nodes,
        devices_per_node=per_node,
    )
    return Offer(
        group=group,
        accelerator=card,
        domain_nodes=domain,
        scale_up_gbs=card.scale_up_gbs or 32,
        scale_up_latency_ns=500,
        network_gbs=50.0 * per_node,
        node_devices=per_node,
    )


def workload(model: str = "llama-3-8b", batch: int = 256, sequence: int = 4096) -> Workload:
    return Workload(find_model(model), sequence, batch)


def uniform(asked: Workload, given_: Offer, framework: str = "megatron") -> tuple[Plan, ...]:
    return plan_uniform(replace(asked, framework=framework), given_, capabilities(framework))


def step_s(plan: Plan) -> float:
    assert plan.predicted is not None
    return plan.predicted.step_time_s


LLAMA_70B = uniform(workload("llama-3-70b", 1024), offer("h100", 8))


def test_every_plan_uses_all_devices_and_all_layers() -> None:
    for plan in LLAMA_70B:
        (pipeline,) = plan.pipelines
        (mesh,) = pipeline.meshes
        assert mesh.tp * mesh.cp * mesh.pp * mesh.dp == plan.devices == 64
        assert sum(stage.layers for stage in pipeline.stages) == 80
        assert len(pipeline.stages) == mesh.pp
        assert pipeline.samples == plan.global_batch == 1024
        assert 1024 % (mesh.dp * mesh.micro_batch) == 0
        assert [stage.embedding for stage in pipeline.stages].index(True) == 0
        assert pipeline.stages[-1].head
        assert 8 % mesh.tp == 0


def test_plans_come_best_first_and_fit() -> None:
    times = [step_s(plan) for plan in LLAMA_70B]
    assert times == sorted(times)
    assert all(plan.predicted and plan.predicted.memory_gib[0] < 79.6 for plan in LLAMA_70B)


def test_the_parts_of_a_step_add_up_to_it() -> None:
    for plan in LLAMA_70B:
        assert plan.predicted is not None
        assert list(plan.predicted.breakdown_s) == PARTS
        assert min(plan.predicted.breakdown_s.values()) >= 0
        assert sum(plan.predicted.breakdown_s.values()) == pytest.approx(step_s(plan))
        assert 0 < plan.predicted.mfu < 0.8


def test_a_plan_survives_its_journey_into_the_job() -> None:
    assert loads(dumps(LLAMA_70B[0])) == LLAMA_70B[0]


def test_tensor_parallelism_crosses_nodes_only_inside_a_supernode() -> None:
    asked, able = workload("llama-3-70b", 256), capabilities("megatron")
    for domain, sizes in ((1, [1, 2, 4]), (18, [1, 2, 4, 8, 16, 32, 64])):
        given_ = offer("gb200", 16, per_node=4, domain=domain)
        assert tensor_sizes(asked, given_, able) == sizes


def test_key_heads_limit_tensor_parallelism() -> None:
    # Qwen2.5-7B: 28 heads and 4 key heads; of the sizes up to 8 only these divide the heads.
    found = tensor_sizes(workload("qwen2.5-7b", 64), offer("h100", 1), capabilities("megatron"))
    assert found == [1, 2, 4]


def test_key_heads_are_copied_only_where_the_framework_does_it() -> None:
    # Llama-3-70B has 8 key heads.
    rack = offer("gb200", 16, per_node=4, domain=18)
    asked = workload("llama-3-70b", 64)
    assert max(tensor_sizes(asked, rack, capabilities("megatron"))) == 64
    for framework in ("mindspeed", "flagscale", "torchtitan"):
        assert max(tensor_sizes(asked, rack, capabilities(framework))) == 8


def test_tensor_parallelism_divides_the_sequence() -> None:
    for sequence, sizes in (
        (4096, [1, 2, 4, 8]),
        (1000, [1, 2, 4, 8]),
        (4100, [1, 2, 4]),
        (99, [1]),
    ):
        asked = workload("llama-3-8b", 64, sequence)
        assert tensor_sizes(asked, offer("h100", 1), capabilities("megatron")) == sizes


def test_a_framework_gets_only_what_it_can_run() -> None:
    plans = uniform(workload(batch=256), offer("h100", 4), "torch")
    assert {(m.tp, m.pp) for plan in plans for m in plan.pipelines[0].meshes} == {(1, 1)}
    even = replace(capabilities("megatron"), uneven_stages=False)
    for plan in plan_uniform(workload(batch=256), offer("h100", 4), even):
        assert len({stage.layers for stage in plan.pipelines[0].stages}) == 1
    sharded = uniform(workload(batch=256), offer("h100", 4), "torchtitan")
    assert {plan.pipelines[0].meshes[0].zero for plan in sharded} <= {0, 3}


def test_uneven_stages_are_never_slower_than_even_ones() -> None:
    even = replace(capabilities("megatron"), uneven_stages=False)
    for model in ("llama-3-8b", "qwen2.5-32b", "llama-3-70b"):
        asked, given_ = workload(model, 512), offer("h100", 8)
        best_even = step_s(plan_uniform(asked, given_, even)[0])
        assert step_s(uniform(asked, given_)[0]) <= best_even * (1 + 1e-9)


def test_fp16_is_taken_where_a_card_has_no_bf16() -> None:
    plans = uniform(workload("qwen2.5-1.5b", 64, 2048), offer("ascend-910a", 1))
    assert plans[0].precision == "fp16"
    assert LLAMA_70B[0].precision == "bf16"


def test_what_does_not_fit_says_how_much_is_missing() -> None:
    with pytest.raises(PlanError) as caught:
        uniform(workload("llama-3-70b", 512), offer("h100", 1))
    text = str(caught.value)
    assert "does not fit on 8 x h100-sxm" in text
    assert "of 79.6 GiB" in text
    needed = float(text.split("at least ")[1].split(maxsplit=1)[0])
    # 70.6e9 parameters at 18 bytes over 8 devices are 148 GiB before any activation.
    assert 147 < needed < 160


def test_a_batch_that_cannot_be_dealt_is_named() -> None:
    with pytest.raises(PlanError, match="global batch of 7 does not divide over 16 x h100-sxm"):
        uniform(workload("qwen2.5-0.5b", 7), offer("h100", 2), "torch")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sequence": 0}, "must be positive"),
        ({"global_batch": -8}, "must be positive"),
        ({"precision": "int8"}, "'int8' is not planned; use one of bf16, fp16, fp8"),
    ],
)
def test_a_workload_that_is_not_planned_is_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        replace(workload(), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        (
            "br166",
            r"nobody has published of br166 the bf16 or fp16 TFLOPS \(to measure: multiply large "
            r"matrices on one device\), memory size \(brsmi shows it\), memory bandwidth \(to .*: "
            r"give it in the inventory, like 'accelerators: \{br166: \{bf16: 300 TFLOPS, memory: ",
        ),
        ("kunlun-p800", r"nobody has published of kunlun-p800 the memory bandwidth \(to measure"),
        ("k80", "k80 has no units for bf16 or fp16: ask for other cards, or give no model"),
    ],
)
def test_a_figure_that_nobody_published_is_refused_by_name(card: str, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        uniform(workload(), offer(card, 1))


def test_cards_without_a_common_precision_are_refused() -> None:
    bf16_only = replace(offer("a100", 1).accelerator, card_fp16_tflops=0)
    offers = [replace(offer("a100", 1), accelerator=bf16_only), offer("v100", 1)]
    with pytest.raises(PlanError, match="a100-sxm-80g and v100-sxm-16g have no precision in"):
        agree_precision(workload(), offers, capabilities("megatron"))
    assert (
        agree_precision(
            workload(), [offer("a100", 1), offer("v100", 1)], capabilities("megatron")
        ).precision
        == "fp16"
    )


layouts = st.builds(
    lambda tp, pp, dp, micro_batch, recompute, zero: Layout(
        tp, dp, micro_batch, (32 // pp,) * pp, recompute, zero, tp > 1
    ),
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 4, 8]),
    dp=st.sampled_from([1, 2, 4, 16]),
    micro_batch=st.sampled_from([1, 2, 4]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    zero=st.sampled_from([0, 1, 3]),
)


def placed(layout: Layout, name: str = "h100") -> Offer:
    devices = layout.tp * layout.pp * layout.dp
    return offer(name, max(devices // 8, 1), min(devices, 8))


@given(layout=layouts, factor=st.floats(1.01, 8))
@settings(max_examples=30)
def test_better_hardware_is_never_slower(layout: Layout, factor: float) -> None:
    base = placed(layout)
    card = base.accelerator
    before = predict(workload(), base, layout).step_time_s
    better = [
        replace(base, scale_up_gbs=base.scale_up_gbs * factor),
        replace(base, network_gbs=base.network_gbs * factor),
        replace(base, scale_up_latency_ns=base.scale_up_latency_ns / factor),
        replace(base, accelerator=replace(card, card_memory_gbs=3350 * factor)),
        replace(base, accelerator=replace(card, card_bf16_tflops=989 * factor)),
    ]
    # A measured rate is kept when the peak rises, so raise it alike.
    better[-1] = replace(
        better[-1],
        accelerator=replace(better[-1].accelerator, card_matmul_bf16_tflops=794.5 * factor),
    )
    for item in better:
        assert predict(workload(), item, layout).step_time_s <= before * (1 + 1e-9)


@given(layout=layouts)
@settings(max_examples=30)
def test_recomputation_and_sharding_save_memory(layout: Layout) -> None:
    base = placed(layout)

    def memory(recompute: str, zero: int) -> float:
        changed = replace(layout, recompute=recompute, zero=zero)
        return predict(workload(), base, changed).memory_gib[0]

    assert memory("none", 1) >= memory("selective", 1) >= memory("full", 1)
    assert memory("none", 0) >= memory("none", 1)


def test_twice_the_batch_takes_about_twice_the_time() -> None:
    layout = Layout(8, 8, 1, (80,), zero=1)
    small = predict(workload("llama-3-70b", 512), offer("h100", 8), layout).step_time_s
    large = predict(workload("llama-3-70b", 1024), offer("h100", 8), layout).step_time_s
    assert 1.9 < large / small <= 2.0


def test_the_bubble_is_that_of_1f1b() -> None:
    layout = Layout(1, 1, 1, (8, 8, 8, 8), zero=0)
    parts = predict(workload("llama-2-7b", 16), offer("h100", 1, 4), layout).breakdown_s
    # (p - 1) / m of the step, a little less because the other stages hold no head.
    assert parts["bubble"] == pytest.approx(3 / 16 * parts["compute"], rel=0.1)
    assert parts["dp"] == parts["tp"] == 0


def test_weights_and_optimizer_take_18_bytes_per_parameter() -> None:
    layout = Layout(1, 1, 1, (32,), "full", 0, False)
    asked, once = workload("llama-2-7b", 1, 1), DEFAULT.context_gib
    need = predict(asked, offer("h100", 1, 1), layout).memory_gib[0]
    assert need - once == pytest.approx(18 * 6_738_415_616 / 2**30, rel=1e-3)
    sharded = predict(asked, offer("h100", 1, 8), replace(layout, dp=8, zero=1)).memory_gib[0]
    assert sharded - once == pytest.approx((6 + 12 / 8) * 6_738_415_616 / 2**30, rel=1e-3)


def test_fp16_keeps_its_gradients_in_16_bit() -> None:
    layout = Layout(1, 8, 1, (32,), "full", 1, False)
    asked = replace(workload("llama-2-7b", 8, 1), precision="fp16")
    for zero, per_parameter in ((0, 20), (1, 4 + 16 / 8)):
        need = predict(asked, offer("h100", 1, 8), replace(layout, zero=zero)).memory_gib[0]
        expected = per_parameter * 6_738_415_616 / 2**30
        assert need - DEFAULT.context_gib == pytest.approx(expected, rel=1e-3)


def test_activations_are_those_of_korthikanti_2022() -> None:
    """Figure 1, 530B at TP 8, PP 35, VPP 3: 23.1 GiB with sequence-parallel selective
    recomputation and dropout masks.
    """
    model = replace(
        find_model("gpt2"),
        layers=105,
        hidden=20480,
        heads=128,
        kv_heads=128,
        head_dim=160,
        ffn=81920,
        vocab=51200,
        params=529_600_000_000,
    )
    asked = Workload(model, 2048, 280, "fp16")
    layout = Layout(8, 1, 1, (3,) * 35, "selective", 0, True, virtual_stages=3, flash=False)
    given_ = offer("a100", 35)
    whole = predict(asked, given_, layout).memory_gib[0]
    none = predict(replace(asked, sequence=1), given_, layout).memory_gib[0]
    assert whole - none == pytest.approx(23.08, rel=0.05)


def test_a_replica_group_shares_the_network_cards_of_its_node() -> None:
    # Eight ranks of one group in a node drive all its cards; at TP 8 each has its own alone.
    asked, given_ = workload("llama-2-7b", 64), offer("h100", 4)
    wide = Layout(1, 32, 1, (32,), "full", 0, False, overlap=False)
    narrow = replace(wide, tp=8, dp=4)
    all_dp = predict(asked, given_, wide).breakdown_s["dp"]
    one_each = predict(asked, given_, narrow).breakdown_s["dp"]
    # An eighth of the weights over an eighth of the bandwidth.
    assert one_each / all_dp == pytest.approx((3 / 4) / (31 / 32), rel=0.15)


def test_part_of_a_node_gets_its_part_of_the_network() -> None:
    # Four of the eight cards of two nodes: the other four drive the other half.
    whole = offer("h100", 2)
    part = replace(offer("h100", 2, 4), network_gbs=whole.network_gbs, node_devices=8)
    assert part.nic_gbs == whole.nic_gbs == 50


@given(number=st.integers(1, 5000))
def test_divisors_divide(number: int) -> None:
    found = divisors(number)
    assert found == [item for item in range(1, number + 1) if number % item == 0]
    assert math.prod(found[:1]) == 1
