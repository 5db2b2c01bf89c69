"""A plan as command-line arguments of torchtitan."""

from __future__ import annotations

from ..errors import PlanError
from ..plan import Pipeline, Plan
from .single import single

NOTES = (
    "the plan's words end with activation-checkpoint:..., a subcommand: write {plan} last",
    "sequence length and schedule stay those of the configuration: --training.seq_len, 1F1B",
)


def arguments(plan: Plan) -> list[str]:
    """Return the arguments that make torchtitan run this plan.

    Raises ``PlanError`` for what it cannot run. Names of release 0.3.0, whose own parser was
    given them; its trees of August 2026 count a batch in tokens instead
    (``num_tokens_per_microbatch_per_dp_rank``). No training was run.
    """
    pipeline, mesh = single(plan, "torchtitan")
    if mesh.zero not in (0, 3):
        raise PlanError(f"torchtitan shards by ZeRO-3 or not, the plan by ZeRO-{mesh.zero}")
    if mesh.recompute == "selective":
        raise PlanError(
            "torchtitan's selective recomputation is another than the plan's; take none or full"
        )
    if mesh.tp > 1 and not mesh.sequence_parallel:
        raise PlanError("torchtitan's tensor parallelism is planned with sequence parallelism")
    stages = len(pipeline.stages)
    # Without stages a step is cut into accumulated batches, with them into micro-batches.
    local = mesh.micro_batch if stages == 1 else plan.global_batch // mesh.dp
    sizes = {
        "parallelism.data_parallel_replicate_degree": 1 if mesh.zero else mesh.dp,
        "parallelism.data_parallel_shard_degree": mesh.dp if mesh.zero else 1,
        "parallelism.tensor_parallel_degree": mesh.tp,
        "parallelism.context_parallel_degree": mesh.cp,
        "parallelism.pipeline_parallel_degree": stages,
        "parallelism.pipeline_parallel_microbatch_size": mesh.micro_batch,
        "training.local_batch_size": local,
        "training.global_batch_size": plan.global_batch,
    }
    if stages == 1:
        del sizes["parallelism.pipeline_parallel_microbatch_size"]
    found = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    if stages > 1:
        # Its parser refuses a pipeline under CUDA graphs, which are on by default.
        found.append("--training.disable_cuda_graphs")
        found[:0] = ["--parallelism.module_fqns_per_model_part", *_parts(pipeline)]
    return [*found, f"activation-checkpoint:{mesh.recompute}"]


def _parts(pipeline: Pipeline) -> list[str]:
    """Return the modules of each stage, joined by commas."""
    parts, start = [], 0
    for stage in pipeline.stages:
        layers = [f"layers.{start + index}" for index in range(stage.layers)]
        first = ["tok_embeddings"] if stage.embedding else []
        parts.append(",".join([*first, *layers, *(["norm", "lm_head"] if stage.head else [])]))
        start += stage.layers
    return parts
