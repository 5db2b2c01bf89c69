"""Training frameworks: what each can run, and how it is told a plan."""

from . import flagscale, megatron
from .checkpoint import Resume, resume
from .emit import Emitted, emit, plan_notes, ranks
from .makers import assumed, known_on
from .table import capabilities, names

__all__ = [
    "Emitted",
    "Resume",
    "assumed",
    "capabilities",
    "emit",
    "flagscale",
    "known_on",
    "megatron",
    "names",
    "plan_notes",
    "ranks",
    "resume",
]
