"""The best plans of a job: which are ties, what limits them, what was refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ..errors import PlanError
from ..inventory import Inventory
from ..placement import Ask, Choice, Room, Slot, choose, places, remarks
from ..plan import Plan, Predicted
from ..planner import (
    Examined,
    Expected,
    Fixed,
    Layout,
    Rejected,
    StageCost,
    examine,
    expected_error,
    predict,
    rejected,
    stage_costs,
)
from .changes import Change, changes
from .cost import Cost, cost_of
from .layouts import filled, keeps, layout_of
from .limit import Limit, limit_of
from .question import Question, predicted_of, question_of, usable_gib

SHOWN = 3
"""Refused layouts that are worth showing."""
SPARE = 0.05
"""Share of a device's memory; a plan that leaves less is tight. It is less than what the
prediction of memory may be wrong by."""
WORTH = 0.01
"""A change that gains less is not shown."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The layout that the user named."""

    layout: Layout
    asked: Fixed
    """What of it the user gave; the rest is the planner's."""
    predicted: Predicted
    problems: tuple[str, ...]
    """Why it cannot run, empty if it can."""
    slower: float
    """Time of a step over that of the best plan, less 1; what cannot run has one too."""
    stages: tuple[StageCost, ...]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A choice in its place among the others."""

    choice: Choice
    tie: bool
    """As fast as the best, as far as the model can tell."""
    tight: bool
    """Less than ``SPARE`` of the memory that training gets is left on some device."""
    usable_gib: tuple[float, ...]
    """Memory of a device that a training process gets, for each group."""
    cost: Cost
    """Of one step."""


@dataclass(frozen=True, slots=True)
class Study:
    """The answer of ``sn plan``."""

    ranked: tuple[Ranked, ...]
    """Distinct plans, best first."""
    expected: Expected
    limit: Limit
    changes: tuple[Change, ...]
    """All that gain, the largest gain first."""
    rejected: tuple[Rejected, ...]
    stages: tuple[StageCost, ...]
    """Of the best plan, where it is one pipeline of stages on one kind of device."""
    explained: Explained | None
    remarks: tuple[str, ...]

    @property
    def best(self) -> Ranked:
        """Return the fastest plan."""
        return self.ranked[0]


def _silent(_text: str) -> None:
    pass


def study(
    room: Room,
    ask: Ask,
    top: int,
    own: Fixed | None = None,
    progress: Callable[[str], None] = _silent,
) -> Study:
    """Return the best distinct plans and what is to be said of them.

    ``own`` is a layout of the user's, costed beside them; ``progress`` is told what is planned
    next. Raises ``PlanError``.
    """
    inventory = room.inventory
    choices = choose(room, ask)
    compared = {
        (item.model, item.accelerator): (item.runs, item.error)
        for item in inventory.calibration.compared
    }
    expected = expected_error(choices[0].plan, compared)
    best = choices[0]
    asked = question_of(ask, best.slots)
    margin = predicted_of(best.plan).step_time_s * (1 + expected.share / 2)
    ranked = tuple(
        _ranked(
            inventory,
            choice,
            tie=choice is not best and predicted_of(choice.plan).step_time_s <= margin,
        )
        for choice in _distinct(choices)[:top]
    )
    brought = changes(asked, best.plan, progress)
    single = len(asked.offers) == 1
    return Study(
        ranked=ranked,
        expected=expected,
        limit=limit_of(best.plan, brought),
        changes=tuple(item for item in brought if item.gain >= WORTH),
        rejected=_refused(asked) if single else (),
        stages=_stages(asked, layout_of(best.plan.pipelines[0])) if single else (),
        explained=explain(asked, own, best.plan) if own else None,
        remarks=(*remarks(inventory, ask, best), *_even_shares(asked, best.plan)),
    )


def _stages(asked: Question, layout: Layout) -> tuple[StageCost, ...]:
    if layout.pp == 1:
        return ()
    return stage_costs(asked.workload, asked.offers[0], layout, asked.able)


def _ranked(inventory: Inventory, choice: Choice, tie: bool) -> Ranked:
    usable = tuple(usable_gib(slot.offer) for slot in choice.slots)
    tight = is_tight(predicted_of(choice.plan), usable)
    return Ranked(choice, tie, tight, usable, cost_of(inventory, choice.plan))


def is_tight(found: Predicted, usable: Sequence[float]) -> bool:
    """Tell whether less than ``SPARE`` of the memory is left on some device."""
    return any(gib > (1 - SPARE) * most for gib, most in zip(found.memory_gib, usable, strict=True))


def explain_alone(room: Room, ask: Ask, own: Fixed) -> Explained:
    """Return what a layout costs where no plan fits at all; ``PlanError`` where no cards are."""
    found, reasons = places(room, ask)
    if not found:
        raise PlanError("\n".join(reasons))
    return explain(question_of(ask, found[0]), own, None)


def explain(asked: Question, own: Fixed, best: Plan | None) -> Explained:
    """Return what the user's own layout costs, its open sizes filled with the best ones.

    Where it cannot run they are those that need the least memory. Raises ``PlanError`` for
    several kinds of cards.
    """
    if len(asked.offers) > 1:
        raise PlanError("a layout of one's own is costed on one kind of cards: name one")
    layout = _best_with(asked, own)
    if layout is not None:
        problems: tuple[str, ...] = ()
        found = examine(asked.workload, asked.offers[0], layout, asked.able)
    else:
        layout, found = _leanest_with(asked, own)
        problems = found.problems or (f"{asked.able.name} has no such layout here",)
    fastest = predicted_of(best).step_time_s if best else found.predicted.step_time_s
    slower = found.predicted.step_time_s / fastest - 1
    return Explained(layout, own, found.predicted, problems, slower, _stages(asked, layout))


def _best_with(asked: Question, own: Fixed) -> Layout | None:
    try:
        plan = replace(asked, workload=replace(asked.workload, fixed=own)).best()
    except PlanError:
        return None
    layout = layout_of(plan.pipelines[0])
    return layout if keeps(layout, own) else None


def _leanest_with(asked: Question, own: Fixed) -> tuple[Layout, Examined]:
    """Return the layout that memory alone keeps from running and that needs least, if any is so."""
    from ..planner.space import pipeline_sizes

    offer = asked.offers[0]
    rest = max(offer.devices // ((own.tp or 1) * (own.cp or 1) * (own.dp or 1)), 1)
    sizes = [own.pp] if own.pp else pipeline_sizes(asked.workload, rest, asked.able)
    tried = [
        filled(replace(own, pp=size), asked.workload, offer.devices, asked.able) for size in sizes
    ]
    examined = [(item, examine(asked.workload, offer, item, asked.able)) for item in tried]

    def order(pair: tuple[Layout, Examined]) -> tuple[int, float]:
        need = max(pair[1].predicted.memory_gib)
        return len(pair[1].problems) - (need > usable_gib(offer)), need

    return min(examined, key=order)


def _distinct(choices: Iterable[Choice]) -> list[Choice]:
    """Return the plans, the fastest first, that are no worse copy of one before them."""
    found, least = [], _Least({})
    for choice in choices:
        meshes = [mesh for pipeline in choice.plan.pipelines for mesh in pipeline.meshes]
        cut = (where(choice.slots), *((mesh.tp, mesh.pp, mesh.ep) for mesh in meshes))
        usable = [usable_gib(slot.offer) for slot in choice.slots]
        if least.lowered(cut, predicted_of(choice.plan), usable):
            found.append(choice)
    return found


def _refused(asked: Question) -> tuple[Rejected, ...]:
    """Return the fastest layouts that do not fit and are no worse copy of one before them."""
    offer, least = asked.offers[0], _Least({})
    missed = rejected(asked.workload, offer, asked.able)
    usable = [usable_gib(offer)]
    found = [
        item
        for item in missed
        if least.lowered((item.layout.tp, item.layout.pp, item.layout.ep), item.predicted, usable)
    ]
    return tuple(found[:SHOWN])


@dataclass(frozen=True, slots=True)
class _Least:
    """The least memory so far of layouts that cut the model alike, as shares for each group."""

    shares: dict[object, list[float]]

    def lowered(self, cut: object, found: Predicted, usable: Sequence[float]) -> bool:
        """Tell whether a slower layout is worth a look: it leaves more memory somewhere."""
        mine = [gib / most for gib, most in zip(found.memory_gib, usable, strict=True)]
        known = self.shares.get(cut, [math.inf] * len(mine))
        if all(share > other - SPARE for share, other in zip(mine, known, strict=True)):
            return False
        self.shares[cut] = [min(pair) for pair in zip(mine, known, strict=True)]
        return True


def where(slots: Sequence[Slot]) -> str:
    """Return the places of a job in words."""
    return " + ".join(slot.shown for slot in slots)


def _even_shares(asked: Question, plan: Plan) -> list[str]:
    """Return what unlike replicas would lose with equal shares, as frameworks give them."""
    if len(plan.pipelines) < 2:
        return []
    replicas = [pipeline.meshes[0].dp for pipeline in plan.pipelines]
    share = plan.global_batch / sum(replicas)
    offers = {offer.group.name: offer for offer in asked.offers}
    slowest = 0.0
    for pipeline, dp in zip(plan.pipelines, replicas, strict=True):
        samples = max(round(share), 1)
        even = replace(asked.workload, global_batch=samples * dp, precision=plan.precision)
        offer = offers[plan.groups[pipeline.meshes[0].group].name]
        slowest = max(slowest, predict(even, offer, layout_of(pipeline)).step_time_s)
    lost = slowest / predicted_of(plan).step_time_s - 1
    if lost < WORTH:
        return []
    return [f"equal shares would take {slowest:.2f} s a step, {lost:+.0%}: the slowest card leads"]
