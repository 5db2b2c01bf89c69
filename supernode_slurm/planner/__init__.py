"""From a workload and devices on offer to ranked plans."""

from .constants import PUBLISHED_ERROR
from .mixed import alone, plan_mixed
from .predict import predict
from .uniform import plan_uniform
from .workload import PRECISIONS, Capabilities, Fixed, Layout, Offer, Workload

__all__ = [
    "PRECISIONS",
    "PUBLISHED_ERROR",
    "Capabilities",
    "Fixed",
    "Layout",
    "Offer",
    "Workload",
    "alone",
    "plan_mixed",
    "plan_uniform",
    "predict",
]
