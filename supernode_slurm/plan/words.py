"""What a plan deals to each kind of devices, in words.

This module travels into the job: Python 3.8, standard library only.
"""

from __future__ import annotations

from .model import Pipeline, Plan


def dealt(plan: Plan) -> str:
    """Return what each of several kinds of devices takes, in the order of the ranks.

    ``layers: a100 5+5, h100 22`` of stages, ``samples: h100 72, a100 24`` of replicas; empty for
    one kind alone.
    """
    if len(plan.groups) < 2 or not plan.pipelines:
        return ""
    if len(plan.pipelines) > 1:
        return f"samples: {', '.join(_samples(plan, item) for item in plan.pipelines)}"
    return f"layers: {', '.join(_layers(plan, plan.pipelines[0]))}"


def devices(plan: Plan) -> str:
    """Return the devices of each kind: ``8 h100 + 8 a100``."""
    return " + ".join(f"{group.devices} {group.name}" for group in plan.groups)


def _samples(plan: Plan, pipeline: Pipeline) -> str:
    return f"{plan.groups[pipeline.meshes[0].group].name} {pipeline.samples}"


def _layers(plan: Plan, pipeline: Pipeline) -> list[str]:
    found = []
    for index, mesh in enumerate(pipeline.meshes):
        held = [str(stage.layers) for stage in pipeline.stages if stage.mesh == index]
        found.append(f"{plan.groups[mesh.group].name} {'+'.join(held)}")
    return found
