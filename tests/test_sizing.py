"""The best plans of a job, what is said of them, and a layout of the user's own."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from supernode_slurm.data import data_dir
from supernode_slurm.errors import PlanError, UsageError
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.placement import Ask, Room, View, inventory_view, places
from supernode_slurm.planner import SPARE, Fixed, Layout
from supernode_slurm.sizing import (
    Ranked,
    Study,
    explain_alone,
    fastest_free,
    free_room,
    leading,
    parse_layout,
    plan_words,
    study,
    words,
)
from supernode_slurm.sizing.changes import Change
from supernode_slurm.sizing.explain import explain
from supernode_slurm.sizing.layouts import keeps, layout_of
from supernode_slurm.sizing.question import predicted_of, question_of
from supernode_slurm.submission.ask import ask_at
from supernode_slurm.submission.settings import Settings
from supernode_slurm.submission.site import look

INVENTORIES = Path(str(data_dir("topology_conf"))) / "inventories"


def room_of(name: str) -> Room:
    inventory = load(INVENTORIES / f"{name}.yaml")
    return Room(inventory, inventory_view(inventory))


def ask_of(inventory: Inventory, **said: object) -> Ask:
    """Return an ask in the words of the command line: ``cards="h100:64", global_batch=512``."""
    words = Settings()
    for name, value in said.items():
        words.add(name.replace("_", "-"), str(value), "command line")
    return ask_at(look(inventory, None, [Settings()]), words, [Settings()])


def studied(name: str = "mixed", top: int = 8, own: str = "", **said: object) -> Study:
    room = room_of(name)
    fixed = parse_layout(own, "--explain")[0] if own else None
    data_s = float(str(said.pop("data_s", 0.0)))
    ask = replace(ask_of(room.inventory, **said), data_s=data_s)
    return study(room, ask, top, fixed)


def step_s(found: Study, number: int = 0) -> float:
    return predicted_of(found.ranked[number].choice.plan).step_time_s


@pytest.mark.parametrize("cards", ["h100:64", "16", "h100:8,a100:8"])
def test_plans_are_distinct_and_in_order(cards: str) -> None:
    found = studied(cards=cards, model="llama-3-8b", global_batch=96, top=20)
    times = [step_s(found, number) for number in range(len(found.ranked))]
    assert times == sorted(times)
    for first, second in combinations(found.ranked, 2):
        if cut_of(first) == cut_of(second):
            shares = zip(taken(first), taken(second), strict=True)
            assert any(before - after >= SPARE for before, after in shares)


def cut_of(item: Ranked) -> object:
    """Return where a plan runs and how it cuts the model."""
    lines = item.choice.plan.pipelines
    cuts = [(mesh.tp, mesh.cp, mesh.pp, mesh.ep) for pipeline in lines for mesh in pipeline.meshes]
    return [slot.shown for slot in item.choice.slots], cuts


def taken(item: Ranked) -> list[float]:
    """Return the share of the memory of a device that a plan takes, for each group."""
    gib = predicted_of(item.choice.plan).memory_gib
    return [need / most for need, most in zip(gib, item.usable_gib, strict=True)]


@pytest.mark.parametrize("model", ["llama-3-70b", "qwen3-235b-a22b"])
def test_plans_that_leave_little_memory_are_marked(model: str) -> None:
    found = studied(cards="h100:128", model=model, top=40, spare_memory="0")
    assert True in {item.tight for item in found.ranked}
    for item in found.ranked:
        assert item.tight == (max(taken(item)) > 1 - SPARE)


def test_there_are_as_many_plans_as_are_asked_for() -> None:
    assert len(studied(cards="h100:64", model="llama-3-70b", top=8).ranked) == 8


def test_ties_are_plans_within_half_the_expected_error() -> None:
    found = studied(cards="h100:64", model="llama-3-70b", top=30)
    margin = step_s(found) * (1 + found.expected.share / 2)
    assert not found.ranked[0].tie
    for number, item in enumerate(found.ranked[1:], 1):
        assert item.tie == (step_s(found, number) <= margin)
    assert not all(item.tie for item in found.ranked[1:])


def test_the_memory_of_a_plan_is_held_against_what_training_gets() -> None:
    found = studied(cards="h100:64", model="llama-3-70b")
    for item in found.ranked:
        assert predicted_of(item.choice.plan).memory_gib[0] <= item.usable_gib[0] < 80


def test_better_hardware_never_plans_slower() -> None:
    room = room_of("mixed")
    found = study(room, ask_of(room.inventory, cards="h100:128", model="llama-3-70b"), 1)
    gains = [item.gain for item in found.changes]
    assert gains == sorted(gains, reverse=True)
    assert all(gain > 0 for gain in gains)


def test_a_change_is_planned_again() -> None:
    found = studied(cards="h100:64", model="llama-3-70b")
    memory = next(item for item in found.changes if item.name == "memory")
    assert memory.plan is not None
    ratio = step_s(found) / predicted_of(memory.plan).step_time_s
    assert memory.gain == pytest.approx(ratio - 1)
    roomy = max(predicted_of(memory.plan).memory_gib)
    assert roomy > max(item.usable_gib[0] for item in found.ranked)


def test_of_several_lower_precisions_the_best_alone_is_shown() -> None:
    found = [
        Change("nvfp4", "", 0.5, None),
        Change("fp8", "", 0.4, None),
        Change("memory", "", 0.1, None),
        Change("network", "", 0.05, None),
    ]
    assert [item.name for item in leading(found, 2)] == ["nvfp4", "memory"]


def test_hidden_traffic_gains_what_it_took() -> None:
    found = studied(cards="h100:64", model="llama-3-70b")
    overlap = next(item for item in found.changes if item.name == "overlap")
    parts = predicted_of(found.best.choice.plan).breakdown_s
    traffic = sum(parts.get(name, 0.0) for name in ("tp", "cp", "ep", "pp", "dp"))
    assert overlap.gain == pytest.approx(step_s(found) / (step_s(found) - traffic) - 1)


def test_loading_of_data_is_named_as_the_limit_when_it_is() -> None:
    free = studied(cards="h100:8", model="llama-3-8b")
    hidden = studied(cards="h100:8", model="llama-3-8b", data_s=step_s(free) / 2)
    bound = studied(cards="h100:8", model="llama-3-8b", data_s=step_s(free) * 2)
    assert step_s(hidden) == pytest.approx(step_s(free))
    assert hidden.limit.name != "data"
    assert bound.limit.name == "data"
    assert "before cards are bought" in bound.limit.words
    assert step_s(bound) == pytest.approx(2 * step_s(free))


@pytest.mark.parametrize("longer", [1.001, 1.5, 3.0])
def test_a_step_that_waits_for_data_is_limited_by_it_alone(longer: float) -> None:
    free = step_s(studied(cards="h100:8", model="llama-3-8b"))
    bound = studied(cards="h100:8", model="llama-3-8b", data_s=longer * free)
    assert bound.limit.name == "data"
    assert bound.limit.share == pytest.approx(1 - 1 / longer)
    gains = {item.name: item.gain for item in bound.changes}
    expected = {"data": longer - 1} if longer > 2 else {}
    expected |= {"loading": min(longer, 2.0) - 1} if longer > 1.01 else {}
    assert gains == pytest.approx(expected)  # No card and no network brings anything.


def test_what_is_gained_ends_where_loading_of_data_begins_to_limit() -> None:
    free = step_s(studied(cards="h100:64", model="llama-3-70b"))
    found = studied(cards="h100:64", model="llama-3-70b", data_s=0.97 * free)
    assert found.limit.name == "compute"
    assert "+3.1% at most, then loading of data limits" in found.limit.words
    overlap = next(item for item in found.changes if item.name == "overlap")
    assert overlap.gain == pytest.approx(1 / 0.97 - 1)
    assert max(item.gain for item in found.changes) == pytest.approx(1 / 0.97 - 1)


def test_plans_that_differ_in_context_parallelism_alone_are_both_shown() -> None:
    found = studied(cards="h100:64", model="llama-3-70b", top=30)
    own = studied(cards="h100:64", model="llama-3-70b", own="micro-batch=4").explained
    assert own is not None
    assert own.layout.cp > 1
    shown = [layout_of(item.choice.plan.pipelines[0]) for item in found.ranked]
    assert own.layout in shown


def test_ties_that_are_not_shown_are_counted() -> None:
    whole = studied(cards="h100:64", model="llama-3-70b", top=30)
    ties = sum(item.tie for item in whole.ranked)
    assert (ties > 0, whole.more_ties) == (True, 0)
    assert studied(cards="h100:64", model="llama-3-70b", top=1).more_ties == ties


def test_a_sequence_that_nothing_divides_is_named_as_the_cause() -> None:
    with pytest.raises(PlanError, match=r"neither TP nor CP .* a sequence of 1000064 fits"):
        studied(cards="h100:64", model="llama-3-70b", sequence=1000003)
    with pytest.raises(PlanError, match="shorter sequences"):
        studied(cards="h100:16", model="llama-3-70b", sequence=1 << 20)


def test_compute_limits_a_model_on_one_node() -> None:
    found = studied(cards="a100:8", model="llama-3-8b")
    assert found.limit.name == "compute"
    assert found.limit.share > 0.9


def test_refused_layouts_say_by_how_much() -> None:
    found = studied(cards="h100:64", model="llama-3-70b")
    assert found.rejected
    taken = {words(layout_of(item.choice.plan.pipelines[0])) for item in found.ranked}
    usable = found.best.usable_gib[0]
    for item in found.rejected:
        assert "GiB" in item.why
        assert usable < item.predicted.memory_gib[0] <= 2 * usable + 1
        assert words(item.layout) not in taken


def test_ones_own_best_layout_is_as_fast_as_the_best() -> None:
    best = studied(cards="h100:64", model="llama-3-70b")
    own = studied(
        cards="h100:64", model="llama-3-70b", own=plan_words(best.best.choice.plan)
    ).explained
    assert own is not None
    assert own.problems == ()
    assert own.slower == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("own", ["tp=8,pp=2", "tp=8,pp=2,dp=4,micro-batch=1,recompute=full"])
def test_ones_own_layout_is_costed_beside_the_best(own: str) -> None:
    explained = studied(cards="h100:64", model="llama-3-70b", own=own).explained
    assert explained is not None
    assert explained.problems == ()
    assert explained.slower > 0
    assert (explained.layout.tp, explained.layout.pp, explained.layout.dp) == (8, 2, 4)


def test_ones_own_sizes_are_costed_on_several_kinds() -> None:
    def with_own(own: str) -> Study:
        said = {"model": "llama-3-8b", "global_batch": 96, "framework": "megatron"}
        return studied(own=own, cards="h100:8,a100:8", **said)  # type: ignore[arg-type]

    found = with_own("micro-batch=2")
    own = found.explained_mix
    assert found.explained is None and own is not None and own.plan is not None
    assert {mesh.micro_batch for mesh in own.plan.pipelines[0].meshes} == {2}
    times = [predicted_of(plan).step_time_s for plan in (own.plan, found.best.choice.plan)]
    assert own.slower == pytest.approx(times[0] / times[1] - 1)
    assert times[0] > times[1]
    refused = with_own("cp=2").explained_mix
    assert refused is not None and refused.plan is None
    assert "cp 2 is not planned of a pipeline over several kinds" in refused.problems[0]


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ("tp=1,pp=1,dp=64", "GiB"),
        ("tp=8,pp=2,dp=3", "64"),
        ("tp=7,pp=1", "tp"),
        ("tp=8,pp=100", ""),
        ("tp=8,pp=2,zero=3", "zero"),
    ],
)
def test_ones_own_layout_that_cannot_run_says_why(own: str, why: str) -> None:
    explained = studied(cards="h100:64", model="llama-3-70b", own=own).explained
    assert explained is not None
    assert explained.problems
    assert any(why in problem for problem in explained.problems)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ("zero=3", "megatron can have zero 0, 1 here"),
        ("etp=2", "megatron can have etp 1 here"),
        ("pp=3", "megatron can have pp 1, 2, 4, 8, 16, 32, 64 here"),
        ("cp=128", "megatron can have cp 1, 2, 4, 8, 16, 32, 64 here"),
        ("recompute=full,recompute-layers=99", "cannot have recompute-layers 99"),
        ("tp=8,pp=2,micro-batch=3", "1024 is no multiple of dp x micro-batch"),
    ],
)
def test_a_size_that_cannot_be_had_is_named_with_what_is_allowed(own: str, why: str) -> None:
    found = studied(cards="h100:64", model="llama-3-70b", own=own)
    explained = found.explained
    assert explained is not None
    assert why in explained.problems[0]
    assert keeps(explained.layout, parse_layout(own, "--explain")[0])


def test_the_other_sizes_of_a_layout_that_cannot_be_had_are_those_of_the_best() -> None:
    found = studied(cards="h100:64", model="llama-3-70b", own="zero=3")
    best = layout_of(found.best.choice.plan.pipelines[0])
    assert found.explained is not None
    assert replace(found.explained.layout, zero=best.zero) == best


@pytest.mark.parametrize("framework", ["megatron", "mindspeed", "torchtitan", "flagscale"])
def test_ones_own_best_layout_of_a_mixture_is_as_fast_as_the_best(framework: str) -> None:
    room = room_of("mixed")
    ask = ask_of(room.inventory, cards="h100:128", model="qwen3-235b-a22b", framework=framework)
    asked = question_of(ask, places(room, ask)[0][0])
    best = asked.best()
    own = explain(asked, parse_layout(plan_words(best), "--explain")[0], best)
    assert own.problems == ()
    assert own.slower == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("framework", "own", "why"),
    [
        ("megatron", "ep=7", "ep 7 does not divide 128 experts"),
        ("megatron", "tp=4,ep=8,etp=2", "megatron has no etp 2 under tp 4 and ep 8"),
        ("torchtitan", "tp=4,ep=8,etp=4", "torchtitan has no etp 4 under tp 4 and ep 8"),
        ("megatron", "pp=64,ep=128", "is no multiple of ep x etp = 128"),
        ("megatron", "tp=1,pp=1,ep=1", "GiB"),
    ],
)
def test_ones_own_layout_of_a_mixture_that_cannot_run_says_why(
    framework: str, own: str, why: str
) -> None:
    room = room_of("mixed")
    ask = ask_of(room.inventory, cards="h100:128", model="qwen3-235b-a22b", framework=framework)
    explained = explain_alone(room, ask, parse_layout(own, "--explain")[0])
    assert any(why in problem for problem in explained.problems), explained.problems


def test_what_is_left_open_of_a_layout_that_does_not_fit_needs_the_least_memory() -> None:
    room = room_of("mixed")
    ask = ask_of(room.inventory, cards="h100:128", model="deepseek-v3")
    found = explain_alone(room, ask, Fixed(tp=2))
    assert found.layout.pp > 1
    assert found.layout.ep > 1
    assert len(found.problems) == 1
    assert (
        found.predicted.memory_gib
        < explain_alone(room, ask, Fixed(tp=2, pp=1)).predicted.memory_gib
    )
    kept = explain_alone(room, ask, Fixed(tp=2, ep=16))
    assert (kept.layout.ep, len(kept.problems)) == (16, 1)
    assert "GiB" in kept.problems[0]


def test_a_larger_batch_takes_longer_to_load() -> None:
    room = room_of("mixed")
    ask = replace(ask_of(room.inventory, cards="h100:8", model="llama-3-8b"), data_s=1e4)
    (slots,) = places(room, ask)[0][:1]
    asked = question_of(ask, slots)
    once, twice = (predicted_of(asked.with_batch(size).best()) for size in (1024, 2048))
    assert (once.step_time_s, twice.step_time_s) == (pytest.approx(1e4), pytest.approx(2e4))


def test_a_layout_is_explained_where_no_plan_fits() -> None:
    room = room_of("mixed")
    ask = ask_of(room.inventory, cards="h100:8", model="llama-3-70b")
    with pytest.raises(PlanError):
        study(room, ask, 1)
    found = explain_alone(room, ask, Fixed(tp=8))
    assert any("GiB" in problem for problem in found.problems)


def test_equal_shares_of_unlike_cards_are_said_to_wait_for_the_slowest() -> None:
    found = studied(cards="h100:8,a100:8", model="llama-3-8b", global_batch=96, framework="torch")
    assert any("the slowest card leads" in line for line in found.remarks)
    assert any("alone" in line for line in found.remarks)
    single = studied(cards="h100:8", model="llama-3-8b", global_batch=96)
    assert not any("the slowest card leads" in line for line in single.remarks)


@pytest.mark.parametrize(
    "text",
    ["tp=8", "tp=8,pp=4,dp=2,micro-batch=1", "tp=2,cp=2,ep=4,etp=1,vpp=2,recompute=full,zero=0"],
)
def test_a_layout_in_words_is_read_as_it_is_shown(text: str) -> None:
    fixed, more = parse_layout(text, "--explain")
    assert more == {}
    assert parse_layout(words(fixed), "--explain")[0] == fixed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no size ''"),
        ("micro=8", "did you mean 'micro-batch'?"),
        ("tp", "a number from 1 on"),
        ("tp=0", "a number from 1 on"),
        ("tp=8,tp=4", "stands twice"),
        ("tp=8,recompute=some", "none, selective, full"),
        ("tp=8,zero=4", "zero is a number from 0"),
        ("tp=8,global-batch=4", "no size 'global-batch'"),
    ],
)
def test_a_wrong_layout_names_the_option(text: str, why: str) -> None:
    with pytest.raises(UsageError, match="--explain") as caught:
        parse_layout(text, "--explain")
    assert why in str(caught.value)


def test_usual_sizes_are_left_out_of_a_whole_layout() -> None:
    assert words(Layout(8, 2, 1, (1, 1), zero=1)) == "tp=8,pp=2,dp=2,micro-batch=1"
    assert words(Layout(8, 2, 1, (1,), "full", 0)).endswith("recompute=full,zero=0")


def test_free_cards_are_those_of_free_nodes() -> None:
    room = room_of("mixed")
    busy = {f"h1-0{number}" for number in range(1, 9)}
    half = Room(room.inventory, View(room.view.usable, room.view.free - busy))
    free = free_room(half)
    assert not busy & free.view.usable
    ask = fastest_free(free, lambda cards: ask_of(room.inventory, cards=cards, model="llama-3-70b"))
    assert ask.cards == (("h100", 64),)
    assert set(study(free, ask, 1).best.choice.slots[0].domains) == {"sn2"}


def test_nothing_free_is_said() -> None:
    room = room_of("mixed")
    none = free_room(Room(room.inventory, View(room.view.usable, frozenset())))
    with pytest.raises(PlanError, match="no cards are free"):
        fastest_free(none, lambda cards: ask_of(room.inventory, cards=cards, model="llama-3-8b"))


@pytest.mark.parametrize("own", ["tp=8,pp=2,vpp=1", "tp=4,pp=4,vpp=1,micro-batch=1", "tp=8,pp=8"])
def test_the_stages_of_a_layout_are_shown_out_of_balance(own: str) -> None:
    found = studied(cards="h100:64", model="llama-3-70b", own=own).explained
    assert found is not None
    predicted, stages = found.predicted, found.stages
    assert [item.name for item in stages] == ["first", "second", "last"][
        :: 2 if "pp=2" in own else 1
    ]
    assert max(item.memory_gib for item in stages) == pytest.approx(max(predicted.memory_gib))
    assert stages[0].memory_gib > stages[-1].memory_gib
    count = 1024 // found.layout.dp // found.layout.micro_batch
    busy = sum(predicted.breakdown_s[part] for part in ("compute", "tp", "cp", "ep", "pp"))
    assert max(item.micro_batch_s for item in stages) * count == pytest.approx(busy)
    assert stages[0].layers == found.layout.layers[0]
    assert stages[-1].layers == found.layout.layers[-1]


def test_one_stage_is_no_pipeline() -> None:
    found = studied(cards="h100:8", model="llama-3-8b", own="pp=1")
    assert found.explained is not None
    assert found.explained.stages == ()
    assert len(found.stages) == 2
