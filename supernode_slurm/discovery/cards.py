"""The cards of nodes, from Gres= of slurm.conf and the lines of gres.conf together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..errors import Problem, SlurmError, Where
from ..inventory import Devices
from ..slurm import Gres
from ..slurm.parse import gres as parse_gres
from .files import core_shares, mig_of, tidy
from .gpus import accelerator_of, split_mig
from .records import SHARING, Record, Records
from .room import NodeFacts, Room

CARD_NAMES = frozenset({"gpu", "npu", "dcu", "mlu", "xpu", "gcu", "musa"})
"""Names of GRES that are cards even where nothing says of which kind."""


@dataclass(slots=True)
class _Kind:
    """Cards of one type in a node: what Slurm counts of them, and the records."""

    gres: str
    type: str
    accelerator: str
    count: int
    where: Where
    records: list[Record] = field(default_factory=list)
    profiles: list[tuple[str, int]] = field(default_factory=list)


class CardReader:
    """Finds the cards of nodes; ``room`` hears what does not fit."""

    def __init__(self, room: Room, records: Records, given: Mapping[str, str]) -> None:
        self._room = room
        self._records = records
        self._given = given

    def devices(
        self, node: NodeFacts, hosts: tuple[str, ...], cores: tuple[int, int]
    ) -> tuple[Devices, ...]:
        """Return the cards of hosts that see the same records.

        ``cores`` are the node's sockets and the cores of each.
        """
        records = self._records.of(self._records.signature(hosts[0]))
        items = self._items(node, hosts, records)
        kinds: dict[tuple[str, str], _Kind] = {}
        for item in items:
            if item.name not in SHARING:
                self._take(kinds, item, node, hosts, records)
        found = [
            devices
            for kind in kinds.values()
            if (devices := self._devices(kind, hosts, cores)) is not None
        ]
        return tidy(self._shared(found, items, node, hosts, records))

    def _items(self, node: NodeFacts, hosts: tuple[str, ...], records: list[Record]) -> list[Gres]:
        """Return what Slurm counts, types taken from gres.conf where slurm.conf has none."""
        said = node.keys.get("gres")
        if said is None:
            if not self._room.nodes:
                return [Gres(r.name, r.type, r.count) for r in records]
            if self._records.names(hosts[0]) and records:
                what = f"gres.conf has {records[-1].name} for {{hosts}}, slurm.conf has no Gres="
                self._disagree(records[-1].where, what, hosts, "Slurm counts none: add Gres=")
            return []
        try:
            items = parse_gres(said.text)
        except SlurmError as error:
            self._room.error(said.where, str(error))
            return []
        found: list[Gres] = []
        for item in items:
            typed = [r for r in records if r.name == item.name and r.type]
            if not item.type and typed and sum(r.count for r in typed) == item.count:
                found += [Gres(r.name, r.type, r.count) for r in typed]
            else:
                found.append(item)
        return found

    def _take(
        self,
        kinds: dict[tuple[str, str], _Kind],
        item: Gres,
        node: NodeFacts,
        hosts: tuple[str, ...],
        records: list[Record],
    ) -> None:
        base, profile = split_mig(item.type)
        accelerator = self._accelerator(item, base, node, hosts)
        if not accelerator:
            return
        kind = kinds.setdefault(
            (item.name, base), _Kind(item.name, base, accelerator, 0, _place(node))
        )
        same = [r for r in records if r.name == item.name and r.type in (item.type, "")]
        counted = sum(record.count for record in same)
        if profile:
            kind.profiles.append((profile, item.count))
        if not any(record in kind.records for record in same):
            kind.records += same
        kind.count += item.count
        if not self._room.gres or counted == item.count or self._records.detects(hosts[0]):
            return
        shown = f"{item} of {{hosts}}"
        if not same:
            others = [r for r in records if r.name == item.name]
            has = f"gres.conf has {Gres(others[0].name, others[0].type, others[0].count)}"
            what = f"{shown}: {has if others else 'no line of gres.conf'}" if others else ""
            what = what or f"{shown}: no line of gres.conf names it"
            self._disagree(kind.where, what, hosts, "slurmd would report none: add the line")
        elif kind.count > counted:
            what = f"{shown}: gres.conf names {counted}"
            self._disagree(same[0].where, what, hosts, "slurmctld drains such nodes")
            kind.records.clear()

    def _accelerator(self, item: Gres, base: str, node: NodeFacts, hosts: tuple[str, ...]) -> str:
        """Return the catalogue's id, empty after a remark."""
        of_ours = dict(node.domain.types) if node.domain else {}
        if base in of_ours:
            return of_ours[base]
        key = base or item.name
        found = accelerator_of(key, self._given) if key != "gpu" or key in self._given else None
        if found:
            return found.id
        label = str(Gres(item.name, item.type, item.count))
        where = _place(node)
        if item.name in CARD_NAMES:
            todo = f"say which with --accelerator {key}=NAME: 'sn show accelerators' lists them"
            what = f"{label} of {{hosts}}: which accelerator is not said: left out"
            if base:
                what = f"{label} of {{hosts}}: no accelerator of the catalogue: left out"
            self._room.of_hosts("lost", Problem(where, what, todo), hosts)
        else:
            what = f"GRES {label} of {{hosts}} is no card: left out"
            todo = "an inventory holds cards; write other GRES by hand"
            self._room.of_hosts("lost", Problem(where, what, todo), hosts)
        return ""

    def _devices(
        self, kind: _Kind, hosts: tuple[str, ...], cores: tuple[int, int]
    ) -> Devices | None:
        listed = [(record, files) for record in kind.records for files in record.devices]
        files = [files[0] for _, files in listed]
        mig: tuple[tuple[str, tuple[int, ...]], ...] = ()
        count = kind.count
        if kind.profiles:
            files, mig = mig_of([(split_mig(r.type)[1], names) for r, names in listed])
            listed = [item for item in listed if item[1][0] in files][: len(files)]
            count = len(files)
            if not mig:
                shown = ", ".join(f"{number} of {name}" for name, number in kind.profiles)
                what = f"MIG of {kind.gres}:{kind.type} of {{hosts}} ({shown}): left out"
                todo = "give the instances, which 'nvidia-smi mig -lgi' lists, as mig:"
                self._room.of_hosts("lost", Problem(kind.where, what, todo), hosts)
                return None
        shares, problem = core_shares([record.cores for record, _ in listed], cores)
        if problem:
            where = listed[0][0].where
            what = f"Cores of {kind.gres} of {{hosts}}: {problem}: left out"
            todo = "count physical cores as slurmd does, whole sockets at a time"
            self._room.of_hosts("mistake", Problem(where, what, todo), hosts)
        links = tuple(record.links for record, _ in listed)
        return Devices(
            accelerator=kind.accelerator,
            count=count,
            gres=kind.gres,
            type=kind.type or accelerator_type(kind.accelerator),
            files=tuple(files),
            cores=shares,
            links=links if all(links) else (),
            mig=mig,
        )

    def _shared(
        self,
        found: list[Devices],
        items: list[Gres],
        node: NodeFacts,
        hosts: tuple[str, ...],
        records: list[Record],
    ) -> list[Devices]:
        """Return the cards with their shards."""
        for item in items:
            if item.name == "mps":
                what = f"{item} of {{hosts}}: left out"
                todo = "an inventory splits cards into shards or by MIG, not by MPS"
                self._room.of_hosts("lost", Problem(_place(node), what, todo), hosts)
        total = sum(item.count for item in items if item.name == "shard")
        if not total:
            return found
        per_file = dict(_shards(records))
        cards = sum(devices.count for devices in found if devices.gres == "gpu")
        shards = {
            index: per_file.get(devices.files[0] if devices.files else "", total // max(cards, 1))
            for index, devices in enumerate(found)
            if devices.gres == "gpu"
        }
        if sum(count * found[index].count for index, count in shards.items()) != total:
            what = f"{total} shards of {{hosts}} for {cards} cards: left out"
            todo = "an inventory has as many for each card of a kind"
            self._room.of_hosts("lost", Problem(_place(node), what, todo), hosts)
            return found
        return [
            devices if index not in shards else _with_shards(devices, shards[index])
            for index, devices in enumerate(found)
        ]

    def _disagree(self, where: Where, what: str, hosts: tuple[str, ...], todo: str) -> None:
        self._room.of_hosts("disagreement", Problem(where, what, todo), hosts)


def accelerator_type(accelerator: str) -> str:
    """Return the GRES type of an accelerator where no source gives one."""
    from ..catalogue import find_accelerator

    return find_accelerator(accelerator).gres_type


def _shards(records: list[Record]) -> Iterator[tuple[str, int]]:
    for record in records:
        if record.name == "shard" and record.devices and record.count % len(record.devices) == 0:
            for files in record.devices:
                yield files[0], record.count // len(record.devices)


def _with_shards(devices: Devices, shards: int) -> Devices:
    from dataclasses import replace

    return replace(devices, shards=shards)


def _place(node: NodeFacts) -> Where:
    said = node.keys.get("gres")
    return said.where if said else node.where
