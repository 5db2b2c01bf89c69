"""How an inventory and what runs differ: rules, and the one door to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Protocol

from ..errors import Where
from ..inventory import Finding, Inventory
from ..inventory.lint import Fault, Rule, covers, is_over
from ..slurm import LiveNode
from ..slurmconf import RELEASES, Generated, assumed_release, generate
from ..slurmconf.facts import is_ours
from .drift_nodes import Found, Nodes
from .drift_room import Rooms
from .importer import Imported, import_sources
from .live import SOURCE, Shows
from .refresh.told import Sources, Told, types_given
from .slurm_conf import RELEASE

LIVE = "live"
"""The word for a running Slurm."""
_BOTH = (
    "if the machines are right: sn import {source} --update {file}; "
    "if the inventory is right: sn apply"
)
_REMEDY = "sn import --update if the machines are right, sn apply if the inventory is right"
_RESTART = "restart slurmctld, then sn apply: its files are newer, it reads cards at a start alone"
_APPLY = "the inventory was changed after the files were installed: sn apply"

_TEXTS = {
    "drift-node-missing": ("error", "Slurm cannot give a node that it does not know"),
    "drift-node-unknown": ("error", "nobody plans with nodes that the inventory does not have"),
    "drift-absent": ("error", "nodes that are marked as absent answer"),
    "drift-gres": ("error", "plans count cards that Slurm has otherwise"),
    "drift-cpus": (
        "error",
        "Slurm refuses nodes with less than it was told, and wastes more",
    ),
    "drift-memory": ("error", "Slurm drains nodes with less than it was told"),
    "drift-features": ("error", "jobs find supernodes and cards by features"),
    "drift-adapters": ("error", "jobs name network cards that are not there"),
    "drift-versions": ("warning", "the inventory says what runs on nodes, and something else does"),
    "drift-options": ("warning", "a weight or a limit of nodes was changed beside the inventory"),
    "drift-partition-missing": ("error", "jobs of the inventory's partitions are refused"),
    "drift-partition-unknown": (
        "warning",
        "nobody plans with a partition that is not here",
    ),
    "drift-partition-nodes": ("error", "jobs get other nodes than the plan counts with"),
    "drift-partition-limits": (
        "warning",
        "jobs are let in, or turned away, by other rules",
    ),
    "drift-topology": ("error", "Slurm places jobs on other groups of nodes than the fabric has"),
    "drift-release": ("error", "files for one release may stop, or be misread by, another"),
    "drift-files": ("warning", "what is installed is not what this inventory gives"),
    "drift-node-down": ("note", "nodes are drained or down: no drift, but they are not there"),
}
RULES = tuple(
    Rule(name, severity, reason, _REMEDY, lambda _: ())
    for name, (severity, reason) in _TEXTS.items()
)


class DriftClient(Shows, Protocol):
    """What is needed of a client."""

    def nodes(self) -> tuple[LiveNode, ...]:
        """Return all nodes with their states."""


@dataclass(frozen=True, slots=True)
class Against:
    """What an inventory is held against."""

    source: str
    """``live``, a file or a directory."""
    client: Callable[[], DriftClient]
    """Asked for only where Slurm is."""


@dataclass(frozen=True, slots=True)
class Drift:
    """What was found."""

    findings: tuple[Finding, ...]
    imported: Imported
    release: str
    """Of Slurm, as far as it is known."""


def drift(inventory: Inventory, against: Against, today: date) -> Drift:
    """Return how an inventory and what runs differ; what the inventory accepts is marked.

    Raises ``ConfigError`` for a source that tells of no nodes, ``SlurmError`` where no Slurm
    answers.
    """
    is_live = against.source == LIVE
    texts = [SOURCE] if is_live else [against.source]
    given = types_given(inventory)
    imported = import_sources(texts, given, against.client)
    room = imported.room
    running = room.settings.get(RELEASE)
    release = running.text if running and running.text in RELEASES else inventory.release
    told, evidence = (
        Sources(imported, given, live=is_live, complete=False, trusts_ours=trusts).told(inventory)
        for trusts in (True, False)
    )
    live = against.client().nodes() if is_live else ()
    faults: list[Found] = [*Nodes(inventory, told, live, is_live).run()]
    if told.is_config and inventory.partitions:
        expected = generate(inventory, assumed_release(release))
        faults += Rooms(inventory, told, expected).run()
        faults += _files(inventory, told, expected)
    known = {(name, fault.what) for name, fault in Nodes(inventory, evidence, live, is_live).run()}
    known |= {(name, fault.what) for name, fault in faults if _is_measured(name, fault, evidence)}
    source = SOURCE if is_live else against.source
    both = _BOTH.format(source=source, file=inventory.source)

    def todo(name: str, fault: Fault) -> str:
        if name == "drift-gres" and told.waits and (name, fault.what) not in known:
            return _RESTART
        return both if (name, fault.what) in known else _APPLY

    return Drift(
        tuple(_judged(inventory, today, *found, todo(*found)) for found in faults),
        imported,
        release,
    )


def _is_measured(name: str, fault: Fault, evidence: Told) -> bool:
    """Return whether a source shows it that is none of our own files."""
    room = evidence.room
    if name == "drift-node-missing":
        return not room.ours or not evidence.gone.isdisjoint(fault.hosts)
    if name == "drift-partition-nodes":
        return fault.on[0] in evidence.partitions
    if name == "drift-topology":
        return not any(item.where.file in room.ours for item in room.topologies)
    return name == "drift-release"


def _judged(inventory: Inventory, today: date, name: str, fault: Fault, todo: str) -> Finding:
    finding = Finding(
        where=fault.where,
        rule=name,
        severity=_TEXTS[name][0],
        what=fault.what,
        todo=fault.todo or todo,
        on=fault.on,
        hosts=fault.hosts,
    )
    for item in inventory.upkeep.accepted:
        if covers(item, finding) and not is_over(item, today):
            return replace(finding, accepted=item)
    return finding


def _files(inventory: Inventory, told: Told, expected: Generated) -> Iterator[Found]:
    """Yield files of ours that lie where Slurm reads them, and that another inventory gave."""
    folders = {str(Path(name).parent) for name in told.room.ours}
    for folder in sorted(folders):
        stale = [
            name
            for name, text in expected.files.items()
            if (there := _text(Path(folder, name))) is not None and there != text
        ]
        if stale:
            what = f"{folder}: {', '.join(stale)} are not what this inventory gives"
            todo = f"sn generate --check -o {folder} shows how they differ; sn apply installs them"
            yield "drift-files", Fault(Where(inventory.source), what, (folder,), todo=todo)


def _text(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text if is_ours(text) else None
