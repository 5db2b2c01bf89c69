"""Judge a daemon's log: which lines say that something is wrong."""

from __future__ import annotations

import re

_LEVEL = re.compile(
    r"(?:\[[0-9T:.-]+\] |[0-9T:.-]+ )?(?:slurmctld: |slurmd(?:-\S+)?: )?"
    r"(?P<line>(?:fatal|error|warning|WARNING): .*)\Z"
)
_BENIGN = re.compile(
    r"Could not open .* state file|No .* state file .* to recover|NOTE: Trying backup"
    r"|MailProg|mpi/pmix|MPI: Cannot create"
    # A busy machine, at the start.
    r"|High latency for [0-9]+ calls"
    # A bare TCP connection, which is how readiness is probed (22.05).
    r"|Zero Bytes were transmitted"
    # The nodes of a twin need not exist, so their names need not resolve (22.05).
    r"|get_addr_info|Unable to resolve"
)


def judge(text: str) -> tuple[str, ...]:
    """Return the fatal, error and warning lines of a log, without those of a fresh start.

    The level is read at its place after the prefix only: paths and names may hold
    the same words.
    """
    found = (_LEVEL.match(line) for line in text.splitlines())
    lines = [match["line"] for match in found if match]
    return tuple(dict.fromkeys(line for line in lines if not _BENIGN.search(line)))
