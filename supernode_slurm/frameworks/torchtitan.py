"""A plan as command-line arguments of torchtitan."""

from __future__ import annotations

from ..errors import PlanError
from ..plan import Mesh, Pipeline, Plan
from ..planner import rules
from .chunks import chunks
from .single import has_experts, model_of, single
from .table import capabilities

_CONVERTERS = {
    "fp8": "Float8LinearConverter",
    "mxfp8": "MXFP8LinearConverter",
    "nvfp4": "NVFP4LinearConverter",
}


def arguments(plan: Plan) -> list[str]:
    """Return the arguments that make torchtitan run this plan.

    Raises ``PlanError`` for what it cannot run. Names of release 0.3.0, whose own parser was
    given them; its trees of August 2026 count a batch in tokens instead
    (``num_tokens_per_microbatch_per_dp_rank``). No training was run.
    """
    pipeline, mesh = single(plan, "torchtitan")
    for problem in (_broken(mesh), _broken_model(plan, mesh)):
        if problem:
            raise PlanError(problem)
    stages, shards = len(pipeline.stages), _shards(mesh)
    # Without stages a step is cut into accumulated batches, with them into micro-batches.
    local = mesh.micro_batch if stages == 1 else plan.global_batch // mesh.dp
    sizes = {
        "parallelism.data_parallel_replicate_degree": mesh.dp // shards,
        "parallelism.data_parallel_shard_degree": shards,
        "parallelism.tensor_parallel_degree": mesh.tp,
        "parallelism.context_parallel_degree": mesh.cp,
        "parallelism.expert_parallel_degree": mesh.ep,
        "parallelism.pipeline_parallel_degree": stages,
        "parallelism.pipeline_parallel_microbatch_size": mesh.micro_batch,
        "training.local_batch_size": local,
        "training.global_batch_size": plan.global_batch,
    }
    if stages == 1:
        del sizes["parallelism.pipeline_parallel_microbatch_size"]
    found = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    if stages > 1 or mesh.ep > 1:
        # Its parser refuses both under CUDA graphs, which are on by default.
        found.append("--training.disable_cuda_graphs")
    if stages > 1:
        schedule = "1F1B" if pipeline.virtual_stages == 1 else "Interleaved1F1B"
        found[:0] = [
            *("--parallelism.pipeline_parallel_schedule", schedule),
            *("--parallelism.module_fqns_per_model_part", *_parts(pipeline)),
        ]
    return [*found, f"activation-checkpoint:{mesh.recompute}"]


def notes(plan: Plan) -> tuple[str, ...]:
    """Return what a person should know about the arguments."""
    mesh = plan.pipelines[0].meshes[0]
    found = [
        "the plan's words end with activation-checkpoint:..., a subcommand: write {plan} last",
        "sequence length stays that of the configuration: --training.seq_len",
    ]
    if plan.precision in _CONVERTERS:
        found.append(
            f"{plan.precision} is the configuration's: take one with {_CONVERTERS[plan.precision]}"
        )
    if mesh.cp > 1 and mesh.zero == 0:
        found.append("torchtitan cuts weights over cp too: they take less memory than planned")
    return tuple(found)


def _shards(mesh: Mesh) -> int:
    """Return how many replicas share one copy of the weights."""
    return (mesh.shard or mesh.dp) if mesh.zero else 1


def _broken(mesh: Mesh) -> str:
    """Return the rule that a mesh breaks, empty if none."""
    if mesh.zero not in (0, 3):
        return f"torchtitan shards by ZeRO-3 or not, the plan by ZeRO-{mesh.zero}"
    if mesh.dp % _shards(mesh):
        return f"torchtitan shards over a divisor of dp {mesh.dp}, the plan over {mesh.shard}"
    if mesh.recompute == "selective":
        return "torchtitan's selective recomputation is not the plan's; take none or full"
    if mesh.tp > 1 and not mesh.sequence_parallel:
        return "torchtitan's tensor parallelism is planned with sequence parallelism"
    return ""


def _broken_model(plan: Plan, mesh: Mesh) -> str:
    """Return what of the plan torchtitan's models do not have."""
    model, able = model_of(plan), capabilities(plan.framework)
    (etp,) = rules.tensor_of_experts(able, mesh.tp, mesh.ep)
    if has_experts(plan, mesh) and mesh.etp != etp:
        return (
            f"torchtitan's experts have etp {etp} under tp {mesh.tp} and ep {mesh.ep}, the plan's "
            f"{mesh.etp}"
        )
    unpiped = model and rules.predicted_tokens(model, able, len(plan.pipelines[0].stages))
    if unpiped:
        return f"{unpiped}; plan for megatron"
    if plan.precision == "fp16":
        return "torchtitan trains in bf16 or less, not in fp16"
    return ""


def _parts(pipeline: Pipeline) -> list[str]:
    """Return the modules of each stage, joined by commas."""
    parts = []
    for chunk in chunks(pipeline):
        layers = [f"layers.{chunk.first + index}" for index in range(chunk.layers)]
        first = ["tok_embeddings"] if chunk.embedding else []
        parts.append(",".join([*first, *layers, *(["norm", "lm_head"] if chunk.head else [])]))
    return parts
