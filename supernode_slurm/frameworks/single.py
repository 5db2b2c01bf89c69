"""The plan of a framework that cuts all stages alike and gives all replicas equal samples."""

from __future__ import annotations

from collections.abc import Iterator

from ..catalogue import Model, UnknownName, find_model
from ..errors import ConfigError, PlanError, UsageError
from ..plan import Mesh, Pipeline, Plan
from ..planner import rules
from .table import capabilities


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
    for problem in _broken(plan, mesh):
        raise PlanError(f"{name} cannot run this plan: {problem}")
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


def _broken(plan: Plan, mesh: Mesh) -> Iterator[str]:
    """Yield the rules that a plan breaks, of those that its framework's words cannot break."""
    able, pipeline = capabilities(plan.framework), plan.pipelines[0]
    stages, virtual = len(pipeline.stages), pipeline.virtual_stages
    once = mesh.micro_batch * mesh.dp
    if plan.global_batch % once:
        yield (
            f"global batch {plan.global_batch} is no multiple of micro-batch x DP = "
            f"{mesh.micro_batch} x {mesh.dp}"
        )
    even = len({stage.layers for stage in pipeline.stages}) == 1
    even &= pipeline.stages[0].layers % virtual == 0
    spread = rules.spread(able, mesh.dp, mesh.zero, mesh.shard)
    yield from filter(
        None,
        (
            rules.sequence(plan.sequence, able, mesh.tp, mesh.cp),
            rules.stages(able, stages, virtual, even) if virtual > 1 else "",
            rules.micro_batches(able, stages, virtual, plan.global_batch // once),
            rules.groups(able, mesh.tp * mesh.cp * spread, mesh.ep, mesh.etp),
        ),
    )
