"""A layout of the user's own beside the best: what it costs, or why it cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from ..errors import PlanError
from ..placement import Ask, Room, places
from ..plan import Plan, Predicted
from ..planner import Examined, Fixed, Layout, StageCost, examine, stage_costs, usable_gib
from .layouts import filled, keeps, layout_of
from .question import Question, predicted_of, question_of


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
class ExplainedMix:
    """The sizes that the user named, on several kinds of cards: of each kind's mesh."""

    asked: Fixed
    plan: Plan | None
    """The best with these sizes, None if there is none."""
    problems: tuple[str, ...]
    slower: float | None


def explain_alone(room: Room, ask: Ask, own: Fixed) -> Explained:
    """Return what a layout costs where no plan fits at all; ``PlanError`` where no cards are."""
    found, reasons = places(room, ask)
    if not found:
        raise PlanError("\n".join(reasons))
    if len(found[0]) > 1:
        raise PlanError("a layout of one's own is costed alone on one kind of cards: name one")
    return explain(question_of(ask, found[0]), own, None)


def explain(asked: Question, own: Fixed, best: Plan | None) -> Explained:
    """Return what the user's own layout costs, its open sizes filled with the best ones.

    Where memory alone keeps it from running they are those that need the least; where a size is
    none that the framework can have, those of the best layout with another in its place.
    """
    layout = _best_with(asked, own)
    if layout is not None:
        problems: tuple[str, ...] = ()
        found = _examined(asked, layout)
    else:
        layout, found, problems = _refused(asked, own)
    fastest = predicted_of(best).step_time_s if best else found.predicted.step_time_s
    slower = found.predicted.step_time_s / fastest - 1
    return Explained(layout, own, found.predicted, problems, slower, stages_of(asked, layout))


def explain_mix(asked: Question, own: Fixed, best: Plan) -> ExplainedMix:
    """Return what the user's own sizes cost on several kinds of cards, or why they cannot run."""
    try:
        plan = replace(asked, workload=replace(asked.workload, fixed=own)).best()
    except PlanError as error:
        return ExplainedMix(own, None, (str(error),), None)
    slower = predicted_of(plan).step_time_s / predicted_of(best).step_time_s - 1
    return ExplainedMix(own, plan, (), slower)


def stages_of(asked: Question, layout: Layout) -> tuple[StageCost, ...]:
    """Return what the stages of a layout cost; one alone is no pipeline."""
    if layout.pp == 1:
        return ()
    return stage_costs(asked.workload, asked.offers[0], layout, asked.able)


def _refused(asked: Question, own: Fixed) -> tuple[Layout, Examined, tuple[str, ...]]:
    """Return a layout with the sizes that cannot run, what it costs, and why it cannot."""
    from ..planner.own import short
    from ..planner.shortage import broken as broken_by

    broken = broken_by(replace(asked.workload, fixed=own), asked.offers[0], asked.able)
    if not broken:
        layout, found = _leanest_with(asked, own)
        return layout, found, found.problems or ("no split of the layers makes it run",)
    layout, found = _nearest_with(asked, own) or _leanest_with(asked, own)
    # What else it needs is that of a layout which is none.
    memory = short(found.predicted, asked.offers[0])
    more = [item for item in found.problems if item != memory and broken not in item]
    return layout, found, (broken, *more)


def _best_with(asked: Question, own: Fixed) -> Layout | None:
    try:
        plan = replace(asked, workload=replace(asked.workload, fixed=own)).best()
    except PlanError:
        return None
    layout = layout_of(plan.pipelines[0])
    return layout if keeps(layout, own) else None


def _nearest_with(asked: Question, own: Fixed) -> tuple[Layout, Examined] | None:
    """Return the layout that runs but for one of the user's sizes; None where two are amiss."""
    tried = [(item, _examined(asked, item)) for item in _near(asked, own)]
    amiss = [pair for pair in tried if pair[1].problems] or tried

    def order(pair: tuple[Layout, Examined]) -> tuple[int, float]:
        return len(pair[1].problems), pair[1].predicted.step_time_s

    return min(amiss, key=order, default=None)


def _near(asked: Question, own: Fixed) -> Iterator[Layout]:
    """Yield the best layouts with one of the user's sizes left open, that size then put back."""
    devices = asked.offers[0].devices
    for name in (spec.name for spec in fields(Fixed) if getattr(own, spec.name) is not None):
        best = _best_with(asked, replace(own, **{name: None}))
        if best is None:
            continue
        sizes = {spec.name: getattr(best, spec.name) for spec in fields(Fixed)}
        # DP takes the devices that the others leave; EP and ETP go together.
        sizes |= {"dp": own.dp, "etp": own.etp if name == "ep" else best.etp}
        sizes[name] = getattr(own, name)
        if devices % (sizes["tp"] * sizes["cp"] * sizes["pp"]):
            sizes |= {size: getattr(own, size) for size in ("tp", "cp", "pp", "ep", "etp")}
        if sizes["pp"] != best.pp:
            sizes["virtual_stages"] = own.virtual_stages
        layout = filled(Fixed(**sizes), asked.workload, devices, asked.able)
        yield replace(layout, layers=best.layers) if layout.pp == best.pp else layout


def _examined(asked: Question, layout: Layout) -> Examined:
    return examine(asked.workload, asked.offers[0], layout, asked.able)


def _leanest_with(asked: Question, own: Fixed) -> tuple[Layout, Examined]:
    """Return the layout that memory alone keeps from running and that needs least, if any is so."""
    from ..planner.space import pipeline_sizes

    offer = asked.offers[0]
    rest = max(offer.devices // ((own.tp or 1) * (own.cp or 1) * (own.dp or 1)), 1)
    sizes = [own.pp] if own.pp else pipeline_sizes(asked.workload, rest, asked.able)
    tried = [
        filled(replace(own, pp=size), asked.workload, offer.devices, asked.able) for size in sizes
    ]
    examined = [(item, _examined(asked, item)) for item in tried]

    def order(pair: tuple[Layout, Examined]) -> tuple[int, float]:
        need = max(pair[1].predicted.memory_gib)
        return len(pair[1].problems) - (need > usable_gib(offer)), need

    return min(examined, key=order)
