from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.plan import Plan, dumps, loads
from supernode_slurm.planner import (
    Layout,
    Offer,
    Workload,
    chain,
    plan_mixed,
    plan_strategy,
    plan_uniform,
    predict,
)
from supernode_slurm.planner.constants import DEFAULT
from supernode_slurm.planner.costs import usable_gib
from supernode_slurm.planner.crossings import Crossings, Part
from supernode_slurm.planner.mesh import Shape, meshes_of
from supernode_slurm.planner.replicas import joined
from tests.brute import replicas_compute_s, replicas_job
from tests.test_planner import PARTS, offer, step_s, workload

A100, H100 = offer("a100", 2), offer("h100", 1)
ASCEND = offer("ascend910c", 1, 16, 48)


def mixed(asked: Workload, offers: list[Offer], framework: str) -> tuple[Plan, ...]:
    return plan_mixed(replace(asked, framework=framework), offers, capabilities(framework))


STAGES = mixed(workload("qwen2.5-32b", 256), [offer("h100", 4), ASCEND], "flagscale")


def test_replicas_share_the_batch_by_speed() -> None:
    plan = mixed(workload("llama-3-8b", 256), [A100, H100], "torch")[0]
    slow, fast = plan.pipelines
    assert slow.samples + fast.samples == 256
    assert [pipeline.meshes[0].dp for pipeline in plan.pipelines] == [16, 8]
    # An H100 multiplies more than twice as fast.
    assert 2 < (fast.samples / 8) / (slow.samples / 16) < 3.5
    assert [group.name for group in plan.groups] == ["a100", "h100"]
    assert plan.predicted is not None
    assert list(plan.predicted.breakdown_s) == PARTS
    assert sum(plan.predicted.breakdown_s.values()) == pytest.approx(step_s(plan))
    assert loads(dumps(plan)) == plan


@given(batch=st.integers(4, 24), slow=st.integers(1, 2), fast=st.integers(1, 2))
@settings(max_examples=6)
def test_no_other_deal_of_samples_is_faster(batch: int, slow: int, fast: int) -> None:
    asked, offers = replicas_job(batch, (slow, fast))
    plan = mixed(asked, offers, "torch")[0]
    assert plan.predicted is not None
    least = replicas_compute_s(batch, (slow, fast))
    assert plan.predicted.breakdown_s["compute"] == pytest.approx(least)
    assert sum(pipeline.samples for pipeline in plan.pipelines) == batch


def test_a_replica_sums_its_gradients_while_the_slowest_computes() -> None:
    # One sample each: the A100s set the pace. Twice as fast H100s hide less of their own
    # traffic under computation, but have the A100s' time for it.
    asked = workload("llama-3-8b", 48, 2048)
    slow, fast = offer("a100", 2), offer("h100", 4)
    before = step_s(mixed(asked, [slow, fast], "torch")[0])
    assert step_s(mixed(asked, [slow, twice_as_fast(fast)], "torch")[0]) <= before


@pytest.mark.parametrize("framework", ["torch", "flagscale", "megatron"])
@pytest.mark.parametrize("batch", [16, 96])
def test_a_kind_twice_as_fast_never_makes_the_step_longer(framework: str, batch: int) -> None:
    for model, names in (("qwen2.5-0.5b", ("a100", "h100")), ("qwen2.5-7b", ("h20", "h200"))):
        first, second = offer(names[0], 1), offer(names[1], 1)
        asked = workload(model, batch, 2048)
        before = step_s(mixed(asked, [first, second], framework)[0])
        for pair in ([twice_as_fast(first), second], [first, twice_as_fast(second)]):
            assert step_s(mixed(asked, pair, framework)[0]) <= before * (1 + 1e-9)


def twice_as_fast(given_: Offer) -> Offer:
    card = given_.accelerator
    measured = card.card_matmul_bf16_tflops
    faster = replace(
        card,
        card_bf16_tflops=2 * (card.card_bf16_tflops or 0),
        card_matmul_bf16_tflops=2 * measured if measured else None,
    )
    return replace(given_, accelerator=faster)


def test_a_ring_over_unlike_nodes_is_as_fast_as_the_one_with_the_fewest_cards() -> None:
    """A lone card's node has one network card for it: two elsewhere do not end sooner."""
    offers = [offer("h100", 1, 2), offer("a100", 1, 1)]
    ring = [item.domain_devices * item.nic_gbs for item in joined(offers)]
    assert ring == [pytest.approx(offers[1].nic_gbs)] * 2
    plan = mixed(workload("llama-3.2-1b", 16, 512), offers, "torch")[0]
    fast, slow = plan.pipelines
    # The traffic is as long whatever the deal: it follows speed.
    assert plan.predicted is not None
    assert plan.predicted.breakdown_s["dp"] > plan.predicted.breakdown_s["compute"]
    assert (fast.samples, slow.samples) == (13, 3)


def test_every_replica_needs_a_sample_and_room_for_the_model() -> None:
    with pytest.raises(PlanError, match="leaves some of the 24 replicas without a sample"):
        mixed(workload("llama-3-8b", 20), [A100, H100], "torch")
    with pytest.raises(PlanError, match="does not fit on 16 x a100-sxm-80g"):
        mixed(workload("llama-3-70b", 256), [A100, H100], "torch")


def test_stages_of_two_vendors_keep_flagscales_rules() -> None:
    assert STAGES
    for plan in STAGES:
        (pipeline,) = plan.pipelines
        first, second = pipeline.meshes
        assert first.dp * first.micro_batch == second.dp * second.micro_batch
        assert sum(stage.layers for stage in pipeline.stages) == 64
        assert [stage.mesh for stage in pipeline.stages] == [0] * first.pp + [1] * second.pp
        for mesh in pipeline.meshes:
            assert mesh.devices == plan.groups[mesh.group].devices
        assert plan.predicted is not None
        assert len(plan.predicted.memory_gib) == 2
        for group, needed in zip(plan.groups, plan.predicted.memory_gib, strict=True):
            assert needed < usable_gib({"h100": H100, "ascend910c": ASCEND}[group.name])
    assert [step_s(plan) for plan in STAGES] == sorted(step_s(plan) for plan in STAGES)


def test_the_faster_group_gets_more_layers() -> None:
    plan = STAGES[0]
    share = {
        plan.groups[mesh.group].name: sum(
            stage.layers for stage in plan.pipelines[0].stages if stage.mesh == index
        )
        for index, mesh in enumerate(plan.pipelines[0].meshes)
    }
    assert share["h100"] > 2 * share["ascend910c"]


def test_pruning_drops_no_plan_that_belongs_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = workload("llama-3-8b", 8)
    offers = [offer("a100", 1, 2), offer("h100", 1, 4)]
    pruned = mixed(asked, offers, "flagscale")
    monkeypatch.setattr(chain, "KEEP", 10**9)
    asked = replace(asked, framework="flagscale")
    everything = plan_mixed(asked, offers, capabilities("flagscale"), keep=10**9)
    assert len(everything) > 10 * len(pruned)
    expected = [step_s(plan) for plan in everything[: len(pruned)]]
    assert [step_s(plan) for plan in pruned] == pytest.approx(expected)


def test_a_micro_batch_goes_back_to_the_first_mesh_between_its_chunks() -> None:
    asked = replace(workload("llama-3-8b", 96), framework="megatron")
    offers = [offer("a100", 1), replace(offer("h100", 1), network_gbs=1000.0)]
    links, parts = Crossings(asked, offers), []
    for index, (item, pp) in enumerate(zip(offers, (1, 2), strict=True)):
        shape = Shape(2, 8 // 2 // pp, pp, "none", 1)
        (cost,) = meshes_of(asked, item, [shape], [pp])
        parts.append(Part(index, pp, shape.dp, cost, virtual=3))
    first, second = parts
    wires = [links.way_s(part, False) for part in parts]
    # The slower network is between both; each chunk starts a transfer there and one back.
    start = 2 * 3 * float(first.cost.cases.rates.collective_s)
    out = 3 * DEFAULT.transfer_interleaved * max(wires) + start
    assert max(wires) > min(wires)
    assert links.crossing_s(first, second) == pytest.approx(out)
    inner, back = links.inner_s(second), links.crossing_s(second, first) * 2 / 3
    expected = (back + out, out + inner, inner + back)
    assert links.transfers(parts) == pytest.approx(expected)
    # Without virtual stages none goes back, nor on one mesh.
    once = [replace(part, virtual=1) for part in parts]
    assert links.transfers(once)[0] == links.crossing_s(*once) == max(wires) + DEFAULT.transfer_s
    assert links.transfers([second]) == (inner, inner)


def test_the_split_over_stages_cannot_be_improved() -> None:
    """Of a plan with two stages, every other cut is slower or does not fit."""
    asked = workload("llama-3-8b", 16)
    offers = [offer("a100", 1, 4), offer("h100", 1, 4)]
    plans = [
        plan
        for plan in mixed(asked, offers, "flagscale")
        if [mesh.pp for mesh in plan.pipelines[0].meshes] == [1, 1]
    ]
    assert plans
    plans = plans[:3]
    by_name = {item.group.name: item for item in offers}
    for plan in plans:
        found = plan.pipelines[0].stages[0].layers

        def stage_s(index: int, layers: int, plan: Plan = plan) -> float:
            mesh = plan.pipelines[0].meshes[index]
            layout = Layout(mesh.tp, mesh.dp, mesh.micro_batch, (layers,), mesh.recompute)
            parts = predict(asked, by_name[plan.groups[mesh.group].name], layout).breakdown_s
            # One stage alone has both tables; the difference to its half is the same for
            # every cut and does not move the optimum by more than a layer.
            return (parts["compute"] + parts["tp"]) * mesh.dp * mesh.micro_batch / 16

        def slowest(cut: int, plan: Plan = plan) -> float:
            return max(stage_s(0, cut), stage_s(1, 32 - cut))

        best = min(range(1, 32), key=slowest)
        assert abs(best - found) <= 2


def test_the_order_in_which_kinds_are_named_changes_no_plan() -> None:
    asked = workload("llama-3-8b", 96)
    offers = [offer("h100", 1), offer("a100", 1), offer("a800-sxm-80g", 1)]
    found = [mixed(asked, list(order), "flagscale") for order in permutations(offers)]
    assert all(plans == found[0] for plans in found)


def test_megatron_gets_equal_cuts_on_unequal_cards() -> None:
    plans = mixed(workload("llama-3-70b", 512), [offer("a100", 4), offer("h100", 4)], "megatron")
    for plan in plans:
        first, second = plan.pipelines[0].meshes
        assert (first.tp, first.dp, first.micro_batch) == (second.tp, second.dp, second.micro_batch)


def test_tied_tables_need_equal_cuts() -> None:
    plans = mixed(workload("qwen2.5-3b", 64), [offer("a100", 1), offer("h100", 1)], "flagscale")
    for plan in plans:
        first, second = plan.pipelines[0].meshes
        assert (first.tp, first.dp) == (second.tp, second.dp)


def test_vendors_meet_once() -> None:
    offers = [offer("a100", 1), ASCEND, offer("h100", 1)]
    for plan in mixed(workload("qwen2.5-14b", 64), offers, "flagscale"):
        vendors = [plan.groups[mesh.group].vendor for mesh in plan.pipelines[0].meshes]
        assert vendors in (["nvidia", "nvidia", "huawei"], ["huawei", "nvidia", "nvidia"])


@pytest.mark.parametrize("framework", ["megatron", "torch", "deepspeed", "torchtitan"])
def test_two_vendors_need_a_framework_that_joins_them(framework: str) -> None:
    with pytest.raises(PlanError, match="cannot run huawei and nvidia devices in one job"):
        mixed(workload("llama-3-8b", 256), [H100, ASCEND], framework)


def test_a_framework_that_can_neither_says_both() -> None:
    with pytest.raises(PlanError) as caught:
        mixed(workload("llama-3-8b", 256), [A100, H100], "deepspeed")
    assert "gives all replicas equal samples" in str(caught.value)
    assert "no pipeline with uneven stages" in str(caught.value)


def test_what_fits_nowhere_is_said() -> None:
    with pytest.raises(PlanError, match="does not fit on 8 x h100-sxm \\+ 16 x ascend-910c"):
        mixed(workload("llama-3.1-405b", 64), [H100, ASCEND], "flagscale")


def test_one_dtype_is_agreed_on() -> None:
    old = offer("ascend-910a", 2)
    plan = mixed(workload("qwen2.5-1.5b", 64, 1024), [old, ASCEND], "flagscale")[0]
    assert plan.precision == "fp16"


def alone(asked: Workload, offers: list[Offer]) -> list[Plan | None]:
    """Return each offer's best plan without the others, None where it has none."""
    found: list[Plan | None] = []
    for one in offers:
        try:
            found.append(plan_uniform(asked, one, capabilities("torch"), 1)[0])
        except PlanError:
            found.append(None)
    return found


def test_a_group_alone_can_be_faster_than_the_mix() -> None:
    # 32 samples: an A100 needs longer for its one than 16 H100 for two each.
    asked = replace(workload("llama-3-8b", 32, 2048), framework="torch")
    offers = [offer("a100", 1), offer("h100", 2)]
    mix = plan_mixed(asked, offers, capabilities("torch"))[0]
    slow, fast = alone(asked, offers)
    assert slow is not None and fast is not None
    assert step_s(fast) < step_s(mix) < step_s(slow)
    assert fast.groups == (offers[1].group,)


def test_a_group_that_cannot_run_alone_has_no_plan() -> None:
    asked = replace(workload("qwen2.5-0.5b", 40, 2048), framework="torch")
    offers = [offer("a100", 4), offer("h100", 1)]
    slow, fast = alone(asked, offers)
    assert slow is None  # 40 samples do not divide over 32 cards
    assert fast == plan_uniform(asked, offers[1], capabilities("torch"))[0]


def test_one_offer_is_planned_as_usual() -> None:
    plan = mixed(workload("llama-3-8b", 256), [H100], "megatron")[0]
    assert len(plan.pipelines[0].meshes) == 1


def test_faster_cards_never_make_the_best_mixed_plan_slower() -> None:
    asked = workload("llama-3-8b", 96)
    for framework, factor in product(("torch", "flagscale"), (1.1, 2.0)):
        card = H100.accelerator
        faster = replace(
            card, card_bf16_tflops=989 * factor, card_matmul_bf16_tflops=794.5 * factor
        )
        before = step_s(mixed(asked, [A100, H100], framework)[0])
        after = step_s(mixed(asked, [A100, replace(H100, accelerator=faster)], framework)[0])
        assert after <= before * (1 + 1e-9)


def planned_alone(model: str, batch: int, cards: str = "h100", framework: str = "torch") -> Plan:
    asked = replace(workload(model, batch), framework=framework)
    return plan_strategy("mixed", asked, [offer(cards, 1)], capabilities(framework))[0]


def test_a_loop_on_one_kind_shards_what_no_card_holds_whole() -> None:
    plan = planned_alone("llama-2-13b", 64, "a100")
    (mesh,) = plan.pipelines[0].meshes
    assert (mesh.zero, mesh.dp) == (3, 8)
    with pytest.raises(PlanError, match="does not fit on 8 x h100") as caught:
        planned_alone("llama-3-70b", 64)
    # 70.6e9 parameters at 18 bytes over 8 devices are 148 GiB before any activation.
    assert 147 < float(str(caught.value).split("at least ")[1].split(maxsplit=1)[0]) < 170


def test_a_loop_on_one_kind_is_never_slower_for_the_choice() -> None:
    asked = replace(workload("llama-3-8b", 64), framework="torch")
    whole = plan_uniform(asked, offer("h100", 1), capabilities("torch"))[0]
    assert step_s(planned_alone("llama-3-8b", 64)) < step_s(whole)


def test_a_loop_on_one_kind_deals_any_batch() -> None:
    plan = planned_alone("llama-3-8b", 97)
    assert [pipeline.samples for pipeline in plan.pipelines] == [97]
    assert plan.pipelines[0].meshes[0].dp == 8
    with pytest.raises(PlanError, match="97 does not divide"):
        planned_alone("llama-3-8b", 97, framework="deepspeed")


def test_a_precision_that_was_asked_for_is_no_other() -> None:
    asked = replace(workload("llama-2-7b", 96), framework="megatron")
    offers = [offer("h100", 1), offer("v100-sxm-16g", 1)]
    assert mixed(asked, offers, "megatron")[0].precision == "fp16"
    with pytest.raises(PlanError, match="v100-sxm-16g have no units for bf16, which was asked for"):
        mixed(replace(asked, exact=True), offers, "megatron")
