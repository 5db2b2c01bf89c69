"""A configuration is installed safely: tried, written, proven, or taken back."""

from __future__ import annotations

from .candidate import Candidate, from_inventory
from .change import NOTHING, RECONFIGURE, RESTART, Change, compare
from .disk import Disk
from .history import WRITTEN, Generation, History
from .journal import Journal
from .loading import Loader, Patience
from .lock import locked
from .session import APPLIED, WAITS, Outcome, Plan, Repair, Session, Undone
from .target import Target, account, check_open, check_trusted, find_directory, read_target

__all__ = [
    "APPLIED",
    "NOTHING",
    "RECONFIGURE",
    "RESTART",
    "WAITS",
    "WRITTEN",
    "Candidate",
    "Change",
    "Disk",
    "Generation",
    "History",
    "Journal",
    "Loader",
    "Outcome",
    "Patience",
    "Plan",
    "Repair",
    "Session",
    "Target",
    "Undone",
    "account",
    "check_open",
    "check_trusted",
    "compare",
    "find_directory",
    "from_inventory",
    "locked",
    "read_target",
]
