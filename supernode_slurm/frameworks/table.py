"""What each training framework can run.

Read in the frameworks' sources: NVIDIA/Megatron-LM d98e8a6, Ascend/MindSpeed-LLM c77308a,
FlagOpen/FlagScale da4935e, deepspeedai/DeepSpeed edaa722, pytorch/torchtitan b5bcd76 and
release 0.3.0. HF Trainer, LLaMA-Factory and ms-swift are planned as what they run on, DeepSpeed.
"""

from __future__ import annotations

from dataclasses import replace

from ..catalogue import UnknownName
from ..planner import Capabilities

# Stages follow weights of parts, never an explicit list of layers.
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
        ),
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
        ),
        *(replace(_DEEPSPEED, name=name) for name in ("deepspeed", "hf", "llamafactory", "swift")),
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
        ),
        # A loop over DDP with runtime.shares: the weights of uneven batches are the loop's.
        Capabilities(
            name="torch",
            tensor=False,
            copies_kv_heads=False,
            pipeline=False,
            uneven_stages=False,
            uneven_samples=True,
            meshes=False,
            mixed_vendors=False,
            zero=(0, 1),
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
