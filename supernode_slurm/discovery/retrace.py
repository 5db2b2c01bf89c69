"""A tree that was measured beside the one that is configured: names stay, differences are told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from .. import hostlist
from ..slurmconf.facts import FabricFacts
from .network import fabrics_of
from .room import Room, SwitchFacts, TopologyFacts

Above = dict[str, tuple[str, tuple[frozenset[str], ...]]]
"""By host its leaf, and the hosts under it and under each switch above."""


def settle(room: Room, measured: TopologyFacts) -> None:
    """Put a measured tree into a room, and take out the configured ones that differ.

    A configured tree that parts the hosts alike stays, with its names; it learns the rails.
    """
    measured = _in_place_of_comments(room, measured)
    hosts = _hosts(measured)
    kept = []
    for topology in room.topologies:
        common = _hosts(topology) & hosts
        if topology.kind != "tree" or not common:
            kept.append(topology)
        elif _same(topology, measured, common, room) and common == hosts:
            at = room.topologies.index(topology)
            room.topologies[at] = _with_rails(topology, measured, room)
            return
    room.topologies[:] = [*kept, measured]


def _hosts(topology: TopologyFacts) -> set[str]:
    return {host for switch in topology.switches for host in switch.nodes}


def _in_place_of_comments(room: Room, measured: TopologyFacts) -> TopologyFacts:
    """Return the measured tree, under the name of the only fabric that comments of ours tell of."""
    if not room.networks:
        return measured
    names = ", ".join(network.fabric.name for network in room.networks)
    what = f"what comments say of {names}: left out"
    room.lost(room.networks[0].where, what, "the cables themselves were read")
    own = [switch.fabric for switch in measured.switches if switch.fabric]
    if len(own) == len(room.networks) == 1:
        _tell_rails(room, measured, room.networks[0].fabric, own[0])
        fabric = replace(own[0], name=room.networks[0].fabric.name)
        first, *others = measured.switches
        measured = replace(measured, switches=(replace(first, fabric=fabric), *others))
    room.networks.clear()
    return measured


def _same(configured: TopologyFacts, measured: TopologyFacts, common: set[str], room: Room) -> bool:
    """Return whether two trees part some hosts alike; tell of those that they do not.

    A configured tree may part the hosts of a leaf further, by supernode or pool.
    """
    ours, theirs = _above(measured, common), _above(configured, common)
    usual = _usual(ours, theirs)
    file = configured.where.file.rpartition("/")[2]
    todo = f"written as it is cabled: correct {file}, or the cables"
    moved: dict[tuple[str, str], list[str]] = {}
    for host, (at, _) in ours.items():
        if usual[theirs[host][0]] != at:
            moved.setdefault((theirs[host][0], at), []).append(host)
    places = {switch.name: switch.where for switch in configured.switches}
    for (leaf, at), hosts in moved.items():
        what = f"under '{leaf}' here, and cabled to {at}: {hostlist.fold(hosts)}"
        room.disagreement(places[leaf], what, todo)
    apart = [host for host in ours if not moved and _differ(ours[host][1], theirs[host][1])]
    if apart:
        what = "other nodes are joined here than by cables, for jobs on"
        room.disagreement(configured.where, f"{what} {hostlist.fold(apart)}", todo)
    return not moved and not apart


def _differ(ours: tuple[frozenset[str], ...], theirs: tuple[frozenset[str], ...]) -> bool:
    """Return whether what is above a host differs, apart from parts of its leaf."""
    return set(ours) != {hosts for hosts in theirs if not hosts < ours[0]}


def _usual(ours: Above, theirs: Above) -> dict[str, str]:
    """Return for each configured leaf the measured one of most of its hosts."""
    votes: dict[str, Counter[str]] = {}
    for host, (leaf, _) in theirs.items():
        votes.setdefault(leaf, Counter())[ours[host][0]] += 1
    return {leaf: max(count, key=lambda at: (count[at], at)) for leaf, count in votes.items()}


def _above(topology: TopologyFacts, common: set[str]) -> Above:
    parent = {child: switch.name for switch in topology.switches for child in switch.switches}
    paths: dict[str, list[str]] = {}
    below: dict[str, set[str]] = {}
    for switch in topology.switches:
        hosts = common.intersection(switch.nodes)
        path = [switch.name] if hosts else []
        while path and path[-1] in parent and parent[path[-1]] not in path:
            path.append(parent[path[-1]])
        for name in path:
            below.setdefault(name, set()).update(hosts)
        paths[switch.name] = path
    return {
        host: (switch.name, tuple(frozenset(below[name]) for name in paths[switch.name]))
        for switch in topology.switches
        for host in switch.nodes
        if host in common
    }


def _with_rails(configured: TopologyFacts, measured: TopologyFacts, room: Room) -> TopologyFacts:
    """Return the configured tree with what was measured of its links."""
    told = next((switch.fabric for switch in configured.switches if switch.fabric), None)
    found = next((switch.fabric for switch in measured.switches if switch.fabric), None)
    if found is None or told is not None:
        if found and told:
            _tell_rails(room, configured, told, found)
        return configured
    switches: list[SwitchFacts] = []
    for part in fabrics_of(list(configured.switches)):
        root = part[-1].name
        switches += [replace(part[0], fabric=replace(found, name=root)), *part[1:]]
    return replace(configured, switches=tuple(switches))


def _tell_rails(room: Room, said: TopologyFacts, told: FabricFacts, found: FabricFacts) -> None:
    if found.rails is None or (told.rails, told.rail_gbs) == (found.rails, found.rail_gbs):
        return
    says = f"{told.rails} rails of {told.rail_gbs:g} GB/s" if told.rails else "no rails"
    what = f"fabric {told.name}: {says} by its comment, {found.rails} of {found.rail_gbs:g} GB/s"
    room.disagreement(said.where, f"{what} are up", "are cables down, or is the comment old?")
