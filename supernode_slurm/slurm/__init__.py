"""The only door to a running Slurm: its programs, their options and their output."""

from __future__ import annotations

from .client import CliClient, SlurmClient
from .model import Gres, JobId, LiveJob, LiveNode, LivePartition

__all__ = [
    "CliClient",
    "Gres",
    "JobId",
    "LiveJob",
    "LiveNode",
    "LivePartition",
    "SlurmClient",
]
