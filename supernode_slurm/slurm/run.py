"""Run a program to its end: bounded in time, alone in its process group."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..errors import SlurmNotFound, SlurmRejected, SlurmTimeout

_LAST_WORDS_S = 2.0
"""How long to wait for the pipes of a killed group: a process that left it may hold them."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a program left behind."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    stdin_text: str | None = None,
    cwd: Path | None = None,
) -> Result:
    """Run a program and return its output, whatever its exit code.

    ``env`` is the whole environment of the child, None for our own. Raises
    ``SlurmNotFound`` when the program is missing, and ``SlurmTimeout`` once it and
    everything that it started in its session has been killed.
    """
    given = None if stdin_text is None else stdin_text.encode(errors="surrogateescape")
    stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
    with spawn(argv, env, stdin, cwd=cwd) as process:
        try:
            stdout, stderr = process.communicate(given, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            said = _kill_group(process)
            shown = shlex.join(argv)
            raise SlurmTimeout(f"no answer in {timeout_s:g} s from: {shown}{said}") from None
        except BaseException:
            _kill_group(process)
            raise
    return Result(tuple(argv), process.returncode, readable(stdout), readable(stderr))


def check(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    stdin_text: str | None = None,
    cwd: Path | None = None,
) -> Result:
    """Run a program like ``run``; ``SlurmRejected`` when its exit code is not 0."""
    result = run(argv, timeout_s=timeout_s, env=env, stdin_text=stdin_text, cwd=cwd)
    if result.returncode:
        raise SlurmRejected(result.argv, result.returncode, result.stderr or result.stdout)
    return result


def readable(data: bytes) -> str:
    """Return what a program printed as text: bytes that are none are replaced."""
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    stdin: int | IO[bytes],
    stderr: int | IO[bytes] = subprocess.PIPE,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; ``SlurmNotFound`` says what is missing."""
    if cwd is not None and not cwd.is_dir():
        raise NotADirectoryError(f"{cwd}: no such directory to run {argv[0]} in")
    try:
        return subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError) as error:
        # A directory on PATH that is closed to us makes a missing program look forbidden.
        if shutil.which(argv[0], path=None if env is None else env.get("PATH")) is None:
            raise SlurmNotFound(f"{argv[0]}: {_missing(argv[0], env or os.environ)}") from None
        raise SlurmNotFound(f"{argv[0]}: cannot be run: {error.strerror}") from error


def _missing(program: str, env: Mapping[str, str]) -> str:
    found = "no such program" if "/" in program else "not found on PATH"
    named = program == env.get("SN_SBATCH")
    return f"{found}; " + ("SN_SBATCH names it" if named else "install Slurm's client programs")


def _kill_group(process: subprocess.Popen[bytes]) -> str:
    """Kill the child's process group; return its last words on stderr, for a message."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        stderr = readable(process.communicate(timeout=_LAST_WORDS_S)[1])
    except subprocess.TimeoutExpired:
        return ""
    return f"\n{stderr.strip()}" if stderr.strip() else ""
