"""The few things that are done to a disk, one by one, each on the disk when it returns."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Attributes:
    """Who may read a new file."""

    mode: int
    uid: int
    gid: int


class Disk:
    """Files and directories, changed in steps that survive a crash once they are done."""

    def make_directory(self, path: Path) -> None:
        """Make a directory that its owner alone may enter; an existing one is left alone."""
        if not path.is_dir():
            path.mkdir(mode=0o700)
            _sync(path.parent)

    def create(self, path: Path, data: bytes, attributes: Attributes) -> None:
        """Write a new file; what stands there is replaced at its end, never half."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if (attributes.uid, attributes.gid) != (os.geteuid(), os.getegid()):
                os.fchown(handle, attributes.uid, attributes.gid)
            os.fchmod(handle, attributes.mode)
            os.fsync(handle)
        _sync(path.parent)

    def like(self, path: Path, model: Path) -> None:
        """Give a file the attributes of another, beyond owner and mode."""
        shutil.copystat(model, path)
        os.utime(path)

    def keep(self, path: Path, copy: Path) -> None:
        """Keep a file under a second name: the same file, or where that is not allowed a copy."""
        try:
            os.link(path, copy, follow_symlinks=False)
        except OSError:
            found = path.stat()
            attributes = Attributes(found.st_mode & 0o7777, found.st_uid, found.st_gid)
            self.create(copy, path.read_bytes(), attributes)
            shutil.copystat(path, copy)
        _sync(copy.parent)

    def touch(self, path: Path, seconds: int) -> None:
        """Set the time of a file's last change."""
        os.utime(path, (seconds, seconds))

    def replace(self, source: Path, target: Path) -> None:
        """Put a file in the place of another, at once."""
        os.replace(source, target)
        _sync(target.parent)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is gone already is no error."""
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            _sync(path.parent)

    def remove_directory(self, path: Path) -> None:
        """Remove a directory and all that is in it."""
        shutil.rmtree(path, ignore_errors=True)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
