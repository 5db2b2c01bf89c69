"""What the planner answers besides plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..plan import Predicted
from .workload import Layout

SPARE = 0.05
"""Share of the memory that training gets on a device: plans leave it where they can, and one that
does not is tight. Of the published runs that print micro-batch and recomputation, one in fifty
takes more (docs/accuracy.md): the allocator keeps that much, and predictions are off by it."""
KEEP = 64
"""Plans that are returned where no other number is asked for."""


def is_tight(found: Predicted, usable_gib: Sequence[float], spare: float = SPARE) -> bool:
    """Tell whether less than ``spare`` of the memory is left on some device."""
    pairs = zip(found.memory_gib, usable_gib, strict=True)
    return any(gib > (1 - spare) * most * (1 + 1e-9) for gib, most in pairs)


@dataclass(frozen=True, slots=True)
class Examined:
    """What a layout costs, and why it cannot run; it can where nothing stands there."""

    predicted: Predicted
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A layout that was refused, and why."""

    layout: Layout
    predicted: Predicted
    why: str


@dataclass(frozen=True, slots=True)
class StageCost:
    """What one stage of a pipeline costs."""

    NAMES: ClassVar = ("first", "second", "last")
    name: str
    layers: int
    micro_batch_s: float
    """Its forward and its backward pass."""
    memory_gib: float
    """Peak of a device."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How far predictions of a kind of run were from what was measured."""

    share: float
    """Mean of |predicted / measured - 1|; 0 if there were no runs."""
    runs: int
    kind: str
    own: bool = False
    """They were the site's own, not published ones."""
