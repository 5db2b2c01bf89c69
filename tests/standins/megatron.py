"""The rules of Megatron-LM, and what MindSpeed-LLM and FlagScale add (facts of their sources)."""

from __future__ import annotations

import argparse
import re
from math import prod

from standin import Options, Rank, need, number, same

FLAGS = """--group-query-attention --swiglu --disable-bias-linear --sequence-parallel --bf16 --fp16
    --untie-embeddings-and-output-weights --exit-signal-handler --overlap-grad-reduce
    --overlap-param-gather --use-distributed-optimizer --grad-reduce-in-bf16
    --accumulate-allreduce-grads-in-fp32"""
VALUES = """--num-layers --hidden-size --ffn-hidden-size --num-attention-heads --num-query-groups
    --normalization --position-embedding-type --rotary-base --vocab-size --tokenizer-type
    --tokenizer-model --seq-length --max-position-embeddings --global-batch-size
    --micro-batch-size --train-iters --lr --min-lr --lr-decay-style --lr-warmup-iters --data-path
    --save --load --save-interval --tensor-model-parallel-size --pipeline-model-parallel-size
    --context-parallel-size --expert-model-parallel-size --expert-tensor-parallel-size
    --num-layers-per-virtual-pipeline-stage --num-distributed-optimizer-instances
    --ddp-bucket-size
    --fp8-format --fp8-recipe --fp4-format --fp4-recipe --recompute-granularity
    --recompute-method --recompute-num-layers --attention-dropout --hidden-dropout"""
LISTS = "--recompute-modules"
LAYOUT = "--pipeline-model-parallel-layout"


def options(flags: str = "", values: str = "", lists: str = "") -> argparse.Namespace:
    """Return what a training script is given; the additions are those of its framework."""
    return Options(f"{FLAGS} {flags}", f"{VALUES} {values}", f"{LISTS} {lists}").parse_args()


def size(given: argparse.Namespace, name: str) -> int:
    """Return a size of the layout; Megatron's default is 1."""
    return number(getattr(given, name) or "1", name)


def check_model(given: argparse.Namespace, tp: int) -> None:
    """Check what tensor parallelism of this size demands of the model."""
    heads = number(given.num_attention_heads, "heads")
    groups = (
        number(given.num_query_groups, "query groups") if given.group_query_attention else heads
    )
    same("attention heads over TP leave", 0, heads % tp)
    need(groups % tp == 0 or tp % groups == 0, f"{groups} query groups over TP {tp}")
    same("feed-forward width over TP leaves", 0, number(given.ffn_hidden_size, "width") % tp)
    if given.sequence_parallel:
        need(tp > 1, "sequence parallelism without tensor parallelism")
        same("sequence over TP leaves", 0, number(given.seq_length, "sequence") % tp)
    if given.ddp_bucket_size:
        need(number(given.ddp_bucket_size, "bucket") > 0, "--ddp-bucket-size is not positive")
    if given.overlap_param_gather:
        need(given.use_distributed_optimizer, "--overlap-param-gather: no distributed optimizer")
        need(given.overlap_grad_reduce, "--overlap-param-gather: no --overlap-grad-reduce")
    need(bool(given.bf16) != bool(given.fp16), "exactly one of --bf16 and --fp16")
    if given.recompute_granularity == "full":
        need(given.recompute_method is not None, "full recomputation without a method")
        number(given.recompute_num_layers, "--recompute-num-layers")
    elif given.recompute_granularity == "selective":
        need(given.recompute_num_layers is None, "selective recomputation counts no layers")
    max_positions = number(given.max_position_embeddings, "positions")
    need(number(given.seq_length, "sequence") <= max_positions, "sequence beyond its positions")


def check_batch(given: argparse.Namespace, me: Rank, dp: int) -> dict[str, int]:
    """Check the batch arithmetic; return the batches."""
    plan, _ = me.planned()
    whole = number(given.global_batch_size, "global batch")
    micro = number(given.micro_batch_size, "micro-batch")
    same("global batch over micro-batch x DP leaves", 0, whole % (micro * dp))
    same("global batch", plan.global_batch, whole)
    same("sequence", plan.sequence, number(given.seq_length, "sequence"))
    return {"global_batch": whole, "micro_batch": micro, "dp": dp}


def check_uniform(given: argparse.Namespace, me: Rank) -> dict[str, int]:
    """Check a layout that is alike on all stages against the plan; return its sizes."""
    tp, pp = size(given, "tensor_model_parallel_size"), size(given, "pipeline_model_parallel_size")
    cp = size(given, "context_parallel_size")
    same(f"WORLD_SIZE over TP {tp} x CP {cp} x PP {pp} leaves", 0, me.world % prod((tp, cp, pp)))
    check_model(given, tp)
    found = check_batch(given, me, me.world // prod((tp, cp, pp)))
    _, pipeline = me.planned()
    for mesh in pipeline.meshes:
        same("TP, CP, DP", (mesh.tp, mesh.cp, mesh.dp), (tp, cp, found["dp"]))
        same("micro-batch", mesh.micro_batch, found["micro_batch"])
        same("sequence parallelism", mesh.sequence_parallel, given.sequence_parallel)
        same("recomputation", mesh.recompute, given.recompute_granularity or "none")
        same("distributed optimizer", mesh.zero == 1, given.use_distributed_optimizer)
        if mesh.ep > 1:
            same("EP", mesh.ep, size(given, "expert_model_parallel_size"))
            same("ETP", mesh.etp, size(given, "expert_tensor_parallel_size"))
        copies = mesh.dp // (mesh.shard or mesh.dp)
        same("copies of the optimizer", copies, size(given, "num_distributed_optimizer_instances"))
    sequence = number(given.seq_length, "sequence")
    same("sequence over twice CP leaves", 0, 0 if cp == 1 else sequence % (2 * cp))
    same("pipeline stages", len(pipeline.stages), pp)
    return {"tp": tp, "pp": pp, **found}


def stages_of(given: argparse.Namespace, layout: str | None, pp: int) -> tuple[list[int], int]:
    """Return the layers of each stage, and its virtual stages; a layout goes turn by turn."""
    layers = number(given.num_layers, "layers")
    each = given.num_layers_per_virtual_pipeline_stage
    if layout is not None:
        need(each is None, "a layout beside --num-layers-per-virtual-pipeline-stage")
        chunks = layers_of(layout)
        same("chunks of the layout over stages leave", 0, len(chunks) % pp)
        return [sum(chunks[stage::pp]) for stage in range(pp)], len(chunks) // pp
    same("layers over stages leave", 0, layers % pp)
    virtual = 1
    if each is not None:
        need(pp > 1, "virtual stages without a pipeline")
        same("layers of a stage over its chunks' leave", 0, layers // pp % number(each, "chunk"))
        virtual = layers // pp // number(each, "chunk")
    return [layers // pp] * pp, virtual


def layers_of(layout: str) -> list[int]:
    """Return the decoder layers of each stage of ``--pipeline-model-parallel-layout``."""
    text = re.sub(r"\(([^()]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), layout)
    text = re.sub(r"(.)\*(\d+)", lambda found: found[1] * int(found[2]), text).replace(",", "")
    need(set(text) <= set("EtmL|"), f"layout {layout!r}: letters {sorted(set(text))}")
    need(text.startswith("E") and text.endswith("L"), f"layout {layout!r}: begins E, ends L")
    same("embeddings and losses of the layout", (1, 1), (text.count("E"), text.count("L")))
    return [stage.count("t") for stage in text.split("|")]
