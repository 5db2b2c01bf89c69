"""What each stage of a pipeline costs: its layers, its micro-batch, its memory."""

from __future__ import annotations

import numpy as np

from .answers import StageCost
from .build import case_of, cut_of
from .constants import constants_of
from .costs import GIB
from .layer import layers_of
from .memory import memory_of, stages_of
from .stacks import stack_of
from .step import hop_s, stage_s
from .workload import Capabilities, Layout, Offer, Workload, agree_precision


def stage_costs(
    workload: Workload, offer: Offer, layout: Layout, able: Capabilities
) -> tuple[StageCost, ...]:
    """Return the first, the second and the last stage of a layout, as many as it has.

    Those between the second and the last have as many layers, and hold fewer micro-batches.
    """
    workload = agree_precision(workload, [offer], able)
    stack, constants = stack_of(workload.framework), constants_of(offer)
    case = case_of(workload, offer, cut_of(layout, stack), stack, constants)
    layers, hop = layers_of(case, constants), hop_s(case, constants)
    memory = memory_of(case, constants).stages
    found = []
    for name, stage, peak in zip(StageCost.NAMES, stages_of(case), memory, strict=True):
        if float(stage.layers) > 0:
            time = stage_s(case, layers, stage, hop).whole
            found.append(StageCost(name, int(stage.layers), float(np.max(time)), float(peak) / GIB))
    return tuple(found)
