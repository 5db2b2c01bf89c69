"""How slurmctld runs on this machine, read from /proc: it decides what brings it back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FOREGROUND = re.compile(r"-[cdhirRsvV]*D")


@dataclass(frozen=True, slots=True)
class Mode:
    """A slurmctld of this machine."""

    pid: int
    argv: tuple[str, ...]

    @property
    def in_foreground(self) -> bool:
        """Whether it runs with -D: it dies of a bad file whatever its release."""
        return any(_FOREGROUND.match(word) for word in self.argv[1:])

    @property
    def how_to_start(self) -> str:
        """Return what brings it back."""
        if self.in_foreground:
            return f"it ran in the foreground: start it as before: {shlex.join(self.argv)}"
        return SERVICE


SERVICE = "start it: systemctl start slurmctld"


def find_mode(config: Mapping[str, str], proc: Path = Path("/proc")) -> Mode | None:
    """Return how the controller of a configuration runs, None if it is not seen from here."""
    try:
        pid = int(Path(config["SlurmctldPidFile"]).read_text(encoding="ascii"))
        raw = (proc / str(pid) / "cmdline").read_bytes()
    except (KeyError, OSError, ValueError):
        return None
    argv = tuple(word.decode("utf-8", "replace") for word in raw.rstrip(b"\0").split(b"\0"))
    return Mode(pid, argv) if "slurmctld" in Path(argv[0]).name else None
