"""How far each rank is: a few numbers in a file, which the sn-launch beside it looks at.

The loop's own calls write them, so that it needs no line more: ``share()`` that the rank has
begun, the sampler its step, the exchange that the rank waits in it for others, and `Balance`
that it is slow. A loop without them leaves no file.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import struct
import weakref
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any, Iterable, Iterator, Mapping

from .private import below
from .problem import USAGE, LaunchError

_FOLDER = "SN_HEARTBEAT"
_NAME = "beat."
_FORM = struct.Struct("=5q")
_ONE = struct.Struct("=q")
_PROCESS, _STEP, _ENTERED, _LEFT, _SLOW = range(5)
_PATIENCE_S = 120.0
_USUAL = 32
_LONGER = 2.0
"""A rank stands still after so many times the longest pause of its last ones."""


def patience(environ: Mapping[str, str]) -> float:
    """Return the seconds after which a rank is said to stand still, 0 for never."""
    text = environ.get("SN_PATIENCE", "")
    try:
        found = float(text or _PATIENCE_S)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e9:
        raise LaunchError(f"SN_PATIENCE={text}: give seconds, 0 for never", USAGE)
    return found


def period(patience_s: float) -> float:
    """Return the seconds from one look at the files to the next."""
    return min(max(patience_s / 20, 0.1), 5.0)


@dataclass(frozen=True)
class Beat:
    """How far a rank is."""

    process: int
    step: int = -1
    """Steps that it finished; -1 where no sampler tells."""
    entered: int = 0
    """How many exchanges over all ranks it began."""
    left: int = 0
    """How many of them it ended."""
    slow: int = 0
    """Its time in percent of that of the others, 0 where it is not slow."""

    @property
    def has_moved(self) -> bool:
        """Whether it finished a step, or began an exchange."""
        return self.step > 0 or self.entered > 0


def begin(environ: Mapping[str, str]) -> None:
    """Say that this rank has begun; nothing where no sn-launch looks at it."""
    path = _path(environ)
    if not path:
        return
    with contextlib.suppress(OSError):
        below(*os.path.split(os.path.dirname(path)))
        beat = read(path)
        if beat is None or not _is_alive(beat.process):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as stream:
                stream.write(_FORM.pack(os.getpid(), -1, 0, 0, 0))


def read(path: str) -> Beat | None:
    """Return what a rank's file says, None where there is none yet."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError:
        return None
    return Beat(*_FORM.unpack(data)) if len(data) == _FORM.size else None


class Heart:
    """Writes this rank's numbers: in the process that began, elsewhere nothing."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Remember the environment; the file is opened at the first beat."""
        self._environ = environ
        self._file: int | None = None

    def step(self, finished: int) -> None:
        """Note how many steps are finished."""
        self._write(_STEP, finished)

    def slow(self, percent: int) -> None:
        """Note that this rank is slow, or with 0 that it is not."""
        self._write(_SLOW, percent)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Note that this rank waits for the others meanwhile."""
        count = self._read(_ENTERED) + 1
        self._write(_ENTERED, count)
        try:
            yield
        finally:
            self._write(_LEFT, count)

    def _open(self) -> int:
        """Return the file's descriptor, -1 where there is none to write."""
        if self._file is None:
            self._file = -1
            path = _path(os.environ if self._environ is None else self._environ)
            beat = read(path) if path else None
            if beat is not None and beat.process == os.getpid():
                with contextlib.suppress(OSError):
                    self._file = os.open(path, os.O_RDWR)
                    weakref.finalize(self, os.close, self._file)
        return self._file

    def _read(self, field: int) -> int:
        with contextlib.suppress(OSError, struct.error):
            if self._open() >= 0:
                return int(_ONE.unpack(os.pread(self._open(), _ONE.size, field * _ONE.size))[0])
        return 0

    def _write(self, field: int, value: int) -> None:
        with contextlib.suppress(OSError):
            if self._open() >= 0:
                os.pwrite(self._open(), _ONE.pack(value), field * _ONE.size)


@dataclass
class _Seen:
    """What was seen of a rank."""

    beat: Beat
    since: float
    pauses: deque[float]
    """The last ones, in seconds."""
    is_still: bool = False
    is_slow: bool = False

    def look(self, beat: Beat, now: float, patience_s: float) -> Iterator[dict[str, Any]]:
        """Yield what changed."""
        paused = now - self.since
        if replace(beat, slow=0) != replace(self.beat, slow=0):
            if self.beat.has_moved:
                self.pauses.append(paused)
            if self.is_still:
                yield {"kind": "moves", "after": round(paused)}
            self.since, self.is_still = now, False
        elif not self.is_still and paused > max(patience_s, _LONGER * max(self.pauses, default=0)):
            self.is_still = True
            yield {"kind": "still", "for": round(paused), **asdict(beat)}
        if bool(beat.slow) != self.is_slow:
            self.is_slow = bool(beat.slow)
            yield {"kind": "slow", "percent": beat.slow}
        self.beat = beat


class Lookout:
    """Looks at the files of this node's ranks, for the launcher."""

    def __init__(self, folder: str, patience_s: float, rank: int | None = None) -> None:
        """Look at one rank, or at all whose files lie in the folder."""
        self.period_s = period(patience_s)
        self._folder, self._patience_s, self._rank = folder, patience_s, rank
        self._seen: dict[int, _Seen] = {}

    def environment(self) -> dict[str, str]:
        """Return what tells the ranks where to write."""
        return {_FOLDER: self._folder}

    def look(self, now: float) -> list[dict[str, Any]]:
        """Return records of what changed since the last look, at ``now`` of a steady clock."""
        records = []
        for number in self._ranks():
            beat = read(_file(self._folder, number))
            if beat is None:
                continue
            found: Iterable[dict[str, Any]]
            if number not in self._seen:
                self._seen[number] = _Seen(beat, now, deque(maxlen=_USUAL))
                found = [{"kind": "begun"}]
            else:
                found = self._seen[number].look(beat, now, self._patience_s)
            records += [{**record, "rank": number} for record in found]
        return records

    def clear(self) -> None:
        """Remove the files, and the folder with the last one."""
        with contextlib.suppress(OSError):
            for number in self._ranks():
                os.unlink(_file(self._folder, number))
            os.rmdir(self._folder)
            os.rmdir(os.path.dirname(self._folder))

    def _ranks(self) -> list[int]:
        if self._rank is not None:
            return [self._rank]
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        pairs = (name.split(".") for name in names if name.startswith(_NAME))
        return sorted(int(pair[1]) for pair in pairs if pair[1].isdecimal())


def _path(environ: Mapping[str, str]) -> str:
    """Return the path of this rank's file, nothing where nobody looks at one."""
    folder, rank = environ.get(_FOLDER, ""), environ.get("RANK", "")
    return _file(folder, int(rank)) if folder and rank.isdecimal() else ""


def _file(folder: str, rank: int) -> str:
    return os.path.join(folder, f"{_NAME}{rank}")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True
