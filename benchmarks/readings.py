"""How far predictions of memory, and of single layers, are from what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.scored import fair, table
from supernode_slurm.calibration.judge import Judged, judge
from supernode_slurm.calibration.runs import Run
from supernode_slurm.calibration.sections import sections_of
from supernode_slurm.planner import SPARE


def memory(runs: Sequence[Run]) -> str:
    """Return how far readings of memory are, and what was called out of memory."""
    ran = [item for item in judge(runs) if not item.run.failed]
    refused = [item.run.id for item in ran if not item.fits]
    rows = []
    for name, mixed in (("readings of memory", False), ("the same, several kinds of cards", True)):
        size = readings([item for item in ran if item.run.mixed == mixed])
        shown = f"{size.mean():.1%} ({np.median(size):.1%})"
        rows.append([name, "9 %", "7 %", shown, f"{size.size} runs"])
    share = f"{len(refused) / len(ran):.1%}"
    name = "called out of memory, though it ran"
    rows.append([name, "2 %", "1 %", share, f"of {len(ran)}: {', '.join(refused)}"])
    failed = [item for item in judge(runs) if item.run.failed]
    for name, mixed in (("printed as out of memory or failed", False), ("the same, mixed", True)):
        said = [not item.fits for item in failed if item.run.mixed == mixed]
        rows.append([f"{name}, called so", "", "", f"{sum(said)} of {len(said)}", ""])
    whole = [item for item in ran if not (item.run.open_micro_batch or item.run.open_recompute)]
    tight = [item.run.id for item in whole if item.taken > 1 - SPARE]
    name = f"took more than {1 - SPARE:.0%} of what training gets"
    rows.append([name, "", "", f"{len(tight) / len(whole):.1%}", f"of {len(whole)} printed whole"])
    return table(["", "must", "goal", "reached: mean (median)", ""], rows)


def parts(document: Mapping[str, Any]) -> str:
    """Return how far single layers and parts of memory are."""
    found = sections_of(document)
    groups: dict[str, list[float]] = {}
    for item in (*found.layers, *found.memory):
        groups.setdefault(item.quantity, []).append(item.off)
    rows = [
        [name, str(len(off)), f"{np.abs(off).mean():.1%}", f"{np.mean(off):+.1%}"]
        for name, off in groups.items()
    ]
    return table(["of one layer, of a device", "rows", "mean", "bias"], rows)


def readings(judged: Sequence[Judged]) -> NDArray[np.float64]:
    """Return |predicted / read - 1| of those runs that are fair and print a reading."""
    off = [item.memory_off for item in judged if fair(item.run)]
    return np.array([abs(size) for size in off if size is not None])
