"""What each training framework can run.

Read in the frameworks' sources: NVIDIA/Megatron-LM d98e8a6, Ascend/MindSpeed-LLM c77308a,
Ascend/MindSpeed fad5ae8, FlagOpen/FlagScale da4935e, deepspeedai/DeepSpeed edaa722 and release
0.19.8, pytorch/torchtitan b5bcd76 and release 0.3.0. HF Trainer, LLaMA-Factory and ms-swift are
planned as what they run on, DeepSpeed; hf-fsdp is the Trainer with FSDP2, of Transformers 5.24 and
Accelerate 1.15.0.

Each of them runs a mixture of experts: where experts cannot be parallel, each device has all
of them. FlagScale on devices of one kind is the Megatron-LM inside it. Between meshes it has
neither context parallelism nor virtual stages, whatever its row says.
"""

from __future__ import annotations

from dataclasses import replace

from ..catalogue import UnknownName
from ..planner import PRECISIONS, Capabilities

# Stages follow weights of parts, never an explicit list of layers. Its ZeRO++ shards copies of
# the weights over a part of the devices and the optimiser over all: no hybrid sharding. MiCS,
# which was, is gone from 0.19.
_DEEPSPEED = Capabilities(
    name="deepspeed",
    tensor=False,
    copies_kv_heads=False,
    pipeline=False,
    uneven_stages=False,
    uneven_samples=False,
    meshes=False,
    mixed_vendors=False,
    zero=(0, 1, 2, 3),
    # communication_data_type; int8: zero_quantized_gradients, of ZeRO-3 alone.
    reductions=("fp32", "bf16", "int8"),
    recompute=("none", "full"),
)

_TABLE = {
    item.name: item
    for item in (
        # Key heads: num_query_groups < world_size in megatron/core/transformer/attention.py.
        # The Megatron under MindSpeed-LLM and FlagScale was not found to have it.
        Capabilities(
            name="megatron",
            tensor=True,
            copies_kv_heads=True,
            pipeline=True,
            uneven_stages=True,
            uneven_samples=False,
            meshes=False,
            mixed_vendors=False,
            zero=(0, 1),
            recompute_some=True,
            virtual_stages=True,
            uneven_virtual=True,
            context=True,
            experts=True,
            expert_tensor=True,
            # --num-distributed-optimizer-instances: the optimiser's state.
            hybrid=True,
            reductions=("fp32", "bf16"),
            precisions=PRECISIONS,
        ),
        # --num-layer-list is refused beside virtual stages. FP8 is MindSpeed's own transformer
        # engine, for devices that have it; it has no FP4.
        Capabilities(
            name="mindspeed",
            tensor=True,
            copies_kv_heads=False,
            pipeline=True,
            uneven_stages=True,
            uneven_samples=False,
            meshes=False,
            mixed_vendors=False,
            zero=(0, 1),
            recompute_some=True,
            virtual_stages=True,
            context=True,
            experts=True,
            expert_tensor=True,
            reductions=("fp32", "bf16"),
            precisions=("bf16", "fp16", "fp8", "mxfp8"),
        ),
        Capabilities(
            name="flagscale",
            tensor=True,
            copies_kv_heads=False,
            pipeline=True,
            uneven_stages=True,
            uneven_samples=False,
            meshes=True,
            mixed_vendors=True,
            zero=(0, 1),
            recompute_some=True,
            # recompute_granularity_per_stage_micro_batch in flagscale/train/arguments.py.
            recompute_by_stage=True,
            virtual_stages=True,
            uneven_virtual=True,
            context=True,
            experts=True,
            expert_tensor=True,
            reductions=("fp32", "bf16"),
            precisions=PRECISIONS,
        ),
        # AutoEP, of DeepSpeed alone: not tried below the Trainer and what stands on it.
        replace(_DEEPSPEED, experts=True, whole_experts=True),
        *(replace(_DEEPSPEED, name=name) for name in ("hf", "llamafactory", "swift")),
        # Weights that stay after the forward pass (reshard_after_forward) are no ZeRO-2: each
        # micro-batch gathers them anew. Sums are in the precision of the weights:
        # set_mixed_precision of Accelerate's plugin.
        replace(_DEEPSPEED, name="hf-fsdp", zero=(3,), hybrid=True, reductions=("bf16",)),
        Capabilities(
            name="torchtitan",
            tensor=True,
            copies_kv_heads=False,
            pipeline=True,
            uneven_stages=True,
            uneven_samples=False,
            meshes=False,
            mixed_vendors=False,
            zero=(0, 3),
            # Its selective recomputation saves every second product, not the MLP's.
            recompute=("none", "full"),
            virtual_stages=True,
            uneven_virtual=True,
            # Schedule1F1B of torch refuses fewer micro-batches than stages.
            filled_pipelines=True,
            context=True,
            # seq_len_divisor of its ParallelDims.
            cuts_parts=True,
            experts=True,
            whole_experts=True,
            sharded_experts=True,
            pipelined_mtp=False,
            hybrid=True,
            precisions=("bf16", "fp8", "mxfp8", "nvfp4"),
        ),
        # A loop over DDP with runtime.shares: the weights of uneven batches are the loop's. Over
        # FSDP2 on a mesh of copies x shards it is planned where it is asked for by strategy.
        Capabilities(
            name="torch",
            tensor=False,
            copies_kv_heads=False,
            pipeline=False,
            uneven_stages=False,
            uneven_samples=True,
            meshes=False,
            mixed_vendors=False,
            # bf16_compress_hook of DDP, reduce_dtype of FSDP2.
            reductions=("fp32", "bf16"),
            zero=(0, 1),
            sharded_replicas=True,
        ),
    )
}


def names() -> tuple[str, ...]:
    """Return the names of all known frameworks."""
    return tuple(_TABLE)


def capabilities(name: str) -> Capabilities:
    """Return what a framework can run; raises ``UnknownName``."""
    if name not in _TABLE:
        raise UnknownName("framework", name, _TABLE)
    return _TABLE[name]
