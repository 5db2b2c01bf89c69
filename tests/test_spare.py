"""Memory that plans leave free, and what is chosen where none leaves it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.placement import Ask, choose
from supernode_slurm.placement.ask import rank
from supernode_slurm.plan import Plan, Predicted
from supernode_slurm.planner import SPARE, is_tight, plan_mixed, plan_uniform, usable_gib
from supernode_slurm.planner.workload import Offer, Workload
from supernode_slurm.sizing.question import predicted_of, question_of
from tests.test_cli import run
from tests.test_sizing import ask_of, room_of, studied

LLAMA = ("plan", "-i", "topology_conf/inventories/mixed.yaml", "--model", "llama-3-70b", "--cards")


def asked(**said: object) -> tuple[Workload, tuple[Offer, ...], str]:
    room = room_of("mixed")
    ask = ask_of(room.inventory, **said)
    found = question_of(ask, choose(room, ask)[0].slots)
    return found.workload, found.offers, found.able.name


def taken(plan: Plan, offers: tuple[Offer, ...]) -> float:
    """Return the largest share of the memory that a plan takes of some device."""
    usable = {offer.group.name: usable_gib(offer) for offer in offers}
    pairs = zip(plan.groups, predicted_of(plan).memory_gib, strict=True)
    return max(gib / usable[group.name] for group, gib in pairs)


@pytest.mark.parametrize("spare", [0.0, 0.05, 0.2, 0.5])
def test_plans_on_one_kind_leave_what_is_asked(spare: float) -> None:
    workload, offers, name = asked(model="llama-3-70b", cards="h100:64")
    plans = plan_uniform(replace(workload, spare=spare), offers[0], capabilities(name))
    assert max(taken(plan, offers) for plan in plans) <= 1 - spare + 1e-9


MIXES = [
    ("h100:8,a100:8", "torch", 0.02),
    ("h100:32,a100:32", "megatron", 0.3),
    ("h100:64,910c:32", "flagscale", 0.3),
]


@pytest.mark.parametrize(("cards", "framework", "spare"), MIXES)
def test_plans_on_several_kinds_leave_what_is_asked(
    cards: str, framework: str, spare: float
) -> None:
    workload, offers, name = asked(model="llama-3-8b", cards=cards, framework=framework)
    assert name == framework
    full, roomy = (
        plan_mixed(replace(workload, spare=share), offers, capabilities(name))
        for share in (0.0, spare)
    )
    assert max(taken(plan, offers) for plan in roomy) <= 1 - spare + 1e-9
    assert predicted_of(full[0]).step_time_s <= predicted_of(roomy[0]).step_time_s


def test_where_no_plan_leaves_it_the_fastest_that_fits_is_planned() -> None:
    workload, offers, name = asked(model="llama-3-70b", cards="h100:16")
    able = capabilities(name)
    assert workload.spare == SPARE
    kept = plan_uniform(workload, offers[0], able)
    assert kept == plan_uniform(replace(workload, spare=0.0), offers[0], able)
    assert min(taken(plan, offers) for plan in kept) > 1 - SPARE
    with pytest.raises(PlanError, match="a training process gets"):
        plan_uniform(replace(workload, sequence=1 << 20), offers[0], able)


def test_a_place_where_a_plan_leaves_memory_goes_before_a_faster_one() -> None:
    room = room_of("mixed")
    ask = replace(ask_of(room.inventory, model="llama-3-70b", cards="h100:64"), spare=0.0)
    choices = choose(room, ask)
    ranked = sorted(choices, key=lambda choice: rank(choice, SPARE))
    tight = [taken(choice.plan, (choice.slots[0].offer,)) > 1 - SPARE for choice in ranked]
    assert {True, False} == set(tight)
    assert tight == sorted(tight)


def test_is_tight_counts_each_device_and_forgives_rounding() -> None:
    def found(*gib: float) -> Predicted:
        return Predicted(1.0, {}, gib, 0.4)

    assert not is_tight(found(95.0), [100.0])
    assert not is_tight(found(95.0 * (1 + 1e-12)), [100.0])
    assert is_tight(found(95.1), [100.0])
    assert is_tight(found(10.0, 96.0), [100.0, 100.0])
    assert not is_tight(found(96.0), [100.0], spare=0.03)


def test_plans_that_wait_for_data_are_ranked_by_the_rest() -> None:
    for cards in ("h100:64", "h100:32,a100:32"):
        found = studied(cards=cards, model="llama-3-70b", data_s=500.0)
        plans = [predicted_of(item.choice.plan) for item in found.ranked]
        assert {plan.step_time_s for plan in plans} == {500.0}
        worked = [plan.step_time_s - plan.breakdown_s["data"] for plan in plans]
        assert worked == sorted(worked)


@pytest.mark.parametrize(("text", "share"), [("0", 0.0), ("10", 0.1), ("12.5%", 0.125)])
def test_the_share_is_told_in_percent(text: str, share: float) -> None:
    ask: Ask = ask_of(room_of("mixed").inventory, cards="h100:8", spare_memory=text)
    assert ask.spare == pytest.approx(share)


@pytest.mark.parametrize("text", ["-1", "100", "much", "1e1", ""])
def test_what_is_no_percentage_is_refused(text: str) -> None:
    done = run(*LLAMA, "h100:64", "--spare-memory", text)
    assert done.returncode == 2
    assert "--spare-memory" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_curve_and_a_move_tell_of_plans_that_leave_little() -> None:
    points = json.loads(run(*LLAMA, "h100:16:64", "--json").stdout)["points"]
    assert [point["tight"] for point in points] == [True, False, False]
    for point in points:
        (need,) = point["plan"]["predicted"]["memory_gib"]
        assert point["tight"] == (need > (1 - SPARE) * point["usable_gib"])
    text = run(*LLAMA, "h100:16", "--from", "tp=8,pp=2,dp=1").stdout
    assert "\n!: tight: less than 5% of the memory" in text
    assert "tight" not in run(*LLAMA, "h100:64", "--from", "tp=8,pp=2,dp=4").stdout
