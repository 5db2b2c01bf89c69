"""Stay beside a rank's program, so that it can be named when it dies.

The program's stderr passes through here at once; its last lines are kept. Signals that
Slurm sends to the whole step reach the program by themselves: here they are ignored.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Callable, Mapping, NoReturn, Sequence

from .problem import pass_on

_LINES = 20
_LINE_BYTES = 2000
_CHUNK = 65536
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""With these Slurm, or a user, asks a step to end."""
_AFTERWARDS_S = 0.2
"""A signal to a whole step may reach the program a moment before us."""
_OTHERS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU, signal.SIGPIPE)


@dataclass(frozen=True)
class End:
    """How a program ended."""

    code: int
    """Its exit code; 0 if a signal killed it."""
    signal: int
    """What killed it, 0 for nothing."""
    at: float
    """When, in seconds since 1970."""
    told: bool
    """The whole step had been asked to end before."""
    lines: tuple[str, ...]
    """Its last lines on stderr."""

    @property
    def is_good(self) -> bool:
        """Whether nothing went wrong."""
        return not self.code and not self.signal


def become(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become the program; leave with 127 or 126 where it cannot be started."""
    # Python ignores these; a program expects the usual.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    code = 127
    try:
        os.execvpe(command[0], list(command), dict(environ))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        code = 126 if isinstance(error, PermissionError) else 127
        text = f"sn-launch: error: cannot start {command[0]}: {reason}\n"
        pass_on(text.encode("utf-8", "replace"))
    os._exit(code)


@dataclass(frozen=True)
class Meanwhile:
    """What is done while the program runs."""

    look: Callable[[], bytes]
    """Returns lines for the launcher."""
    every_s: float


def keep(
    command: Sequence[str],
    environ: Mapping[str, str],
    report: Callable[[End], None],
    meanwhile: Meanwhile | None = None,
) -> NoReturn:
    """Run the program to its end, report it, and leave as the program left."""
    watched = [*_ENDS, *_OTHERS, signal.SIGCHLD]
    # No signal may fall between the fork and the handlers.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(theirs, 2)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        become(command, environ)
    os.close(theirs)
    told = _listen(watched)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    tail = _Tail()
    status = _pass_on(child, ours, told, tail, meanwhile)
    killer = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = 0 if killer else os.WEXITSTATUS(status)
    end = End(code, killer, time.time(), told.end, tuple(tail.lines()))
    if not end.is_good and not end.told:
        select.select([told.reader], [], [], _AFTERWARDS_S)
        told.read()
        end = replace(end, told=told.end)
    if not end.is_good and tail.is_open:
        pass_on(b"\n")
    report(end)
    _leave(end)


class _Told:
    """Which signals came, through a socket that ``select`` can watch."""

    def __init__(self) -> None:
        self.reader, self.writer = socket.socketpair()
        for end in (self.reader, self.writer):
            end.setblocking(False)
        self.end = False

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.end |= any(number in _ENDS for number in self.reader.recv(4096))


def _listen(watched: Sequence[int]) -> _Told:
    told = _Told()
    for number in watched:
        # A handler, not SIG_IGN: the program that is started inherits only the latter.
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(told.writer.fileno(), warn_on_full_buffer=False)
    return told


def _pass_on(child: int, ours: int, told: _Told, tail: _Tail, meanwhile: Meanwhile | None) -> int:
    """Pass the program's stderr on until it ends; return its status.

    What it left running may hold the pipe open: nobody waits for that.
    """
    os.set_blocking(ours, False)
    sources = [ours, told.reader.fileno()]
    looked = time.monotonic()
    while True:
        ready = select.select(sources, [], [], meanwhile.every_s if meanwhile else None)[0]
        if ours in ready and not _drain(ours, tail):
            sources.remove(ours)
        if told.reader.fileno() in ready:
            told.read()
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                _drain(ours, tail)
                return status
        if meanwhile is not None and time.monotonic() >= looked + meanwhile.every_s:
            looked = time.monotonic()
            _tell(meanwhile.look(), tail)


def _tell(lines: bytes, tail: _Tail) -> None:
    """Pass lines to the launcher: they begin lines of their own, or Slurm might cut them."""
    if lines:
        pass_on(b"\n" + lines if tail.is_open else lines)


def _drain(ours: int, tail: _Tail) -> bool:
    """Pass on what there is; say whether more may come."""
    while True:
        try:
            data = os.read(ours, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        tail.add(data)
        pass_on(data)


class _Tail:
    """The last lines of a stream."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        self._last = b""

    @property
    def is_open(self) -> bool:
        """Whether the stream stands within a line."""
        return bool(self._last)

    def add(self, data: bytes) -> None:
        # The last lines of a chunk are enough: it may be large.
        *whole, last = (self._last + data).split(b"\n")
        self._lines.extend(whole[-_LINES:])
        self._last = last[-_LINE_BYTES:]

    def lines(self) -> list[str]:
        """Return the lines as text, progress bars in their last state, empty ones left out.

        What would steer a terminal is shown escaped.
        """
        every = (line.rstrip(b"\r").rpartition(b"\r")[2] for line in (*self._lines, self._last))
        texts = (line[-_LINE_BYTES:].decode("utf-8", "replace").rstrip() for line in every)
        return [_plain(text) for text in texts if text][-_LINES:]


def _plain(text: str) -> str:
    return "".join(
        letter
        if letter.isprintable() or letter in "\t\u00a0\u3000"
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def _leave(end: End) -> NoReturn:
    """End as the program ended: Slurm then shows its code, or its signal."""
    if end.signal:
        # One core file is enough.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL takes no handler
            signal.signal(end.signal, signal.SIG_DFL)
        os.kill(os.getpid(), end.signal)
    os._exit(128 + end.signal if end.signal else end.code)
