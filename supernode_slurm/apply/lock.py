"""One apply at a time: a lock that says who holds it, and goes with its holder."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from ..errors import SupernodeError

NAME = "lock"
_POLL_S = 0.2


@contextmanager
def locked(
    directory: Path,
    who: str,
    wait_s: float = 0.0,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Hold the lock of a directory; the kernel releases it when this process ends.

    Raises ``SupernodeError`` that names the holder, once it waited long enough.
    """
    path = directory / NAME
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = clock() + wait_s
        while not _taken(handle):
            if clock() >= deadline:
                raise SupernodeError(f"{directory.parent}: {_holder(handle)}; wait with --wait")
            sleep(_POLL_S)
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        said = json.dumps({"pid": os.getpid(), "who": who, "since": since})
        os.ftruncate(handle, 0)
        os.pwrite(handle, said.encode(), 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(handle: int) -> str:
    try:
        held = json.loads(os.pread(handle, 4096, 0))
        return f"pid {held['pid']} of {held['who']} applies since {held['since']}"
    except (ValueError, KeyError, TypeError):
        return "another apply is at work"
