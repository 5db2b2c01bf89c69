"""Other fabrics and networks for a workload, and the way from a present layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supernode_slurm.catalogue import find_model
from supernode_slurm.errors import PlanError, UsageError
from supernode_slurm.placement import ordinary_offer, places
from supernode_slurm.planner import Layout, Workload, predict
from supernode_slurm.sizing import (
    Move,
    Wiring,
    move,
    parse_kinds,
    parse_layout,
    parse_ratios,
    plan_words,
    wiring,
)
from supernode_slurm.sizing.question import predicted_of
from tests.test_sizing import ask_of, room_of
from tests.test_sizing_curve import priced


def tried(name: str, kinds: str = "", ratios: str = "", **said: object) -> Wiring:
    room = room_of(name)
    ask = ask_of(room.inventory, **{"model": "llama-3-70b", **said})
    shapes = parse_kinds(kinds) if kinds else ()
    return wiring(room, ask, shapes, parse_ratios(ratios) if ratios else ())


def moved(old: str, name: str = "mixed", **said: object) -> Move:
    room = room_of(name)
    settings: dict[str, Any] = {"model": "llama-3-70b", "cards": "h100:64", **said}
    ask = ask_of(room.inventory, **settings)
    fixed, more = parse_layout(old, "--from", ("global-batch",))
    return move(room, ask, fixed, more.get("global-batch"))


def test_what_the_site_has_stands_first() -> None:
    found = tried("mixed", "torus,switch", "2,4", cards="h100:128")
    own = found.variants[0]
    assert (own.interconnect, own.oversubscription, own.own, own.slower) == ("switch", 2.0, True, 0)
    assert [(item.interconnect, item.oversubscription) for item in found.variants[1:]] == [
        ("torus", 2.0),
        ("torus", 4.0),
        ("switch", 4.0),
    ]
    assert not any(item.own for item in found.variants[1:])


def test_a_worse_network_is_never_faster() -> None:
    found = tried("mixed", ratios="1,4,16", cards="h100:128")
    assert found.uses_network
    ranked = sorted(found.variants, key=lambda item: item.oversubscription)
    times = [predicted_of(item.plan).step_time_s for item in ranked if item.plan]
    assert len(times) == 4
    assert times == sorted(times)
    assert times[0] < times[-1]
    assert min(item.slower for item in found.variants) < 0


def test_a_variant_suits_better_only_if_it_saves_one_hundredth_of_a_step() -> None:
    found = tried("mixed", ratios="1", cards="h100:128")
    own, other = found.variants
    assert -0.01 < other.slower < 0
    assert found.best is own
    seconds = predicted_of(own.plan).step_time_s if own.plan else 0.0
    assert other.plan
    faster = replace(predicted_of(other.plan), step_time_s=0.98 * seconds)
    much = replace(other, plan=replace(other.plan, predicted=faster), slower=-0.02)
    assert replace(found, variants=(own, much)).best is much


def test_a_variant_costs_what_its_cards_take_for_as_long() -> None:
    room = priced("{h100-sxm: 20 CNY/h}")
    ask = ask_of(room.inventory, model="llama-3-70b", cards="h100:128")
    told: list[str] = []
    found = wiring(room, ask, ("torus", "ring"), (), told.append)
    assert len(told) == len(found.variants) == 3
    for item in found.variants:
        assert item.plan
        assert item.cost
        assert item.cost.price
        hours = 128 * predicted_of(item.plan).step_time_s / 3600
        assert item.cost.card_hours == pytest.approx(hours)
        assert item.cost.energy_kwh == pytest.approx(0.7 * hours)
        assert item.cost.price.amount == pytest.approx(20 * hours)
        taken = max(predicted_of(item.plan).memory_gib)
        assert item.tight == (taken > 0.95 * item.usable_gib)
        assert taken <= item.usable_gib


@pytest.mark.parametrize("model", ["llama-3-70b", "qwen3-235b-a22b"])
def test_no_wiring_beats_a_switch(model: str) -> None:
    found = tried("mixed", "ring,torus,full-mesh,clos,fat-tree", cards="h100:64", model=model)
    times = {
        item.interconnect: predicted_of(item.plan).step_time_s
        for item in found.variants
        if item.plan
    }
    assert times["switch"] == times["clos"] == times["fat-tree"]
    assert times["switch"] < min(times["torus"], times["ring"], times["full-mesh"])


def test_cards_with_links_of_their_own_lose_them_behind_a_switch() -> None:
    found = tried("fullmesh64", "switch", cards="64", model="llama-3-70b")
    assert [item.interconnect for item in found.variants] == ["full-mesh", "switch"]
    mesh, switch = (predicted_of(item.plan).step_time_s for item in found.variants if item.plan)
    assert switch < mesh


def test_a_small_job_in_a_full_mesh_has_the_links_to_its_own_devices_alone() -> None:
    room = room_of("fullmesh64")
    whole, part = (
        places(room, ask_of(room.inventory, model="llama-3-8b", cards=cards))[0][0][0].offer
        for cards in ("64", "8")
    )
    # 100 GB/s over 63 links.
    assert whole.accelerator.p2p_gbs == part.accelerator.p2p_gbs == pytest.approx(100 / 63)
    layout = Layout(8, 1, 1, (32,))
    asked = Workload(find_model("llama-3-8b"), 4096, 8)
    behind_a_switch = replace(
        part, interconnect="switch", accelerator=replace(part.accelerator, card_p2p_gbs=None)
    )
    tp = [predict(asked, on, layout).breakdown_s["tp"] for on in (part, behind_a_switch)]
    assert tp[0] > 4 * tp[1]


@pytest.mark.parametrize(
    ("name", "cards", "kind", "rail_gbs"),
    [
        ("mixed", "h100:64", "switch", 0.0),
        ("mixed", "a100:16", "switch", 0.0),
        ("torus", "64", "torus", 0.0),
        ("ring", "64", "ring", 25.0),
        ("fullmesh64", "64", "full-mesh", 0.0),
    ],
)
def test_an_offer_says_its_wiring_and_what_one_network_card_gives(
    name: str, cards: str, kind: str, rail_gbs: float
) -> None:
    room = room_of(name)
    (slots,) = places(room, ask_of(room.inventory, model="llama-3-8b", cards=cards))[0]
    offer = slots[0].offer
    assert (offer.interconnect, offer.rail_gbs) == (kind, rail_gbs)


def test_ordinary_nodes_have_no_wiring_between_them() -> None:
    room = room_of("torus")
    (slots,) = places(room, ask_of(room.inventory, model="llama-3-8b", cards="64"))[0]
    offer = slots[0].offer
    own = ordinary_offer(offer, offer.accelerator)
    assert (own.interconnect, own.domain_nodes) == ("switch", 1)
    meshed = room_of("fullmesh64")
    (slots,) = places(meshed, ask_of(meshed.inventory, model="llama-3-8b", cards="64"))[0]
    card = meshed.inventory.accelerator("metax-c550")
    assert ordinary_offer(slots[0].offer, card).accelerator.p2p_gbs is None


def test_within_one_supernode_the_network_does_not_matter() -> None:
    found = tried("mixed", ratios="1,16", cards="h100:64")
    assert not found.uses_network
    assert {item.slower for item in found.variants} == {0.0}
    assert found.best.own


def test_variants_need_a_supernode_and_one_kind() -> None:
    with pytest.raises(PlanError, match="no supernode"):
        tried("mixed", "torus", cards="a100:16", model="llama-3-8b")
    with pytest.raises(PlanError, match="one kind"):
        tried("mixed", "torus", cards="h100:8,a100:8", model="llama-3-8b", global_batch=96)


@pytest.mark.parametrize("text", ["mesh", "torus,", ""])
def test_a_wrong_interconnect_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--interconnect: no"):
        parse_kinds(text)


@pytest.mark.parametrize("text", ["", "0.5", "1,x", "nan", "inf", "2000"])
def test_a_wrong_oversubscription_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--oversubscription"):
        parse_ratios(text)


def test_a_move_names_each_size_that_changes_and_why() -> None:
    found = moved("tp=8,pp=4,dp=2")
    assert found.supernode
    assert found.old_problems == ()
    changed = {
        name.replace("_", "-")
        for name in ("tp", "cp", "ep", "pp", "dp", "micro_batch", "recompute", "zero")
        if getattr(found.old, name) != getattr(found.new, name)
    }
    assert {item.name for item in found.differences} >= changed
    assert all(item.old != item.new and item.why for item in found.differences)


def test_the_gain_is_over_the_present_layout_on_ordinary_nodes() -> None:
    found = moved("tp=8,pp=4,dp=2")
    assert found.old_predicted is not None
    after = predicted_of(found.choice.plan).step_time_s
    assert found.gain == pytest.approx(found.old_predicted.step_time_s / after - 1)
    assert found.gain is not None
    assert found.layout_gain is not None
    assert 0 <= found.layout_gain <= found.gain + 1e-9


def test_a_present_run_on_fewer_cards_is_compared_per_device() -> None:
    found = moved("tp=8,pp=4,dp=1,global-batch=512", global_batch=1024)
    assert found.old_devices == 32
    assert found.old_predicted is not None
    after = predicted_of(found.choice.plan)
    expected = (1024 / 512) * found.old_predicted.step_time_s / after.step_time_s / 2 - 1
    assert found.gain == pytest.approx(expected)


@pytest.mark.parametrize(("present", "asked"), [(256, 256), (256, 512), (256, 4096)])
def test_the_batch_to_start_with_is_twice_the_present_one(present: int, asked: int) -> None:
    batch = moved(f"tp=8,pp=4,dp=2,global-batch={present}", global_batch=asked).batch
    assert (batch.present, batch.start) == (present, 2 * present)
    assert bool(batch.warning) == (asked > 2 * present)
    once, twice = (
        predicted_of(moved("tp=8,pp=4,dp=2", global_batch=size).choice.plan).step_time_s
        for size in (present, 2 * present)
    )
    assert batch.gain == pytest.approx(2 * once / twice - 1)


def test_the_present_batch_is_the_one_asked_where_nothing_else_is_said() -> None:
    batch = moved("tp=8,pp=4,dp=2", global_batch=256).batch
    assert (batch.present, batch.warning) == (256, "")


def test_a_present_layout_that_the_model_refuses_says_so_and_has_no_gain() -> None:
    found = moved("tp=1,pp=1,dp=64,recompute=none")
    assert any("GiB" in problem for problem in found.old_problems)
    assert found.gain is None
    assert plan_words(found.choice.plan)


def test_each_framework_that_runs_both_layouts_has_a_word_on_the_checkpoint() -> None:
    found = moved("tp=8,pp=4,dp=2")
    assert found.resumes[0].framework == "megatron"
    # torchtitan has no ZeRO-1, and MindSpeed is not for these cards.
    assert [item.framework for item in found.resumes] == ["megatron", "flagscale"]
    assert all(item.how for item in found.resumes)


def resumed(cards: str, model: str, old: str, name: str = "mixed", **said: object) -> list[str]:
    found = moved(old, name, cards=cards, model=model, **said)
    return [item.framework for item in found.resumes]


def test_no_framework_is_named_for_a_layout_or_cards_that_it_cannot_run() -> None:
    # Uneven virtual stages are Megatron's and FlagScale's; MindSpeed is for Ascend alone.
    assert resumed("a100:32", "llama-3-70b", "tp=8,pp=4") == ["megatron", "flagscale"]
    # Neither has ZeRO-3, DeepSpeed has no tensor parallelism.
    zero = resumed("h100:64", "llama-3-70b", "zero=3", framework="torchtitan")
    assert zero[0] == "torchtitan"
    assert not {"megatron", "flagscale", "mindspeed"}.intersection(zero)
    ascend = resumed("64", "llama-3-70b", "tp=8,pp=4", "cm384")
    assert ascend == ["mindspeed", "flagscale"]


def test_a_conversion_for_mindspeed_is_of_the_plans_own_chunks() -> None:
    found = moved("tp=8,pp=4", "cm384", cards="64", model="llama-3-70b")
    new = found.new
    assert new.virtual_stages > 1
    size = f"--num-layers-per-virtual-pipeline-stage {80 // (new.pp * new.virtual_stages)},"
    assert size in found.resumes[0].how


def test_a_move_within_a_pool_is_told_to_change_the_layout_alone() -> None:
    found = moved("tp=8,pp=1,dp=2", cards="a100:16", model="llama-3-8b")
    assert not found.supernode
    assert found.gain == pytest.approx(found.layout_gain)
