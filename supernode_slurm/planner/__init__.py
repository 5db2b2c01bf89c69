"""From a workload and devices on offer to ranked plans."""

from .answers import KEEP, SPARE, Examined, Expected, Rejected, StageCost, is_tight
from .doors import (
    examine,
    ideal_rate,
    plan_mixed,
    plan_strategy,
    plan_uniform,
    predict,
    rejected,
    stage_costs,
    usable_gib,
)
from .trust import PUBLISHED, expected_error, kind_of
from .workload import (
    LOSSY,
    PRECISIONS,
    RECOMPUTE,
    REDUCTIONS,
    Capabilities,
    Fixed,
    Layout,
    Offer,
    Workload,
)

__all__ = [
    "KEEP",
    "LOSSY",
    "PRECISIONS",
    "PUBLISHED",
    "RECOMPUTE",
    "REDUCTIONS",
    "SPARE",
    "Capabilities",
    "Examined",
    "Expected",
    "Fixed",
    "Layout",
    "Offer",
    "Rejected",
    "StageCost",
    "Workload",
    "examine",
    "expected_error",
    "ideal_rate",
    "is_tight",
    "kind_of",
    "plan_mixed",
    "plan_strategy",
    "plan_uniform",
    "predict",
    "rejected",
    "stage_costs",
    "usable_gib",
]
