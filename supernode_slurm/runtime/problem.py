"""What keeps a job from starting, and how the launcher speaks.

Python 3.8, standard library only.
"""

from __future__ import annotations

import os
import select
import signal
import sys

USAGE = 2
BROKEN = 3


class LaunchError(Exception):
    """What keeps the job from starting, for the user."""

    def __init__(self, message: str, exit_code: int = BROKEN) -> None:
        """Keep the message, and the exit code of the launcher."""
        super().__init__(message)
        self.exit_code = exit_code


def say(level: str, message: str) -> None:
    """Print a message for the user, at once."""
    print(f"sn-launch: {level}: {message}", file=sys.stderr, flush=True)


def pass_on(data: bytes) -> None:
    """Write to stderr whole and unchanged; where nobody reads it any more, go on."""
    while data:
        try:
            data = data[os.write(2, data) :]
        except BlockingIOError:
            select.select([], [2], [])
        except OSError:
            return


def cause(code: int, killer: int) -> str:
    """Return in words what ended a program: its exit code, or the signal that killed it."""
    if not killer:
        return f"exit code {code}"
    try:
        name = signal.Signals(killer).name
    except ValueError:
        name = "unknown"
    hint = ": out of memory?" if killer == signal.SIGKILL else ""
    return f"signal {killer} ({name}){hint}"
