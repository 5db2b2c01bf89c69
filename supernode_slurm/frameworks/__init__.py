"""Training frameworks: what each can run, and how it is told a plan."""

from . import flagscale, megatron
from .table import capabilities, names

__all__ = ["capabilities", "flagscale", "megatron", "names"]
