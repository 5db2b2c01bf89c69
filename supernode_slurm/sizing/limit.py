"""What limits a plan, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..plan import Plan
from .changes import Change
from .question import predicted_of

PARTS = {
    "compute": "compute",
    "tp": "TP traffic",
    "cp": "CP traffic",
    "ep": "EP traffic",
    "pp": "traffic between stages",
    "bubble": "bubble",
    "dp": "DP traffic",
    "optimizer": "optimizer",
    "data": "loading of data",
}
"""The parts of a step, in words."""
_TODO = {
    "compute": "faster arithmetic or more cards shorten it",
    "data": "no card shortens it: make loading faster before cards are bought",
    "memory": "it forces a slower layout",
}
_HELPS = ("domain", "fabric", "network", "memory", "batch")
"""Changes that may shorten what is no computation."""
LEAST = 0.1
"""A loss that takes less of a step than this does not limit it."""
HELPS = 0.01
"""A change that gains less does not help."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What stands in the way of a faster step."""

    name: str
    share: float
    """Of the step; for memory the gain with twice of it."""
    words: str


def limit_of(plan: Plan, brought: Sequence[Change], data_s: float = 0.0) -> Limit:
    """Return what limits a plan most, told by its parts and by what changes would bring.

    ``data_s`` is what a step's loading takes. A step that waits for it is limited by it alone,
    however shortly it waits.
    """
    found = predicted_of(plan)
    step_s, waits_s = found.step_time_s, found.breakdown_s.get("data", 0.0)
    if waits_s > 0:
        return Limit(
            "data",
            waits_s / step_s,
            f"{part_words('data')}, {step_s:.4g} s a step, "
            f"{waits_s:.3g} s more than the rest takes: {_TODO['data']}",
        )
    shares = {name: part / step_s for name, part in found.breakdown_s.items()}
    losses = {name: share for name, share in shares.items() if name != "compute"}
    memory = next((item.gain for item in brought if item.name == "memory"), 0.0)
    worst = max(losses, key=losses.__getitem__, default="compute")
    if memory >= max(LEAST, losses.get(worst, 0.0)):
        share, words = memory, f"memory: {_TODO['memory']}, {memory:.0%} slower"
        worst = "memory"
    else:
        worst = worst if losses.get(worst, 0.0) >= LEAST else "compute"
        share = shares.get(worst, 0.0)
        words = f"{part_words(worst)}, {share:.0%} of a step: {_TODO.get(worst) or _helps(brought)}"
    if data_s > step_s / 2:
        most = step_s / data_s - 1
        words += f"; {most:+.1%} at most, then loading of data limits ({data_s:.4g} s)"
    return Limit(worst, share, words)


def _helps(brought: Sequence[Change]) -> str:
    """Return which of the changes that were tried shorten a step most."""
    found = [item for item in brought if item.name in _HELPS and item.gain >= HELPS]
    if not found:
        return "no faster link, more memory or larger batch that was tried brings 1%"
    best = max(found, key=lambda item: item.gain)
    return f"{best.words} helps most, {best.gain:+.0%}"


def part_words(name: str) -> str:
    """Return a part of a step in words."""
    return PARTS.get(name, name)
