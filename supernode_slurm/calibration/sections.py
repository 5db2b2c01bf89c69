"""Recorded times of single layers, and recorded parts of memory, against the equations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import PlanError
from ..planner.build import case_of, cut_of
from ..planner.case import numbers
from ..planner.constants import Constants
from ..planner.layer import layers_of
from ..planner.memory import memory_of
from ..planner.stacks import stack_of
from .fields import fields_of
from .runs import Run, Skipped, rows_of, run_of

GIB = 2**30

ANY_CARD = {"accelerator": "A100-SXM4-80GB", "cards_per_node": 8}
"""Where a row of memory prints none: what a layout keeps does not depend on the card."""

LABELS = (
    (r"seq.?sel|selective.{0,3}sp\b", {"recompute": "selective", "sequence_parallel": True}),
    (r"full", {"recompute": "full", "sequence_parallel": False}),
    (r"selective", {"recompute": "selective", "sequence_parallel": False}),
    (r"sequence.?parallel", {"recompute": "none", "sequence_parallel": True}),
    (r"no.?recompute|baseline|none", {"recompute": "none", "sequence_parallel": False}),
)
"""What tables of one layout call their rows; the first that matches holds."""

TIMES = ("forward_ms", "backward_ms", "combined_ms")
MEMORIES = ("params_opt_gib", "activations_gib", "peak_mem_gib")


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity of a row, in the unit that its name ends with."""

    id: str
    quantity: str
    predicted: float
    measured: float
    assumed: tuple[str, ...]

    @property
    def off(self) -> float:
        """Return predicted over measured, less 1."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class Sections:
    """Rows that are no runs: of layers, and of memory."""

    layers: list[Compared]
    memory: list[Compared]
    skipped: list[Skipped]


def sections_of(document: Mapping[str, Any]) -> Sections:
    """Return what the equations say of the rows under ``layer_timing`` and ``memory``."""
    found = Sections([], [], [])
    kinds = (
        ("layer_timing", found.layers, TIMES, _layer_ms),
        ("memory", found.memory, MEMORIES, _memory_gib),
    )
    for section, into, quantities, predict in kinds:
        for name, raw in rows_of(document, (section,)):
            try:
                run, measured = _run(raw, name, quantities)
                said = predict(run)
            except PlanError as error:
                found.skipped.append(Skipped(name, str(error)))
                continue
            into += [
                Compared(run.id, key, said[key], measured[key], run.assumed)
                for key in quantities
                if key in measured
            ]
    return found


def _run(raw: object, name: str, quantities: tuple[str, ...]) -> tuple[Run, dict[str, float]]:
    """Return a row as a run of one step, with what it leaves open filled in, and its figures."""
    if not isinstance(raw, dict) or not raw.get("model"):
        raise PlanError("does not print the model")
    empty = {part: raw.get(part) or {} for part in ("hardware", "parallel")}
    fields = fields_of(raw | empty)
    parallel, hardware = fields["parallel"], fields["hardware"]
    measured = {key: value for key, value in fields["measured"].items() if value is not None}
    if not any(key in measured for key in quantities):
        raise PlanError(f"measures none of {', '.join(quantities)}")
    notes = []
    label = str(parallel.get("recompute") or name)
    if parallel.get("recompute") is None or "seq" in label:
        said = next((fields for pattern, fields in LABELS if re.search(pattern, label)), None)
        if said:
            words = ", ".join(f"{key} {value}" for key, value in said.items())
            notes.append(f"{words}: as the row is called, {label!r:.60}")
            parallel |= said
    ranks = 1
    for key in ("tp", "cp", "pp", "dp"):
        ranks *= _whole(parallel, key)
    if not hardware.get("accelerator"):
        hardware = ANY_CARD | {"count": ranks, "cards_per_node": min(ranks, 8)}
        notes.append(f"accelerator {ANY_CARD['accelerator']}: not printed")
    if not parallel.get("dp"):
        count = _whole(hardware, "count")
        parallel["dp"] = count // ranks if count % ranks == 0 else 1
    once = _whole(parallel, "dp") * _whole(parallel, "micro_batch")
    batch = 2 * once * _whole(parallel, "pp")  # More than a pipeline holds.
    parallel.setdefault("global_batch", batch)
    if parallel.get("precision") is None:
        parallel["precision"] = "fp16"
        notes.append("precision fp16: not printed")
    run = run_of(fields | {"hardware": hardware, "parallel": parallel}, name)
    if run.mixed:
        raise PlanError("hardware.mix: one kind of device is compared here")
    found = {key: float(measured[key]) for key in quantities if key in measured}
    return replace(run, assumed=(*notes, *run.assumed)), found


def _whole(fields: dict[str, Any], key: str) -> int:
    """Return a size, 1 where it is not printed."""
    return int(fields.get(key) or 1)


def _layer_ms(run: Run) -> dict[str, float]:
    """Return the time of one layer: recomputing all of it takes its forward pass once more."""
    constants, stack = Constants(), stack_of(run.stack)
    case = case_of(run.workload, run.offers[0], cut_of(run.layout, stack), stack, constants)

    def whole(full: float, selective: float) -> float:
        cut = replace(case.cut, full=numbers(full), selective=numbers(selective))
        layers = layers_of(replace(case, cut=cut), constants)
        layer = layers.experts if run.workload.model.mixture else layers.dense
        return float(layer.time_s) * 1e3

    forward = whole(1.0, 0.0) - whole(0.0, 0.0)
    both = whole(float(case.cut.full), float(case.cut.selective))
    return {"forward_ms": forward, "backward_ms": both - forward, "combined_ms": both}


def _memory_gib(run: Run) -> dict[str, float]:
    """Return the memory of the stage that needs most, without the framework's own."""
    constants, stack = Constants(), stack_of(run.stack)
    case = case_of(run.workload, run.offers[0], cut_of(run.layout, stack), stack, constants)
    memory = memory_of(case, constants)
    peak, kept = float(np.max(memory.peak)) / GIB, float(np.max(memory.activations)) / GIB
    return {
        "params_opt_gib": peak - kept - constants.context_gib,
        "activations_gib": kept,
        "peak_mem_gib": float(np.max(memory.reading(case, constants))) / GIB,
    }
