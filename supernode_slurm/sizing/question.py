"""One question to the planner, which variations of it are asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import PlanError
from ..placement import Ask, Slot, workload_of
from ..plan import Plan, Predicted
from ..planner import Capabilities, Offer, Workload, plan_strategy


@dataclass(frozen=True, slots=True)
class Question:
    """A workload and the devices for it."""

    workload: Workload
    offers: tuple[Offer, ...]
    able: Capabilities
    strategy: str = "mixed"
    """What several kinds of cards do."""

    def best(self) -> Plan:
        """Return the fastest plan; raises ``PlanError``."""
        return plan_strategy(self.strategy, self.workload, self.offers, self.able, keep=1)[0]

    def with_batch(self, size: int) -> Question:
        """Return the question for another global batch; its data takes as much longer to load."""
        scale = size / self.workload.global_batch
        data_s = self.workload.data_s * scale
        return replace(self, workload=replace(self.workload, global_batch=size, data_s=data_s))

    def on(self, *offers: Offer) -> Question:
        """Return the question for other devices."""
        return replace(self, offers=offers)


def question_of(ask: Ask, slots: Sequence[Slot], strategy: str = "mixed") -> Question:
    """Return what is asked of the devices of these slots, with the strategy that was taken.

    Raises ``PlanError`` without a model, or where nobody has said how fast the devices are
    joined.
    """
    if ask.model is None:
        raise PlanError("no model was named: nothing to plan")
    for slot in slots:
        if slot.unknown:
            raise PlanError(slot.unknown)
    mine = ask.on(slots)
    workload = workload_of(mine, ask.model)
    return Question(workload, tuple(slot.offer for slot in slots), mine.able, strategy)


def predicted_of(plan: Plan) -> Predicted:
    """Return what a plan predicts; every plan of a model does."""
    if plan.predicted is None:
        raise PlanError("placed, not planned: nothing is predicted")
    return plan.predicted
