"""A directory on this node that only this user can enter.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from typing import Callable, Iterator, Mapping

from .problem import LaunchError

_TRIES = 10


class Folder:
    """A directory in TMPDIR or /tmp, made when it is first needed.

    The user's processes on this node share one of the same name. Where somebody else has
    taken the name of all our directories, each process has one of its own.
    """

    def __init__(self, environ: Mapping[str, str], name: str) -> None:
        """Remember where it would lie."""
        bases = dict.fromkeys(filter(None, [environ.get("TMPDIR"), "/tmp"]))
        self._bases, self._name = list(bases), name
        self._path, self._is_shared = "", False

    @property
    def path(self) -> str:
        """Return its path. Raises ``LaunchError`` where it cannot be made."""
        if not self._path:
            self._path, self._is_shared = self._make()
        return self._path

    @property
    def wanted(self) -> str:
        """Return where it lies, or will where nobody stands in the way; nothing is made."""
        if self._path:
            return self._path
        found = (base for base in self._bases if os.access(base, os.W_OK | os.X_OK))
        return os.path.join(_own(next(found, self._bases[-1])), self._name)

    def _make(self) -> tuple[str, bool]:
        reason = ""
        for base in self._bases:
            try:
                return below(_own(base), self._name), True
            except OSError:
                pass
            try:
                return tempfile.mkdtemp(prefix=f"sn-launch.{os.geteuid()}.", dir=base), False
            except OSError as error:
                reason = f"{base}: {error.strerror}"
        raise LaunchError(f"cannot make a directory in {reason}; set TMPDIR to where you can")

    def once(self, name: str, make: Callable[[], str]) -> str:
        """Return the text that the first of the processes on this node makes for all."""
        path = os.path.join(self.path, name)
        if not self._is_shared:
            return make()
        with open(os.path.join(self.path, f".{name}.lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # whoever held it and died leaves it to the next
            try:
                with open(path, encoding="utf-8") as stream:
                    return stream.read()
            except FileNotFoundError:
                text = make()
                write(self.path, name, text)
                return text

    def leave(self, who: str, count: int) -> None:
        """Say that one of so many processes needs it no more; the last removes it."""
        if not self._path:
            return
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT
            os.close(os.open(os.path.join(self._path, f".left.{who}"), flags, 0o600))
            left = sum(name.startswith(".left.") for name in os.listdir(self._path))
            if not self._is_shared or left >= count:
                self.remove()

    def remove(self) -> None:
        """Remove it, and the directory around it where that is empty."""
        if self._path:
            shutil.rmtree(self._path, ignore_errors=True)
            if self._is_shared:
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.dirname(self._path))


@contextlib.contextmanager
def temporary(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the path of a directory that is gone afterwards."""
    folder = Folder(environ, os.urandom(8).hex())
    try:
        yield folder.path
    finally:
        folder.remove()


def _own(base: str) -> str:
    return os.path.join(base, f"sn-launch.{os.geteuid()}")


def below(own: str, name: str) -> str:
    """Return a directory below our own one, both made where missing, for this user alone.

    Raises ``OSError`` where one cannot be made, or is not this user's alone.
    """
    inner = os.path.join(own, name)
    for _ in range(_TRIES):
        try:
            for path in (own, inner):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, 0o700)
                found = os.lstat(path)
                mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
                if not mine or found.st_mode & 0o077:
                    raise PermissionError(path)
        except FileNotFoundError:
            continue  # another process found ours empty and removed it
        return inner
    raise PermissionError(inner)


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
