"""The directories of a twin: closed to others, and gone with it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import ExitStack
from pathlib import Path

from ..errors import SlurmError
from .daemons import User

_MEMORY = Path("/dev/shm")
_PLAIN = re.compile(r"[A-Za-z0-9_./-]{1,70}\Z")


def make_home(stack: ExitStack, parent: Path | None, user: User) -> Path:
    """Make the twin's directory: ours, entered by the user of slurmctld and nobody else."""
    wanted = str(parent or tempfile.gettempdir())
    # slurm.conf has no quotes for a path, and a socket's path may have 107 letters.
    folder = wanted if _PLAIN.match(wanted) else "/tmp"
    home = Path(tempfile.mkdtemp(prefix="sn-twin-", dir=folder)).resolve()
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    if os.geteuid() == 0:
        os.chown(home, 0, user.gid)
        home.chmod(0o710)
        _check_way(home, user)
    return home


def _check_way(home: Path, user: User) -> None:
    """Refuse a directory below one that the user of slurmctld may not enter."""
    for directory in home.parents:
        found = directory.stat()
        if found.st_uid == user.uid:
            needed = stat.S_IXUSR
        else:
            needed = stat.S_IXGRP if found.st_gid == user.gid else stat.S_IXOTH
        if not found.st_mode & needed:
            raise SlurmError(
                f"{directory}: closed to {user.name}, who runs the twin's slurmctld;"
                " set TMPDIR to a directory that all may enter"
            )


def make_munge(home: Path, user: User) -> Path:
    """Make the directory of the private munge."""
    directory = home / "munge"
    directory.mkdir(mode=0o700)
    os.chown(directory, user.uid, user.gid)
    return directory


def make_state(stack: ExitStack, home: Path, user: User) -> Path:
    """Make the directory of slurmctld's state, in memory where there is a place for it.

    slurmctld syncs its state to the disk at start and stop, which a busy disk makes slow.
    """
    parent = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else home
    state = Path(tempfile.mkdtemp(prefix="sn-twin-state-", dir=parent))
    stack.callback(shutil.rmtree, state, ignore_errors=True)
    os.chown(state, user.uid, user.gid)
    return state
