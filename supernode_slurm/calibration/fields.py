"""The fields of a recorded run, checked at the edge: each has a type and a range."""

from __future__ import annotations

import difflib
import math
import re
from typing import Any

from ..errors import PlanError

MOST = 10**9

COUNTS = {
    "model": ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab", "seq"),
    "hardware": ("count", "cards_per_node", "supernode"),
    "parallel": ("tp", "pp", "dp", "cp", "ep", "etp", "vpp", "micro_batch", "global_batch"),
}
"""Whole numbers from 1 on."""

MAYBE = {
    "model": (
        *("experts", "topk", "moe_ffn_hidden", "shared_experts", "dense_first_layers", "mtp"),
    ),
}
"""Whole numbers from 0 on."""

AMOUNTS = {
    "hardware": ("intra_bw_GBs_per_dir", "inter_bw_Gbps_per_card", "mem_gib", "hbm_bw_TBs"),
    "measured": (
        *("step_time_s", "tokens_per_s_per_gpu", "peak_mem_gib", "params_opt_gib"),
        *("activations_gib", "forward_ms", "backward_ms", "combined_ms"),
    ),
}
"""Numbers above 0."""

SWITCHES = {
    "model": ("gated_mlp", "tied"),
    "parallel": (
        *("sequence_parallel", "flash_attention", "overlap_grad_reduce"),
        *("tp_comm_overlap", "torch_compile"),
    ),
    "measured": ("oom", "oom_or_failed"),
}

TOLD = {
    "model": ("attention", "name", "params", "dims_confidence"),
    "hardware": (
        *("accelerator", "mix", "inter", "intra", "peak_bf16_tflops", "peak_note"),
        "mix_confidence",
    ),
    "parallel": (
        *("precision", "recompute", "zero_stage", "layers_per_stage", "partition"),
        *("stage_devices", "fsdp_mixed_precision", "framework", "training", "lora_rank", "seq"),
        *("grad_accum", "local_batch", "overlap_param_gather", "note"),
    ),
}
"""Fields that are words or lists, and those that repeat what others say."""

READ = (
    *("id", "source", "stack", "framework", "model", "hardware", "parallel", "measured"),
    *("derived_step_time_s", "suspect", "date", "year", "release", "notes"),
)
"""Names of a row."""
ALIKE = 0.8
"""A name so like one that is read is a slip of it (difflib's ratio)."""

YES = ("true", "yes", "on", "1", "y", "enabled")
NO = ("false", "no", "off", "0", "n", "disabled", "none")

STAGES = {
    **{"none": 0, "no": 0, "false": 0, "off": 0, "ddp": 0},
    **{"distributedoptimizer": 1, "distopt": 1, "os": 1, "osg": 2},
    **{"fsdp": 3, "fsdp2": 3, "fullshard": 3},
}
"""Words for ZeRO's stages, without spaces and dashes."""

FAILURES = ("oom", "outofmemory", "cudaoom", "cudaoutofmemory", "npuoom", "npuoutofmemory")

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?\Z")


def fields_of(raw: object) -> dict[str, Any]:
    """Return a row with its numbers and switches as such; ``PlanError`` names what is wrong."""
    if not isinstance(raw, dict):
        raise PlanError(f"must have model, hardware and parallel, got {raw!r:.40}")
    found = dict(raw)
    for part in ("model", "hardware", "parallel"):
        if not isinstance(raw.get(part), dict):
            raise PlanError(f"must have model, hardware and parallel; {part} is {said(raw, part)}")
    measured = raw.get("measured") or {}
    if not isinstance(measured, dict):
        raise PlanError(f"measured must hold names and numbers, got {measured!r:.40}")
    _spelled(raw | {"measured": measured})
    found["measured"] = _failed(measured)
    for part in _PARTS:
        found[part] = _part(part, found[part])
    found["parallel"]["zero_stage"] = _zero(found["parallel"].get("zero_stage"))
    derived = raw.get("derived_step_time_s")
    found["derived_step_time_s"] = (
        None if derived is None else amount(derived, "derived_step_time_s")
    )
    return found


def _spelled(raw: dict[str, Any]) -> None:
    """Refuse names that nothing reads and that are all but one that is."""
    parts: dict[str, Any] = {f"{part}.": raw[part] for part in _PARTS} | {"": raw}
    for part, names in parts.items():
        known = _known(part[:-1]) if part else READ
        for name in map(str, names):
            close = [] if name in known else difflib.get_close_matches(name, known, 1, ALIKE)
            if close:
                raise PlanError(f"{part}{name} is not read; did you mean {part}{close[0]}?")


def _known(part: str) -> set[str]:
    return {*TOLD.get(part, ()), *(name for table in _TABLES for name in table.get(part, ()))}


def said(raw: dict[str, Any], part: str) -> str:
    """Return what a row has there, in words."""
    return f"{raw[part]!r:.40}" if raw.get(part) is not None else "missing"


def unread(raw: dict[str, Any]) -> list[str]:
    """Return the fields of a row that nothing reads, as ``part.name``."""
    found = []
    for part in ("model", "hardware", "parallel"):
        known = _known(part)
        found += [
            f"{part}.{name}"
            for name in raw[part]
            if name not in known and not str(name).endswith("_note")
        ]
    return found


_PARTS = ("model", "hardware", "parallel", "measured")
_TABLES = (COUNTS, MAYBE, AMOUNTS, SWITCHES)


def count(value: object, name: str, least: int = 1) -> int:
    """Return a whole number of at least this; digits in quotes are one."""
    number = _number(value)
    if number is None or number != int(number) or not least <= number < MOST:
        raise PlanError(f"{name} must be a number from {least} on, got {value!r:.40}")
    return int(number)


def amount(value: object, name: str) -> float:
    """Return a number above 0, a whole one as it was written."""
    number = _number(value)
    if number is None or not 0 < number < MOST * 1000:
        raise PlanError(f"{name} must be a number above 0, got {value!r:.40}")
    return number


def switch(value: object, name: str) -> bool:
    """Return yes or no, in any of the usual words."""
    word = str(value).strip().casefold()
    if word not in (*YES, *NO):
        raise PlanError(f"{name} must be true or false, got {value!r:.40}")
    return word in YES


def folded(text: object) -> str:
    """Return words without case, spaces and signs."""
    return re.sub(r"[^a-z0-9]+", "", str(text).casefold())


def _part(part: str, raw: dict[str, Any]) -> dict[str, Any]:
    found = {name: None if value == "" else value for name, value in raw.items()}
    for name, value in found.items():
        if value is None:
            continue
        label = f"{part}.{name}"
        if name in COUNTS.get(part, ()):
            found[name] = count(value, label)
        elif name in MAYBE.get(part, ()):
            found[name] = count(value, label, 0)
        elif name in AMOUNTS.get(part, ()):
            found[name] = amount(value, label)
        elif name in SWITCHES.get(part, ()):
            found[name] = switch(value, label)
    return found


def _number(value: object) -> float | None:
    """Return a finite number; None for what is none, a list, true or false."""
    if isinstance(value, str) and _NUMBER.match(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) else None


def _zero(value: object) -> int | None:
    """Return ZeRO's stage, 0 to 3; None if it is not printed."""
    if value is None:
        return None
    word = folded(value) if isinstance(value, (str, bool)) else str(value)
    match = re.fullmatch(r"(?:zero|stage|zerostage)?([0-3])(?:\.0)?", word)
    if match:
        return int(match[1])
    if word not in STAGES:
        raise PlanError(
            f"parallel.zero_stage must be 0 to 3, got {value!r:.40}; hybrid sharding is not read"
        )
    return STAGES[word]


def _failed(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the measurements with a failure that stands in place of a number as ``oom``."""
    found = dict(raw)
    for name in ("status", "result", "error", "step_time_s", "tokens_per_s_per_gpu"):
        if isinstance(raw.get(name), str) and folded(raw[name]) in FAILURES:
            found["oom"] = True
            del found[name]
    return found
