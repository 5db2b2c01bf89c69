"""Which frameworks are known to run on the cards of each maker.

Read in the frameworks' own trees and in public forks with the same arguments; nothing was run.
A plain PyTorch loop runs wherever PyTorch does. What is not here may have a fork at a site.

- FlagScale: one file for each maker in ``.github/configs`` of flagos-ai/FlagScale (2026-08; hygon
  BW1000 in 33a2f5a), ``megatron/plugin/platform`` of flagos-ai/Megatron-LM-FL (mlu 56acf36,
  iluvatar 7c71f16), ``hardware/BI_V150`` of FlagOpen/FlagScale
- Megatron-LM: ROCm/Megatron-LM for AMD, HYGON-AI/Megatron-LM-das for Hygon
- MindSpeed-LLM: Ascend alone
- torchtitan: ``.github/workflows/integration_test_8gpu_rocm.yaml`` beside those for NVIDIA
- DeepSpeed: ``accelerator/`` of deepspeedai/DeepSpeed (cuda, npu, mlu, supa)
- HF Trainer: the distributed types of huggingface/accelerate 16cb6eb (NPU, MLU, MUSA); with FSDP
  those that ``AcceleratorState`` of 1.15.0 has it for (the same)
- LLaMA-Factory: ``docker/`` of hiyouga/LLaMA-Factory (cuda, rocm, npu)
- ms-swift: the pages on NPU, AMD and MetaX of its documentation 4.3
"""

from __future__ import annotations

from collections.abc import Collection

from ..planner import Capabilities
from .table import capabilities, names

_MANY = ("deepspeed", "hf", "llamafactory", "swift", "hf-fsdp")

_KNOWN = {
    "nvidia": ("megatron", "flagscale", "torchtitan", *_MANY),
    "amd": ("megatron", "torchtitan", *_MANY),
    "huawei": ("mindspeed", "flagscale", *_MANY),
    "cambricon": ("flagscale", "deepspeed", "hf", "hf-fsdp"),
    "hygon": ("flagscale", "megatron"),
    "mthreads": ("flagscale", "hf", "hf-fsdp"),
    "metax": ("flagscale", "swift"),
    "iluvatar": ("flagscale",),
    "kunlunxin": ("flagscale",),
    "enflame": ("flagscale",),
    "biren": ("deepspeed",),
}
"""The usual one of each maker first."""


def known_on(maker: str) -> tuple[str, ...]:
    """Return the frameworks that are known to run on a maker's cards, the usual one first."""
    return (*_KNOWN.get(maker, ()), "torch")


def assumed(makers: Collection[str], mixed: bool) -> tuple[Capabilities, ...]:
    """Return what may be planned for on cards of these makers if nobody names a framework.

    One for equal cards. For unlike ones the fastest counts: of one maker a loop of uneven shares,
    the maker's usual framework and FlagScale; of several makers what can mix them.
    """
    if len(makers) > 1:
        return tuple(able for able in map(capabilities, names()) if able.mixed_vendors)
    known = [name for maker in makers for name in known_on(maker)]
    tried = ("torch", known[0], "flagscale") if mixed else known[:1]
    return tuple(capabilities(name) for name in dict.fromkeys(tried) if name in known)
