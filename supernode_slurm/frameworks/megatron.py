"""A plan as command-line arguments of Megatron-LM or MindSpeed-LLM."""

from __future__ import annotations

from ..errors import PlanError
from ..plan import Mesh, Pipeline, Plan
from ..planner import REDUCTIONS
from .buckets import best_bytes
from .chunks import Chunk, chunks
from .single import has_experts, model_of, single

LEAST_BYTES = 1 << 20
"""Of a bucket that each of its replicas sums: less keeps no network busy."""
ALIGNED = 1 << 16
"""Parameters; --ddp-pad-buckets-for-high-nccl-busbw of Megatron-LM pads to as many."""

_FULL = ("--recompute-granularity", "full", "--recompute-method")

# Of the recipes for FP8 the one without a history of maxima; formats are Transformer Engine's
# defaults of each recipe (NVIDIA/TransformerEngine, docs/api/common.rst).
_PRECISION = {
    "bf16": ("--bf16",),
    "fp16": ("--fp16",),
    "fp8": ("--bf16", "--fp8-format", "hybrid", "--fp8-recipe", "tensorwise"),
    "mxfp8": ("--bf16", "--fp8-format", "e4m3", "--fp8-recipe", "mxfp8"),
    "nvfp4": ("--bf16", "--fp4-format", "e2m1", "--fp4-recipe", "nvfp4"),
}


def arguments(plan: Plan) -> list[str]:
    """Return the arguments that make the framework run this plan.

    The data-parallel size follows from the number of ranks. Raises ``PlanError`` for what
    one set of arguments cannot say. Written from the frameworks' sources (NVIDIA/Megatron-LM
    d98e8a6, Ascend/MindSpeed-LLM c77308a, Ascend/MindSpeed fad5ae8). The argument parser of the
    Megatron-LM in FlagScale 0.8.0 was given them, and megatron-core 0.16.1 the layouts;
    MindSpeed-LLM was not, and no training was run.
    """
    pipeline, mesh = single(plan, "Megatron")
    return [
        *("--tensor-model-parallel-size", str(mesh.tp)),
        *("--pipeline-model-parallel-size", str(len(pipeline.stages))),
        *("--micro-batch-size", str(mesh.micro_batch)),
        *("--global-batch-size", str(plan.global_batch)),
        *_precision(plan),
        *_recompute(plan, mesh),
        *_context(plan, mesh),
        *_experts(plan, mesh),
        *(["--sequence-parallel"] if mesh.sequence_parallel else []),
        *_replicas(plan, mesh),
        *_layers(plan, pipeline),
    ]


def notes(plan: Plan) -> tuple[str, ...]:
    """Return what a person should know about the arguments."""
    found = []
    model = model_of(plan)
    if plan.training == "lora" and plan.framework == "megatron":
        found.append("Megatron-LM has no LoRA of its own: the script must bring it")
    if plan.pipelines[0].meshes[0].ep > 1:
        found.append(
            "the plan sends tokens to their experts only: the script must say "
            "--moe-token-dispatcher-type alltoall or flex, Megatron's default sends them to all"
        )
    modules = _recompute(plan, plan.pipelines[0].meshes[0])
    if "moe_act" in modules:
        found.append("moe_act is recomputed: the script must say --moe-grouped-gemm")
    if "shared_experts" in modules:
        found.append("shared_experts is recomputed: not beside --moe-shared-expert-overlap")
    if model is not None and model.mtp:
        found.append(f"{model.name} has MTP: the script must say --mtp-num-layers {model.mtp}")
    return tuple(found)


def _precision(plan: Plan) -> tuple[str, ...]:
    if plan.framework == "mindspeed" and plan.precision == "nvfp4":
        raise PlanError("MindSpeed has no FP4; take fp8, mxfp8, bf16 or fp16")
    return _PRECISION[plan.precision]


def _recompute(plan: Plan, mesh: Mesh) -> tuple[str, ...]:
    """Return what is computed again."""
    if mesh.recompute == "none":
        return ()
    if mesh.recompute == "full":
        some = mesh.recompute_layers
        method = ("block", str(some)) if some else ("uniform", "1")
        return (*_FULL, method[0], "--recompute-num-layers", method[1])
    modules = recomputed_modules(plan)
    return ("--recompute-granularity", "selective", "--recompute-modules", *modules)


def recomputed_modules(plan: Plan) -> list[str]:
    """Return what selective recomputation is of: what the planner's memory model leaves out."""
    model = model_of(plan)
    if model is None or model.mixture is None:
        return ["mlp"]
    again = {
        "moe_act": True,
        "layernorm": True,
        "mla_up_proj": model.latent is not None,
        "shared_experts": model.mixture.shared_ffn > 0,
        "mlp": bool(model.mixture.dense_layers),
    }
    return [name for name, has in again.items() if has]


def _context(plan: Plan, mesh: Mesh) -> list[str]:
    found = ["--context-parallel-size", str(mesh.cp)]
    if mesh.cp > 1 and plan.framework == "mindspeed":
        # Megatron's ring: MindSpeed has others beside it, which cut heads.
        found += ["--context-parallel-algo", "megatron_cp_algo"]
    return found


def _experts(plan: Plan, mesh: Mesh) -> list[str]:
    if not has_experts(plan, mesh):
        return []
    if mesh.tp > 1 and not mesh.sequence_parallel:
        raise PlanError(
            "Megatron trains experts under tensor parallelism with sequence parallelism only"
        )
    return [
        *("--expert-model-parallel-size", str(mesh.ep)),
        *("--expert-tensor-parallel-size", str(mesh.etp)),
    ]


def _replicas(plan: Plan, mesh: Mesh) -> list[str]:
    """Return how replicas share optimiser and gradients."""
    if mesh.zero > 1:
        raise PlanError(f"Megatron shards by ZeRO-1, the plan by ZeRO-{mesh.zero}; take less")
    found = ["--overlap-grad-reduce"] if mesh.dp > 1 or mesh.zero == 1 else []
    found += _bucket(plan, mesh)
    if plan.reduction == "bf16":
        found.append("--grad-reduce-in-bf16")
    elif plan.reduction == "fp32" and plan.precision != "fp16":
        found.append("--accumulate-allreduce-grads-in-fp32")
    if mesh.zero == 1:
        found += ["--use-distributed-optimizer", "--overlap-param-gather"]
    copies = mesh.dp // mesh.shard if mesh.zero and mesh.shard else 1
    if copies == 1:
        return found
    replicas = mesh.tp * mesh.cp * mesh.dp // (mesh.ep * mesh.etp)
    if plan.framework != "megatron" or mesh.dp % mesh.shard or replicas % copies:
        raise PlanError(
            f"{plan.framework} cannot share the optimiser among {mesh.shard} of {mesh.dp} "
            f"replicas, {replicas} of the experts; share it among all"
        )
    return [*found, "--num-distributed-optimizer-instances", str(copies)]


def _bucket(plan: Plan, mesh: Mesh) -> list[str]:
    """Return the size of a bucket where it is not Megatron's own, max(40M, 1M x dp) parameters."""
    model = model_of(plan)
    if model is None or mesh.dp == 1 or plan.framework != "megatron":
        return []
    each = REDUCTIONS.get(plan.reduction, 4)
    held = model.params / (mesh.tp * len(plan.pipelines[0].stages))
    size = max(best_bytes(plan, mesh, held * each) / each, mesh.dp * LEAST_BYTES / each)
    return ["--ddp-bucket-size", str(-(-int(size) // ALIGNED) * ALIGNED)]


def _layers(plan: Plan, pipeline: Pipeline) -> list[str]:
    parts = chunks(pipeline)
    if len({chunk.layers for chunk in parts}) == 1:
        if pipeline.virtual_stages == 1:
            return []
        return ["--num-layers-per-virtual-pipeline-stage", str(parts[0].layers)]
    if plan.framework != "mindspeed":
        model = model_of(plan)
        text = "|".join(_letters(chunk, model.mtp if model else 0) for chunk in parts)
        return ["--pipeline-model-parallel-layout", text]
    return ["--num-layer-list", ",".join(str(stage.layers) for stage in pipeline.stages)]


def _letters(chunk: Chunk, mtp: int) -> str:
    """Return a stage of the layout: embedding, layers, multi-token prediction, loss."""
    last = f",{f'm*{mtp},' if mtp else ''}L" if chunk.head else ""
    return f"{'E' if chunk.embedding else ''}t*{chunk.layers}{last}"
