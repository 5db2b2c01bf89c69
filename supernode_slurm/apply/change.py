"""What a new configuration changes, and what it takes until Slurm runs it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from .. import hostlist
from ..slurm import LiveJob
from ..slurmconf.generate import ROOT
from ..slurmconf.grammar import parse_lines
from ..slurmconf.plugin import PLUGIN
from ..slurmconf.prolog import TASK_PROLOG
from ..slurmconf.release import Release
from ..twin import reading

NOTHING, RECONFIGURE, RESTART = "nothing", "reconfigure", "restart"
_SHAPE = frozenset({"cpus", "sockets", "boards", "socketsperboard", "corespersocket"}) | {
    "threadspercore"
}
"""Of a node: 22.05 takes new values at a restart alone, like those of Gres (seen on 22.05.8)."""
_BUSY = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "STOPPED"})


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that comes, changes or goes."""

    name: str
    kind: str
    """``new``, ``changed``, ``comments`` (nothing that Slurm reads) or ``removed``."""


@dataclass(frozen=True, slots=True)
class Change:
    """The difference between two configurations."""

    files: tuple[FileChange, ...]
    diff: str
    needs: str
    """What slurmctld needs: ``nothing``, ``reconfigure`` or ``restart``."""
    reasons: tuple[str, ...]
    """Why it needs so much."""
    added: tuple[str, ...]
    """Hosts."""
    removed: tuple[str, ...]
    altered: tuple[str, ...]
    """Hosts whose shape, cards, features or other values change."""
    slurmds: tuple[str, ...]
    """Hosts whose slurmd must be restarted by hand."""

    @property
    def touched(self) -> frozenset[str]:
        """Return the hosts whose running jobs may suffer."""
        return frozenset((*self.removed, *self.altered))


def compare(installed: Mapping[str, str], candidate: Mapping[str, str], release: Release) -> Change:
    """Return what changes from one set of our files to another."""
    files = tuple(_files(installed, candidate))
    old, new = reading.read(installed, ROOT), reading.read(candidate, ROOT)
    before, after = _by_host(old), _by_host(new)
    added = tuple(host for host in after if host not in before)
    removed = tuple(host for host in before if host not in after)
    cards = _cards(old, before), _cards(new, after)
    altered = tuple(
        host
        for host, keys in after.items()
        if host in before and (keys != before[host] or cards[0][host] != cards[1][host])
    )
    needs, reasons = NOTHING, list[str]()
    if any(item.kind != "comments" and item.name not in (PLUGIN, TASK_PROLOG) for item in files):
        needs = RECONFIGURE
    slurmds: tuple[str, ...] = ()
    if not release.reconfigure_survives:
        changed = {
            host: _changed(before[host], after[host]) | ({"gres"} if a != b else set())
            for host in altered
            for a, b in [(cards[0][host], cards[1][host])]
        }
        reasons = list(_old_reasons((old, new), (added, removed), changed, release))
        shaped = [host for host, keys in changed.items() if keys & (_SHAPE | {"gres"})]
        slurmds = tuple(after) if added or removed else tuple(shaped)
    needs = RESTART if reasons else needs
    return Change(
        files, _diff(installed, candidate), needs, tuple(reasons), added, removed, altered, slurmds
    )


def touched_jobs(change: Change, jobs: Iterable[LiveJob]) -> tuple[LiveJob, ...]:
    """Return the running jobs on hosts that change or go."""
    touched = change.touched
    return tuple(job for job in jobs if job.states & _BUSY and touched.intersection(job.hosts))


def _files(installed: Mapping[str, str], candidate: Mapping[str, str]) -> Iterable[FileChange]:
    for name, text in candidate.items():
        if name not in installed:
            yield FileChange(name, "new")
        elif text != installed[name]:
            same = _said(name, text) == _said(name, installed[name])
            yield FileChange(name, "comments" if same else "changed")
    for name in installed:
        if name not in candidate:
            yield FileChange(name, "removed")


def _said(name: str, text: str) -> object:
    """Return what Slurm reads of a file: comments and blank lines are gone."""
    if name.endswith(".conf"):
        return [
            (*((key, said.text) for key, said in line.pairs), line.problem and line.problem.what)
            for line in parse_lines(text, name)
        ]
    mark = "--" if name.endswith(".lua") else "#"
    lines = (line.rstrip() for line in text.splitlines())
    return [line for line in lines if line and not line.lstrip().startswith(mark)]


def _by_host(conf: reading.Conf) -> dict[str, dict[str, str]]:
    return {
        host: {key: said.text for key, said in item.keys.items()}
        for item in conf.nodes
        for host in item.hosts
    }


def _cards(
    conf: reading.Conf, hosts: Iterable[str]
) -> dict[str, list[tuple[tuple[str, str], ...]]]:
    """Return what gres.conf says of each host."""
    found: dict[str, list[tuple[tuple[str, str], ...]]] = {host: [] for host in hosts}
    for record in conf.gres:
        pairs = tuple((key, said.text) for key, said in record.keys.items() if key != "nodename")
        for host in found if record.hosts is None else record.hosts:
            if host in found:
                found[host].append(pairs)
    return found


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def _old_reasons(
    confs: tuple[reading.Conf, reading.Conf],
    moved: tuple[Collection[str], Collection[str]],
    changed: Mapping[str, set[str]],
    release: Release,
) -> Iterable[str]:
    """Yield what a release without a fresh slurmctld at reconfigure takes at a restart alone.

    Seen on 22.05.8: another number of nodes ends slurmctld at reconfigure; a new topology
    plugin, Gres or GresTypes is passed over in silence; new sockets or cores are refused.
    """
    old, new = (conf.settings for conf in confs)
    if any(moved):
        yield f"nodes come or go: Slurm {release.name} dies of that at reconfigure"
    for key in ("topologyplugin", "grestypes"):
        texts = [conf[key].text if key in conf else "" for conf in (old, new)]
        if texts[0] != texts[1]:
            yield f"{(new.get(key) or old[key]).key} changes: read at a start alone"
    for keys, what in ((_SHAPE, "processors"), (frozenset({"gres"}), "cards")):
        hosts = [host for host, found in changed.items() if found & keys]
        if hosts:
            yield f"{what} of {hostlist.fold(hosts)} change: read at a start alone"


def _diff(installed: Mapping[str, str], candidate: Mapping[str, str]) -> str:
    parts: list[str] = []
    for name in dict.fromkeys((*candidate, *installed)):
        before, after = installed.get(name, ""), candidate.get(name, "")
        source = f"installed/{name}" if name in installed else "/dev/null"
        target = f"new/{name}" if name in candidate else "/dev/null"
        parts += difflib.unified_diff(
            before.splitlines(True), after.splitlines(True), source, target
        )
    return "".join(parts)
