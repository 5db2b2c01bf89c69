"""The planner's doors: what others call. The arithmetic behind them is loaded when it is used."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..plan import Plan, Predicted
from .answers import KEEP, Examined, Rejected, StageCost
from .workload import Capabilities, Layout, Offer, Workload


def plan_uniform(
    workload: Workload, offer: Offer, able: Capabilities, keep: int = KEEP
) -> tuple[Plan, ...]:
    """Return the best plans on one kind of device, best first; see ``uniform``."""
    from . import uniform

    return uniform.plan_uniform(workload, offer, able, keep)


def plan_mixed(
    workload: Workload, offers: Sequence[Offer], able: Capabilities, keep: int = KEEP
) -> tuple[Plan, ...]:
    """Return the best plans that use all devices of all offers; see ``mixed``."""
    from . import mixed

    return mixed.plan_mixed(workload, offers, able, keep)


def plan_strategy(
    strategy: str,
    workload: Workload,
    offers: Sequence[Offer],
    able: Capabilities,
    keep: int = KEEP,
    below_s: float = math.inf,
) -> tuple[Plan, ...]:
    """Return the best plans of a strategy on all devices of all offers; see ``mixed``."""
    from . import mixed

    return mixed.plan_strategy(strategy, workload, offers, able, keep, below_s)


def ideal_rate(workload: Workload, offer: Offer, able: Capabilities) -> float:
    """Return the samples per second of devices that lose nothing; see ``mixed``."""
    from . import mixed

    return mixed.ideal_rate(workload, offer, able)


def predict(workload: Workload, offer: Offer, layout: Layout) -> Predicted:
    """Return what a layout costs, whether it fits or not; see ``costs``."""
    from . import costs

    return costs.predict(workload, offer, layout)


def examine(workload: Workload, offer: Offer, layout: Layout, able: Capabilities) -> Examined:
    """Return what a layout costs and why it cannot run; see ``own``."""
    from . import own

    return own.examine(workload, offer, layout, able)


def stage_costs(
    workload: Workload, offer: Offer, layout: Layout, able: Capabilities
) -> tuple[StageCost, ...]:
    """Return what the stages of a layout cost; see ``by_stage``."""
    from . import by_stage

    return by_stage.stage_costs(workload, offer, layout, able)


def rejected(workload: Workload, offer: Offer, able: Capabilities) -> tuple[Rejected, ...]:
    """Return the fastest layouts that do not fit; see ``own``."""
    from . import own

    return own.rejected(workload, offer, able)


def usable_gib(offer: Offer) -> float:
    """Return the memory of a device that a training process gets."""
    from . import costs

    return costs.usable_gib(offer)
