"""Run one of Slurm's programs, or ``sn``, to its end.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Mapping, Sequence


def run(
    argv: Sequence[str], timeout_s: float, env: Mapping[str, str], stderr_passes: bool = False
) -> tuple[int, str, str]:
    """Return a program's exit code, its output and what it said on stderr.

    127 where it cannot be run, 124 where it was killed after its time.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if stderr_passes else subprocess.PIPE,
            env=dict(env),
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return 127, "", f"{argv[0]}: {error.strerror}"
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        return 124, "", f"no answer in {timeout_s:g} s from {argv[0]}"
    return process.returncode, stdout, stderr or ""
