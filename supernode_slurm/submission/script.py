"""The user's batch script: what it asks for, and the plan written into a copy of it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ConfigError, UsageError, Where
from ..slurm import options as sbatch

_SHELL = re.compile(r"#!\s*(?:\S*/env\s+(?:-S\s+)?)?(?:\S*/)?(?:ba|da|k|mk|z|a|)sh(?:\s|\Z)")
_MISPLACED = re.compile(r"\s*#\s*SN\s+-", re.IGNORECASE)
_OTHERS = re.compile("#(?:PBS|BSUB) +-")
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
        # sbatch calls such a job so.
        return _checked("sbatch", sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError.one(path, f"cannot read the batch script: {reason}") from error
    return _checked(Path(path).name, raw, path)


def find_script(name: str, folder: str, path: str) -> str:
    """Return the file that sbatch takes for a script's name.

    A bare name is sought in the folder where the job starts, on the PATH, and here at
    last; one that begins with a dot or a slash is a path as it is.
    """
    if name.startswith((".", "/")):
        return name
    for place in (folder, *filter(None, path.split(os.pathsep))):
        found = os.path.join(place, name)
        if os.path.isfile(found) and os.access(found, os.R_OK):
            return found
    return name


def _checked(name: str, raw: bytes, origin: str) -> Script:
    if len(raw) > MAX_BYTES:
        raise ConfigError.one(origin, f"larger than the {MAX_BYTES >> 20} MiB Slurm takes")
    if not raw.startswith(b"#!"):
        raise ConfigError.one(
            origin, "a batch script begins with #! and its interpreter", "add #!/bin/bash"
        )
    if b"\r\n" in raw:
        raise ConfigError.one(origin, "DOS line ends (\\r\\n)", "convert it with dos2unix")
    if b"\0" in raw:
        raise ConfigError.one(origin, "a NUL byte, which Slurm refuses", "save it as plain text")
    return Script(name, raw.decode("utf-8", "surrogateescape"), origin)


def sn_lines(script: Script) -> list[tuple[str, Where]]:
    """Return the words of the script's ``#SN`` lines, each with its place.

    Like ``#SBATCH`` they count up to the first command. Raises ``ConfigError`` for
    unbalanced quotes.
    """
    words: list[tuple[str, Where]] = []
    lines = script.text.split("\n")
    for number, line in enumerate(lines[: sbatch.first_command(lines)], start=1):
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
    """Return a note for each line that is meant to ask for something and is not read here."""
    lines = script.text.split("\n")
    end = sbatch.first_command(lines)
    places = list(enumerate(lines, start=1))
    found = [
        f"{script.origin}:{number}: this line is not read: {why}"
        for number, line in places
        if _MISPLACED.match(line)
        for why in [_why_unread(line, number > end)]
        if why
    ]
    return found + [
        f"{script.origin}:{number}: sbatch heeds this line, the plan does not: write #SBATCH"
        for number, line in places[:end]
        if _OTHERS.match(line)
    ]


def _why_unread(line: str, late: bool) -> str:
    if late:
        return "#SN lines stand before the first command"
    return "" if _DIRECTIVE.match(line) else "write '#SN --...' at the start of the line"


def with_lines(script: Script, added: Sequence[str]) -> Script:
    """Return a shell script with lines put before its first command."""
    lines = script.text.split("\n")
    at = sbatch.first_command(lines)
    return replace(script, text="\n".join([*lines[:at], *added, *lines[at:]]))
