"""Switches as facts, checked as Slurm would, and turned into fabrics that a room can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .. import hostlist
from ..errors import Where, nearest
from .room import Room, SwitchFacts


def checked_trees(room: Room, known: Iterable[str]) -> list[list[SwitchFacts]]:
    """Return the trees of all sources, without what Slurm would pass over.

    ``known`` are the nodes that there are, none if no source says. What slurmctld dies of
    becomes an error, what it lives with a mistake.
    """
    wanted = set(known)
    seen: dict[str, SwitchFacts] = {}
    trees: list[list[SwitchFacts]] = []
    for topology in room.topologies:
        if topology.kind != "tree":
            continue
        hosts = {host for switch in topology.switches for host in switch.nodes}
        if trees and not hosts.isdisjoint(seen):
            what = f"topology '{topology.name}' is a second tree of the same nodes: left out"
            room.lost(topology.where, what, "an inventory has one network for each node")
            continue
        _check_names(room, topology.switches)
        if room.errors:
            break
        kept = [_known_nodes(room, switch, wanted, seen) for switch in topology.switches]
        trees.append(_without_empty(kept))
    if trees and wanted and not room.subnets:  # of those, what was measured tells more
        _uncovered(room, wanted - seen.keys(), trees[0][0].where if trees[0] else Where(""))
    return trees


def fabrics_of(tree: list[SwitchFacts]) -> list[list[SwitchFacts]]:
    """Return the switches of each fabric: by our comments, else by what hangs under one root."""
    ordered = _children_first(tree)
    if any(switch.fabric for switch in tree):
        found: list[list[SwitchFacts]] = []
        for switch in tree:
            if switch.fabric:
                found.append([])
            if found:
                found[-1].append(switch)
        return found
    parent = {child: switch.name for switch in tree for child in switch.switches}
    roots: dict[str, list[SwitchFacts]] = {}
    for switch in ordered:
        name = switch.name
        while name in parent:
            name = parent[name]
        roots.setdefault(name, []).append(switch)
    in_order = [switch.name for switch in tree if switch.name in roots]
    return [roots[name] for name in in_order]


def nearest_hosts(strays: Iterable[str], known: Iterable[str]) -> str:
    """Return a hint with the real names of hosts whose prefix was forgotten, or that are near."""
    names = list(strays)
    wanted = set(names)
    by_tail: dict[str, str] = {}
    for host in known:
        for start in range(1, len(host)):
            if host[start:] in wanted:
                by_tail.setdefault(host[start:], host)
    if wanted <= by_tail.keys():
        return f"did you mean '{hostlist.fold(by_tail[name] for name in names)}'?"
    return nearest(names[0], known)


def _check_names(room: Room, switches: tuple[SwitchFacts, ...]) -> None:
    by_name: dict[str, SwitchFacts] = {}
    for switch in switches:
        if switch.name in by_name:
            line = by_name[switch.name].where.line
            what = f"switch '{switch.name}' stands twice (first at line {line})"
            room.error(switch.where, what, "slurmctld refuses that: rename one")
        by_name[switch.name] = switch
        if switch.nodes and switch.switches:
            what = f"switch '{switch.name}' has nodes and switches"
            room.error(switch.where, what, "put the nodes under a leaf switch of their own")
    for switch in switches:
        stray = [child for child in switch.switches if child not in by_name]
        if stray:
            what = f"switch '{switch.name}' has undefined children {hostlist.fold(stray)}"
            room.error(switch.where, what, nearest_hosts(stray, by_name))
    if not room.errors and (cycle := _cycle(by_name)):
        first, *_ = cycle
        what = f"switches hang under each other: {' > '.join([*cycle, first])}"
        todo = "list under a switch only what is below it, not every link"
        room.error(by_name[first].where, what, todo)
    parent: dict[str, str] = {}
    for switch in () if room.errors else switches:
        for child in switch.switches:
            if child in parent:
                what = f"switch '{child}' hangs under '{parent[child]}' and '{switch.name}'"
                room.error(switch.where, what, "a tree has one way up: keep one")
            parent[child] = switch.name


def _cycle(by_name: Mapping[str, SwitchFacts]) -> list[str]:
    """Return the names on a cycle, none if there is none."""
    done: set[str] = set()
    for start in by_name:
        path: list[str] = []
        on_path: set[str] = set()
        stack = [(start, iter(by_name[start].switches))] if start not in done else []
        path.append(start)
        on_path.add(start)
        while stack:
            name, children = stack[-1]
            child = next((item for item in children if item not in done), None)
            if child is None:
                stack.pop()
                done.add(name)
                on_path.discard(path.pop())
            elif child in on_path:
                return path[path.index(child) :]
            else:
                stack.append((child, iter(by_name[child].switches)))
                path.append(child)
                on_path.add(child)
    return []


def _known_nodes(
    room: Room, switch: SwitchFacts, known: set[str], seen: dict[str, SwitchFacts]
) -> SwitchFacts:
    stray = [host for host in switch.nodes if known and host not in known]
    if stray:
        what = f"switch '{switch.name}': {hostlist.fold(stray)} are no nodes of slurm.conf"
        room.mistake(switch.where, what, nearest_hosts(stray, known))
    twice = [host for host in switch.nodes if host in seen]
    if twice:
        first = seen[twice[0]]
        what = f"{hostlist.fold(twice)} under switch '{switch.name}' and under '{first.name}'"
        todo = f"kept under '{first.name}', line {first.where.line}: delete one"
        room.mistake(switch.where, what, todo)
    gone = {*stray, *twice}
    nodes = tuple(host for host in switch.nodes if host not in gone)
    seen.update(dict.fromkeys(nodes, switch))
    return SwitchFacts(switch.name, nodes, switch.switches, switch.where, switch.fabric)


def _without_empty(tree: list[SwitchFacts]) -> list[SwitchFacts]:
    """Return the tree without switches that no node hangs under."""
    kept: dict[str, SwitchFacts] = {}
    for switch in _children_first(tree):
        below = tuple(child for child in switch.switches if child in kept)
        if switch.nodes or below:
            kept[switch.name] = SwitchFacts(
                switch.name, switch.nodes, below, switch.where, switch.fabric
            )
    return [kept[switch.name] for switch in tree if switch.name in kept]


def _children_first(tree: list[SwitchFacts]) -> list[SwitchFacts]:
    """Return the switches level by level, leaves first, each level in the order of the file."""
    names = {switch.name for switch in tree}
    placed: set[str] = set()
    ordered: list[SwitchFacts] = []
    waiting = list(tree)
    while waiting:
        ready = [s for s in waiting if all(c in placed or c not in names for c in s.switches)]
        ordered += ready
        placed |= {switch.name for switch in ready}
        waiting = [switch for switch in waiting if switch.name not in placed]
    return ordered


def _uncovered(room: Room, bare: set[str], where: Where) -> None:
    if bare:
        what = f"{hostlist.fold(bare)} are under no switch"
        todo = "Slurm never gives them to a job together with nodes under a switch: add them"
        room.mistake(Where(where.file), what, todo)
