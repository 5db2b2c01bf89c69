"""A controller that only remembers which files it read, and a disk that fails at a step."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from supernode_slurm.apply import Candidate, Disk, Loader, Patience, Session, Target, read_target
from supernode_slurm.apply.disk import Attributes
from supernode_slurm.slurm import LiveJob, LiveNode, LivePartition, LiveTopology, Switch, parse
from supernode_slurm.slurmconf import find_release
from supernode_slurm.slurmconf.facts import head_comment
from supernode_slurm.twin import reading, topologies
from tests import twin_samples

SLURM_CONF = "ClusterName=test\nInclude supernode.conf\n"
ORDINARY = "slurmctld"


def files(release: str = "24.11", **changes: tuple[str, str]) -> dict[str, str]:
    """Return a configuration of ours; ``nodes=(old, new)`` replaces a text in a file."""
    head = head_comment("test", release) + "\n"
    names = {
        "main": "supernode.conf",
        "nodes": "supernode-nodes.conf",
        "partitions": "supernode-partitions.conf",
        "gres": "gres.conf",
        "topology": "topology.conf",
    }
    texts = twin_samples.files()
    for word, (old, new) in changes.items():
        text = texts[names[word]]
        if old not in text:
            raise ValueError(f"{old!r} is not in {names[word]}")
        texts[names[word]] = text.replace(old, new)
    return {name: head + text for name, text in texts.items()}


def candidate(texts: Mapping[str, str], release: str = "24.11") -> Candidate:
    return Candidate(texts, find_release(release), "a test", "0" * 64)


def installed(directory: Path, texts: Mapping[str, str]) -> Target:
    """Write a site's slurm.conf and files of ours, and return what is there."""
    directory.mkdir(exist_ok=True)
    (directory / "slurm.conf").write_text(SLURM_CONF)
    for name, text in texts.items():
        (directory / name).write_text(text)
    return read_target(directory.resolve())


@dataclass
class FakeController:
    """Reads files when it is told to; answers as slurmctld would."""

    directory: Path
    release: str = "24.11"
    in_foreground: bool = False
    dies_of: Callable[[dict[str, str]], bool] = lambda _: False
    ignores: Callable[[dict[str, str]], dict[str, str]] = lambda found: found
    """What it makes of the files that it reads."""
    is_alive: bool = True
    booted: int = 1000
    reconfigured: int = 0
    drained: Callable[[FakeController], dict[str, str]] = lambda _: {}
    """Reason by host."""
    jobs_there: tuple[LiveJob, ...] = ()
    loaded: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.loaded = self._files()

    def _files(self) -> dict[str, str]:
        return dict(read_target(self.directory).installed)

    # -- the controller
    def is_up(self) -> bool:
        return self.is_alive

    def reconfigure(self) -> str:
        if not self.is_alive:
            return "scontrol reconfigure: Unable to contact slurm controller"
        self.reconfigured += 1
        found = self._files()
        survives = find_release(self.release).reconfigure_survives and not self.in_foreground
        if self.dies_of(found):
            if survives:
                return "scontrol reconfigure: Unspecified error"
            self.is_alive = False
            return "" if self.in_foreground else "scontrol reconfigure: Zero Bytes"
        self.loaded = self.ignores(found)
        self.booted += find_release(self.release).reconfigure_survives
        return ""

    def restart(self, argv: Sequence[str]) -> str:
        found = self._files()
        self.is_alive = not self.dies_of(found)
        self.loaded = found
        self.booted += 1
        return "" if self.is_alive else f"{argv[0]}: failed"

    # -- its client
    def config(self) -> Mapping[str, str]:
        return {"BOOT_TIME": str(self.booted), "SLURM_VERSION": f"{self.release}.5"}

    def nodes(self) -> tuple[LiveNode, ...]:
        bad = self.drained(self)
        return tuple(
            LiveNode(
                name=host,
                states=frozenset({"IDLE", "DRAIN"} if host in bad else {"IDLE"}),
                reason=bad.get(host, ""),
                gres=parse.gres(item.keys["gres"].text) if "gres" in item.keys else (),
                gres_used=(),
                features=(),
                partitions=(),
                cpus=1,
                cpus_allocated=0,
                memory_mib=1,
                address=host,
            )
            for item in self._conf().nodes
            for host in item.hosts
        )

    def partitions(self) -> tuple[LivePartition, ...]:
        text = "".join(
            f"PartitionName={item.name.text} State=UP\n" for item in self._conf().partitions
        )
        return parse.partitions(text)

    def topology(self, name: str = "") -> LiveTopology:
        found = topologies.read_conf(self.loaded.get("topology.conf", ""))[0]
        groups = {group.name: group for item in found for group in item.groups}

        def below(name: str) -> list[str]:
            group = groups[name]
            return [*group.hosts, *(host for item in group.children for host in below(item))]

        switches = tuple(Switch(name, 0, tuple(below(name)), ()) for name in groups)
        return LiveTopology(switches, ())

    def jobs(self) -> tuple[LiveJob, ...]:
        return self.jobs_there

    def _conf(self) -> reading.Conf:
        return reading.read(self.loaded, "supernode.conf")


def patience() -> Patience:
    """Return one that waits for nothing: a clock that goes on by itself."""
    ticks = itertools.count()
    return Patience(
        settle_s=5, start_s=5, dead_s=3, watch_s=1, sleep=lambda _: None, clock=lambda: next(ticks)
    )


def session(
    directory: Path,
    controller: FakeController | None,
    disk: Disk | None = None,
    restart: Sequence[str] = (),
) -> Session:
    loader = None
    if controller is not None:
        loader = Loader(lambda: controller, controller, restart, patience())  # type: ignore[arg-type, return-value]
    disk = disk or Disk()
    target = read_target(directory.resolve())
    return Session(target, loader, disk, "tester", lambda *_: ())


class Killed(BaseException):
    """The process is gone."""


class FailingDisk(Disk):
    """A disk of which a step fails, after ``done`` of it was done; then all, or none more."""

    def __init__(self, step: int, error: BaseException, *, for_good: bool) -> None:
        self.left = step
        self.error = error
        self.for_good = for_good
        self.is_dead = False

    def _step(self) -> bool:
        """Say whether this is the step that fails midway."""
        if self.is_dead and self.for_good:
            raise self.error
        self.left -= 1
        if self.left == 0:
            self.is_dead = True
            return True
        return False

    def make_directory(self, path: Path) -> None:
        fails = self._step()
        super().make_directory(path)
        if fails:
            raise self.error

    def create(self, path: Path, data: bytes, attributes: Attributes) -> None:
        fails = self._step()
        super().create(path, data[: len(data) // 2] if fails else data, attributes)
        if fails:
            raise self.error

    def like(self, path: Path, model: Path) -> None:
        fails = self._step()
        super().like(path, model)
        if fails:
            raise self.error

    def keep(self, path: Path, copy: Path) -> None:
        if self._step():
            raise self.error
        super().keep(path, copy)

    def touch(self, path: Path, seconds: int) -> None:
        fails = self._step()
        super().touch(path, seconds)
        if fails:
            raise self.error

    def replace(self, source: Path, target: Path) -> None:
        if self._step():
            raise self.error
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        if self._step():
            raise self.error
        super().remove(path)

    def remove_directory(self, path: Path) -> None:
        fails = self._step()
        if fails:
            # Half of it is gone.
            for child in sorted(path.rglob("*"))[:1] if path.is_dir() else []:
                if child.is_file():
                    child.unlink()
            raise self.error
        super().remove_directory(path)


class KillingDisk(FailingDisk):
    """A disk at whose step the process is killed, with SIGKILL."""

    def __init__(self, step: int) -> None:
        super().__init__(step, Killed(), for_good=True)

    def _step(self) -> bool:
        if self.left == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._step()
