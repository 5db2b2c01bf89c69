"""From a workload and devices on offer to ranked plans."""

from .answers import Examined, Expected, Rejected, StageCost
from .doors import alone, examine, plan_mixed, plan_uniform, predict, rejected, stage_costs
from .trust import PUBLISHED, expected_error, kind_of
from .workload import PRECISIONS, RECOMPUTE, Capabilities, Fixed, Layout, Offer, Workload

__all__ = [
    "PRECISIONS",
    "PUBLISHED",
    "RECOMPUTE",
    "Capabilities",
    "Examined",
    "Expected",
    "Fixed",
    "Layout",
    "Offer",
    "Rejected",
    "StageCost",
    "Workload",
    "alone",
    "examine",
    "expected_error",
    "kind_of",
    "plan_mixed",
    "plan_uniform",
    "predict",
    "rejected",
    "stage_costs",
]
