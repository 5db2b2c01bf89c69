"""A plan as command-line arguments of Megatron-LM or MindSpeed-LLM."""

from __future__ import annotations

from ..errors import PlanError
from ..plan import Mesh, Pipeline, Plan

_RECOMPUTE = {
    "none": (),
    "selective": ("--recompute-granularity", "selective", "--recompute-modules", "mlp"),
    "full": (
        "--recompute-granularity",
        "full",
        "--recompute-method",
        "uniform",
        "--recompute-num-layers",
        "1",
    ),
}


def arguments(plan: Plan) -> list[str]:
    """Return the arguments that make the framework run this plan.

    The data-parallel size follows from the number of ranks. Raises ``PlanError`` for what
    one set of arguments cannot say. Written from the frameworks' sources (NVIDIA/Megatron-LM
    d98e8a6, Ascend/MindSpeed-LLM c77308a); not run against them.
    """
    pipeline = _single(plan)
    mesh = pipeline.meshes[0]
    if plan.global_batch % (mesh.micro_batch * mesh.dp):
        raise PlanError(
            f"global batch {plan.global_batch} is no multiple of micro-batch x DP = "
            f"{mesh.micro_batch} x {mesh.dp}, which Megatron demands"
        )
    found = [
        *("--tensor-model-parallel-size", str(mesh.tp)),
        *("--pipeline-model-parallel-size", str(len(pipeline.stages))),
        *("--micro-batch-size", str(mesh.micro_batch)),
        *("--global-batch-size", str(plan.global_batch)),
        f"--{plan.precision}",
        *_RECOMPUTE[mesh.recompute],
    ]
    if mesh.sequence_parallel:
        found.append("--sequence-parallel")
    if mesh.dp > 1:
        found.append("--overlap-grad-reduce")
    if mesh.zero == 1:
        found.extend(["--use-distributed-optimizer", "--overlap-param-gather"])
    return found + _layers(plan, pipeline)


def _single(plan: Plan) -> Pipeline:
    if len(plan.pipelines) != 1:
        raise PlanError(f"Megatron runs one pipeline, the plan has {len(plan.pipelines)}")
    pipeline = plan.pipelines[0]
    if len({_cut(mesh) for mesh in pipeline.meshes}) != 1:
        raise PlanError(
            "Megatron cuts all stages alike, the plan's meshes differ; plan for flagscale"
        )
    if pipeline.meshes[0].zero > 1:
        raise PlanError(f"Megatron shards by ZeRO-1, the plan by ZeRO-{pipeline.meshes[0].zero}")
    return pipeline


def _cut(mesh: Mesh) -> tuple[int, int, int, bool, str, int]:
    return (
        mesh.tp,
        mesh.dp,
        mesh.micro_batch,
        mesh.sequence_parallel,
        mesh.recompute,
        mesh.zero,
    )


def _layers(plan: Plan, pipeline: Pipeline) -> list[str]:
    counts = [stage.layers for stage in pipeline.stages]
    if len(set(counts)) == 1:
        return []
    if plan.framework == "mindspeed":
        return ["--num-layer-list", ",".join(map(str, counts))]
    text = "|".join(f"t*{count}" for count in counts)
    return ["--pipeline-model-parallel-layout", f"E{text},L"]
