"""One apply from end to end: repaired, compared, tried, written, proven, or undone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError, SlurmDown, SlurmError, SupernodeError
from ..slurm import LiveJob
from ..slurmconf import find_release
from ..slurmconf.release import Release
from .candidate import Candidate, complaints, from_files
from .change import NOTHING, RECONFIGURE, RESTART, Change, compare, touched_jobs
from .disk import Disk
from .distribute import filesystem, steps
from .history import PENDING, PROVEN, WRITTEN, Generation, History, Origin, encoded, hashed
from .journal import Entry, Journal
from .loading import Loader
from .mode import SERVICE, Mode, find_mode
from .prove import Observed, differences, intent
from .target import Target, check_beside, check_include, check_writable, read_target

APPLIED, WAITS = "applied", "waits"
Judge = Callable[[Candidate, Target, bool], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an apply would do."""

    candidate: Candidate
    change: Change
    stale: tuple[str, ...] = ()
    """Where the controller runs something else than the files that are installed already."""
    complaints: tuple[str, ...] = ()
    """What the twin says against the candidate."""
    jobs: tuple[LiveJob, ...] = ()
    """Running jobs on hosts that change or go."""
    mode: Mode | None = None
    """How slurmctld runs, where that can be seen."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.change.files and not self.stale

    @property
    def needs(self) -> str:
        """Return what slurmctld needs."""
        if not self.stale or self.change.needs == RESTART:
            return self.change.needs
        return RECONFIGURE if self.candidate.release.reconfigure_survives else RESTART


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an apply ended."""

    state: str
    """``applied`` and proven, ``written`` and not read, or ``waits`` for a restart."""
    generation: int


@dataclass(frozen=True, slots=True)
class Repair:
    """What became of an apply that was cut short."""

    notes: tuple[str, ...] = ()
    waits: bool = False
    """Whether its files are in place and wait for a restart of slurmctld."""


class Undone(SupernodeError):
    """A new configuration did not hold; what stood before is back."""


class Session:
    """An apply; whoever has one holds the lock."""

    def __init__(
        self,
        target: Target,
        loader: Loader | None,
        disk: Disk,
        who: str,
        judge: Judge = complaints,
    ) -> None:
        """Take what is installed, and who asks; without a loader files are only written.

        ``judge`` says what is wrong with a candidate, and is told whether it must run.
        """
        self.target = target
        self._judge = judge
        self._loader = loader
        self._who = who
        self.history = History(target.store, disk)
        self._journal = Journal(target.directory, target.store, disk)

    @property
    def is_proving(self) -> bool:
        """Whether a controller is asked for what it runs."""
        return self._loader is not None

    def unfinished(self) -> str:
        """Return in words what an apply that was cut short left, empty for nothing."""
        entry = self._journal.read()
        return f"the apply of {entry.who} at {entry.since} is not finished" if entry else ""

    def earlier(self, number: int | None) -> Candidate:
        """Return a generation to go back to: the newest other one that was installed, or a number.

        Raises ``ConfigError`` where there is none.
        """
        if number is None:
            installed = {
                name: hashed(encoded(text)) for name, text in self.target.installed.items()
            }
            others = [
                item.number
                for item in self.history.generations()
                if item.state != PENDING and dict(item.hashes) != installed
            ]
            if not others:
                raise ConfigError.one("--rollback", "nothing else was installed before", "")
            number = others[-1]
        return from_files(self.history.files(number), f"rollback to {number}")

    def steps(self, plan: Plan) -> tuple[str, ...]:
        """Return what is to be done for the other machines."""
        directory = self.target.directory
        kind = filesystem(directory, Path("/proc/mounts").read_text(encoding="utf-8"))
        config = self._loader.client().config() if self._loader else {}
        return steps(plan.change, config, directory, kind)

    def repair(self, wanted: Mapping[str, str]) -> Repair:
        """Bring an apply that was cut short to its end, before anything else.

        ``wanted`` are the files to come: what waits for a restart gives way to others.
        """
        entry = self._journal.read()
        if entry is None:
            self.history.forget_pending()
            return Repair()
        told = f"the apply of {entry.who} at {entry.since} is not finished"
        state = self._journal.state(entry)
        if state == "other":
            self._journal.close()
            found = Repair((f"{told}, and files were changed since: they count as they are",))
        elif state == "new" and self._loader is None:
            self._close(entry, WRITTEN)
            found = Repair((f"{told}: its files are in place, and not proven",))
        elif state == "new" and self._loader is not None:
            found = self._go_on(entry, told, self._loader, wanted)
        else:
            self._undo(entry)
            found = Repair((f"{told}: the files that stood before are back",))
        self.target = read_target(self.target.directory)
        return found

    def plan(self, candidate: Candidate) -> Plan:
        """Return what it takes to install a candidate; nothing is written.

        Raises ``ConfigError`` for a candidate, or a slurm.conf, that cannot work, and
        ``SlurmDown`` where no controller answers.
        """
        target, loader = self.target, self._loader
        if loader is not None:
            check_include(target)
        change = compare(target.installed, candidate.files, candidate.release)
        check_writable(target, (item.name for item in change.files))
        check_beside(target, candidate.files)
        if loader is None:
            return Plan(candidate, change, (), self._judge(candidate, target, False))
        _check_up(loader, target)
        client = loader.client()
        _check_release(client.config().get("SLURM_VERSION", ""), candidate)
        stale: tuple[str, ...] = ()
        if change.needs == NOTHING:
            meant = intent(candidate.files, candidate.release)
            stale = tuple(differences(meant, loader.look(meant.topologies)))
        wanted = change.files or stale
        said = self._judge(candidate, target, True) if wanted else ()
        jobs = touched_jobs(change, client.jobs()) if change.touched else ()
        return Plan(candidate, change, stale, said, jobs, find_mode(client.config()))

    def confirm(self) -> None:
        """Say of files that were only written that slurmctld was seen to run them."""
        found = self.history.current(self.target.installed)
        if self.is_proving and found is not None and found.state == WRITTEN:
            self.history.mark(found.number, PROVEN)

    def install(self, plan: Plan) -> Outcome:
        """Write the files of a plan, have slurmctld read them, and prove it.

        Raises ``Undone`` where that failed and what stood before is back.
        """
        loader, candidate = self._loader, plan.candidate
        if loader is not None and not plan.change.files:
            return self._reload(plan, loader)
        before = None if loader is None else loader.look(_names(candidate))
        previous = self._keep_installed()
        origin = Origin(
            self._who, _now(), candidate.release.name, candidate.inventory, candidate.what
        )
        saved = self.history.save(candidate.files, origin)
        entry = self._entry(plan, saved, previous)
        try:
            self._journal.install(entry, candidate.files, self.target.attributes)
        except BaseException:
            self._undo(entry)
            raise
        if loader is None:
            return self._close(entry, WRITTEN)
        if plan.needs == NOTHING:
            return self._close(entry)
        if plan.needs == RESTART and not loader.restart:
            return Outcome(WAITS, entry.generation)
        return self._load(entry, candidate, loader, (before, plan.mode))

    def _reload(self, plan: Plan, loader: Loader) -> Outcome:
        """Have slurmctld read files that are installed already."""
        kept = self._keep_installed()
        number = kept.number if kept else 0
        if plan.needs == RESTART and not loader.restart:
            return Outcome(WAITS, number)
        meant = intent(plan.candidate.files, plan.candidate.release)
        before = loader.look(meant.topologies)
        wrong = loader.load(plan.needs, meant, plan.candidate.release, before)
        if wrong:
            start = plan.mode.how_to_start if plan.mode else SERVICE
            end = "nothing was written; sn apply --rollback goes back to files before these"
            raise SupernodeError("\n".join([*wrong, f"if slurmctld is dead, {start}", end]))
        self.history.mark(number, PROVEN)
        return Outcome(APPLIED, number)

    def _load(
        self,
        entry: Entry,
        candidate: Candidate,
        loader: Loader,
        known: tuple[Observed | None, Mode | None],
    ) -> Outcome:
        meant = intent(candidate.files, candidate.release)
        wrong = loader.load(entry.needs, meant, candidate.release, known[0])
        if not wrong:
            return self._close(entry)
        self._undo(entry)
        said = self._prove_old(loader, entry, candidate.release, known)
        raise Undone("\n".join([*wrong, "the files that stood before are back", said]))

    def _prove_old(
        self,
        loader: Loader,
        entry: Entry,
        release: Release,
        known: tuple[Observed | None, Mode | None],
    ) -> str:
        """Have slurmctld run what stood before, and say in words whether it does."""
        before, mode = known
        if entry.previous is None:
            return "there were none of ours: look whether slurmctld runs without them"
        meant = intent(read_target(self.target.directory).installed, release)
        start = mode.how_to_start if mode else SERVICE
        try:
            now = loader.look(meant.topologies)
        except SlurmDown:
            if not loader.restart:
                wrong = loader.prove(meant, before, is_fresh=False)
                return f"slurmctld is dead; {start}" if wrong else _told([], "")
            wrong = loader.load(RESTART, meant, release, before)
            return _told(wrong, f"slurmctld does not run them; {start}")
        except SlurmError as error:
            return f"slurmctld does not say what it runs: {error}"
        if before is None or now.booted != before.booted or any(differences(meant, now)):
            needs = RESTART if entry.needs == RESTART and loader.restart else RECONFIGURE
            wrong = loader.load(needs, meant, release, now)
            if not wrong:
                wrong = loader.prove(meant, before, is_fresh=False)
            return _told(wrong, f"slurmctld does not run them; {start}")
        return _told(loader.prove(meant, before, is_fresh=False), "slurmctld does not run them")

    def _go_on(self, entry: Entry, told: str, loader: Loader, wanted: Mapping[str, str]) -> Repair:
        """Prove files that are all in place, or put those back that stood before."""
        files = self.target.installed
        origin = self.history.get(entry.generation).origin
        candidate = Candidate(files, find_release(origin.release), origin.what)
        meant = intent(files, candidate.release)
        waits = entry.needs == RESTART
        try:
            seen = loader.look(meant.topologies)
        except SlurmError:
            if waits and files == wanted:
                return Repair((f"{told}: its files wait for slurmctld, which is not up",), True)
            self._undo(entry)
            return Repair((f"{told}: slurmctld is not up, the files that stood before are back",))
        if waits and (seen.booted < entry.written or any(differences(meant, seen))):
            if files != wanted:
                self._undo(entry)
                return Repair((f"{told}: it waited for a restart, its files are taken back",))
            if not loader.restart:
                return Repair((f"{told}: its files wait for a restart of slurmctld",), True)
        if entry.needs == RECONFIGURE or (waits and loader.restart):
            self._load(entry, candidate, loader, (seen, None))
        elif wrong := loader.prove(meant, None, is_fresh=False):
            raise SupernodeError("\n".join([told, *wrong]))
        else:
            self._close(entry)
        return Repair((f"{told}: its files are in place, and slurmctld runs them",))

    def _entry(self, plan: Plan, saved: Generation, previous: Generation | None) -> Entry:
        installed = self.target.installed
        names = [item.name for item in plan.change.files]
        return Entry(
            generation=saved.number,
            previous=previous.number if previous else None,
            who=self._who,
            since=_now(),
            needs=plan.needs,
            written=int(time.time()),
            old={name: hashed(encoded(installed[name])) for name in names if name in installed},
            new={name: saved.hashes[name] for name in names if name in saved.hashes},
        )

    def _keep_installed(self) -> Generation | None:
        """Return the generation of what is installed, kept now if it was not yet."""
        installed = self.target.installed
        if not installed:
            return None
        origin = Origin(self._who, _now(), "", "", "found installed")
        return self.history.current(installed) or self.history.save(installed, origin, PROVEN)

    def _undo(self, entry: Entry) -> None:
        self._journal.restore(entry)
        self._journal.close()
        self.history.forget(entry.generation)

    def _close(self, entry: Entry, state: str = PROVEN) -> Outcome:
        self.history.mark(entry.generation, state)
        self._journal.close()
        self.history.prune(filter(None, (entry.generation, entry.previous)))
        return Outcome(APPLIED if state == PROVEN else WRITTEN, entry.generation)


def _names(candidate: Candidate) -> tuple[str, ...]:
    return tuple(intent(candidate.files, candidate.release).topologies)


def _told(wrong: list[str], otherwise: str) -> str:
    return "\n".join([*wrong, otherwise]) if wrong else "slurmctld runs them, proven"


def _check_up(loader: Loader, target: Target) -> None:
    if not loader.controller.is_up():
        missing = "supernode.conf" not in target.installed
        raise SlurmDown(
            "slurmctld does not answer: "
            + (
                "slurm.conf includes supernode.conf, which is not there yet; write the files with"
                " --no-controller, start slurmctld, and apply again"
                if missing
                else "start it, or write the files without it by --no-controller"
            )
        )


def _check_release(running: str, candidate: Candidate) -> None:
    if running and find_release(running) is not candidate.release:
        raise ConfigError.one(
            "slurm.release",
            f"the files are for Slurm {candidate.release.name}, and slurmctld runs {running}",
            f"give --release {running}",
        )


def _now() -> str:
    from datetime import datetime

    return datetime.now().astimezone().isoformat(timespec="seconds")
