"""A tree that was measured beside the one that is configured: names stay, differences are told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from .. import hostlist
from .network import fabrics_of
from .room import Room, SwitchFacts, TopologyFacts

Above = dict[str, tuple[str, tuple[frozenset[str], ...]]]
"""By host its leaf, and the hosts under it and under each switch above."""


def settle(room: Room, measured: TopologyFacts) -> None:
    """Put a measured tree into a room, and take out the configured ones that differ.

    A configured tree that parts the hosts alike stays, with its names; it learns the rails.
    """
    kept, differs = [], False
    for topology in room.topologies:
        if topology.kind != "tree":
            kept.append(topology)
            continue
        common = _hosts(topology) & _hosts(measured)
        if not common:
            kept.append(topology)
        elif len(common) == len(_hosts(measured)) and _same(topology, measured, common, room):
            kept.append(_with_rails(topology, measured, room))
            room.topologies[:] = [*kept, *room.topologies[len(kept) :]]
            return
        else:
            differs = True
    if differs:
        kept_names = {topology.name for topology in kept}
        name = measured.name if measured.name not in kept_names else f"{measured.name}-measured"
        measured = replace(measured, name=name)
    room.topologies[:] = [*kept, measured]
    if differs:
        room.networks.clear()


def _hosts(topology: TopologyFacts) -> set[str]:
    return {host for switch in topology.switches for host in switch.nodes}


def _same(configured: TopologyFacts, measured: TopologyFacts, common: set[str], room: Room) -> bool:
    """Return whether two trees part some hosts alike; tell of those that they do not."""
    ours, theirs = _above(measured, common), _above(configured, common)
    usual = _usual(ours, theirs)
    file = configured.where.file.rpartition("/")[2]
    todo = f"written as it is cabled: correct {file}, or the cables"
    moved: dict[tuple[str, str], list[str]] = {}
    for host in ours:
        if usual[theirs[host][0]] != ours[host][0] or len(usual) != len(set(usual.values())):
            moved.setdefault((theirs[host][0], ours[host][0]), []).append(host)
    places = {switch.name: switch.where for switch in configured.switches}
    for (leaf, at), hosts in moved.items():
        if usual[leaf] != at:
            what = f"{hostlist.fold(hosts)} are under '{leaf}' here, and cabled to {at}"
            room.disagreement(places[leaf], what, todo)
    if moved:
        joined = Counter(usual.values())
        for leaf, at in usual.items():
            if joined[at] > 1:
                what = f"'{leaf}' is {at} by its cables, as another switch here is"
                room.disagreement(places[leaf], what, todo)
        return False
    apart = [host for host in ours if set(ours[host][1]) != set(theirs[host][1])]
    if apart:
        what = f"the switches above {hostlist.fold(apart)} join other nodes than the cables do"
        room.disagreement(configured.where, what, todo)
    return not apart


def _usual(ours: Above, theirs: Above) -> dict[str, str]:
    """Return for each configured leaf the measured one of most of its hosts."""
    votes: dict[str, Counter[str]] = {}
    for host, (leaf, _) in theirs.items():
        votes.setdefault(leaf, Counter())[ours[host][0]] += 1
    return {leaf: max(count, key=lambda at: (count[at], at)) for leaf, count in votes.items()}


def _above(topology: TopologyFacts, common: set[str]) -> Above:
    below: dict[str, set[str]] = {}
    parent = {child: switch.name for switch in topology.switches for child in switch.switches}
    leaf_of = {h: s.name for s in topology.switches for h in s.nodes if h in common}
    for host, name in leaf_of.items():
        at: str | None = name
        for _ in range(len(topology.switches) + 1):
            if at is None:
                break
            below.setdefault(at, set()).add(host)
            at = parent.get(at)
    found: Above = {}
    paths: dict[str, tuple[frozenset[str], ...]] = {}
    for host, leaf in leaf_of.items():
        if leaf not in paths:
            path: list[frozenset[str]] = []
            name = leaf
            while name in below and len(path) <= len(below):
                path.append(frozenset(below[name]))
                name = parent.get(name, "")
            paths[leaf] = tuple(dict.fromkeys(path))
        found[host] = (leaf, paths[leaf])
    return found


def _with_rails(configured: TopologyFacts, measured: TopologyFacts, room: Room) -> TopologyFacts:
    """Return the configured tree with what was measured of its links."""
    told = next((switch.fabric for switch in configured.switches if switch.fabric), None)
    found = next((switch.fabric for switch in measured.switches if switch.fabric), None)
    if found is None:
        return configured
    if told is not None:
        if found.rails is not None and (told.rails, told.rail_gbs) != (found.rails, found.rail_gbs):
            says = f"{told.rails} rails of {told.rail_gbs:g} GB/s" if told.rails else "no rails"
            what = f"fabric {told.name}: {says} here, {found.rails} of {found.rail_gbs:g} GB/s"
            room.disagreement(configured.where, f"{what} are up", "written as it is here")
        return configured
    switches: list[SwitchFacts] = []
    for part in fabrics_of(list(configured.switches)):
        root = part[-1].name
        switches += [replace(part[0], fabric=replace(found, name=root)), *part[1:]]
    return replace(configured, switches=tuple(switches))
