"""From an inventory to Slurm's files, per release."""

from .generate import Generated, difference, generate, write
from .release import RELEASES, Release, find_release

__all__ = [
    "RELEASES",
    "Generated",
    "Release",
    "difference",
    "find_release",
    "generate",
    "write",
]
