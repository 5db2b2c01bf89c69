"""Classes of equal nodes: their hosts expanded, their cards looked up and checked."""

from __future__ import annotations

from collections import Counter

from .. import hostlist
from ..catalogue import UnknownName, find_accelerator, platform
from ..errors import ConfigError, Problem, Where
from . import schema
from .model import Devices, NodeClass
from .yamltree import place_of


class NodeResolver:
    """Turns the sections of nodes of one file into classes; adds to ``problems``."""

    def __init__(self, raw: schema.InventoryFile, problems: list[Problem]) -> None:
        self.problems = problems
        self._room_left = hostlist.HOST_LIMIT
        self._types = _gres_types(raw)

    def problem(self, where: Where, what: str, todo: str = "") -> None:
        """Keep one problem."""
        self.problems.append(Problem(where, what, todo))

    def resolve(self, raw: schema.NodesSection, number: str | None, classes: int) -> NodeClass:
        """Return the class of nodes of one supernode, whose number in its class is given."""
        text = raw.hosts
        if "{n}" in text and number is None:
            self.problem(raw.at["hosts"], "'{n}' needs a class of supernodes, like name: sn[1-8]")
        elif classes > 1 and "{n}" not in text:
            self.problem(raw.at["hosts"], "equal supernodes would share hosts", "write {n}")
        found = (self._devices(raw, name, item) for name, item in raw.devices.items())
        devices = tuple(item for item in found if item is not None)
        self._compatible(raw, devices)
        hosts = tuple(hostlist.expand(text.replace("{n}", number or "0")))
        self._room_left -= len(hosts)
        if self._room_left < 0:
            what = f"more than {hostlist.HOST_LIMIT:,} hosts in the whole inventory"
            raise ConfigError([*self.problems, Problem(raw.at["hosts"], what, "split the site")])
        return NodeClass(
            hosts=hosts,
            devices=devices,
            sockets=raw.sockets,
            cores=raw.cores,
            threads=raw.threads,
            memory_mib=raw.memory,
            where=raw.at["hosts"],
            features=tuple(dict.fromkeys(raw.features)),
            cloud=raw.cloud,
            options=tuple(raw.options.items()),
        )

    def _devices(
        self, raw: schema.NodesSection, name: str, item: int | schema.DeviceSection
    ) -> Devices | None:
        try:
            accelerator = find_accelerator(name)
        except UnknownName as error:
            self.problem(place_of(name, raw.at["devices"]), str(error))
            return None
        usual = self._types.get(accelerator.id, accelerator.id)
        if isinstance(item, int):
            return Devices(accelerator.id, item, raw.gres, raw.type or usual)
        self._check(item, raw)
        return Devices(
            accelerator=accelerator.id,
            count=item.count,
            gres=item.gres or raw.gres,
            type=item.type or raw.type or usual,
            files=_paths(item.files),
            missing=tuple(sorted(set(item.missing))),
            cores=tuple(item.cores),
            links=tuple(item.links),
            shards=item.shards or 0,
            mig=tuple((profile, tuple(ids)) for profile, ids in item.mig.items()),
        )

    def _check(self, item: schema.DeviceSection, raw: schema.NodesSection) -> None:
        """Report what one node's gres.conf cannot say of the cards."""
        count, at = item.count, item.at
        if item.files and len(_paths(item.files)) != count:
            self.problem(at["files"], f"files do not name {count} devices", "name each once")
        if item.files and item.missing:
            self.problem(at["missing"], "files and missing say the same", "leave one out")
        if item.cores and count % len(item.cores):
            what = f"{count} cards are no equal shares for {len(item.cores)} ranges of cores"
            self.problem(at["cores"], what, "repeat a range for a card of its own")
        last = raw.sockets * raw.cores - 1
        for text in item.cores:
            if max(map(int, text.replace("-", ",").split(","))) > last:
                what = f"cores {text} of a node with cores 0-{last}"
                todo = "count physical cores as slurmd does, without hyper-threads"
                self.problem(at["cores"], what, todo)
        if item.links and (
            len(item.links) != count or any(len(text.split(",")) < count for text in item.links)
        ):
            what = f"links are {count} lists of {count} numbers, one list for each card"
            self.problem(at["links"], what, "give -1 for the card itself")
        if item.mig and item.shards:
            self.problem(at["mig"], "a card is split by MIG or into shards", "leave one out")

    def _compatible(self, raw: schema.NodesSection, devices: tuple[Devices, ...]) -> None:
        """Report cards that one node's gres.conf cannot tell apart, or not hold together."""
        place = raw.at.get("devices", raw.at[""])
        kinds = Counter((item.gres, item.type) for item in devices)
        if len(kinds) < len(devices):
            what = "two entries are of the same GRES type"
            self.problem(place, what, "name each kind of card once, without 'type'")
        if sum(bool(item.shards) for item in devices) not in (0, len(devices)):
            what = "shards for some of the cards: Slurm spreads them over all cards of a node"
            self.problem(place, what, "give every kind its shards, or none")
        by_name: dict[str, set[str]] = {}
        for item in devices:
            vendor = platform(find_accelerator(item.accelerator).vendor)
            by_name.setdefault(item.gres, set()).add(vendor.slurm_env_flag)
        if len(by_name.get("gpu", ())) > 1:
            self.problem(
                place,
                "cards of two vendors in one node: slurmd takes one vendor's environment only",
                "give one of them another GRES name: ascend910c: {count: 8, gres: npu}",
            )


def as_list(
    nodes: schema.NodesSection | list[schema.NodesSection],
) -> list[schema.NodesSection]:
    """Return the sections of nodes, of which a file may give one or several."""
    return nodes if isinstance(nodes, list) else [nodes]


def _paths(text: str | None) -> tuple[str, ...]:
    """Return the files of ``/dev/nvidia[0-7]``."""
    folder, slash, names = (text or "").rpartition("/")
    return tuple(f"{folder}{slash}{name}" for name in hostlist.expand(names)) if names else ()


def _gres_types(raw: schema.InventoryFile) -> dict[str, str]:
    """Return the GRES type of each accelerator: its short name, or its id where two share it."""
    found: dict[str, str] = {}
    sections = [item.nodes for item in raw.supernodes] + [item.nodes for item in raw.pools]
    for name in (name for nodes in sections for part in as_list(nodes) for name in part.devices):
        try:
            accelerator = find_accelerator(name)
        except UnknownName:
            continue
        found[accelerator.id] = accelerator.gres_type
    shared = Counter(found.values())
    return {key: key if shared[short] > 1 else short for key, short in found.items()}
