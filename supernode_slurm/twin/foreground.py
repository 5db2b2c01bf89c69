"""Run the user's command in the foreground, with the terminal it would have had."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence

from ..errors import SupernodeError

_GRACE_S = 10.0


def foreground(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a command to its end and return its exit code as a shell would.

    It has no time limit: it is the user's. When we are told to stop, it is told first.
    """
    try:
        child = subprocess.Popen(list(argv), env=dict(env))
    except OSError as error:
        failed = SupernodeError(f"cannot run {argv[0]}: {error.strerror or error}")
        failed.exit_code = 127 if isinstance(error, FileNotFoundError) else 126
        raise failed from error
    try:
        code = child.wait()
    except BaseException:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
        child.kill()
        child.wait()
        raise
    return code if code >= 0 else 128 - code
