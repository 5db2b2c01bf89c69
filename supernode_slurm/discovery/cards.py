"""The cards of nodes, from Gres= of slurm.conf and the lines of gres.conf together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..catalogue import find_accelerator
from ..errors import Problem, SlurmError, Where
from ..inventory import Devices, OtherGres
from ..slurm import Gres
from ..slurm.parse import gres as parse_gres
from .files import core_shares, mig_of, one_text, tidy
from .gpus import accelerator_of, split_mig
from .probe_compare import by_probe, count_in, is_bare
from .records import Record, Records
from .room import NodeFacts, Room

CARD_NAMES = frozenset({"gpu", "npu", "dcu", "mlu", "xpu", "gcu", "musa"})
"""Names of GRES that are cards even where nothing says of which kind."""


@dataclass(frozen=True, slots=True)
class GresOfNode:
    """What Slurm counts on a node."""

    devices: tuple[Devices, ...]
    others: tuple[OtherGres, ...]


@dataclass(slots=True)
class _Kind:
    """Cards of one type in a node: what Slurm counts of them, and the records."""

    gres: str
    type: str
    accelerator: str
    count: int = 0
    records: list[Record] = field(default_factory=list)
    profiles: list[tuple[str, int]] = field(default_factory=list)


class CardReader:
    """Finds the cards of nodes; ``room`` hears what does not fit."""

    def __init__(self, room: Room, records: Records, given: Mapping[str, str]) -> None:
        self.room = room
        self.records = records
        self.given = given

    def read(self, node: NodeFacts, hosts: tuple[str, ...], shape: tuple[int, int]) -> GresOfNode:
        """Return what hosts that see the same records have.

        ``shape`` are the node's sockets and the cores of each.
        """
        return _Reading(self, node, hosts, shape).all()


class _Reading:
    """One class of nodes: a line of slurm.conf, and the records that its hosts see."""

    def __init__(
        self, reader: CardReader, node: NodeFacts, hosts: tuple[str, ...], shape: tuple[int, int]
    ) -> None:
        self._reader = reader
        self._node = node
        self._hosts = hosts
        self._shape = shape
        self._records = reader.records.of(reader.records.signature(hosts[0]))
        said = node.keys.get("gres")
        self._where = said.where if said else node.where
        self._measured = reader.room.measured.get(hosts[0], (None, None))[0]

    def all(self) -> GresOfNode:
        measured = self._measured
        if measured is not None and is_bare(self._node.keys, measured):
            if self._reader.room.has_slurm_conf and self._node.where.file != self._probed():
                shown = ", ".join(f"{item.count} {item.accelerator}" for item in measured.devices)
                what = f"slurm.conf has no Gres= for {{hosts}}, the probe sees {shown or 'cards'}"
                self._tell("disagreement", self._where, what, "Slurm counts none: add Gres=")
            return GresOfNode(measured.devices, measured.others)
        items = self._items()
        kinds: dict[tuple[str, str], _Kind] = {}
        others: list[OtherGres] = []
        for item in items:
            if item.name != "shard" and not self._take(kinds, item):
                others.append(self._other(item))
        found = []
        for kind in kinds.values():
            self._compare_probe(kind)
            devices = self._devices(kind)
            if devices is None:
                others += [
                    OtherGres(kind.gres, f"{kind.type}_{profile}", count)
                    for profile, count in kind.profiles
                ]
            else:
                found.append(devices)
        shards = sum(item.count for item in items if item.name == "shard")
        return GresOfNode(tidy(self._shared(found, shards)), tuple(others))

    def _items(self) -> list[Gres]:
        """Return what Slurm counts, types taken from gres.conf where slurm.conf has none."""
        said = self._node.keys.get("gres")
        if said is None and self._reader.room.nodes:
            if self._records and self._reader.records.names(self._hosts[0]):
                name, where = self._records[-1].name, self._records[-1].where
                what = f"gres.conf has {name} for {{hosts}}, slurm.conf has no Gres="
                self._tell("disagreement", where, what, "Slurm counts none: add Gres=")
            return []
        if said is None:
            return _summed([Gres(r.name, r.type, r.count) for r in self._records])
        try:
            items = parse_gres(said.text)
        except SlurmError as error:
            self._reader.room.error(said.where, str(error))
            return []
        found: list[Gres] = []
        for item in items:
            typed = [r for r in self._records if r.name == item.name and r.type]
            if not item.type and typed and sum(r.count for r in typed) == item.count:
                found += [Gres(r.name, r.type, r.count) for r in typed]
            else:
                found.append(item)
        return _summed(found)

    def _take(self, kinds: dict[tuple[str, str], _Kind], item: Gres) -> bool:
        """Add cards to their kind; return whether they are of the catalogue."""
        base, profile = split_mig(item.type)
        accelerator = self._accelerator(item, base)
        same = self._same(item)
        if not accelerator:
            self._compare(item, same)
            return False
        kind = kinds.setdefault((item.name, base), _Kind(item.name, base, accelerator))
        kind.count += item.count
        if profile:
            kind.profiles.append((profile, item.count))
        if self._compare(item, same):
            kind.records += [record for record in same if record not in kind.records]
        return True

    def _same(self, item: Gres) -> list[Record]:
        return [r for r in self._records if r.name == item.name and r.type in (item.type, "")]

    def _compare(self, item: Gres, same: list[Record]) -> bool:
        """Return whether records name as many as Slurm counts; tell where they do not."""
        counted = sum(record.count for record in same)
        if counted == item.count:
            return True
        reader = self._reader
        if not reader.room.gres or reader.records.detects(self._hosts[0]):
            return False
        if not same:
            other = next((r for r in self._records if r.name == item.name), None)
            has = f"gres.conf has {other.name}:{other.type}" if other else "no line of gres.conf"
            todo = "slurmd would report none: give both the same name and type"
            self._tell("disagreement", self._where, f"{item} of {{hosts}}: {has}", todo)
        else:
            what = f"{item} of {{hosts}}: gres.conf names {counted}"
            todo = "a node that has fewer than slurm.conf says is drained: correct one"
            self._tell("disagreement", same[0].where, what, todo)
        return False

    def _accelerator(self, item: Gres, base: str) -> str:
        """Return the catalogue's id, empty after a remark."""
        of_ours = dict(self._node.domain.types) if self._node.domain else {}
        if base in of_ours:
            return of_ours[base]
        key = base or item.name
        given = self._reader.given
        found = accelerator_of(key, given) if key not in CARD_NAMES or key in given else None
        if self._measured is not None and key not in given:
            seen = by_probe(self._measured, base, found.id if found else "")
            if seen:
                return seen
        if found:
            return found.id
        if self._node.domain is None:
            is_card = item.name in CARD_NAMES
            what = "no accelerator of the catalogue" if base and is_card else "no card"
            if is_card and not base:
                what = "no source says which accelerator"
            todo = "Slurm goes on counting it, no plan uses it"
            if is_card:
                todo += f"; --accelerator {key}=NAME says which ('sn show accelerators')"
            self._tell("unsaid", self._where, f"{item} of {{hosts}}: {what}", todo)
        return ""

    def _compare_probe(self, kind: _Kind) -> None:
        """Tell where a probe sees another number of cards than Slurm counts."""
        measured = self._measured
        if measured is None or kind.profiles or not (measured.devices or measured.others):
            return
        seen = count_in(measured, kind.accelerator)
        if seen != kind.count:
            shown = ", ".join(f"{item.count} {item.accelerator}" for item in measured.devices)
            what = f"{kind.gres}: {kind.count} {kind.accelerator} of {{hosts}} in slurm.conf"
            todo = "slurmd drains a node that has fewer: repair it, or correct slurm.conf"
            sees = f"the probe sees {seen or shown or 'unknown cards'}"
            self._tell("disagreement", self._where, f"{what}, {sees}", todo)

    def _probed(self) -> str:
        return self._reader.room.measured[self._hosts[0]][1].file

    def _other(self, item: Gres) -> OtherGres:
        files = tuple(
            dict.fromkeys(name for r in self._same(item) for names in r.devices for name in names)
        )
        fits = item.name == "mps" or len(files) == item.count
        cores = next((record for record in self._same(item) if record.cores), None)
        if cores and self._node.domain is None:
            what = f"Cores of {item.name} of {{hosts}}: left out"
            self._tell("lost", cores.where, what, "an inventory has them for cards it knows")
        return OtherGres(
            item.name, item.type, item.count, files if fits and one_text(files) else ()
        )

    def _devices(self, kind: _Kind) -> Devices | None:
        listed = [(record, files) for record in kind.records for files in record.devices]
        files = [names[0] for _, names in listed]
        mig: tuple[tuple[str, tuple[int, ...]], ...] = ()
        if kind.profiles:
            files, mig = mig_of([(split_mig(r.type)[1], names) for r, names in listed])
            if not mig:
                shown = ", ".join(f"{number} of {name}" for name, number in kind.profiles)
                what = f"MIG of {kind.gres}:{kind.type} of {{hosts}} ({shown})"
                todo = "no source says of which cards: no plan uses them"
                self._tell("unsaid", self._where, what, todo)
                return None
            listed = list({names[0]: (record, names) for record, names in listed}.values())
        if files and not one_text(files):
            what = f"files of {kind.gres} of {{hosts}}: {', '.join(files[:3])}"
            self._tell("lost", listed[0][0].where, what, "an inventory folds them into one text")
            files = []
        shares, problem = core_shares([record.cores for record, _ in listed], self._shape)
        if problem:
            what = f"Cores of {kind.gres} of {{hosts}}: {problem}: left out"
            todo = "count physical cores as slurmd does, whole sockets at a time"
            self._tell("mistake", listed[0][0].where, what, todo)
        links = tuple(record.links for record, _ in listed)
        return Devices(
            accelerator=kind.accelerator,
            count=len(files) if mig else kind.count,
            gres=kind.gres,
            type=kind.type or find_accelerator(kind.accelerator).gres_type,
            files=tuple(files),
            cores=shares,
            links=links if all(links) else (),
            mig=mig,
        )

    def _shared(self, found: list[Devices], total: int) -> list[Devices]:
        """Return the cards with their shards."""
        if not total:
            return found
        per_file = {
            names[0]: record.count // len(record.devices)
            for record in self._records
            if record.name == "shard" and record.devices
            for names in record.devices
        }
        cards = sum(devices.count for devices in found if devices.gres == "gpu")
        even = 0 if per_file else total // max(cards, 1)
        shared = [
            replace(devices, shards=per_file.get(next(iter(devices.files), ""), even))
            if devices.gres == "gpu"
            else devices
            for devices in found
        ]
        if sum(devices.shards * devices.count for devices in shared) != total:
            what = f"{total} shards of {{hosts}} for {cards} cards: left out"
            todo = "an inventory has as many for each card of a kind"
            self._tell("lost", self._where, what, todo)
            return found
        return shared

    def _tell(self, kind: str, where: Where, what: str, todo: str) -> None:
        self._reader.room.of_hosts(kind, Problem(where, what, todo), self._hosts)


def _summed(items: Sequence[Gres]) -> list[Gres]:
    """Return the items with those of one name and type made one."""
    counts: dict[tuple[str, str], int] = {}
    for item in items:
        counts[item.name, item.type] = counts.get((item.name, item.type), 0) + item.count
    return [Gres(name, kind, count) for (name, kind), count in counts.items()]
