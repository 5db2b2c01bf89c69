"""Run a program that says something at once and ends late, like ``sbatch --wait``."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from ..errors import SlurmTimeout
from .run import Result, readable, spawn


def follow(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str],
    stdin_text: str | None,
    heard: Callable[[str, str], bool],
) -> Result:
    """Run a program until it ends, and tell ``heard`` what stdout and stderr hold so far.

    Once ``heard`` returns True the program may take as long as it likes and nobody is told
    any more; before that, ``SlurmTimeout``. An interrupt ends the program and goes on.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
        stdin.write((stdin_text or "").encode(errors="surrogateescape"))
        stdin.seek(0)
        given = subprocess.DEVNULL if stdin_text is None else stdin
        with spawn(argv, env, given, stderr) as process:
            try:
                stdout = _listen(process, stderr, timeout_s, heard)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        return Result(tuple(argv), process.returncode, readable(stdout), _so_far(stderr))


def _listen(
    process: subprocess.Popen[bytes],
    stderr: IO[bytes],
    timeout_s: float,
    heard: Callable[[str, str], bool],
) -> bytes:
    deadline = time.monotonic() + timeout_s
    is_heard = False
    data = b""
    stdout = process.stdout.fileno() if process.stdout else -1
    while True:
        left_s = None if is_heard else max(deadline - time.monotonic(), 0.0)
        if not select.select([stdout], [], [], left_s)[0]:
            said = f"\n{_so_far(stderr).strip()}".rstrip()
            shown = shlex.join(map(str, process.args))  # type: ignore[arg-type]
            raise SlurmTimeout(f"no answer in {timeout_s:g} s from: {shown}{said}")
        more = os.read(stdout, 65536)
        if not more:
            return data
        data += more
        is_heard = is_heard or heard(readable(data), _so_far(stderr))


def _so_far(stream: IO[bytes]) -> str:
    """Return what the program wrote; reading at a place keeps the offset that it writes at."""
    size = os.fstat(stream.fileno()).st_size
    return readable(os.pread(stream.fileno(), size, 0))
