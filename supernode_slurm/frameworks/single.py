"""The plan of a framework that cuts all stages alike and gives all replicas equal samples."""

from __future__ import annotations

from ..errors import PlanError
from ..plan import Mesh, Pipeline, Plan


def single(plan: Plan, name: str) -> tuple[Pipeline, Mesh]:
    """Return the only pipeline, and the mesh whose sizes hold for all of its stages.

    Raises ``PlanError`` with the framework's name if there is more than one.
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
    if mesh.ep > 1 or mesh.etp > 1:
        raise PlanError(f"{name} is not told expert parallelism yet; plan without it")
    if pipeline.virtual_stages > 1:
        raise PlanError(f"{name} is not told virtual stages yet; plan without them")
    if plan.global_batch % (mesh.micro_batch * mesh.dp):
        raise PlanError(
            f"global batch {plan.global_batch} is no multiple of micro-batch x DP = "
            f"{mesh.micro_batch} x {mesh.dp}, which {name} demands"
        )
    return pipeline, mesh


def _cut(mesh: Mesh) -> tuple[int, int, int, int, bool, str, int]:
    return (
        mesh.tp,
        mesh.cp,
        mesh.dp,
        mesh.micro_batch,
        mesh.sequence_parallel,
        mesh.recompute,
        mesh.zero,
    )
