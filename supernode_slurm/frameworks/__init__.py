"""Training frameworks: what each can run, and how it is told a plan."""

from . import flagscale, megatron
from .emit import Emitted, emit
from .table import capabilities, names

__all__ = ["Emitted", "capabilities", "emit", "flagscale", "megatron", "names"]
