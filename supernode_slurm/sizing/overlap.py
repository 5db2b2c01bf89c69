"""What a framework that computes while gradients travel saves already."""

from __future__ import annotations

from dataclasses import replace

from ..plan import Pipeline, Plan
from ..planner import Offer, predict
from ..planner.replicas import joined
from .layouts import layout_of
from .question import Question


def overlap_saves_s(asked: Question, plan: Plan) -> float:
    """Return the seconds of a step that overlap hides of the traffic of gradients and weights.

    Not known of stages over several kinds of devices: 0.
    """
    if any(len(pipeline.meshes) > 1 for pipeline in plan.pipelines):
        return 0.0
    offers = {offer.group.name: offer for offer in joined(asked.offers)}
    ends = [
        [_step_s(asked, plan, pipeline, offers, overlap) for pipeline in plan.pipelines]
        for overlap in (False, True)
    ]
    without, there = map(max, ends)
    return max(without - there, 0.0)


def _step_s(
    asked: Question, plan: Plan, pipeline: Pipeline, offers: dict[str, Offer], overlap: bool
) -> float:
    """Return the step of the devices of a pipeline, in one ring with all others."""
    layout = replace(layout_of(pipeline), overlap=overlap)
    size = plan.global_batch
    if plan.pipelines[1:]:
        replicas = sum(item.meshes[0].dp for item in plan.pipelines)
        size = -(-pipeline.samples // layout.dp) * replicas
        layout = replace(layout, dp=replicas)
    work = replace(asked.workload, global_batch=size, precision=plan.precision, data_s=0.0)
    offer = offers[plan.groups[pipeline.meshes[0].group].name]
    return predict(work, offer, layout).step_time_s
