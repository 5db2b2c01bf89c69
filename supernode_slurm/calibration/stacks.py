"""Which software profile a recorded run was made with.

A run's own word for its stack decides; else its source, if the table below knows it; else what
its fields tell of its software. The name of a row decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..planner.stacks import OF_FRAMEWORK, STACKS, UNKNOWN

SOURCES = (
    (r"\bMegaScale\b|2402\.15627", "megascale"),
    (r"\bNarayanan\b|\bSC.?21\b|\bKorthikanti\b|\bPTD-P\b", "megatron-2021"),
    (r"Large-Scale Language Model Training on GPU Clusters|2104\.04473", "megatron-2021"),
    (r"Reducing Activation Recomputation|2205\.05198", "megatron-2021"),
    (r"\bBigScience\b", "megatron-2021"),
    (r"\bMegatron-LM README\b|\bMegatron-Core r?0\.[5-9]\b", "megatron-2024"),
    (r"\bMegatron[\s_-]*Bridge\b.*\b25\.\d\d\b", "megatron-bridge-25.09"),
    (r"\bMegatron[\s_-]*Bridge\b.*\b26\.0[01]\b", "megatron-bridge-25.09"),
    (r"\bMegatron[\s_-]*Bridge\b.*\b26\.0[23]\b", "megatron-bridge-26.02"),
    (r"\bMegatron[\s_-]*Bridge\b.*\b26\.0[45]\b", "megatron-bridge-26.04"),
    (r"\bMegatron[\s_-]*Bridge\b", "megatron-bridge-26.06"),
    (r"\bMoE Model Zoo\b", "megatron-bridge-26.02"),
    (r"\bNeMo\b(?![\s_-]*AutoModel)", "megatron-bridge-25.09"),
    (r"\btorch[\s_-]*titan\b|2410\.06511", "torchtitan"),
    (r"\bllm[\s_-]*foundry\b|\bMosaicML\b|\bDatabricks foundry\b", "llm-foundry"),
    (r"\bFlagPerf\b.*\bflagscale\b", "flagscale"),
    (r"\bFlagPerf\b", "megatron-deepspeed"),
    (r"\bModelLink\b|\bMindSpeed\b", "mindspeed"),
    (r"\bSailor\b.*\b(?:SOSP|simulator|validation|heterogeneous)|eth-easl/sailor", "eager-2025"),
    (
        r"\bAMP\b.*\b(?:NeurIPS|model parallel|heterogeneous|het_cluster)"
        r"|\bAutomatically Finding Model Parallel Strategies\b",
        "deepspeed-pipeline-2022",
    ),
)
"""Pattern of a source in any case, and its stack; the first that matches holds."""

WORDS = (
    (r"\bMegatron[\s_-]*DeepSpeed\b", "megatron-deepspeed"),
    (r"\bFlagScale\b", "flagscale"),
    (r"\bDeepSpeed\b|\bHugging\s*Face\b|\btransformers\b|\baccelerate\b", "deepspeed"),
    (r"\bLLaMA[\s_-]*Factory\b|\baxolotl\b|\bTRL\b|\bms-swift\b", "deepspeed"),
    (r"\bMegatron\b|\bMCore\b|\bPrimus\b", "megatron"),
    (r"\bAutoModel\b|\bFSDP2?\b|\bPyTorch\b|\bDDP\b", "torch"),
)
"""The same of a framework."""

OF_YEAR = ((2022, "megatron-2021"), (2023, "megatron-2023"), (2024, "megatron-2024"))
"""Megatron up to the end of a year; the first had no fused attention."""

VARIANTS = (
    # A row of these sources that differs in software from its neighbours says so in its fields.
    ("megatron-2021", "zero_stage", 3, "deepspeed-2021"),
    ("torchtitan", "tp_comm_overlap", True, "torchtitan-async"),
    ("torchtitan", "torch_compile", True, "torchtitan-compiled"),
    ("llm-foundry", "fsdp_mixed_precision", "PURE", "llm-foundry-pure"),
)

_ARXIV = re.compile(r"\b(1[89]|2\d)(?:0[1-9]|1[0-2])\.\d{4,5}\b")
_YEAR = re.compile(r"\b(20[12]\d)(?:-[01]\d)?\b(?![.,]?\d)")


def profile_of(raw: Mapping[str, Any], vendor: str = "") -> tuple[str, str]:
    """Return a run's profile, and what was assumed where neither it nor its source tells."""
    parallel = raw.get("parallel") or {}
    told = str(raw.get("stack") or "")
    name = told.strip().casefold()
    if name in STACKS or name in OF_FRAMEWORK:
        return (name if name in STACKS else OF_FRAMEWORK[name]), ""
    own = " ".join(str(raw.get(key) or "") for key in ("stack", "framework", "software"))
    own = f"{own} {parallel.get('framework') or ''}"
    found = _first(SOURCES, own)
    if found:
        return _variant(found, raw), ""
    found = _first(WORDS, own)
    if found:
        return found, f"stack {found}: the run says {own.strip()!r:.60}"
    unknown = f"{told!r:.40} is no profile; " if told else ""
    found = _first(SOURCES, _source(raw))
    if found:
        found = _variant(found, raw)
        return found, f"stack {found}: {unknown}the source's" if told else ""
    found, why = _inferred(raw, vendor)
    return found, f"stack {found}: {unknown}{why}"


def published(source: str) -> bool:
    """Tell whether a source is one of those that the table knows."""
    return bool(_first(SOURCES, source))


def _source(raw: Mapping[str, Any]) -> str:
    source = raw.get("source")
    if not isinstance(source, Mapping):
        return str(source or "")
    return " ".join(str(source.get(key) or "") for key in ("ref", "title", "url"))


def _first(table: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for pattern, name in table if re.search(pattern, text, re.IGNORECASE)), "")


def _variant(found: str, raw: Mapping[str, Any]) -> str:
    parallel = raw.get("parallel") or {}
    for stack, key, value, variant in VARIANTS:
        if found == stack and parallel.get(key) == value:
            return variant
    # MegaScale's table has two systems; the row's remark names the other one.
    if found == "megascale" and re.search(r"\bMegatron-LM\b", str(raw.get("notes") or "")):
        return "megatron-2023"
    return found


def _inferred(raw: Mapping[str, Any], vendor: str) -> tuple[str, str]:
    """Return a profile from the run's fields, and why."""
    parallel, text = raw.get("parallel") or {}, _source(raw)
    found = _first(WORDS, text)
    year = _year(raw, text)
    if found in ("", "torch", "deepspeed") and parallel.get("zero_stage") == 3:
        if year and year <= OF_YEAR[0][0]:
            return "deepspeed-2021", f"sharded weights in {year}"
        if parallel.get("torch_compile") is True and found != "deepspeed":
            return "torchtitan-compiled", "sharded weights, compiled"
        if not found:
            return "torch", "sharded weights"
    if found and found != "megatron":
        return found, f"the source says {text.strip()!r:.60}"
    if vendor == "huawei":
        return "mindspeed", "the card is Huawei's"
    for last, name in OF_YEAR:
        if year and year <= last:
            return name, f"the source is of {year}"
    if parallel.get("tp_comm_overlap") is True:
        return "megatron-2024", "tensor-parallel traffic is overlapped"
    return UNKNOWN, "not told"


def _year(raw: Mapping[str, Any], text: str) -> int:
    """Return the year of a run, 0 if nothing tells."""
    for part in (raw.get("date"), raw.get("year"), raw.get("release"), text):
        found, arxiv = _YEAR.search(str(part or "")), _ARXIV.search(str(part or ""))
        if found:
            return int(found[1])
        if arxiv:
            return 2000 + int(arxiv[1])
    return 0
