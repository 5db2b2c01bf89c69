"""Bring a controller to read its files anew, and see whether it lives."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Protocol

from ..errors import SlurmError, SlurmTimeout
from .environment import query_environment
from .run import run

_PING_S = 20.0
_RELOAD_S = 180.0
_UP = re.compile(r"^Slurmctld\(primary\) at .* is UP\b", re.MULTILINE)


class Controller(Protocol):
    """A controller, from outside."""

    def is_up(self) -> bool:
        """Say whether the primary controller answers."""

    def reconfigure(self) -> str:
        """Have it read its files anew; return what it said against it, empty for nothing."""

    def restart(self, argv: Sequence[str]) -> str:
        """Run the site's own command that restarts it; return what went wrong, if anything."""


class CliController:
    """A controller that ``scontrol`` reaches."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Take the whole environment of the programs."""
        self._env = query_environment(env)

    def is_up(self) -> bool:
        """Say whether the primary controller answers; a hung one does not."""
        try:
            answer = run(["scontrol", "ping"], timeout_s=_PING_S, env=self._env)
        except SlurmTimeout:
            return False
        return _UP.search(answer.stdout) is not None

    def reconfigure(self) -> str:
        """Have it read its files anew; return what it said against it, empty for nothing.

        Nothing is no proof: one in the foreground answers first, and reads afterwards.
        """
        return self._run(["scontrol", "reconfigure"])

    def restart(self, argv: Sequence[str]) -> str:
        """Run the site's own command that restarts it; return what went wrong, if anything."""
        return self._run(argv)

    def _run(self, argv: Sequence[str]) -> str:
        try:
            done = run(argv, timeout_s=_RELOAD_S, env=self._env)
        except SlurmError as error:
            return str(error)
        if not done.returncode:
            return ""
        said = (done.stderr or done.stdout).strip()
        return f"{shlex.join(argv)}: {said or f'exit code {done.returncode}'}"
