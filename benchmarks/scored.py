"""Which published runs are scored, and what is taken for granted of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from supernode_slurm.calibration.runs import Run, runs_of

RUNS = Path(__file__).with_name("published.yaml")

REPEATS = (
    "mbridge_26.02_Qwen3_30B_a3B_DGX-H100_16_FP8_gbs1024",
    "mbridge_26.02_Qwen3_30B_a3B_DGX-B200_8_MXFP8_gbs512",
    "mbridge_25.09_Qwen3_30B_a3B_DGX-H100_16_FP8_gbs512",
    "mbridge_25.09_Qwen3_235B_a22B_DGX-H100_256_FP8_gbs2048",
    "mbridge_26.04_Qwen3_235B_a22B_DGX-B300_256_MXFP8_gbs8192",
)
"""Left out: another release of the same configuration differs by more than a fifth."""

BEYOND = ("ascend_modellink_llama3.1_8b_128k",)
"""Left out: its attention alone would need four fifths of the card's peak."""

OPEN = ("mlm_readme_h100", "torchtitan_t5", "torchtitan_t6")
"""Left out: micro-batch, virtual stages or recomputation are not printed."""

ASSUMED = "MegaScale"
"""Its runs print neither micro-batch nor recomputation: a micro-batch of 1, and none."""


def given(document: Mapping[str, Any]) -> list[Run]:
    """Return the runs of a table that print a layout, with what is assumed of some."""
    return [
        replace(run, open_micro_batch=False, open_recompute=False) if of(run, ASSUMED) else run
        for run in runs_of(document)[0]
    ]


def fair(run: Run) -> bool:
    """Tell whether a run is scored: timed, printed in full, not marked doubtful."""
    return (
        run.measured_s is not None
        and not run.failed
        and not run.suspect
        and run.id not in (*REPEATS, *BEYOND)
        and not run.id.startswith(OPEN)
    )


def of(run: Run, *names: str) -> str:
    """Return the first of these names that a run's source has, empty for none."""
    return next((name for name in names if name in run.source), "")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
