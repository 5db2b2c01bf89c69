"""What the cost model says of layouts: step time, where it goes, and memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..plan import DeviceGroup, Pipeline, Plan, Predicted
from .build import case_of, cut_of
from .case import Case
from .constants import Constants, constants_of
from .layer import Layers
from .lora import adapter_params, idle_operations, weight_operations
from .memory import Memory, memory_of
from .stacks import stack_of
from .step import PARTS, Step, step_of
from .workload import Layout, Offer, Workload

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Costs:
    """Of many layouts."""

    step: Step
    memory: Memory


def costs_of(case: Case, constants: Constants, layers: Layers | None = None) -> Costs:
    """Return the costs of all cases."""
    return Costs(step_of(case, constants, layers), memory_of(case, constants))


def predict(workload: Workload, offer: Offer, layout: Layout) -> Predicted:
    """Return what the cost model expects of a workload on one mesh, whether it fits or not.

    Raises ``PlanError`` if the catalogue does not know the devices' rates.
    """
    stack, constants = stack_of(workload.framework), constants_of(offer)
    case = case_of(workload, offer, cut_of(layout, stack), stack, constants)
    peak = float(case.rates.peak) * layout.tp * layout.cp * layout.dp * layout.pp
    return predicted_at(workload, costs_of(case, constants), peak)


def predicted_at(workload: Workload, costs: Costs, peak: float, row: int = 0) -> Predicted:
    """Return the prediction of one of the layouts; ``peak`` is that of all devices together."""
    parts = {name: _at(getattr(costs.step, name), row) for name in PARTS}
    step = math.fsum(parts.values())
    # Loading runs beside the step; what it takes longer is waited for.
    parts["data"] = max(workload.data_s - step, 0.0)
    step += parts["data"]
    return Predicted(
        step_time_s=step,
        breakdown_s=parts,
        memory_gib=(_at(costs.memory.peak, row) / GIB,),
        mfu=model_operations(workload) / step / peak,
    )


def usable_gib(offer: Offer) -> float:
    """Return the memory of a device that a training process gets."""
    return (offer.accelerator.memory_gib or 0.0) * constants_of(offer).usable


def limit_gib(workload: Workload, offer: Offer) -> float:
    """Return the memory of a device that plans of a workload may take."""
    return usable_gib(offer) * (1 - workload.spare)


def model_operations(workload: Workload) -> float:
    """Return the operations that one step needs, without recomputation, attention causal.

    Those of LoRA are fewer: gradients of frozen weights are not counted, nor computed. So its
    MFU is the share of the peak that does needed work, as it is in full training.
    """
    model, sequence = workload.model, workload.sequence
    products = weight_operations(model) + 2 * model.layers * adapter_params(workload)
    width: float = model.attention_width
    if model.latent is not None:
        width = (model.attention_width + model.heads * model.latent.value_dim) / 2
    attention = model.layers * 2 * sequence * width
    tokens = workload.global_batch * sequence
    return 3.0 * tokens * (products + attention) - tokens * idle_operations(workload)


def plan_of(
    workload: Workload,
    groups: tuple[DeviceGroup, ...],
    pipelines: tuple[Pipeline, ...],
    predicted: Predicted,
) -> Plan:
    """Return the plan of a workload on these pipelines."""
    return Plan(
        model=workload.model.name,
        global_batch=workload.global_batch,
        sequence=workload.sequence,
        framework=workload.framework,
        groups=groups,
        pipelines=pipelines,
        predicted=predicted,
        precision=workload.precision,
        tied_embeddings=workload.model.tied,
        training=workload.training,
        reduction=workload.reduction,
    )


def _at(values: object, row: int) -> float:
    array = np.asarray(values, np.float64)
    return float(array if array.ndim == 0 else array[row])
