"""A directory on this node that only this user can enter.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import Iterator, Mapping

from .problem import LaunchError


def directory(environ: Mapping[str, str], name: str) -> str:
    """Return the path of a directory of this name, made where it is missing.

    It lies in TMPDIR or /tmp. Raises ``LaunchError`` where somebody else made it first.
    """
    own = _own(environ)
    for path in (own, os.path.join(own, name)):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            found = os.lstat(path)
        except OSError as error:
            raise LaunchError(f"cannot make {path}: {error.strerror}; set TMPDIR") from error
        mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not mine or found.st_mode & 0o077:
            raise LaunchError(f"{path} is not a directory of yours alone: set TMPDIR to another")
    return path


@contextlib.contextmanager
def temporary(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the path of a directory that is gone afterwards."""
    path = directory(environ, os.urandom(8).hex())
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _own(environ: Mapping[str, str]) -> str:
    base = environ.get("TMPDIR", "")
    if not (os.path.isdir(base) and os.access(base, os.W_OK)):
        base = "/tmp"
    return os.path.join(base, f"sn-launch.{os.geteuid()}")


def leave(environ: Mapping[str, str], name: str, who: str, count: int) -> None:
    """Say that one of so many processes needs a directory no more; the last removes it."""
    path = os.path.join(_own(environ), name)
    with contextlib.suppress(OSError):
        os.close(os.open(os.path.join(path, f"left.{who}"), os.O_WRONLY | os.O_CREAT, 0o600))
        if sum(name.startswith("left.") for name in os.listdir(path)) >= count:
            shutil.rmtree(path, ignore_errors=True)


def write(folder: str, name: str, text: str) -> str:
    """Write a file that only this user can read, whole or not at all; return its path.

    Processes of one node may write the same file at the same time.
    """
    path = os.path.join(folder, name)
    draft = os.path.join(folder, f".{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(draft, flags, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(draft, path)
    except OSError as error:
        raise LaunchError(f"cannot write {path}: {error.strerror}") from error
    return path
