"""Whether training goes on from a checkpoint under another layout, and what that takes.

Saved and loaded was what the Trainer writes under FSDP, by Transformers 5.24 and Accelerate
1.15.0; there SHARDED_STATE_DICT, which is not planned, loads at any size too, and ``accelerate
merge-weights`` joins its weights (``utils/fsdp_utils.py``, read). All others were read in the
frameworks' sources, nothing was saved or loaded: Megatron-LM and FlagScale in megatron-core 0.16.1
(``core/optimizer/distrib_optimizer.py``) and the Megatron-LM of FlagScale 0.8.0
(``training/checkpointing.py``); MindSpeed-LLM in Ascend/MindSpeed-LLM@43aabd5
(``mcore/checkpoint_resume.md``) and @3ff98d4 (``checkpoint_convert_hf_mcore.md``); DeepSpeed
0.19.8 (``runtime/engine.py``, ``checkpoint/ds_to_universal.py``); torchtitan 0.3.0
(``components/dataloader.py``, ``checkpointer/dcp.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..planner import Layout
from .table import capabilities

_BUCKET = 1_000_000
"""Parameters of a bucket for each replica, where that is more than ``_LEAST`` of them."""
_LEAST = 40


@dataclass(frozen=True, slots=True)
class Resume:
    """What becomes of a checkpoint under a new layout."""

    works: bool
    """Weights and the optimiser's state are both kept."""
    how: str
    """What the user must do; where it does not work, what is left."""


def resume(framework: str, old: Layout, new: Layout) -> Resume:
    """Return whether a checkpoint of one layout loads under another, and how.

    Raises ``UnknownName`` for a framework that is not known.
    """
    name = capabilities(framework).name
    if _cut(old) == _cut(new):
        return Resume(True, "nothing to do: the checkpoint loads as it is")
    return _BY_NAME.get(name, _deepspeed)(old, new)


def _cut(layout: Layout) -> tuple[object, ...]:
    """Return what decides which rank holds what."""
    return (*_model_cut(layout), layout.dp, layout.cp, layout.zero, _shard(layout))


def _model_cut(layout: Layout) -> tuple[object, ...]:
    """Return what decides which weights a rank holds, whatever its replica."""
    return (layout.tp, layout.layers, layout.virtual_stages, layout.ep, layout.etp)


def _shard(layout: Layout) -> int:
    return layout.shard or layout.dp


def _megatron(old: Layout, new: Layout) -> Resume:
    """``torch_dist`` reshards weights; the sharded optimiser only if it was saved for that."""
    converted = (
        "; a checkpoint of --ckpt-format torch is first converted under the old layout: "
        "--ckpt-convert-format torch_dist --ckpt-convert-save DIR"
    )
    if old.zero != new.zero:
        return Resume(
            False,
            "the optimiser's state has another form with --use-distributed-optimizer than "
            "without: fix zero as it was, or keep the weights alone with --no-load-optim "
            "--no-load-rng" + converted,
        )
    if old.zero == 0:
        return Resume(True, f"nothing to do for --ckpt-format torch_dist{converted}")
    if _model_cut(old) != _model_cut(new) or _copies(old) != _copies(new):
        return Resume(
            True,
            "save once more under the old layout with --dist-ckpt-optim-fully-reshardable, then "
            "load; from a checkpoint without it only the weights load, with --no-load-optim "
            "--no-load-rng" + converted,
        )
    counts = [max(_LEAST, layout.dp * layout.cp) for layout in (old, new)]
    if counts[0] != counts[1]:
        # Its default grows with the replicas, and the state is kept bucket by bucket.
        return Resume(
            True,
            f"load with --ddp-bucket-size {counts[0] * _BUCKET}, the size of the old layout"
            + converted,
        )
    return Resume(True, f"nothing to do for --ckpt-format torch_dist{converted}")


def _copies(layout: Layout) -> int:
    return layout.dp // _shard(layout)


def _mindspeed(old: Layout, new: Layout) -> Resume:
    """Its checkpoints hold for one layout; the converter takes weights alone."""
    alone = "then load the weights alone, with --no-load-optim --no-load-rng"
    if _model_cut(old) == _model_cut(new):
        return Resume(False, f"MindSpeed-LLM keeps the numbers of devices and replicas: {alone}")
    if old.etp != new.etp:
        return Resume(
            False,
            "convert_ckpt.py from mg to hf and from hf to mg, there with "
            f"--expert-tensor-parallel-size {new.etp} and the other sizes, {alone}",
        )
    words = [
        "convert_ckpt.py --use-mcore-models --load-model-type mg --save-model-type mg",
        f"--target-tensor-parallel-size {new.tp} --target-pipeline-parallel-size {new.pp}",
    ]
    if new.ep > 1:
        words.append(f"--target-expert-parallel-size {new.ep}")
    even, rest = divmod(new.layers[0], new.virtual_stages)
    if new.virtual_stages > 1 and not rest and len(set(new.layers)) == 1:
        words.append(f"--num-layers-per-virtual-pipeline-stage {even}")
    elif new.virtual_stages > 1:
        return Resume(False, "MindSpeed-LLM has no uneven virtual stages: take another layout")
    elif len(set(new.layers)) > 1:
        words.append(f"--num-layer-list {','.join(map(str, new.layers))}")
    return Resume(False, f"{' '.join(words)}, {alone}")


def _deepspeed(old: Layout, new: Layout) -> Resume:
    """ZeRO's shards hold for one number of devices, unless made universal."""
    stages = {old.zero, new.zero}
    if stages == {0} and old.ep == new.ep:
        return Resume(True, "nothing to do: without ZeRO nothing is sharded")
    weights = "zero_to_fp32.py joins the weights, from which a new run starts"
    if not (stages <= {1, 2} or stages == {3}):
        return Resume(False, f"ZeRO-{old.zero}'s optimiser is none of ZeRO-{new.zero}'s: {weights}")
    if stages == {3} and max(old.ep, new.ep) > 1:
        return Resume(False, f"AutoEP under ZeRO-3 loads only where it was saved: {weights}")
    return Resume(
        True,
        "python -m deepspeed.checkpoint.ds_to_universal --input_folder CHECKPOINT/global_stepN "
        "--output_folder CHECKPOINT/global_stepN_universal, then load CHECKPOINT with a "
        'DeepSpeed file that says "checkpoint": {"load_universal": true}',
    )


def _torchtitan(old: Layout, new: Layout) -> Resume:
    """DCP reshards weights and optimiser; the place in the data is that of each replica."""
    if old.dp == new.dp:
        return Resume(True, "nothing to do: torch.distributed.checkpoint reshards on load")
    return Resume(
        True,
        "load with --checkpoint.exclude_from_loading dataloader: weights and optimiser are "
        "resharded, the place in the data is not, and the data start over",
    )


def _torch(old: Layout, new: Layout) -> Resume:
    """A loop's own checkpoints are whole, if it lets them be."""
    if old.zero == new.zero == 0:
        return Resume(True, "nothing to do: what rank 0 saved is whole")
    return Resume(
        True,
        "call consolidate_state_dict() of ZeroRedundancyOptimizer on all ranks before rank 0 "
        "saves; what was saved without it holds one rank's share",
    )


def _fsdp(old: Layout, new: Layout) -> Resume:
    """What rank 0 writes is whole."""
    return Resume(True, "nothing to do: the Trainer joins checkpoints and cuts them on load")


_BY_NAME: dict[str, Callable[[Layout, Layout], Resume]] = {
    "megatron": _megatron,
    "flagscale": _megatron,
    "mindspeed": _mindspeed,
    "torchtitan": _torchtitan,
    "hf-fsdp": _fsdp,
    "torch": _torch,
}
