"""The best plans of a job: which are ties, what limits them, what was refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ..frameworks import plan_notes
from ..inventory import Inventory
from ..placement import Ask, Choice, Room, Slot, choose, remarks
from ..plan import Plan, Predicted
from ..planner import (
    SPARE,
    Expected,
    Fixed,
    Rejected,
    StageCost,
    expected_error,
    is_tight,
    predict,
    rejected,
    usable_gib,
)
from .changes import Change, changes
from .cost import Cost, cost_of
from .explain import Explained, ExplainedMix, explain, explain_mix, stages_of
from .layouts import layout_of
from .limit import Limit, limit_of
from .overlap import overlap_saves_s
from .question import Question, predicted_of, question_of

SHOWN = 3
"""Refused layouts that are worth showing."""
WORTH = 0.01
"""A change that gains less is not shown."""


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
    overlap_saves_s: float
    """What the overlap that the framework is told saves of a step already."""
    rejected: tuple[Rejected, ...]
    stages: tuple[StageCost, ...]
    """Of the best plan, where it is one pipeline of stages on one kind of device."""
    explained: Explained | None
    """The user's own layout, on one kind of cards."""
    explained_mix: ExplainedMix | None
    """The user's own sizes, on several kinds of cards."""
    more_ties: int
    """Distinct plans that are ties and not among the ranked ones."""
    remarks: tuple[str, ...]

    @property
    def best(self) -> Ranked:
        """Return the fastest plan."""
        return self.ranked[0]


def silent(_text: str) -> None:
    """Tell nobody how far a work is."""


def study(
    room: Room,
    ask: Ask,
    top: int,
    own: Fixed | None = None,
    progress: Callable[[str], None] = silent,
) -> Study:
    """Return the best distinct plans and what is to be said of them.

    ``own`` is a layout of the user's, costed beside them; ``progress`` is told what is planned
    next. Raises ``PlanError``.
    """
    inventory = room.inventory
    choices = choose(room, ask)
    expected = expected_error(choices[0].plan, inventory.calibration.errors)
    best = choices[0]
    taken = best.compared.taken if best.compared else "mixed"
    asked = question_of(ask, best.slots, taken)
    margin = predicted_of(best.plan).step_time_s * (1 + expected.share / 2)
    distinct = [
        (item, item is not best and predicted_of(item.plan).step_time_s <= margin)
        for item in _distinct(choices)
    ]
    ranked = tuple(_ranked(inventory, choice, tie) for choice, tie in distinct[:top])
    brought = changes(asked, best.plan, progress)
    single = len(asked.offers) == 1
    return Study(
        ranked=ranked,
        expected=expected,
        limit=limit_of(best.plan, brought, asked.workload.data_s),
        changes=tuple(item for item in brought if item.gain >= WORTH),
        overlap_saves_s=overlap_saves_s(asked, best.plan),
        rejected=_refused(asked) if single else (),
        stages=stages_of(asked, layout_of(best.plan.pipelines[0])) if single else (),
        explained=explain(asked, own, best.plan) if own and single else None,
        explained_mix=explain_mix(asked, own, best.plan) if own and not single else None,
        more_ties=sum(tie for _, tie in distinct[top:]),
        remarks=(
            *remarks(inventory, ask, best),
            *_even_shares(asked, best.plan),
            *plan_notes(best.plan),
        ),
    )


def _ranked(inventory: Inventory, choice: Choice, tie: bool) -> Ranked:
    usable = tuple(usable_gib(slot.offer) for slot in choice.slots)
    tight = is_tight(predicted_of(choice.plan), usable)
    return Ranked(choice, tie, tight, usable, cost_of(inventory, choice.plan))


def _distinct(choices: Iterable[Choice]) -> list[Choice]:
    """Return the plans, the fastest first, that are no worse copy of one before them."""
    found, least = [], _Least({})
    for choice in choices:
        meshes = [mesh for pipeline in choice.plan.pipelines for mesh in pipeline.meshes]
        cuts = [(mesh.tp, mesh.cp, mesh.pp, mesh.ep) for mesh in meshes]
        cut = (where(choice.slots), *cuts)
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
