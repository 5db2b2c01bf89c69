"""Which of several kinds of cards a job runs on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import pytest

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.placement import Ask, Choice, Compared, Room, choose, remarks
from supernode_slurm.plan import Mesh, Plan, dumps, loads
from supernode_slurm.planner import expected_error, plan_mixed, plan_strategy, plan_uniform
from supernode_slurm.sizing import study
from tests.test_planner import offer, step_s, workload
from tests.test_sizing import ask_of, room_of

ROOM = room_of("mixed")


def asked(strategy: str = "auto", **said: object) -> Ask:
    words: dict[str, object] = {
        "model": "llama-3-8b",
        "cards": "h100:8,a100:8",
        "global_batch": 96,
        **said,
    }
    return replace(ask_of(ROOM.inventory, **words), strategy=strategy)


def taken(ask: Ask, room: Room = ROOM) -> tuple[Choice, Compared]:
    best = choose(room, ask)[0]
    assert best.compared is not None
    return best, best.compared


def test_auto_takes_the_fastest_and_says_what_it_beats() -> None:
    best, compared = taken(asked(framework="megatron"))
    assert (compared.taken, compared.groups) == ("mixed", ("h100 x 8", "a100 x 8"))
    said = remarks(ROOM.inventory, asked(framework="megatron"), best)
    alone = min(item.step_s or 0.0 for item in compared.alone)
    shown = f"auto: mixed: {step_s(best.plan):.2f} s a step; the best group alone {alone:.2f} s"
    assert shown in said


@pytest.mark.parametrize("framework", ["torch", "megatron", "flagscale", "deepspeed"])
@pytest.mark.parametrize("batch", [16, 32, 96])
def test_auto_is_never_slower_than_grouped_or_mixed(framework: str, batch: int) -> None:
    best = step_s(taken(asked(framework=framework, global_batch=batch))[0].plan)
    for strategy in ("grouped", "mixed", "hierarchical"):
        try:
            other = taken(asked(strategy, framework=framework, global_batch=batch))[0].plan
        except PlanError:
            continue
        assert best <= step_s(other) * (1 + 1e-9)


def test_grouped_takes_one_kind_and_says_what_the_others_would_reach() -> None:
    best, compared = taken(asked("grouped", framework="megatron"))
    assert [group.name for group in best.plan.groups] == ["h100"]
    assert [item.groups for item in compared.alone] == [("h100 x 8",), ("a100 x 8",)]
    fast, slow = (item.step_s or 0.0 for item in compared.alone)
    assert fast == step_s(best.plan) < slow
    said = remarks(ROOM.inventory, asked("grouped", framework="megatron"), best)
    assert f"8 a100 alone: {slow:.2f} s a step" in said
    # It is taken, and so are the plans next to its best.
    ask = asked("grouped", framework="megatron")
    found = choose(ROOM, ask)
    alone = choose(ROOM, replace(ask, cards=ask.cards[:1], limits=ask.limits[:1]))
    assert [step_s(item.plan) for item in found] == [step_s(item.plan) for item in alone]
    assert len(found) > 1


def test_a_group_that_costs_more_than_it_adds_is_dropped_with_its_numbers() -> None:
    # One sample each: an A100 needs longer for its one than an H100 for two.
    ask = asked(framework="torch", model="qwen2.5-1.5b", global_batch=16)
    best, compared = taken(ask)
    assert [group.name for group in best.plan.groups] == ["h100"]
    (dropped,) = compared.dropped
    mixed = step_s(taken(replace(ask, strategy="mixed"))[0].plan)
    assert dropped.group == "a100 x 8"
    assert dropped.with_s is not None
    assert dropped.without_s == step_s(best.plan) < dropped.with_s <= mixed
    times = f"{dropped.without_s:.2f} s without it, {dropped.with_s:.2f} s with it"
    shown = f"a100 x 8 dropped: {times}"
    assert shown in remarks(ROOM.inventory, ask, best)


def test_what_cannot_be_mixed_is_left_out_with_the_reason() -> None:
    best, compared = taken(asked(framework="deepspeed"))
    assert compared.taken == "grouped" and not compared.together
    said = " ".join(remarks(ROOM.inventory, asked(framework="deepspeed"), best))
    assert " s without it, no plan with it: " in said
    assert "deepspeed gives all replicas equal samples" in said


@pytest.mark.parametrize("cards", ["h100:8,a100:8", "a100:8,h100:8"])
def test_what_cannot_mix_is_refused_with_the_nearest_that_works(cards: str) -> None:
    ask = asked("mixed", framework="deepspeed", cards=cards)
    alone = step_s(taken(replace(ask, strategy="grouped"))[0].plan)
    near = f"nearest that works: --strategy grouped on h100 x 8, {alone:.2f} s a step"
    with pytest.raises(PlanError) as caught:
        choose(ROOM, ask)
    assert str(caught.value).endswith(f"megatron layers; {near}")
    # One kind is no way for a job that holds both.
    with pytest.raises(PlanError) as caught:
        choose(ROOM, replace(ask, whole=True))
    assert "nearest" not in str(caught.value)


def test_of_the_strategies_that_work_one_on_all_cards_is_nearer_than_one_on_some() -> None:
    ask = asked("mixed", framework="torch", model="llama-2-13b")
    with pytest.raises(PlanError, match="nearest that works: --strategy hierarchical on h100 x 8 "):
        choose(ROOM, ask)


def test_where_no_kind_holds_the_model_alone_all_together_are_nearest() -> None:
    ask = asked("grouped", framework="megatron", model="llama-2-70b")
    with pytest.raises(PlanError) as caught:
        choose(ROOM, ask)
    assert "does not fit on 8 x a100-sxm-80g" in str(caught.value)
    assert "nearest that works: --strategy mixed on h100 x 8 + a100 x 8, 70." in str(caught.value)


def test_a_mix_that_may_be_no_faster_than_one_group_is_said_to_be_a_tie() -> None:
    ask = asked(framework="megatron", model="mixtral-8x7b", cards="h100:32,a100:16")
    ask = replace(ask, global_batch=256)
    best, compared = taken(ask)
    (alone, _) = compared.alone
    assert alone.step_s is not None and 1 < alone.step_s / compared.step_s < 1.07
    said = " ".join(remarks(ROOM.inventory, ask, best))
    assert "a tie: h100 x 32 alone is 1." in said
    assert "leaves a100 x 16 to others" in said
    fast = asked(framework="megatron")
    assert "a tie" not in " ".join(remarks(ROOM.inventory, fast, taken(fast)[0]))


@pytest.mark.parametrize(("two_s", "tie"), [(10.2, True), (10.6, False)])
def test_a_group_that_adds_next_to_nothing_to_several_is_said_to_be_a_tie(
    two_s: float, tie: bool
) -> None:
    from supernode_slurm.placement.strategy import Contest, Way

    ask = asked(framework="megatron")
    given = taken(ask)[0]
    margin = expected_error(given.plan, ROOM.inventory.calibration.errors).share / 2
    assert 0.02 < margin < 0.06
    times = {(0, 1, 2): 10.0, (0, 1): two_s, (0, 2): 11.0, (1, 2): 30.0, (0,): 15.0, (1,): 40.0}

    def planned(way: Way, below_s: float, keep: int) -> list[Choice]:
        step = times.get(way.groups, math.inf)
        if step >= below_s or way.strategy == "hierarchical":
            raise PlanError("no faster plan")
        assert given.plan.predicted is not None
        found = replace(given.plan.predicted, step_time_s=step)
        return [replace(given, plan=replace(given.plan, predicted=found))]

    def rank(choice: Choice) -> tuple[bool, float, float]:
        return False, step_s(choice.plan), step_s(choice.plan)

    names = ["h100 x 8", "a100 x 8", "v100 x 8"]
    contest = Contest(
        "auto", names, 96, planned, rank, [8.0, 2.0, 0.5], margin=lambda choice: margin
    )
    found, compared = contest.run()
    assert step_s(found[0].plan) == 10.0
    said = remarks(ROOM.inventory, ask, replace(found[0], compared=compared))
    words = (
        f"a tie: h100 x 8 + a100 x 8 are {two_s / 10 - 1:.1%} slower, less than half the "
        "expected error, and leave v100 x 8 to others"
    )
    assert [line for line in said if "a tie" in line] == [words] * tie


@pytest.mark.parametrize("cards", ["h100:8,a100:8", "h100:8,a100:1", "h100:8,ascend910c:1"])
def test_of_frameworks_that_nobody_named_the_fastest_is_planned_for(cards: str) -> None:
    ask = asked(model="llama-2-7b", cards=cards)
    best = choose(ROOM, ask)[0]
    times = {}
    for name in ("torch", "megatron", "flagscale"):
        own = choose(ROOM, asked(model="llama-2-7b", cards=cards, framework=name))
        times[name] = step_s(own[0].plan)
    if "ascend" in cards:
        # A loop does not mix makers; Megatron is what is usual on the cards that are taken.
        del times["torch"]
        assert [group.name for group in best.plan.groups] == ["h100"]
    fastest = min(times, key=lambda name: times[name])
    assert fastest == best.plan.framework == "megatron"
    said = remarks(ROOM.inventory, ask.settled_by(best), best)
    (line,) = (text for text in said if "no --framework was named" in text)
    others = sorted(times.items(), key=lambda item: item[1])[1:]
    words = "".join(f"; {name} {time:.2f} s" for name, time in others)
    assert line == f"planned for megatron: no --framework was named{words}"


def test_a_framework_that_was_named_is_kept_though_another_is_faster() -> None:
    best = choose(ROOM, asked(model="llama-2-7b", framework="torch"))[0]
    assert best.plan.framework == "torch"
    said = remarks(ROOM.inventory, asked(model="llama-2-7b", framework="torch"), best)
    assert not any("no --framework" in line for line in said)


def test_the_nearest_that_works_is_the_fastest_of_all() -> None:
    cards = "h100:16,a100:8,ascend910c:4"
    ask = asked("mixed", framework="megatron", model="llama-2-13b", cards=cards)
    fewer = asked("mixed", framework="megatron", model="llama-2-13b", cards="h100:16,a100:8")
    two = step_s(choose(ROOM, fewer)[0].plan)
    with pytest.raises(PlanError) as caught:
        choose(ROOM, ask)
    near = f"nearest that works: --strategy mixed on h100 x 16 + a100 x 8, {two:.2f} s a step"
    assert str(caught.value).endswith(near)


def test_a_loop_is_no_way_for_cards_of_two_makers() -> None:
    with pytest.raises(PlanError) as caught:
        choose(ROOM, asked("dynamic", cards="h100:8,ascend910c:4"))
    assert "flagscale gives all replicas equal samples" in str(caught.value)
    assert "torch" not in str(caught.value)
    with pytest.raises(PlanError, match="measured times; --framework torch can; nearest"):
        choose(ROOM, asked("dynamic", framework="megatron"))


@pytest.mark.parametrize("strategy", ["mixed", "dynamic", "hierarchical"])
def test_a_batch_too_small_for_the_devices_names_one_that_is_not(strategy: str) -> None:
    ask = asked(strategy, framework="torch", model="qwen2.5-1.5b", global_batch=7)
    with pytest.raises(PlanError, match="take a batch of 16 at least, or fewer devices"):
        choose(ROOM, ask)
    assert choose(ROOM, replace(ask, global_batch=16))


def test_rates_are_held_against_the_groups_and_the_bound() -> None:
    best, compared = taken(asked(framework="megatron"))
    rates = [96 / (item.step_s or 1.0) for item in compared.alone]
    assert compared.samples_s == pytest.approx(96 / step_s(best.plan))
    assert compared.sum_alone_samples_s == pytest.approx(sum(rates))
    assert compared.best_alone_samples_s == pytest.approx(max(rates))
    assert compared.bound_samples_s is not None
    assert max(compared.samples_s, sum(rates)) < compared.bound_samples_s < 2 * sum(rates)


def test_dynamic_is_for_replicas_whose_shares_can_follow() -> None:
    plan = taken(asked("dynamic", framework="torch"))[0].plan
    assert plan.rebalance and len(plan.pipelines) == 2
    assert loads(dumps(plan)) == plan
    assert not taken(asked("mixed", framework="torch"))[0].plan.rebalance
    with pytest.raises(PlanError) as caught:
        choose(ROOM, asked("dynamic", framework="megatron"))
    assert "--strategy dynamic: " in str(caught.value)
    assert "megatron gives all replicas equal samples" in str(caught.value)
    assert "nearest that works: --strategy mixed on h100 x 8 + a100 x 8, 3." in str(caught.value)


def test_a_job_that_holds_all_groups_leaves_none_out() -> None:
    ask = asked(framework="torch", model="qwen2.5-1.5b", global_batch=16)
    best, compared = taken(replace(ask, whole=True))
    assert len(best.plan.groups) == 2
    assert not compared.dropped
    with pytest.raises(PlanError, match=r"grouped takes one kind .* --strategy mixed"):
        choose(ROOM, replace(ask, whole=True, strategy="grouped"))


def test_the_answer_is_the_same_once_the_framework_is_settled() -> None:
    ask = asked()
    first = taken(ask)[0]
    again = taken(ask.settled_by(first))[0]
    assert again.plan == first.plan
    assert remarks(ROOM.inventory, ask.settled_by(first), again)[0].startswith("planned for ")


def test_every_change_is_held_against_the_strategy_that_was_taken() -> None:
    found = study(ROOM, asked("hierarchical", framework="torch"), 3)
    plans = [item.plan for item in found.changes if item.plan is not None]
    assert plans
    assert all(mesh.shard for plan in plans for mesh in _meshes(plan))
    assert json.dumps([item.gain for item in found.changes])


def _meshes(plan: Plan) -> Iterator[Mesh]:
    return (mesh for pipeline in plan.pipelines for mesh in pipeline.meshes)


@pytest.mark.parametrize("framework", ["torch", "megatron"])
def test_of_three_kinds_the_best_subset_is_found(framework: str) -> None:
    from supernode_slurm.placement.strategy import Contest, Way

    offers = [offer("h100", 1), offer("a100", 1), offer("v100-sxm-32g", 1)]
    able = capabilities(framework)
    job = replace(workload("qwen2.5-1.5b", 48, 1024), framework=framework)

    class Found:
        def __init__(self, plan: Plan) -> None:
            self.plan = plan

    def planned(way: Way, below_s: float, keep: int) -> list[Found]:
        chosen = [offers[index] for index in way.groups]
        return [Found(plan) for plan in plan_strategy(way.strategy, job, chosen, able)]

    contest = Contest(
        "auto", ["h100", "a100", "v100"], 48, planned,
        lambda item: (False, step_s(item.plan), step_s(item.plan)), [None, None, None],
        lambda item: 0.05,
    )  # fmt: skip
    best = step_s(contest.run()[0][0].plan)
    tried = [step_s(plan_uniform(job, item, able)[0]) for item in offers]
    for size in (2, 3):
        for part in combinations(offers, size):
            tried.append(step_s(plan_mixed(job, part, able)[0]))
            if able.sharded_replicas:
                tried.append(step_s(plan_strategy("hierarchical", job, part, able)[0]))
    assert best <= min(tried) * (1 + 1e-9)
