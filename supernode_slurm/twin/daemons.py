"""Processes that live as long as the twin: who runs them, how they end, what they said."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import SlurmError, SlurmNotFound

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STOP_S = 15.0
_USERS = ("slurm", "nobody", "daemon")
_PORTS = range(20_000, 32_000)
"""Below the ports that kernels give to outgoing connections."""


@dataclass(frozen=True, slots=True)
class User:
    """The account that runs slurmctld and munged."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running process and the file that takes its stderr."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def said(self) -> str:
        """Return what it wrote so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """End it: SIGTERM to its group, then SIGKILL to a group that does not listen."""
        for number, patience_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, None)):
            if not self.is_alive:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)


def kill_together(daemons: Sequence[Daemon]) -> None:
    """End daemons at once, all before any is waited for."""
    for daemon in daemons:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(daemon.process.pid, signal.SIGKILL)
    for daemon in daemons:
        daemon.process.wait()


def ourselves() -> User:
    """Return our own account; ``SlurmError`` where it has no name."""
    try:
        own = pwd.getpwuid(os.geteuid())
    except KeyError:
        raise SlurmError(
            f"user id {os.geteuid()} has no account here, which Slurm needs: add it to /etc/passwd"
        ) from None
    return User(own.pw_name, own.pw_uid, own.pw_gid)


def unprivileged_user() -> User:
    """Return ourselves, or, as root, an account that owns as little as possible."""
    if os.geteuid() != 0:
        return ourselves()
    for name in _USERS:
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return User(name, found.pw_uid, found.pw_gid)
    raise SlurmError(f"no unprivileged account to run slurmctld: create one of {', '.join(_USERS)}")


def program(name: str, package: str) -> str:
    """Return the path of a program, sbin included; ``SlurmNotFound`` says what to install."""
    found = shutil.which(name, path=search_path())
    if found is None:
        raise SlurmNotFound(f"{name}: not found; install it (Debian: apt install {package})")
    return found


def search_path() -> str:
    """Return PATH with the directories of system daemons, which users often lack."""
    return os.pathsep.join(filter(None, (os.environ.get("PATH"), _PATH)))


def as_user(user: User) -> list[str]:
    """Return the prefix of a command that drops root, and dies with its parent."""
    setpriv = program("setpriv", "util-linux")
    drop = [f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"]
    return [setpriv, *(drop if os.geteuid() == 0 else []), "--pdeathsig=TERM"]


def spawn(name: str, argv: Sequence[str], env: Mapping[str, str], log: Path) -> Daemon:
    """Start a daemon in the foreground of a session of its own."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )
    return Daemon(name, process, log)


def free_ports(count: int) -> int:
    """Return the first of neighbouring ports that nobody listens on."""
    for _ in range(200):
        first = random.choice(_PORTS[: len(_PORTS) - count])
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise SlurmError(f"found no {count} neighbouring free ports between 20000 and 32000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def listens(address: str, port: int) -> bool:
    """Whether someone accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((address, port)) == 0
