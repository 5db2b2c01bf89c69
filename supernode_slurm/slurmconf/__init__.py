"""From an inventory to Slurm's files, per release."""

from .generate import Generated, difference, generate, write
from .release import RELEASES, Release, assumed_release, find_release
from .topology import runs_block

__all__ = [
    "RELEASES",
    "Generated",
    "Release",
    "assumed_release",
    "difference",
    "find_release",
    "generate",
    "runs_block",
    "write",
]
