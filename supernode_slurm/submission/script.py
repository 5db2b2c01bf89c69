"""The user's batch script: what it asks for, and the plan written into a copy of it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ConfigError, UsageError, Where

_SHELL = re.compile(r"#!\s*(?:\S*/env\s+(?:-S\s+)?)?(?:\S*/)?(?:ba|da|k|mk|z|a|)sh(?:\s|\Z)")
_MISPLACED = re.compile(r"\s*#\s*SN\s+-", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#SN(?:\s+(.*))?\Z")
MAX_BYTES = 4 * 2**20
"""Slurm's own default limit for a batch script (max_script_size)."""


@dataclass(frozen=True, slots=True)
class Script:
    """A batch script."""

    name: str
    """Its file's name, which becomes the job's name."""
    text: str
    origin: str
    """Where it came from, for messages."""

    @property
    def is_shell(self) -> bool:
        """Whether lines of shell may be added to it."""
        return bool(_SHELL.match(self.text.split("\n", 1)[0]))


def read_script(path: str | None, wrap: str | None = None) -> Script:
    """Return the script of a command line: a file, ``--wrap``, or standard input.

    Raises ``ConfigError`` where it cannot be read, ``UsageError`` where it is no script.
    """
    if wrap is not None:
        if path is not None:
            raise UsageError(f"--wrap and the script {path} exclude each other")
        return Script("wrap", f"#!/bin/sh\n# sbatch --wrap\n\n{wrap}\n", "--wrap")
    if path is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("no batch script: name one, or send it on standard input")
        name, raw = "stdin", sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        try:
            with Path(path).open("rb") as stream:
                name, raw = Path(path).name, stream.read(MAX_BYTES + 1)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError.one(path, f"cannot read the batch script: {reason}") from error
    return _checked(name, raw, path or "standard input")


def _checked(name: str, raw: bytes, origin: str) -> Script:
    if len(raw) > MAX_BYTES:
        raise ConfigError.one(origin, f"larger than the {MAX_BYTES >> 20} MiB Slurm takes")
    if not raw.startswith(b"#!"):
        raise ConfigError.one(
            origin, "a batch script begins with #! and its interpreter", "add #!/bin/bash"
        )
    if b"\r\n" in raw:
        raise ConfigError.one(origin, "DOS line ends (\\r\\n)", "convert it with dos2unix")
    return Script(name, raw.decode("utf-8", "surrogateescape"), origin)


def sn_lines(script: Script) -> list[tuple[str, Where]]:
    """Return the words of the script's ``#SN`` lines, each with its place.

    Like ``#SBATCH`` they count up to the first command. Raises ``ConfigError`` for
    unbalanced quotes.
    """
    words: list[tuple[str, Where]] = []
    lines = script.text.split("\n")
    for number, line in enumerate(lines[: _first_command(lines)], start=1):
        found = _DIRECTIVE.match(line)
        if found is None:
            continue
        place = Where(script.origin, number, 1)
        try:
            words += [(word, place) for word in shlex.split(found.group(1) or "", comments=True)]
        except ValueError as error:
            raise ConfigError.one(place, f"#SN: {error}") from error
    return words


def unread_lines(script: Script) -> list[str]:
    """Return a note for each line that looks like ``#SN`` and is not read as one."""
    lines = script.text.split("\n")
    end = _first_command(lines)
    return [
        f"{script.origin}:{number}: this line is not read: {why}"
        for number, line in enumerate(lines, start=1)
        if _MISPLACED.match(line)
        for why in [_why_unread(line, number > end)]
        if why
    ]


def _why_unread(line: str, late: bool) -> str:
    if late:
        return "#SN lines stand before the first command"
    return "" if _DIRECTIVE.match(line) else "write '#SN --...' at the start of the line"


def with_lines(script: Script, added: Sequence[str]) -> Script:
    """Return a shell script with lines put before its first command."""
    lines = script.text.split("\n")
    at = _first_command(lines)
    return replace(script, text="\n".join([*lines[:at], *added, *lines[at:]]))


def _first_command(lines: list[str]) -> int:
    """Return the index of the first line that is neither a comment nor empty."""
    for index, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            return index
    return len(lines)
