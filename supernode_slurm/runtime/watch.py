"""Run the job's steps to their end: pass their stderr and signals on, name who died first.

Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Sequence

from .heartbeat import patience
from .layout import loads
from .planning import read_plan
from .problem import LaunchError, pass_on, say
from .program import run
from .record import Sieve
from .srun import Step
from .stalls import Stalls
from .verdict import Ranks, judge

_CHUNK = 65536
_PR_SET_PDEATHSIG = 1
_ASK_S = 30.0
_GRACE_S = 60.0
"""How long the other steps may take to end, once one has failed; KillWait is 30 s."""
_AGAIN_S = 2.0
"""``timeout`` sends its signal twice at once: to us, and to our process group."""
_NOT_STARTED = (2, 126, 127)
"""No Python (slurmstepd's 2), or none of our files (Python's 2)."""
_PASSED_BY_SRUN = (signal.SIGUSR1, signal.SIGUSR2)
_ENDS_STEPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
"""srun itself would kill the step at once for these (SIGINT: shows its state)."""


@dataclass
class _Running:
    """A step that runs."""

    step: Step
    process: subprocess.Popen[bytes]
    sieve: Sieve
    number: str = ""
    """Its step id, once a rank told it."""


def watch(steps: Sequence[Step], environ: Mapping[str, str], hint: str) -> int:
    """Run steps at the same time until all have ended; return the job's exit code.

    When one fails, the others are ended. The hint is for a launcher that starts on no node.
    Raises ``LaunchError`` where srun is missing.
    """
    mark, layout = environ["SN_MARK"], loads(environ["SN_LAYOUT"])
    stalls = Stalls(layout, read_plan(environ), patience(environ))
    with _signals() as heard, selectors.DefaultSelector() as selector:
        running = [_start(step, environ, mark, index) for index, step in enumerate(steps)]
        for item in running:
            selector.register(_stderr(item), selectors.EVENT_READ, item)
        selector.register(heard, selectors.EVENT_READ)
        watcher = _Watcher(running, environ, stalls)
        while len(selector.get_map()) > 1:
            for key, _ in selector.select(watcher.patience()):
                if key.data is None:
                    watcher.hear(heard.recv(4096))
                elif not watcher.read(key.data):
                    selector.unregister(key.fileobj)
            watcher.act()
        codes = [_exit_code(item.process) for item in running]
    code = next(filter(None, codes), 0)
    if watcher.held_up:
        say("error", f"ended because of {watcher.held_up}: SN_END_HUNG=1")
        return code or 1
    if code in _NOT_STARTED and not any(item.number for item in running):
        say("error", hint)
    told = environ.get("SN_WATCH") != "0" and any(item.number for item in running)
    return judge(watcher.ranks, code, layout if told else None)


class _Watcher:
    """Keeps what the steps told, and ends them together."""

    def __init__(
        self, running: Sequence[_Running], environ: Mapping[str, str], stalls: Stalls
    ) -> None:
        self.ranks = Ranks()
        self.held_up = ""
        """By whom, where the steps were ended because of it."""
        self._running, self._environ, self._stalls = running, environ, stalls
        self._deadline = 0.0
        self._asked = 0.0

    def patience(self) -> float | None:
        """Return how long to wait for the steps, None for ever."""
        times = [at for at in (self._deadline or None, self._stalls.due) if at is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def read(self, item: _Running) -> bool:
        """Pass on what a step said; return False at its end."""
        data = os.read(_stderr(item), _CHUNK)
        passed, records = item.sieve.feed(data) if data else (item.sieve.rest(), [])
        pass_on(passed)
        for record in records:
            self._note(item, record)
        if not data and _exit_code(item.process) and len(self._running) > 1:
            self._end_all("")
        return bool(data)

    def _note(self, item: _Running, record: dict[str, Any]) -> None:
        if record["kind"] == "step":
            item.number = str(record.get("step", ""))
        elif record["kind"] == "line":
            self.ranks.lines.setdefault(record.get("rank", -1), []).append(record.get("text", ""))
        elif record["kind"] == "refused":
            self.ranks.refused = True
        elif record["kind"] == "end":
            self._stalls.end(record["rank"])
            if record["code"] or record["signal"]:
                self.ranks.ends.append(record)
            else:
                self.ranks.well.add(record["rank"])
        else:
            self._stalls.note(record, time.monotonic())

    def hear(self, numbers: bytes) -> None:
        """Pass on the signals that came."""
        for number in numbers:
            if number in _PASSED_BY_SRUN:
                for item in self._alive():
                    item.process.send_signal(number)
            elif number == signal.SIGINT and os.isatty(0):
                continue  # the terminal sent it to srun as well
            elif self._asked and time.monotonic() - self._asked < _AGAIN_S:
                continue
            elif self._asked:
                self._force()
            elif self._is_running():
                self._asked = time.monotonic()
                self._signal(signal.Signals(number).name[3:])

    def _is_running(self) -> bool:
        """Say whether the job goes on: of one that is being ended Slurm tells the ranks itself."""
        argv = ["squeue", "-h", "-o", "%T", "-j", self._environ.get("SLURM_JOB_ID", "")]
        code, shown, _ = run(argv, _ASK_S, self._environ)
        return code != 0 or "RUNNING" in shown

    def _signal(self, name: str) -> None:
        """Send a signal to every rank; scancel without a name ends a step as Slurm does."""
        for item in self._alive():
            if not item.number:
                item.process.terminate()
            for job in item.step.jobs if item.number else ():
                argv = ["scancel", *([f"--signal={name}"] if name else []), f"{job}.{item.number}"]
                run(argv, _ASK_S, self._environ)

    def _end_all(self, signal_name: str) -> None:
        if not self._deadline and self._alive():
            self._deadline = time.monotonic() + _GRACE_S
            self._signal(signal_name)

    def act(self) -> None:
        """Do what is due: name the ranks that hold others up, and end at once what had its time."""
        found = self._stalls.judge(time.monotonic())
        if found and not self.held_up and self._environ.get("SN_END_HUNG") == "1":
            self.held_up = found
            self._end_all("TERM")
        if self._deadline and time.monotonic() > self._deadline:
            self._force()
            self._deadline = time.monotonic() + _GRACE_S

    def _force(self) -> None:
        for item in self._alive():
            item.process.terminate()  # srun kills its step

    def _alive(self) -> list[_Running]:
        return [item for item in self._running if item.process.poll() is None]


def _start(step: Step, environ: Mapping[str, str], mark: str, index: int) -> _Running:
    try:
        process = subprocess.Popen(
            list(step.argv),
            stdin=subprocess.DEVNULL if index else None,
            stderr=subprocess.PIPE,
            env=dict(environ),
            bufsize=0,
            preexec_fn=_tie_to_us(),  # noqa: PLW1509 - we have no threads
        )
    except OSError as error:
        raise LaunchError(f"cannot start {step.argv[0]}: {error.strerror}", 127) from error
    return _Running(step, process, Sieve(mark))


def _tie_to_us() -> Callable[[], None]:
    """Return what srun does before it starts: it ends with us, and signals reach us first.

    A signal to our process group would have srun kill the ranks. With a terminal it stays in
    our group, or it could not read.
    """
    alone, parent = not os.isatty(0), os.getpid()
    libc = None
    with contextlib.suppress(ImportError, OSError):
        from ctypes import CDLL

        libc = CDLL(None)

    def tie() -> None:
        if alone:
            os.setpgid(0, 0)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return tie


def _stderr(item: _Running) -> int:
    if item.process.stderr is None:
        raise LaunchError("srun has no stderr")
    return item.process.stderr.fileno()


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    code = process.wait()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _signals() -> Iterator[socket.socket]:
    """Yield a socket that holds the numbers of the signals that came."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    watched = (*_PASSED_BY_SRUN, *_ENDS_STEPS)
    # A handler, not SIG_IGN: srun inherits only the latter.
    before = {number: signal.signal(number, lambda *_: None) for number in watched}
    woken = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        ours.close()
        theirs.close()
