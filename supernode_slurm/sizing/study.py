"""The best plans of a job: which are ties, what limits them, what was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ..errors import PlanError
from ..placement import Ask, Choice, Room, Slot, choose, places, remarks
from ..plan import Plan, Predicted
from ..planner import Expected, Fixed, Layout, Rejected, examine, expected_error, predict, rejected
from .changes import Change, changes
from .cost import Cost, cost_of
from .layouts import filled, keeps, layout_of
from .limit import Limit, limit_of
from .question import Question, predicted_of, question_of, usable_gib

SHOWN = 3
"""Refused layouts that are worth showing."""
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


@dataclass(frozen=True, slots=True)
class Ranked:
    """A choice in its place among the others."""

    choice: Choice
    tie: bool
    """As fast as the best, as far as the model can tell."""
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
    expected = expected_error(choices[0].plan)
    best = choices[0]
    asked = question_of(ask, best.slots)
    margin = predicted_of(best.plan).step_time_s * (1 + expected.share / 2)
    ranked = tuple(
        Ranked(
            choice=choice,
            tie=choice is not best and predicted_of(choice.plan).step_time_s <= margin,
            usable_gib=tuple(usable_gib(slot.offer) for slot in choice.slots),
            cost=cost_of(inventory, choice.plan),
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
        rejected=rejected(asked.workload, asked.offers[0], asked.able)[:SHOWN] if single else (),
        explained=explain(asked, own, best.plan) if own else None,
        remarks=(*remarks(inventory, ask, best), *_even_shares(asked, best.plan)),
    )


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
    runs = layout is not None
    if layout is None:
        layout = filled(own, asked.workload, asked.offers[0].devices, asked.able)
    found = examine(asked.workload, asked.offers[0], layout, asked.able)
    problems = () if runs else found.problems
    if not runs and not problems:
        problems = (f"{asked.able.name} has no such layout here",)
    fastest = predicted_of(best).step_time_s if best else found.predicted.step_time_s
    slower = found.predicted.step_time_s / fastest - 1
    return Explained(layout, own, found.predicted, problems, slower)


def _best_with(asked: Question, own: Fixed) -> Layout | None:
    try:
        plan = replace(asked, workload=replace(asked.workload, fixed=own)).best()
    except PlanError:
        return None
    layout = layout_of(plan)
    return layout if keeps(layout, own) else None


def _distinct(choices: Iterable[Choice]) -> list[Choice]:
    """Return the fastest of the plans that differ only in what hardly matters."""
    found: dict[object, Choice] = {}
    for choice in choices:
        cuts = [
            (mesh.tp, mesh.pp, mesh.cp, mesh.ep, mesh.dp, mesh.micro_batch)
            for pipeline in choice.plan.pipelines
            for mesh in pipeline.meshes
        ]
        found.setdefault((where(choice.slots), *cuts), choice)
    return list(found.values())


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
        mesh = pipeline.meshes[0]
        layers = tuple(stage.layers for stage in pipeline.stages)
        samples = max(round(share), 1)
        layout = Layout(mesh.tp, dp, mesh.micro_batch, layers, mesh.recompute, mesh.zero)
        even = replace(asked.workload, global_batch=samples * dp, precision=plan.precision)
        offer = offers[plan.groups[mesh.group].name]
        slowest = max(slowest, predict(even, offer, layout).step_time_s)
    lost = slowest / predicted_of(plan).step_time_s - 1
    if lost < WORTH:
        return []
    return [f"equal shares would take {slowest:.2f} s a step, {lost:+.0%}: the slowest card leads"]
