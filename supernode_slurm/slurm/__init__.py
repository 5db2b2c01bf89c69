"""The only door to a running Slurm: its programs, their options and their output."""

from __future__ import annotations

from .access import (
    Charge,
    User,
    association_objection,
    current_user,
    reservation_note,
    reservation_objection,
    size_objection,
    usable_partitions,
)
from .client import CliClient
from .control import CliController, Controller
from .lookup import one_cluster
from .model import (
    Allocated,
    Association,
    Associations,
    Block,
    Gres,
    JobId,
    LiveJob,
    LiveNode,
    LivePartition,
    LiveTopology,
    Loop,
    Reservation,
    Switch,
)
from .polling import Patience, await_jobs
from .protocol import SlurmClient

__all__ = [
    "Allocated",
    "Association",
    "Associations",
    "Block",
    "Charge",
    "CliClient",
    "CliController",
    "Controller",
    "Gres",
    "JobId",
    "LiveJob",
    "LiveNode",
    "LivePartition",
    "LiveTopology",
    "Loop",
    "Patience",
    "Reservation",
    "SlurmClient",
    "Switch",
    "User",
    "association_objection",
    "await_jobs",
    "current_user",
    "one_cluster",
    "reservation_note",
    "reservation_objection",
    "size_objection",
    "usable_partitions",
]
