"""Stands in for the training script of Megatron-LM and of MindSpeed-LLM."""

from __future__ import annotations

import os
import sys

import megatron
from standin import finish, need, number, rank, same

MINDSPEED_FLAGS = """--use-mcore-models --add-qkv-bias --use-flash-attn --use-fused-rmsnorm
    --use-fused-swiglu --use-fused-rotary-pos-emb --use-rotary-position-embeddings
    --attention-softmax-in-fp32 --no-masked-softmax-fusion --no-gradient-accumulation-fusion"""
MINDSPEED_VALUES = """--padded-vocab-size --make-vocab-size-divisible-by --tokenizer-name-or-path
    --num-layer-list --context-parallel-algo --distributed-backend --norm-epsilon"""


def main() -> int:
    """Check this rank; return the exit code."""
    me = rank()
    plan, pipeline = me.planned()
    mindspeed = plan.framework == "mindspeed"
    if mindspeed:
        words = (MINDSPEED_FLAGS, MINDSPEED_VALUES)
        need(bool(os.environ.get("HCCL_CONNECT_TIMEOUT")), "no HCCL_CONNECT_TIMEOUT")
    else:
        same("framework", "megatron", plan.framework)
        words = ("", megatron.LAYOUT)
    given = megatron.options(*words)
    sizes = megatron.check_uniform(given, me)
    if sizes["tp"] > 1 and not mindspeed:
        same("CUDA_DEVICE_MAX_CONNECTIONS", "1", os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS"))
    layers, pp = number(given.num_layers, "layers"), sizes["pp"]
    layout = None if mindspeed else given.pipeline_model_parallel_layout
    if mindspeed and given.num_layer_list is not None:
        need(pp > 1, "--num-layer-list without a pipeline")
        need(
            given.num_layers_per_virtual_pipeline_stage is None,
            "--num-layer-list with virtual stages",
        )
        split = [number(text, "--num-layer-list") for text in given.num_layer_list.split(",")]
        virtual = 1
    else:
        split, virtual = megatron.stages_of(given, layout, pp)
    same("virtual stages", pipeline.virtual_stages, virtual)
    if virtual > 1:
        batches = sizes["global_batch"] // (sizes["micro_batch"] * sizes["dp"])
        same("micro-batches over stages leave", 0, batches % pp)
    same("layers of all stages", layers, sum(split))
    same("layers of each stage", [stage.layers for stage in pipeline.stages], split)
    return finish(me, plan.framework, sizes=sizes, layers=split)


if __name__ == "__main__":
    sys.exit(main())
