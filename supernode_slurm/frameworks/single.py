"""The plan of a framework that cuts all stages alike and gives all replicas equal samples."""

from __future__ import annotations

import math

from ..catalogue import Model, UnknownName, find_model
from ..errors import ConfigError, PlanError, UsageError
from ..plan import Mesh, Pipeline, Plan


def single(plan: Plan, name: str) -> tuple[Pipeline, Mesh]:
    """Return the only pipeline, and the mesh whose sizes hold for all of its stages.

    Raises ``PlanError`` with the framework's name if there is more than one, or for sizes that
    all frameworks refuse.
    """
    if len(plan.pipelines) != 1:
        raise PlanError(
            f"{name} runs one pipeline, the plan has {len(plan.pipelines)}; plan for torch"
        )
    pipeline = plan.pipelines[0]
    if len({_cut(mesh) for mesh in pipeline.meshes}) != 1:
        raise PlanError(
            f"{name} cuts all stages alike, the plan's meshes differ; plan for flagscale"
        )
    mesh = pipeline.meshes[0]
    for problem in (_batch(plan, mesh), _sequence(plan, mesh), _experts(mesh), _virtual(plan)):
        if problem:
            raise PlanError(f"{problem}, which {name} demands")
    return pipeline, mesh


def model_of(plan: Plan) -> Model | None:
    """Return the model of a plan, None if its name says no dimensions."""
    try:
        return find_model(plan.model)
    except (UnknownName, ConfigError, UsageError):
        return None


def has_experts(plan: Plan, mesh: Mesh) -> bool:
    """Say whether a plan trains a mixture of experts."""
    model = model_of(plan)
    return mesh.ep > 1 or mesh.etp > 1 or (model is not None and model.mixture is not None)


def _cut(mesh: Mesh) -> tuple[int | str, ...]:
    return (
        *(mesh.tp, mesh.cp, mesh.dp, mesh.ep, mesh.etp, mesh.micro_batch),
        *(mesh.sequence_parallel, mesh.recompute, mesh.recompute_layers, mesh.zero, mesh.shard),
    )


def _batch(plan: Plan, mesh: Mesh) -> str:
    if plan.global_batch % (mesh.micro_batch * mesh.dp) == 0:
        return ""
    return (
        f"global batch {plan.global_batch} is no multiple of micro-batch x DP = "
        f"{mesh.micro_batch} x {mesh.dp}"
    )


def _sequence(plan: Plan, mesh: Mesh) -> str:
    """Each rank has an early and a late part of a sequence, cut again by sequence parallelism."""
    part = mesh.cp * math.lcm(2, mesh.tp)
    if mesh.cp == 1 or plan.sequence % part == 0:
        return ""
    return f"a sequence of {plan.sequence} is no multiple of {part} for cp {mesh.cp}, tp {mesh.tp}"


def _experts(mesh: Mesh) -> str:
    if (mesh.tp * mesh.cp * mesh.dp) % (mesh.ep * mesh.etp) == 0:
        return ""
    return (
        f"tp x cp x dp = {mesh.tp} x {mesh.cp} x {mesh.dp} is no multiple of ep x etp = "
        f"{mesh.ep} x {mesh.etp}"
    )


def _virtual(plan: Plan) -> str:
    pipeline, mesh = plan.pipelines[0], plan.pipelines[0].meshes[0]
    stages = len(pipeline.stages)
    batches = plan.global_batch // (mesh.micro_batch * mesh.dp)
    if pipeline.virtual_stages == 1 or (stages > 1 and batches and batches % stages == 0):
        return ""
    if stages == 1:
        return f"{pipeline.virtual_stages} virtual stages are of one stage, not of two or more"
    return f"{batches} micro-batches are no multiple of {stages} stages with virtual stages"
