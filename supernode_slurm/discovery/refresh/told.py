"""What sources say of each host, and of what they do not speak.

Files that ``sn generate`` wrote are no evidence: where they differ from the inventory, it
was changed since. What a running Slurm shows otherwise than they do is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import Where
from ...inventory import Devices, Fabric, Inventory, OtherGres, Supernode
from ...slurmconf.facts import is_ours
from ..importer import Imported
from ..live import PLACE, SOURCE
from ..machines import Host, find_hosts
from ..records import Records
from ..room import Keys, NodeFacts, Room

_SHAPE = {
    "sockets": ("sockets", "sockets"),
    "cores": ("cores", "corespersocket"),
    "threads": ("sockets", "threadspercore"),
    "memory_mib": ("memory", "realmemory"),
}
"""What a machine has: the word for it where no source says it, and the key where Slurm does."""
_CLOCK_S = 1.0
"""BOOT_TIME is in whole seconds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What sources say of a host; None, or no key, where they say nothing."""

    shape: Mapping[str, int]
    """Of sockets, cores, threads and memory_mib."""
    is_measured: bool
    """By a probe: what a site writes may be less than the memory that there is."""
    devices: tuple[Devices, ...] | None
    has_types: bool
    """Names and types of GRES are said, as Slurm counts them."""
    has_files: bool
    """Which device files there are is said."""
    others: tuple[OtherGres, ...] | None
    features: tuple[str, ...] | None
    """All that Slurm has, those that we give among them."""
    cloud: bool | None
    adapters: tuple[str, ...]
    """Network cards that carry data, none where nobody says."""
    origin: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What sources say of a room."""

    imported: Imported
    hosts: Mapping[str, Host]
    seen: Mapping[str, Seen]
    new: tuple[str, ...]
    """Hosts that the inventory does not have, and that are not lines of the site's own."""
    gone: frozenset[str]
    """Hosts of the inventory that a source would name if they were there."""
    silent: frozenset[str]
    """Hosts that sources name, and that may not be there all the same."""
    groups: tuple[Supernode, ...]
    """Nodes that share a scale-up fabric, as sources other than our own files say."""
    fabrics: tuple[Fabric, ...]
    """Networks, as sources other than our own files say."""
    partitions: frozenset[str]
    """Partitions whose nodes sources other than our own files say."""

    is_config: bool
    """A configuration of Slurm, with its partitions, is among the sources."""
    waits: bool
    """Our files are newer than the slurmctld that runs: what it says of cards is old."""

    @property
    def room(self) -> Room:
        """Return all facts of the sources."""
        return self.imported.room


def types_given(inventory: Inventory) -> dict[str, str]:
    """Return which accelerator each GRES type of an inventory is, and a GRES without a type."""
    found: dict[str, str] = {}
    bare: dict[str, set[str]] = {}
    for nodes in inventory.node_classes:
        for item in nodes.devices:
            found[item.type] = item.accelerator
            bare.setdefault(item.gres, set()).add(item.accelerator)
    for gres, kinds in bare.items():
        if len(kinds) == 1:
            found.setdefault(gres, next(iter(kinds)))
    return found


@dataclass(frozen=True, slots=True)
class _Trust:
    """What counts as evidence."""

    is_whole: bool
    """A whole configuration of Slurm is among the sources."""
    ours: bool
    """Files of ours."""
    cards: bool
    """The cards that a running Slurm has otherwise than files of ours."""


class Sources:
    """Sources that were read once, to be held against an inventory as it changes."""

    def __init__(
        self,
        imported: Imported,
        given: Mapping[str, str],
        *,
        live: bool,
        complete: bool,
        trusts_ours: bool = False,
    ) -> None:
        """Take what was imported, and the accelerators of GRES types.

        ``live`` says that a running Slurm is among the sources, ``complete`` that they name
        all hosts, ``trusts_ours`` that files of ours are evidence of what Slurm has.
        """
        self._imported = imported
        self._live = live
        self._complete = complete
        self._trusts_ours = trusts_ours
        room = imported.room
        room.ours |= {name for name in room.sources if _is_our_file(name)}
        records = Records(room)
        self._hosts = find_hosts(room, records, given)
        self._lines = {host: node for node in room.nodes for host in node.hosts}
        self._waits = live and _waits(room)
        self._is_config = room.has_slurm_conf and bool(room.partitions)
        trust = _Trust(self._is_config, trusts_ours, trusts_ours or not self._waits)
        self._seen = {
            name: _seen(room, records, host, self._lines.get(name), trust)
            for name, host in self._hosts.items()
            if name not in room.gone
        }

    def told(self, inventory: Inventory) -> Told:
        """Return what the sources say beside an inventory."""
        imported, room = self._imported, self._imported.room
        known = {host for domain in inventory.domains for host in domain.hosts}
        known |= {host for item in inventory.foreign for host in item.hosts}
        known |= {host for _, names in room.foreign for host in names}
        by_us = {node.domain.name for node in room.nodes if node.domain}
        silent = set(room.silent | room.gone)
        if not self._live:
            silent |= {host for node in room.nodes if node.ours for host in node.hosts}
        return Told(
            imported=imported,
            hosts=self._hosts,
            seen=self._seen,
            new=tuple(
                name
                for name in self._seen
                if name not in known
                and (_is_news(room, self._lines.get(name), name) or self._is_stale(name))
            ),
            gone=self._gone(inventory),
            silent=frozenset(silent - room.measured.keys()),
            groups=tuple(item for item in imported.inventory.supernodes if item.name not in by_us),
            fabrics=_fabrics(imported),
            partitions=frozenset(
                item.name
                for item in room.partitions
                if item.where.file not in room.ours
                or ("nodes" in item.keys and item.keys["nodes"].where.file == SOURCE)
            ),
            is_config=self._is_config,
            waits=self._waits,
        )

    def _is_stale(self, host: str) -> bool:
        """Return whether a file of ours that counts still names a host."""
        line = self._lines.get(host)
        return self._trusts_ours and line is not None and line.ours

    def _gone(self, inventory: Inventory) -> frozenset[str]:
        room = self._imported.room
        ours = {host for domain in inventory.domains for host in domain.hosts}
        if self._complete and room.measured:
            return frozenset(ours - room.measured.keys())
        if self._complete or (self._is_config and not room.ours):
            return frozenset((ours - self._hosts.keys()) | (ours & room.gone))
        return frozenset(ours & room.gone)


def _is_our_file(name: str) -> bool:
    """Return whether a source is a file that ``sn generate`` wrote, of any kind."""
    try:
        with open(name, encoding="utf-8", errors="replace") as stream:
            return is_ours(stream.read(200))
    except OSError:
        return False


def _waits(room: Room) -> bool:
    """Return whether files of ours are newer than the slurmctld that runs."""
    try:
        booted = float(room.booted)
    except ValueError:
        return False
    return any(_written(name) > booted + _CLOCK_S for name in room.ours)


def _written(name: str) -> float:
    try:
        return os.stat(name).st_mtime
    except OSError:
        return 0.0


def _is_news(room: Room, line: NodeFacts | None, host: str) -> bool:
    """Return whether a host that the inventory lacks is new: not the site's own, nor taken out."""
    if host in room.measured or line is None or line.where.file == SOURCE:
        return True
    return not room.ours


def _fabrics(imported: Imported) -> tuple[Fabric, ...]:
    trees = [
        switch.name
        for topology in imported.room.topologies
        if topology.kind == "tree" and topology.where.file not in imported.room.ours
        for switch in topology.switches
    ]
    named = set(trees)
    return tuple(
        fabric
        for fabric in imported.inventory.fabrics
        if any(switch.name in named for switch in fabric.switches)
    )


def _seen(
    room: Room,
    records: Records,
    host: Host,
    line: NodeFacts | None,
    trust: _Trust,
) -> Seen:
    machine = host.machine
    measured = room.measured[host.name][0] if host.name in room.measured else None
    keys = line.keys if line else {}

    def is_said(key: str) -> bool:
        if trust.ours or not (line and line.ours):
            return True
        return _runs(keys, key) and (key != "gres" or trust.cards)

    shape = {}
    for name, (word, key) in _SHAPE.items():
        probed = getattr(measured, name) if measured else 0
        if probed or (word not in machine.unsaid and is_said(key)):
            shape[name] = probed or getattr(machine, name)
    is_probed = measured is not None and bool(measured.devices or measured.others)
    devices: tuple[Devices, ...] | None = None
    if measured is not None and is_probed:
        devices = measured.devices
        has_files = all(card.minor is not None for card in room.probes[host.name].cards)
    else:
        if is_said("gres") and (trust.is_whole or "gres" in keys or records.names(host.name)):
            devices = machine.devices
        found = records.of(records.signature(host.name))
        ours = set() if trust.ours else room.ours
        has_files = any(item.devices and item.where.file not in ours for item in found)
    is_config = trust.is_whole and bool(keys)
    return Seen(
        shape=shape,
        is_measured=measured is not None,
        devices=devices,
        has_types=not is_probed,
        has_files=has_files,
        others=machine.others if is_config and not is_probed and is_said("gres") else None,
        features=machine.features if is_config and is_said("features") else None,
        cloud=machine.cloud if is_config and is_said("state") and not _is_twin(room) else None,
        adapters=machine.adapters,
        origin=host.origin if is_said("") else _places(room, host),
    )


def _places(room: Room, host: Host) -> tuple[Where, ...]:
    """Return who says something of a host besides our own files."""
    places = tuple(place for place in host.origin if place.file not in room.ours)
    return places or (PLACE,)


def _runs(keys: Keys, key: str) -> bool:
    """Return whether a running Slurm shows a key otherwise than a file has it."""
    return key in keys and keys[key].where.file == SOURCE


def _is_twin(room: Room) -> bool:
    name = room.settings.get("clustername")
    return name is not None and name.text == "twin"
