"""Which nodes make a supernode, which a pool, and which are not ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .. import hostlist
from ..errors import Where
from ..inventory import Interconnect
from ..slurmconf.facts import DomainFacts
from .cards import CARD_NAMES
from .machines import Host
from .network import nearest_hosts
from .room import GroupFacts, Room, TopologyFacts

KIND_OF = {"block": "switch", "ring": "ring", "torus3d": "torus"}
"""The interconnect that a kind of topology stands for where nobody says more."""
_ODD = re.compile(r"[^A-Za-z0-9_.\-]+")


@dataclass(slots=True)
class Group:
    """A supernode, a pool or foreign nodes in the making."""

    name: str
    kind: str
    """supernode, pool or foreign."""
    hosts: tuple[str, ...]
    where: Where
    link: Interconnect | None = None
    is_said: bool = True
    """The kind of the interconnect is said, not assumed."""
    said_by_us: bool = False
    """By a comment of ours, which would tell the speed if anybody knew it."""
    spares: int = 0
    racks: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())


def find_groups(room: Room, hosts: Mapping[str, Host], roots: Mapping[str, str]) -> list[Group]:
    """Return all groups: supernodes first, then pools, then foreign nodes.

    ``roots`` names the fabric of each node; a pool never spans two.
    """
    foreign = _foreign(room, hosts)
    away = {host for group in foreign for host in group.hosts}
    ours = {name: host for name, host in hosts.items() if name not in away}
    supernodes, pools = _said(room, ours, "supernode"), _said(room, ours, "pool")
    taken = {host for group in (*supernodes, *pools) for host in group.hosts}
    supernodes += [*_of_topologies(room, ours, taken), *_of_models(room, ours, taken)]
    left = [host for name, host in ours.items() if name not in taken]
    groups = [*supernodes, *pools, *_pools(left, roots), *foreign]
    return _with_free_names(groups, {*hosts, *away}, room)


def _said(room: Room, hosts: Mapping[str, Host], kind: str) -> list[Group]:
    """Return the groups that comments of ours name."""
    members: dict[str, list[str]] = {}
    for host in hosts.values():
        members.setdefault(host.domain, []).append(host.name)
    facts: dict[str, tuple[DomainFacts, Where]] = {}
    for node in room.nodes:
        if node.domain and (node.domain.interconnect is not None) == (kind == "supernode"):
            facts.setdefault(node.domain.name, (node.domain, node.where))
    shapes = {part.name: part for topology in room.topologies for part in topology.groups}
    found = []
    for name, (domain, where) in facts.items():
        group = Group(name, kind, tuple(members.get(name, ())), where)
        group.said_by_us = True
        group.link, group.spares = domain.interconnect, domain.spares
        shape = shapes.get(name)
        if shape and group.link and sorted(shape.nodes) == sorted(group.hosts):
            if group.link.kind in ("ring", "torus"):
                group.hosts = shape.nodes
            group.link = replace(group.link, dims=shape.dims, placements=shape.placements)
        if group.hosts:
            found.append(group)
    return found


def _of_topologies(room: Room, hosts: Mapping[str, Host], taken: set[str]) -> list[Group]:
    """Return the blocks, rings and toruses of files that are not ours."""
    found = []
    for topology in room.topologies:
        _check_names(room, topology.groups)
        mine = set(taken)
        for part in topology.groups:
            nodes = _known(room, part, hosts)
            if not nodes or mine.issuperset(nodes):
                continue  # a placeholder, or a second view of what is known
            if not mine.isdisjoint(nodes):
                what = f"'{part.name}' of topology '{topology.name}': left out"
                room.lost(part.where, what, "some of its nodes are in a supernode already")
                continue
            twice = [host for host in nodes if host in taken]
            if twice:
                what = f"{part.name}: {hostlist.fold(twice)} are in another block too"
                room.mistake(part.where, what, "slurmctld says nothing: delete them from one")
            kept = tuple(host for host in nodes if host not in taken)
            taken.update(nodes)
            if kept:
                found.append(_group_of(room, topology, part, kept))
        _tell_bare(room, topology, hosts)
    room.check()
    return found


def _group_of(
    room: Room, topology: TopologyFacts, part: GroupFacts, hosts: tuple[str, ...]
) -> Group:
    link = Interconnect(KIND_OF[topology.kind], None, 1000.0, part.dims, part.placements)
    group = Group(part.name, "supernode", hosts, part.where, link, topology.kind != "block")
    base = topology.sizes[0] if topology.sizes else len(hosts)
    if len(hosts) / 2 < base < len(hosts):
        group.spares = len(hosts) - base
    elif base != len(hosts):
        what = f"{topology.name}: the base block of {base} nodes is not the {len(hosts)} of"
        todo = "the planning block becomes the supernode less its spares"
        room.lost(topology.where, f"{what} each block", todo)
    return group


def _of_models(room: Room, hosts: Mapping[str, Host], taken: set[str]) -> list[Group]:
    """Return the supernodes of sources that are not Slurm's."""
    found = []
    for facts in room.scale_ups:
        nodes = _known(room, GroupFacts(facts.name, facts.hosts, facts.where), hosts)
        twice = [host for host in nodes if host in taken]
        if twice and len(twice) < len(nodes):
            what = f"{facts.name}: {hostlist.fold(twice)} are in a supernode of another source"
            room.disagreement(facts.where, what, "the first source that names a node counts")
        kept = tuple(host for host in nodes if host not in taken)
        taken.update(kept)
        if kept:
            link = Interconnect(facts.kind or "switch", None, 1000.0)
            said = bool(facts.kind)
            group = Group(facts.name, "supernode", kept, facts.where, link, is_said=said)
            group.racks = facts.racks
            found.append(group)
    return found


def _check_names(room: Room, parts: Iterable[GroupFacts]) -> None:
    seen: dict[str, Where] = {}
    for part in parts:
        if part.name in seen:
            what = f"'{part.name}' stands twice (first at line {seen[part.name].line})"
            room.error(part.where, what, "slurmctld refuses that: rename one")
        seen[part.name] = part.where


def _known(room: Room, part: GroupFacts, hosts: Mapping[str, Host]) -> tuple[str, ...]:
    stray = [host for host in part.nodes if host not in hosts]
    foreign = {host for _, names in room.foreign for host in names}
    stray = [host for host in stray if host not in foreign]
    if stray:
        what = f"'{part.name}': {hostlist.fold(stray)} are no nodes of slurm.conf"
        room.mistake(part.where, what, nearest_hosts(stray, hosts))
    return tuple(host for host in part.nodes if host in hosts)


def _tell_bare(room: Room, topology: TopologyFacts, hosts: Mapping[str, Host]) -> None:
    """Tell of nodes outside of the only topology, which is of blocks."""
    if len(room.topologies) != 1 or topology.kind != "block":
        return
    held = {host for part in topology.groups for host in part.nodes}
    bare = [name for name, host in hosts.items() if name not in held and not host.domain]
    if bare:
        what = f"{hostlist.fold(bare)} are in no block"
        todo = "jobs that may use blocks never get them; they become a pool"
        room.mistake(Where(topology.where.file), what, todo)


def _pools(left: list[Host], roots: Mapping[str, str]) -> list[Group]:
    """Return a pool for each kind of cards on each fabric."""
    kinds: dict[tuple[tuple[str, ...], str], list[Host]] = {}
    for host in left:
        machine = host.machine
        cards = [item.type or item.name for item in machine.others if item.name in CARD_NAMES]
        types = tuple(dict.fromkeys([*(item.type for item in machine.devices), *cards]))
        kinds.setdefault((types, roots.get(host.name, "")), []).append(host)
    alike = [types for types, _ in kinds]
    found = []
    for (types, root), members in kinds.items():
        name = f"pool-{'-'.join(types) or 'cpu'}"
        if alike.count(types) > 1:
            name = f"{name}-{root or 'alone'}"
        names = tuple(host.name for host in members)
        found.append(Group(name, "pool", names, members[0].origin[0]))
    return found


def _foreign(room: Room, hosts: Mapping[str, Host]) -> list[Group]:
    """Return the nodes that stand in lines of the site's own beside ours."""
    found = []
    named: set[str] = set()
    for name, members in room.foreign:
        named.update(members)
        found.append(Group(name.text, "foreign", members, name.where))
    if not any(node.ours for node in room.nodes):
        return found
    in_network = {
        host
        for topology in room.topologies
        for switch in topology.switches
        for host in switch.nodes
    }
    theirs = [
        host for node in room.nodes if not node.ours for host in node.hosts if host not in named
    ]
    used = tuple(host for host in theirs if host in in_network)
    if used:
        found.append(Group("foreign", "foreign", used, hosts[used[0]].origin[0]))
    rest = [host for host in theirs if host not in in_network]
    if rest:
        found.append(Group("", "foreign", tuple(rest), hosts[rest[0]].origin[0]))
    return found


def _with_free_names(groups: list[Group], hosts: set[str], room: Room) -> list[Group]:
    """Return the groups under names that an inventory takes and that nothing else has."""
    taken = set(hosts)
    for group in groups:
        if not group.name:
            continue
        name = _ODD.sub("-", group.name).strip("-.")[:60] or "unnamed"
        free = name if name not in taken else f"{group.kind}-{name}"
        number = 2
        while free in taken:
            free, number = f"{name}-{number}", number + 1
        if free != group.name:
            what = f"'{group.name}' becomes {group.kind} '{free}'"
            room.lost(group.where, what, "the name is taken, or none for an inventory")
        group.name = free
        taken.add(free)
    return groups
