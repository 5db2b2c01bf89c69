"""From an inventory to Slurm's files, per release."""

from .generate import Generated, difference, generate, write
from .release import RELEASES, Release, find_release
from .topology import choose_plugin

__all__ = [
    "RELEASES",
    "Generated",
    "Release",
    "choose_plugin",
    "difference",
    "find_release",
    "generate",
    "write",
]
