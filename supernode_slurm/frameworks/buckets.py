"""How large the pieces are in which gradients travel while others are computed."""

from __future__ import annotations

import math

from ..catalogue import Accelerator, UnknownName, find_accelerator
from ..plan import Mesh, Plan
from ..planner.constants import DEFAULT

NETWORK_GBS = 50.0
"""Per device, where a job leaves its node: 400 Gb/s, the fastest that is common. On a slower
network a bucket takes longer than planned, so that its start is a smaller part of that."""


def best_bytes(plan: Plan, mesh: Mesh, whole: float) -> float:
    """Return the bytes of a bucket that leave least time exposed, of ``whole`` bytes in all.

    Of G bytes in buckets of B each, G / B collectives wait for their start, and the last
    bucket, B / bandwidth, has no computation left to hide under. The sum is least at
    B = sqrt(G x start x bandwidth).
    """
    return math.sqrt(whole * DEFAULT.collective_s * bandwidth_bs(plan, mesh))


def bandwidth_bs(plan: Plan, mesh: Mesh) -> float:
    """Return the bandwidth of one device in collectives of all."""
    card = card_of(plan, mesh)
    if plan.groups[mesh.group].nodes == 1 and card is not None and card.scale_up_gbs:
        return card.scale_up_gbs * DEFAULT.scale_up * 1e9
    return NETWORK_GBS * DEFAULT.network * 1e9


def card_of(plan: Plan, mesh: Mesh) -> Accelerator | None:
    """Return the accelerator of a mesh, None where the catalogue does not know it."""
    try:
        return find_accelerator(plan.groups[mesh.group].accelerator)
    except UnknownName:
        return None
