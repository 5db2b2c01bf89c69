"""The fabrics of a room, from checked trees or from comments of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .. import hostlist
from ..errors import Where
from ..slurmconf.facts import FabricFacts
from .groups import Group
from .network import fabrics_of
from .room import Room, SwitchFacts

FILE_PLUGINS = frozenset({"topology/tree", "topology/block", "topology/ring", "topology/torus3d"})


@dataclass(frozen=True, slots=True)
class Fabric:
    """A fabric in the making: one root for each that Slurm sees."""

    name: str
    facts: FabricFacts | None
    switches: tuple[tuple[str, tuple[str, ...], Where], ...]
    """Name of each switch, what hangs under it, and its place; leaves first."""
    where: Where


def root_of_hosts(trees: Iterable[list[SwitchFacts]]) -> dict[str, str]:
    """Return the name of the uppermost switch over each node."""
    found: dict[str, str] = {}
    for tree in trees:
        for switches in fabrics_of(tree):
            below = {child for switch in switches for child in switch.switches}
            root = next(switch.name for switch in switches if switch.name not in below)
            found.update(dict.fromkeys((h for s in switches for h in s.nodes), root))
    return found


def find_fabrics(room: Room, trees: list[list[SwitchFacts]], groups: list[Group]) -> list[Fabric]:
    """Return all fabrics."""
    found = [
        Fabric(
            item.fabric.name,
            item.fabric,
            tuple((name, (below,), item.where) for name, below in item.switches),
            item.where,
        )
        for item in room.networks
    ]
    for tree in trees:
        for switches in fabrics_of(tree):
            builder = _Builder(room, switches, groups)
            if fabric := builder.build():
                found.append(fabric)
    if not found and (joined := _joined(room, groups)):
        found.append(joined)
    if len(found) > 1 and not any(fabric.facts for fabric in found):
        names = ", ".join(fabric.name for fabric in found[:8])
        what = f"{len(found)} switches without a common one above: {names}"
        todo = "Slurm never spans a job over two of them: add a switch above if they are joined"
        room.mistake(found[0].where, what, todo)
    return found


def _joined(room: Room, groups: list[Group]) -> Fabric | None:
    """Return one network over all nodes, as a Slurm without a tree has it; None if ours has none.

    Without it the files of an import would keep jobs from spanning what they span today.
    """
    spans = any(topology.kind in ("block", "flat") for topology in room.topologies)
    spans = spans or (room.has_slurm_conf and not room.topologies and not needs_topology(room))
    names = [group.name for group in groups if group.name]
    if not spans or len(names) < 2 or any(node.domain for node in room.nodes):
        return None
    taken = {*names, *(host for group in groups for host in group.hosts)}
    switch = next(name for name in (f"all-nodes{n}" for n in ("", *range(99))) if name not in taken)
    where = groups[0].where
    what = "how the nodes are wired: no source says"
    todo = "written as one network over all, as Slurm takes it: give its switches and rails"
    room.unsaid(Where(where.file), what, todo)
    below = hostlist.fold(names, sort=False)
    return Fabric("network", None, ((switch, (below,), where),), where)


def needs_topology(room: Room) -> bool:
    """Return whether slurm.conf names a plugin that reads a file."""
    plugin = room.settings.get("topologyplugin")
    return plugin is not None and plugin.text.casefold() in FILE_PLUGINS


class _Builder:
    """Turns the switches of one fabric into those of an inventory."""

    def __init__(self, room: Room, switches: list[SwitchFacts], groups: list[Group]) -> None:
        self._room = room
        self._switches = switches
        self._by_name = {switch.name: switch for switch in switches}
        self._groups = {group.name: group for group in groups if group.name}
        self._owner = {host: group.name for group in groups for host in group.hosts}
        self._facts = next((item.fabric for item in switches if item.fabric), None)

    def build(self) -> Fabric | None:
        """Return the fabric, None where it is only how nodes without one are written."""
        written = (self._is_member(item) or self._joins_members(item) for item in self._switches)
        if self._facts is None and self._ours() and all(written):
            return None
        merged = {
            child
            for switch in self._switches
            if self._joins_members(switch)
            for child in switch.switches
        }
        kept = [
            switch
            for switch in self._switches
            if switch.name not in merged and not (self._facts and self._is_alone(switch))
        ]
        names = self._names(kept)
        switches = tuple((names[s.name], self._below(s, names), s.where) for s in kept)
        root = self._facts.name if self._facts else switches[-1][0]
        return Fabric(root, self._facts, switches, kept[0].where)

    def _ours(self) -> bool:
        return any(node.domain for node in self._room.nodes)

    def _is_member(self, switch: SwitchFacts) -> bool:
        """Return whether a switch is a supernode, a pool or foreign nodes by another word."""
        group = self._groups.get(switch.name)
        return group is not None and set(group.hosts) == set(switch.nodes)

    def _is_alone(self, switch: SwitchFacts) -> bool:
        below = {child for item in self._switches for child in item.switches}
        return switch.name not in below and self._is_member(switch)

    def _joins_members(self, switch: SwitchFacts) -> bool:
        """Return whether a switch stands for a leaf with members, written as switches."""
        children = [self._by_name[child] for child in switch.switches]
        members = list(map(self._is_member, children))
        if self._facts is None:
            return bool(children) and all(members)
        return any(members) and not any(child.switches for child in children)

    def _below(self, switch: SwitchFacts, names: Mapping[str, str]) -> tuple[str, ...]:
        if self._joins_members(switch):
            return self._items(
                host for child in switch.switches for host in self._by_name[child].nodes
            )
        if switch.switches:
            return (hostlist.fold((names[child] for child in switch.switches), sort=False),)
        return self._items(switch.nodes)

    def _items(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Return hosts as the members that they make up wholly, and the others folded."""
        held: dict[str, list[str]] = {}
        for host in hosts:
            held.setdefault(self._owner.get(host, ""), []).append(host)
        whole = [
            name
            for name, mine in held.items()
            if name in self._groups and len(mine) == len(self._groups[name].hosts)
        ]
        single = [host for name, mine in held.items() if name not in whole for host in mine]
        members = hostlist.fold(whole, sort=False) if whole else ""
        others = hostlist.fold(single, sort=False) if single else ""
        return tuple(filter(None, (members, others)))

    def _names(self, kept: list[SwitchFacts]) -> dict[str, str]:
        """Return a name for each switch that no member and no host has."""
        found = {}
        taken = {*self._groups, *self._owner}
        for switch in kept:
            name = switch.name
            while name in taken:
                name = f"{name[:56]}-switch"
            if name != switch.name:
                what = f"switch '{switch.name}' becomes '{name}'"
                self._room.lost(switch.where, what, "its name is that of nodes or a supernode")
            taken.add(name)
            found[switch.name] = name
        return found
