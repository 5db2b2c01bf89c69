"""Plans across different kinds of devices, as replicas or as pipeline stages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ..errors import PlanError
from ..plan import Plan
from .answers import KEEP
from .chain import chain_plans
from .fixed import with_sizes
from .hybrid import hybrid_plans
from .mesh import Shape, meshes_of
from .replicas import loop_words, replica_plans
from .space import divisors
from .uniform import plan_uniform
from .workload import Capabilities, Fixed, Offer, Workload, agree_precision


def plan_mixed(
    workload: Workload,
    offers: Sequence[Offer],
    capabilities: Capabilities,
    keep: int = KEEP,
    below_s: float = math.inf,
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
    workload = _agreed(workload, offers, capabilities)
    given = (workload, offers, capabilities)
    plans, errors = _tried(
        partial(replica_plans, *given), partial(chain_plans, *given, keep=keep, below_s=below_s)
    )
    reasons = list(map(str, errors))
    if not plans and workload.spare and below_s == math.inf:
        return plan_mixed(replace(workload, spare=0.0), offers, capabilities, keep)
    if not (plans or capabilities.uneven_samples or capabilities.uneven_stages):
        reasons.append("--framework torch deals samples by speed, --framework megatron layers")
    if not plans:
        raise PlanError("\n".join(reasons))
    return tuple(sorted(plans, key=_step_time)[:keep])


def _agreed(workload: Workload, offers: Sequence[Offer], capabilities: Capabilities) -> Workload:
    """Return the workload in a precision of all devices; ``PlanError`` where they do not mix."""
    workload = agree_precision(workload, offers, capabilities)
    vendors = {offer.accelerator.vendor for offer in offers}
    if len(vendors) > 1 and not capabilities.mixed_vendors:
        raise PlanError(
            f"{capabilities.name} cannot run {' and '.join(sorted(vendors))} devices in one "
            "job; use flagscale, or devices of one vendor"
        )
    return workload


def plan_strategy(
    strategy: str,
    workload: Workload,
    offers: Sequence[Offer],
    capabilities: Capabilities,
    keep: int = KEEP,
    below_s: float = math.inf,
) -> tuple[Plan, ...]:
    """Return the best plans of a strategy that use all devices of all offers, best first.

    Plans that take ``below_s`` or longer need not be among them. ``mixed``: as ``plan_mixed``.
    One offer: of frameworks that can also with unequal samples, and with sharded weights.
    ``dynamic``: replicas whose shares follow their measured step times. ``hierarchical``: as
    ``hybrid_plans``. Raises ``PlanError``.
    """
    if strategy == "dynamic":
        return with_sizes(lambda asked: _dynamic(asked, offers, capabilities), workload)
    if strategy == "hierarchical":
        return with_sizes(
            lambda asked: _each_fitting(hybrid_plans, asked, offers, capabilities), workload
        )
    if len(offers) == 1:
        return _alone(workload, offers, capabilities, keep)
    if below_s < math.inf:
        return plan_mixed(workload, offers, capabilities, keep, below_s)
    return with_sizes(lambda asked: plan_mixed(asked, offers, capabilities, keep), workload)


def _alone(
    workload: Workload, offers: Sequence[Offer], capabilities: Capabilities, keep: int
) -> tuple[Plan, ...]:
    """Return the plans of one kind: of equal shares, and of others that the framework can deal.

    These are whole samples where they do not divide, and sharded weights. The best of each way is
    among them at least.
    """
    ways: list[Callable[[], Sequence[Plan]]] = [
        partial(plan_uniform, workload, offers[0], capabilities, keep)
    ]
    if capabilities.uneven_samples and workload.global_batch % offers[0].devices:
        ways.append(partial(_each_fitting, replica_plans, workload, offers, capabilities))
    if capabilities.sharded_replicas and offers[0].devices > 1:
        ways.append(partial(_each_fitting, hybrid_plans, workload, offers, capabilities))
    plans, reasons = _tried(*ways, keep=keep)
    if not plans:
        # Sharded weights need the least memory; sizes that are fixed are none of theirs.
        raise reasons[-1 if workload.fixed == Fixed() else 0]
    # The faster one may leave less memory than is wished.
    return tuple(sorted(plans, key=_step_time)[: max(keep, len(ways))])


def _tried(
    *ways: Callable[[], Sequence[Plan]], keep: int | None = None
) -> tuple[list[Plan], list[PlanError]]:
    """Return the first plans of each way that has any, and why the others have none."""
    plans: list[Plan] = []
    errors: list[PlanError] = []
    for way in ways:
        try:
            plans.extend(way()[:keep])
        except PlanError as error:
            errors.append(error)
    return plans, errors


def _dynamic(
    workload: Workload, offers: Sequence[Offer], capabilities: Capabilities
) -> tuple[Plan, ...]:
    if not capabilities.uneven_samples:
        raise PlanError(
            f"{capabilities.name} gives all replicas equal samples, so that shares cannot "
            "follow measured times" + loop_words(offers, "")
        )
    plans = _each_fitting(replica_plans, workload, offers, capabilities)
    return tuple(replace(plan, rebalance=True) for plan in plans)


def _each_fitting(
    way: Callable[[Workload, Sequence[Offer], Capabilities], list[Plan]],
    workload: Workload,
    offers: Sequence[Offer],
    capabilities: Capabilities,
) -> tuple[Plan, ...]:
    """Return the plans of one way, with all memory where none leaves the spare."""
    workload = _agreed(workload, offers, capabilities)
    try:
        plans = way(workload, offers, capabilities)
    except PlanError:
        if not workload.spare:
            raise
        plans = way(replace(workload, spare=0.0), offers, capabilities)
    return tuple(sorted(plans, key=_step_time))


def ideal_rate(workload: Workload, offer: Offer, capabilities: Capabilities) -> float:
    """Return the samples per second of all devices of an offer if they lost nothing.

    Each computes whole samples, without recomputation, traffic or want of memory, in the
    micro-batch at which its computation is fastest. Raises ``PlanError`` for what the equations
    of a mesh do not cover.
    """
    workload = agree_precision(workload, [offer], capabilities)
    sizes = [1 << place for place in range(workload.global_batch.bit_length())]
    mixture = workload.model.mixture
    spread = divisors(mixture.experts) if mixture else [1]
    shapes = [Shape(1, ep, size, "none", 0, ep=ep) for size in sizes for ep in spread]
    meshes = meshes_of(workload, offer, shapes, [1] * len(shapes))
    fastest = min(
        (mesh.layers * mesh.layer.compute_s + mesh.embedding.compute_s + mesh.head.compute_s)
        / mesh.shape.micro_batch
        for mesh in meshes
    )
    return offer.devices / fastest


def _step_time(plan: Plan) -> float:
    # Plans that wait for data are all as long: what they compute decides.
    return plan.predicted.worked_s if plan.predicted else math.inf
