"""Plans across different kinds of devices."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import PlanError
from ..plan import Plan
from .uniform import plan_uniform
from .workload import Capabilities, Offer, Workload


def plan_mixed(
    workload: Workload, offers: Sequence[Offer], capabilities: Capabilities
) -> tuple[Plan, ...]:
    """Return the plans that use all devices of all offers, best first."""
    if len(offers) == 1:
        return plan_uniform(workload, offers[0], capabilities)
    raise PlanError("mixed cards are not planned yet")
