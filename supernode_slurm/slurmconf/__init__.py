"""From an inventory to Slurm's files, per release."""

from .generate import Generated, difference, generate, write
from .release import RELEASES, Release, assumed_release, find_release
from .topology import block_partitions

__all__ = [
    "RELEASES",
    "Generated",
    "Release",
    "assumed_release",
    "block_partitions",
    "difference",
    "find_release",
    "generate",
    "write",
]
