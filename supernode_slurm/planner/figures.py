"""The figures of a card that planning needs, and the error where nobody has published one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..catalogue import Accelerator, platform
from ..errors import PlanError


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one device: TFLOPS, GiB, GB/s."""

    peak_tflops: float
    matmul_tflops: float
    memory_gib: float
    memory_gbs: float


def figures_of(card: Accelerator, precision: str) -> Figures:
    """Return the figures of a card; ``PlanError`` names all that are unknown."""
    peak, matmul = card.peak_tflops(precision), card.matmul_tflops(precision)
    memory, speed = card.memory_gib, card.memory_gbs
    if not peak or not matmul or memory is None or speed is None:
        raise cannot_plan(card, (precision,))
    return Figures(peak, matmul, memory, speed)


def cannot_plan(card: Accelerator, precisions: Sequence[str]) -> PlanError:
    """Return the error for a card without a rate in any of these, or without another figure."""
    names = " or ".join(precisions)
    peaks = [card.peak_tflops(precision) for precision in precisions]
    if all(peak == 0 for peak in peaks):
        todo = "ask for other cards, or give no model: the job is then placed without a plan"
        return PlanError(f"{card.id} has no units for {names}: {todo}")
    unknown, given = [], []
    if not any(peaks):
        unknown.append(f"{names} TFLOPS (to measure: multiply large matrices on one device)")
        given.append("bf16: 300 TFLOPS")
    if card.memory_gib is None:
        unknown.append(f"memory size ({platform(card.vendor).tools[0]} shows it)")
        given.append("memory: 64 GiB")
    if card.memory_gbs is None:
        unknown.append("memory bandwidth (to measure: copy a large array on one device)")
        given.append("memory_bandwidth: 1 TB/s")
    return PlanError(
        f"nobody has published of {card.id} the {', '.join(unknown)}: give it in the inventory, "
        f"like 'accelerators: {{{card.id}: {{{', '.join(given)}}}}}'"
    )
