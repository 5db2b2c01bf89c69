"""What is about many nodes: partitions, the topology, the release, and what is installed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from .. import hostlist
from ..errors import Where
from ..inventory import Inventory, Partition
from ..inventory.lint import Fault
from ..slurmconf import Generated
from .compare import OF_PARTITION
from .drift_nodes import Found
from .refresh.told import Told
from .room import PartitionFacts, Room, TopologyFacts
from .slurm_conf import RELEASE
from .sources import read_sources

_LIMITS = (
    "maxtime",
    "default",
    "state",
    "prioritytier",
    "allowaccounts",
    "allowgroups",
    "allowqos",
)


class Rooms:
    """One run over what an inventory's files would say, and what runs."""

    def __init__(self, inventory: Inventory, told: Told, expected: Generated) -> None:
        """Take both sides."""
        self._room = inventory
        self._told = told
        self._runs = told.room
        self._expected = _read(expected.files)
        self._release = expected.release
        self._absent = {host for item in inventory.upkeep.absent for host in item.hosts}

    def run(self) -> Iterator[Found]:
        """Yield what differs."""
        yield from self._releases()
        yield from self._partitions()
        yield from self._topologies()

    def _releases(self) -> Iterator[Found]:
        said = self._runs.settings.get(RELEASE)
        mine = self._room.slurm.release
        if said is not None and mine not in ("auto", said.text):
            what = f"the inventory is for Slurm {mine}, Slurm {said.text} runs"
            if said.where.line:
                what = f"the inventory is for Slurm {mine}, the files are for {said.text}"
            yield "drift-release", Fault(Where(self._room.source), what, (said.text,))

    def _partitions(self) -> Iterator[Found]:
        runs = {item.name: item for item in self._runs.partitions}
        theirs = {item.name: item for item in self._told.imported.inventory.partitions}
        meant = {item.name: item for item in self._expected.partitions}
        for here in self._room.partitions:
            if here.name not in runs:
                what = f"partition {here.name} is here, Slurm does not have it"
                todo = "sn apply adds it; if it is not wanted, delete it here"
                yield "drift-partition-missing", Fault(here.where, what, (here.name,), todo=todo)
                continue
            if here.name in theirs:
                yield from self._nodes(here, theirs[here.name])
            yield from self._limits(here, meant[here.name], runs[here.name])
        for name, item in runs.items():
            if name not in meant and not self._is_site_s(item):
                hosts = theirs[name].hosts if name in theirs else ()
                what = f"Slurm has partition {name} over {hostlist.fold(hosts) or 'no nodes'}"
                todo = "write it under partitions, or scontrol delete partitionname=" + name
                place = Where(self._room.source)
                yield "drift-partition-unknown", Fault(place, what, (name,), todo=todo)

    def _is_site_s(self, item: PartitionFacts) -> bool:
        """Return whether a partition stands in lines of the site's own beside ours."""
        ours = self._runs.ours
        return bool(ours) and item.where.file not in ours and bool(item.where.line)

    def _nodes(self, here: Partition, theirs: Partition) -> Iterator[Found]:
        known = {host for domain in self._room.domains for host in domain.hosts}
        known |= {host for item in self._room.foreign for host in item.hosts}
        runs = {h for h in theirs.hosts if h in known} - self._absent
        seen = self._told.seen.keys()
        wanted = {host for host in here.hosts if host in seen} - self._absent
        more, less = runs - wanted, wanted - runs
        parts = [f"holds {hostlist.fold(more)} as well"] if more else []
        parts += [f"does not hold {hostlist.fold(less)}"] if less else []
        if parts:
            what = f"partition {here.name} in Slurm {' and '.join(parts)}"
            fault = Fault(here.where, what, (here.name,), tuple(sorted(more | less)))
            yield "drift-partition-nodes", fault

    def _limits(
        self, here: Partition, meant: PartitionFacts, runs: PartitionFacts
    ) -> Iterator[Found]:
        for key, value_of in OF_PARTITION.items():
            if value_of(meant.keys) != value_of(runs.keys):
                mine, said = (item.keys.get(key) for item in (meant, runs))
                texts = [item.text if item else "none" for item in (mine, said)]
                what = f"{key} of partition {here.name}: {texts[0]} here, {texts[1]} in Slurm"
                todo = "sn apply sets it; or write it here if it was meant"
                yield "drift-partition-limits", Fault(here.where, what, (here.name,), todo=todo)

    def _topologies(self) -> Iterator[Found]:
        meant = [item for item in self._expected.topologies if item.kind != "flat"]
        runs = [item for item in self._runs.topologies if item.kind != "flat"]
        place = Where(self._room.source)
        if not runs or not meant:
            if bool(runs) != bool(meant):
                mine, said = _kinds(meant), _kinds(runs)
                what = f"topology: {mine} by the inventory, {said} in Slurm"
                yield "drift-topology", Fault(place, what, ("topology",))
            return
        by_name = {item.name: item for item in runs}
        for item in meant:
            other = by_name.get(item.name) or (runs[0] if len(runs) == len(meant) == 1 else None)
            if other is None or other.kind != item.kind:
                said = f"of kind {other.kind}" if other else "not there"
                what = f"topology '{item.name}' ({item.kind}) is {said} in Slurm"
                yield "drift-topology", Fault(place, what, (item.name,))
            else:
                for name, what in _unlike(item, other, self._absent):
                    yield "drift-topology", Fault(self._place(name), what, (name,))

    def _place(self, name: str) -> Where:
        for item in (*self._room.domains, *self._room.foreign):
            if item.name == name:
                return item.where
        for fabric in self._room.fabrics:
            if any(switch.name == name for switch in fabric.switches):
                return fabric.where
        return Where(self._room.source)


def _kinds(topologies: list[TopologyFacts]) -> str:
    return ", ".join(dict.fromkeys(item.kind for item in topologies)) or "none"


def _unlike(
    meant: TopologyFacts, runs: TopologyFacts, absent: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield the groups and switches that hold other nodes."""
    word = "switch" if meant.kind == "tree" else meant.kind
    mine, theirs = _below(meant), _below(runs)
    for name, held in mine.items():
        there = theirs.get(name)
        if there is None:
            yield name, f"{word} {name} with {hostlist.fold(held)} is not in Slurm's topology"
            continue
        more, less = there - held - absent, held - there - absent
        parts = [f"holds {hostlist.fold(more)} as well"] if more else []
        parts += [f"does not hold {hostlist.fold(less)}"] if less else []
        if parts:
            yield name, f"{word} {name} in Slurm {' and '.join(parts)}"
    for name, held in theirs.items():
        if name not in mine:
            yield (
                name,
                f"Slurm's topology has {word} {name} with {hostlist.fold(held)}, ours has not",
            )
    dims = {group.name: group.dims for group in runs.groups}
    for group in meant.groups:
        if group.dims and dims.get(group.name, group.dims) != group.dims:
            yield group.name, f"{word} {group.name} has dims {dims[group.name]} in Slurm"


def _below(topology: TopologyFacts) -> dict[str, set[str]]:
    """Return what hangs right under each switch, or is in each group."""
    found = {group.name: set(group.nodes) for group in topology.groups if group.nodes}
    return found | {s.name: {*s.nodes, *s.switches} for s in topology.switches}


def _read(files: Mapping[str, str]) -> Room:
    """Return generated files as facts."""
    room = Room()
    with tempfile.TemporaryDirectory(prefix="sn-check-") as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        read_sources([f"slurm.conf:{Path(folder, 'supernode.conf')}"], room)
    return room
