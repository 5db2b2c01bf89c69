"""What the planner is asked besides its ranking."""

from __future__ import annotations

from dataclasses import replace

from ..catalogue import Accelerator
from ..plan import Plan
from ..planner import Examined, Expected, Offer, Rejected, examine, expected_error, rejected
from ..planner.constants import DEFAULT

__all__ = [
    "Examined",
    "Expected",
    "Rejected",
    "examine",
    "expected_error",
    "rejected",
    "usable_gib",
    "wired",
    "with_data",
]


def usable_gib(card: Accelerator) -> float:
    """Return the memory of a device that a training process gets."""
    return (card.memory_gib or 0.0) * DEFAULT.usable


def wired(offer: Offer, kind: str) -> Offer:
    """Return the offer with another interconnect."""
    return replace(offer, interconnect=kind)


def with_data(plan: Plan, data_s: float) -> Plan:
    """Return the plan with the loading of data that nothing hides."""
    found = plan.predicted
    if found is None or not data_s:
        return plan
    exposed = max(0.0, data_s - found.step_time_s)
    step = found.step_time_s + exposed
    breakdown = {**found.breakdown_s, "data": exposed}
    mfu = found.mfu * found.step_time_s / step
    return replace(plan, predicted=replace(found, step_time_s=step, breakdown_s=breakdown, mfu=mfu))
