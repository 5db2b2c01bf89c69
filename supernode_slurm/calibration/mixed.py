"""Predictions of runs on several kinds of devices: each stage as slow as its slowest device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from ..planner import Offer, Workload
from ..planner.mesh import MeshCost, Shape, meshes_of
from ..planner.pipeline import Chain, Held
from ..planner.replicas import joined
from .runs import Run


@dataclass(frozen=True, slots=True)
class MixedPredicted:
    """Of one run."""

    breakdown_s: dict[str, float]
    memory_bytes: float
    limit_bytes: float
    """Of the stage that comes closest to it."""
    reading_bytes: float
    """What a tool shows of its device."""

    @property
    def time_s(self) -> float:
        """Return the step time."""
        return sum(self.breakdown_s.values())


def predict_mixed(run: Run, values: Mapping[str, float] | None = None) -> MixedPredicted:
    """Return what the model says of a run on several kinds of devices."""
    layout = run.layout
    workload = replace(run.workload, framework=run.stack)
    shape = Shape(layout.tp, layout.dp, layout.micro_batch, layout.recompute, layout.zero)
    given = tuple((values or {}).items())
    offers = [replace(offer, calibration=given) for offer in run.offers]
    last = layout.pp - 1
    stages: list[Held] = []
    costs: dict[tuple[int, ...], list[MeshCost]] = {}
    for index, (layers, kinds) in enumerate(zip(layout.layers, run.stages, strict=True)):
        if kinds not in costs:
            together = joined([offers[kind] for kind in kinds])
            costs[kinds] = [_cost(workload, offer, shape, layout.pp) for offer in together]
        held = [Held(cost, layers, (index == 0, index == last)) for cost in costs[kinds]]
        stages.append(max(held, key=lambda stage: stage.compute_s + stage.tp_s))
    hops = [_hop_s(one, other) for one, other in pairwise(stages)]
    around = zip([0.0, *hops], [*hops, 0.0], strict=True)
    batches = run.workload.global_batch / (layout.dp * layout.micro_batch)
    chain = Chain(tuple(stages), tuple(before + after for before, after in around), batches)
    constants = stages[0].cost.constants
    limits = [constants.usable * float(stage.cost.case.rates.memory_bytes) for stage in stages]
    need = chain.memory_bytes()
    tight = max(range(len(stages)), key=lambda place: need[place] / limits[place])
    stage = stages[tight]
    kept = need[tight] - stage.cost.stage_bytes(stage.layers, stage.ends, 0)
    more = (constants.reading - 1) * kept + constants.context_gib * 2**30
    reading = max(need[tight], min(need[tight] + more, limits[tight]))
    return MixedPredicted(chain.breakdown_s(), need[tight], limits[tight], reading)


def _cost(workload: Workload, offer: Offer, shape: Shape, pp: int) -> MeshCost:
    return meshes_of(workload, offer, [shape], [pp])[0]


def _hop_s(one: Held, other: Held) -> float:
    if one.cost.hop_bs <= 0:
        return 0.0
    moved = 2 * one.cost.tokens * float(one.cost.case.dims.hidden) / one.cost.shape.tp
    return moved / min(one.cost.hop_bs, other.cost.hop_bs) + one.cost.constants.transfer_s
