"""Partitions: which groups each holds wholly, which hosts one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .. import hostlist
from ..errors import nearest
from ..inventory.options import PARTITION_OPTIONS
from ..slurmconf.grammar import Said
from ..units import slurm_time
from .document import Leaf, Tree
from .groups import Group
from .machines import Host
from .network import nearest_hosts
from .room import Keys, PartitionFacts, Room

_USED = frozenset({"nodes", "maxtime", "default", "topology"})
_SPELLED = {name.casefold(): name for name in PARTITION_OPTIONS}
_SECTIONS = (("supernode", "supernodes"), ("pool", "pools"), ("foreign", "foreign"))


def partitions_of(room: Room, hosts: Mapping[str, Host], groups: list[Group]) -> dict[str, Tree]:
    """Return the section of each partition."""
    return _Partitions(room, hosts, groups).all()


class _Partitions:
    def __init__(self, room: Room, hosts: Mapping[str, Host], groups: list[Group]) -> None:
        self._room = room
        self._hosts = hosts
        self._groups = [group for group in groups if group.name]
        self._nodesets = {name.casefold(): keys for name, keys in room.nodesets.items()}
        self._default = ""
        self._owned = {host for group in self._groups for host in group.hosts}
        self._known = self._owned | hosts.keys()

    def all(self) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for partition in self._room.partitions:
            section = self._section(partition)
            if section is not None:
                found[partition.name] = section
        self._room.check()
        return found

    def _section(self, partition: PartitionFacts) -> dict[str, Tree] | None:
        keys = partition.keys
        said = keys.get("nodes")
        nodes = self._nodes(said) if said else []
        held = self._held(nodes)
        if not held:
            what = f"partition {partition.name} has no nodes: left out"
            self._room.lost(partition.where, what, "an inventory's partition holds some")
            return None
        origin = (partition.where,)
        section: dict[str, Tree] = {key: Leaf(texts, origin) for key, texts in held.items()}
        if "maxtime" in keys:
            section |= self._max_time(keys["maxtime"])
        if "default" in keys and keys["default"].text.upper() in ("YES", "TRUE"):
            section |= self._is_default(partition)
        options = self._options(keys)
        if options:
            section["options"] = dict(options)
        return section

    def _nodes(self, said: Said) -> list[str]:
        found: dict[str, None] = {}
        for item in self._room.hosts(said):
            if item.upper() == "ALL":
                found.update(dict.fromkeys(self._hosts))
            elif item.casefold() in self._nodesets:
                found.update(dict.fromkeys(self._nodeset(self._nodesets[item.casefold()])))
            else:
                found[item] = None
        stray = [host for host in found if host not in self._known]
        if stray:
            what = f"Nodes: {hostlist.fold(stray)} are no nodes of slurm.conf"
            self._room.error(said.where, what, nearest_hosts(stray, self._known))
        return [host for host in found if host in self._known]

    def _nodeset(self, keys: Keys) -> Iterable[str]:
        if "nodes" in keys:
            yield from self._room.hosts(keys["nodes"])
        if "feature" in keys:
            wanted = keys["feature"].text
            for node in self._room.nodes:
                said = node.keys.get("feature", node.keys.get("features"))
                if said and wanted in said.text.split(","):
                    yield from node.hosts

    def _held(self, nodes: list[str]) -> dict[str, tuple[str, ...]]:
        """Return what a partition holds, by the key of its section."""
        left = set(nodes)
        found: dict[str, tuple[str, ...]] = {}
        for kind, key in _SECTIONS:
            whole = [g for g in self._groups if g.kind == kind and left.issuperset(g.hosts)]
            if whole:
                left.difference_update(host for group in whole for host in group.hosts)
                found[key] = tuple(_folded(group.name for group in whole))
        single = [host for host in nodes if host in left and host in self._owned]
        if single:
            found["hosts"] = (hostlist.fold(single),)
        return found

    def _max_time(self, said: Said) -> dict[str, Tree]:
        try:
            return {"max_time": Leaf(slurm_time(said.text), (said.where,))}
        except ValueError as error:
            self._room.mistake(said.where, f"MaxTime: {error}: left out")
            return {}

    def _is_default(self, partition: PartitionFacts) -> dict[str, Tree]:
        if self._default:
            what = f"partition {partition.name} is the default, and so is {self._default}"
            self._room.mistake(partition.where, what, f"kept: {self._default}")
            return {}
        self._default = partition.name
        return {"default": Leaf(True, (partition.where,))}

    def _options(self, keys: Keys) -> dict[str, Leaf]:
        found = {}
        for key, said in keys.items():
            if key in _USED or (key == "state" and said.text.upper() == "UP"):
                continue
            if key not in _SPELLED:
                what = f"'{said.key}' is no key of a PartitionName line: left out"
                self._room.mistake(said.where, what, nearest(said.key, PARTITION_OPTIONS))
            else:
                found[_SPELLED[key]] = Leaf(said.text, (said.where,))
        return found


def _folded(names: Iterable[str]) -> list[str]:
    """Return names folded, each class of them a text of its own."""
    return _split(hostlist.fold(names))


def _split(text: str) -> list[str]:
    """Split a folded list at the commas outside brackets."""
    found, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            found.append(text[start:position])
            start = position + 1
    return [*found, text[start:]]
