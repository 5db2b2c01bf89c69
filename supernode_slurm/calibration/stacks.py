"""Which software stack a recorded run was made with.

The only place that looks at a run's source: a table of sources, nothing else of it is read.
"""

from __future__ import annotations

import re

SOURCES = (
    (r"SC21.*Table 2", "megatron-2021"),
    (r"Narayanan|SC21|Korthikanti", "megatron-2021"),
    (r"MegaScale", "megatron-2023"),
    (r"Megatron-LM README", "megatron-2024"),
    (r"Megatron-Bridge.*\b25\.", "megatron-bridge-25.09"),
    (r"Megatron-Bridge.*\b26\.0[01]", "megatron-bridge-25.09"),
    (r"Megatron-Bridge.*\b26\.0[23]", "megatron-bridge-26.02"),
    (r"Megatron-Bridge.*\b26\.0[45]", "megatron-bridge-26.04"),
    (r"Megatron-Bridge", "megatron-bridge-26.06"),
    (r"NeMo", "megatron-bridge-25.09"),
    (r"MoE Model Zoo", "megatron-bridge-26.02"),
    (r"torchtitan", "torchtitan"),
    (r"llm-foundry", "llm-foundry"),
    (r"FlagPerf.*flagscale", "flagscale"),
    (r"FlagPerf", "megatron-deepspeed"),
    (r"ModelLink|MindSpeed", "mindspeed"),
    (r"Sailor", "eager-2025"),
    (r"\bAMP\b", "deepspeed-pipeline-2022"),
)
"""Pattern of a source, and its stack; the first that matches holds."""

VARIANTS = (
    # A row of these sources that differs in software from its neighbours says so in its fields.
    ("megatron-2021", "zero_stage", 3, "deepspeed-2021"),
    ("torchtitan", "tp_comm_overlap", True, "torchtitan-async"),
    ("torchtitan", "torch_compile", True, "torchtitan-compiled"),
    ("llm-foundry", "fsdp_mixed_precision", "PURE", "llm-foundry-pure"),
)

SYSTEMS = ((r"_MegaScale_", "megascale"),)
"""MegaScale's table has two systems, which only the names of its rows tell apart."""


def stack_name(source: str, name: str, parallel: dict[str, object]) -> str:
    """Return the stack of a run, empty if its source is unknown."""
    found = next((stack for pattern, stack in SOURCES if re.search(pattern, source)), "")
    for stack, key, value, variant in VARIANTS:
        if found == stack and parallel.get(key) == value:
            found = variant
    system = next((stack for pattern, stack in SYSTEMS if re.search(pattern, name)), "")
    return system or found
