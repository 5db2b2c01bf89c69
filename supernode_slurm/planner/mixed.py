"""Plans across different kinds of devices, as replicas or as pipeline stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ..errors import PlanError
from ..plan import Plan
from .answers import KEEP
from .chain import chain_plans
from .costs import worked_s
from .replicas import replica_plans
from .uniform import plan_uniform
from .workload import Capabilities, Fixed, Offer, Workload, agree_precision


def plan_mixed(
    workload: Workload, offers: Sequence[Offer], capabilities: Capabilities, keep: int = KEEP
) -> tuple[Plan, ...]:
    """Return the best plans that use all devices of all offers, best first.

    Each offer is one group of the plan. Groups become data-parallel replicas with uneven
    samples, or consecutive pipeline stages with uneven layers, as the framework can run
    them. Of the plans with stages only the best few are returned. Where none leaves the
    workload's ``spare`` of memory, those that fit without it are returned. Raises ``PlanError``
    with the reason of each way if there is none.
    """
    if len(offers) == 1:
        return plan_uniform(workload, offers[0], capabilities, keep)
    if workload.fixed != Fixed():
        raise PlanError(
            f"{workload.fixed.words()}: fixed sizes are planned on one kind of device; "
            "leave them open for the plan, or ask for one kind"
        )
    workload = agree_precision(workload, offers, capabilities)
    vendors = {offer.accelerator.vendor for offer in offers}
    if len(vendors) > 1 and not capabilities.mixed_vendors:
        raise PlanError(
            f"{capabilities.name} cannot run {' and '.join(sorted(vendors))} devices in one "
            "job; use flagscale, or devices of one vendor"
        )
    plans: list[Plan] = []
    reasons: list[str] = []
    for way in (replica_plans, partial(chain_plans, keep=keep)):
        try:
            plans.extend(way(workload, offers, capabilities))
        except PlanError as error:
            reasons.append(str(error))
    if not plans and workload.spare:
        return plan_mixed(replace(workload, spare=0.0), offers, capabilities, keep)
    if not plans:
        raise PlanError("\n".join(reasons))
    return tuple(sorted(plans, key=_step_time)[:keep])


def alone(
    workload: Workload, offers: Sequence[Offer], capabilities: Capabilities
) -> tuple[Plan | None, ...]:
    """Return each offer's best plan without the others, None where it has none.

    A mix is worth its trouble only if it beats all of them.
    """
    return tuple(_best_alone(workload, offer, capabilities) for offer in offers)


def _best_alone(workload: Workload, offer: Offer, capabilities: Capabilities) -> Plan | None:
    try:
        return plan_uniform(workload, offer, capabilities, 1)[0]
    except PlanError:
        return None


def _step_time(plan: Plan) -> float:
    # Plans that wait for data are all as long: what they compute decides.
    return worked_s(plan.predicted) if plan.predicted else math.inf
