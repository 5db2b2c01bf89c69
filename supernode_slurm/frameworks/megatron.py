"""A plan as command-line arguments of Megatron-LM or MindSpeed-LLM."""

from __future__ import annotations

from ..errors import PlanError
from ..plan import Pipeline, Plan
from .single import single

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
    d98e8a6, Ascend/MindSpeed-LLM c77308a). The argument parser of the Megatron-LM in FlagScale
    0.8.0 was given them, and megatron-core 0.16.1 the layouts; MindSpeed-LLM was not, and no
    training was run.
    """
    pipeline, mesh = single(plan, "Megatron")
    if mesh.zero > 1:
        raise PlanError(f"Megatron shards by ZeRO-1, the plan by ZeRO-{mesh.zero}; take less")
    found = [
        *("--tensor-model-parallel-size", str(mesh.tp)),
        *("--pipeline-model-parallel-size", str(len(pipeline.stages))),
        *("--micro-batch-size", str(mesh.micro_batch)),
        *("--global-batch-size", str(plan.global_batch)),
        f"--{plan.precision}",
        *_RECOMPUTE[mesh.recompute],
    ]
    if mesh.cp > 1:
        found.extend(["--context-parallel-size", str(mesh.cp)])
    if mesh.sequence_parallel:
        found.append("--sequence-parallel")
    if mesh.dp > 1 or mesh.zero == 1:
        found.append("--overlap-grad-reduce")
    if mesh.zero == 1:
        found.extend(["--use-distributed-optimizer", "--overlap-param-gather"])
    return found + _layers(plan, pipeline)


def notes(plan: Plan) -> tuple[str, ...]:
    """Return what a person should know about the arguments."""
    if plan.training == "lora" and plan.framework == "megatron":
        return ("Megatron-LM has no LoRA of its own: the script must bring it",)
    return ()


def _layers(plan: Plan, pipeline: Pipeline) -> list[str]:
    counts = [stage.layers for stage in pipeline.stages]
    if len(set(counts)) == 1:
        return []
    if plan.framework == "mindspeed":
        return ["--num-layer-list", ",".join(map(str, counts))]
    text = "|".join(f"t*{count}" for count in counts)
    return ["--pipeline-model-parallel-layout", f"E{text},L"]
