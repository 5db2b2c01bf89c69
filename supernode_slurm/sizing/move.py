"""From a layout on ordinary nodes to a supernode: what changes, why, and how to go there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..catalogue import Accelerator
from ..errors import PlanError
from ..frameworks import capabilities, known_on, resume
from ..placement import Ask, Choice, Room, calibrated, choose, in_supernode, ordinary_offer
from ..plan import Predicted
from ..planner import (
    Capabilities,
    Expected,
    Fixed,
    Layout,
    examine,
    expected_error,
    is_tight,
    usable_gib,
)
from .changes import TRAFFIC
from .layouts import filled, layout_of
from .question import Question, predicted_of, question_of

MOST = 2
"""The batch to start with is this many times the present one: training was tuned for that one, and
beyond it learning rate and warm-up no longer hold."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One size that changes."""

    name: str
    old: str
    new: str
    why: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences per step."""

    present: int
    start: int
    """What to start with: ``MOST`` times the present one, or that where no plan holds more."""
    gain: float
    """More tokens per second with it than with the present one."""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Whether a framework's checkpoint resumes under another layout."""

    framework: str
    works: bool
    how: str
    """What to do, the conversion where one is needed."""


@dataclass(frozen=True, slots=True)
class Move:
    """What a move from the old layout to the best plan of the place means."""

    old: Layout
    old_devices: int
    old_predicted: Predicted | None
    """On ordinary nodes with the same cards; None where it cannot be said."""
    old_problems: tuple[str, ...]
    choice: Choice
    supernode: bool
    """It lies in one; else only the layout changes."""
    new: Layout
    differences: tuple[Difference, ...]
    gain: float | None
    """More tokens per second and device."""
    layout_gain: float | None
    """Of it, what another layout brings without the supernode."""
    batch: Batch
    resumes: tuple[Resumed, ...]
    """The checkpoint under the new layout: the plan's own framework first."""
    tight: bool
    """The new layout leaves less than ``SPARE`` of the memory that training gets."""
    expected: Expected
    remarks: tuple[str, ...]


def move(room: Room, ask: Ask, fixed: Fixed, present_batch: int | None) -> Move:
    """Return what changes from a present layout to the best plan of what is asked.

    ``present_batch`` is the batch that it runs with, None for the one that is asked. Raises
    ``PlanError``.
    """
    present = present_batch or ask.global_batch
    choice = choose(room, ask)[0]
    if len(choice.slots) > 1:
        raise PlanError("--from: the new layout is planned on one kind of cards: name one")
    asked = question_of(ask, choice.slots)
    plan = asked.best()
    new, found = layout_of(plan.pipelines[0]), predicted_of(plan)
    slot = choice.slots[0]
    card = room.inventory.card_in(slot.domains[0], slot.group.accelerator)
    old_asked = _ordinary(asked, card, fixed).with_batch(present)
    old = filled(fixed, asked.workload, old_asked.offers[0].devices, asked.able)
    old = replace(old, recompute=fixed.recompute or _least_recompute(old_asked, old))
    before, problems = _cost(old_asked, old)
    gain = layout_gain = None
    if before is not None and not problems:
        gain = _gain(old_asked, before, asked, found)
        layout_gain = _gain(old_asked, before, old_asked, predicted_of(old_asked.best()))
    return Move(
        old=old,
        old_devices=old_asked.offers[0].devices,
        old_predicted=before,
        old_problems=problems,
        choice=replace(choice, plan=plan),
        supernode=in_supernode(room.inventory, choice.slots),
        new=new,
        differences=_differences(asked, old_asked, (old, before), (new, found)),
        gain=gain,
        layout_gain=layout_gain,
        batch=_batch(asked, present),
        resumes=resumes((old_asked, old), (asked, new)),
        tight=is_tight(found, [usable_gib(asked.offers[0])]),
        expected=expected_error(plan, room.inventory.calibration.errors),
        remarks=tuple(calibrated(room.inventory, plan)),
    )


def _gain(old: Question, before: Predicted, new: Question, after: Predicted) -> float:
    """Return how many more tokens per second and device the new run has."""
    samples = new.workload.global_batch / old.workload.global_batch
    devices = new.offers[0].devices / old.offers[0].devices
    return samples * before.step_time_s / after.step_time_s / devices - 1


def resumes(old: tuple[Question, Layout], new: tuple[Question, Layout]) -> tuple[Resumed, ...]:
    """Return whether the checkpoint of one layout resumes under another.

    The plan's own framework comes first, then each that is known to run on such cards and can
    run both layouts.
    """
    own, maker = new[0].able.name, new[0].offers[0].accelerator.vendor
    found = []
    for name in dict.fromkeys((own, *known_on(maker))):
        able = capabilities(name)
        if name == own or (_runs(able, *old) and _runs(able, *new)):
            verdict = resume(name, old[1], new[1])
            found.append(Resumed(name, verdict.works, verdict.how))
    return tuple(found)


def _runs(able: Capabilities, asked: Question, layout: Layout) -> bool:
    """Tell whether nothing but what stops the plan's own framework too stops a framework."""
    try:
        mine = examine(asked.workload, asked.offers[0], layout, able).problems
    except PlanError:
        return False
    return set(mine) <= set(examine(asked.workload, asked.offers[0], layout, asked.able).problems)


def _ordinary(asked: Question, card: Accelerator, fixed: Fixed) -> Question:
    """Return the question for as many of the cards as the old layout takes, in ordinary nodes."""
    offer = asked.offers[0]
    sizes = (fixed.tp or 1) * (fixed.pp or 1) * (fixed.cp or 1)
    devices = sizes * fixed.dp if fixed.dp else offer.devices
    each = min(devices, offer.node_devices)
    group = replace(offer.group, nodes=-(-devices // each), devices_per_node=each, domains=())
    return asked.on(ordinary_offer(replace(offer, group=group), card))


def _least_recompute(asked: Question, layout: Layout) -> str:
    """Return the least recomputation with which a layout fits, full where none does."""
    for recompute in asked.able.recompute:
        tried = replace(layout, recompute=recompute)
        found = examine(asked.workload, asked.offers[0], tried, asked.able)
        if max(found.predicted.memory_gib) <= usable_gib(asked.offers[0]):
            return recompute
    return asked.able.recompute[-1]


def _cost(asked: Question, layout: Layout) -> tuple[Predicted | None, tuple[str, ...]]:
    offer = asked.offers[0]
    if offer.group.nodes > 1 and not offer.network_gbs:
        return None, ("nobody has said how fast the network between ordinary nodes is",)
    found = examine(asked.workload, offer, layout, asked.able)
    return found.predicted, found.problems


def _batch(asked: Question, present: int) -> Batch:
    """Return the batch to start with, and a warning where the one that is asked is larger."""
    wanted = asked.workload.global_batch
    rates: dict[int, float] = {}
    for size in {present, MOST * present}:
        try:
            plan = asked.with_batch(size).best()
        except PlanError:
            continue
        rates[size] = size / predicted_of(plan).step_time_s
    twice, once = rates.get(MOST * present), rates.get(present)
    gain = twice / once - 1 if twice and once else 0.0
    start = MOST * present if twice else present
    warning = ""
    if wanted > MOST * present:
        warning = (
            f"a batch of {wanted} is {wanted / present:.3g} times the present one: beyond "
            f"{MOST} times, learning rate and warm-up must be tuned anew; start with {start}"
        )
    return Batch(present, start, gain, warning)


def _differences(
    asked: Question,
    old_asked: Question,
    old: tuple[Layout, Predicted | None],
    new: tuple[Layout, Predicted],
) -> tuple[Difference, ...]:
    """Return the sizes that change, each with what it is for."""
    before, after = _shares(old[1]), _shares(new[1])
    reach = old_asked.offers[0].domain_devices, asked.offers[0].domain_devices
    memory = (
        f"{max(new[1].memory_gib):.0f} of {usable_gib(asked.offers[0]):.0f} GiB per "
        "device are taken then"
    )

    def share(*names: str) -> str:
        now = sum(after.get(name, 0.0) for name in names)
        if not before:
            return f"{now:.0%} of a step now"
        return f"{sum(before.get(name, 0.0) for name in names):.0%} of a step before, {now:.0%} now"

    fabric = f"{reach[1]} devices share a fabric here, {reach[0]} in ordinary nodes"
    why = {
        "tp": f"{fabric}; TP traffic {share('tp')}",
        "cp": f"{fabric}; CP traffic {share('cp')}",
        "ep": f"{fabric}; EP traffic {share('ep')}",
        "etp": f"EP traffic {share('ep')}",
        "pp": f"bubble and traffic between stages {share('bubble', 'pp')}",
        "virtual_stages": f"bubble {share('bubble')}",
        "dp": f"the replicas that remain; DP traffic {share('dp')}",
        "micro_batch": f"compute {share('compute')}; {memory}",
        "recompute": memory,
        "zero": memory,
    }
    return tuple(
        Difference(
            name.replace("_", "-"), str(getattr(old[0], name)), str(getattr(new[0], name)), text
        )
        for name, text in why.items()
        if getattr(old[0], name) != getattr(new[0], name)
    )


def _shares(found: Predicted | None) -> Mapping[str, float]:
    if found is None:
        return {}
    names = ("compute", "bubble", *TRAFFIC)
    return {name: found.breakdown_s.get(name, 0.0) / found.step_time_s for name in names}
