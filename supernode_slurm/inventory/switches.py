"""The switches of a fabric: names looked up, children before parents, no cycle."""

from __future__ import annotations

from collections.abc import Mapping

from .. import hostlist
from ..errors import Problem, Where, nearest
from . import schema
from .model import Fabric, Switch
from .yamltree import place_of


def resolve_fabric(
    raw: schema.FabricSection, members: Mapping[str, tuple[str, ...]]
) -> tuple[Fabric, list[Problem]]:
    """Return the fabric and what is wrong with it.

    ``members`` maps each supernode and pool to its hosts.
    """
    problems: list[Problem] = []
    owner = {host: name for name, hosts in members.items() for host in hosts}
    switches: dict[str, Switch] = {}
    for name, texts in raw.switches.items():
        switch, stray = _switch(name, texts, raw, members, owner)
        switches[name] = switch
        known = (*raw.switches, *members)
        for child, place in stray:
            what = f"switch '{name}': '{child}' is no switch, supernode, pool or host"
            problems.append(Problem(place, what, nearest(child, known)))
    problems += _misplaced(raw, members, switches)
    ordered, cycle = _children_first(switches)
    if cycle:
        what = f"switches form a cycle: {', '.join(cycle)}"
        problems.append(Problem(raw.at["switches"], what, "a fabric is a tree"))
    fabric = Fabric(
        name=raw.name,
        kind=raw.kind,
        rails=raw.rails.count if raw.rails else None,
        rail_gbs=raw.rails.bandwidth if raw.rails else None,
        oversubscription=raw.oversubscription,
        switches=tuple(ordered),
        hosts=frozenset(
            host
            for switch in switches.values()
            for hosts in (switch.hosts, *(members[name] for name in switch.members))
            for host in hosts
        ),
        where=raw.at["name"],
    )
    return fabric, problems


def _switch(
    name: str,
    texts: list[str],
    raw: schema.FabricSection,
    members: Mapping[str, tuple[str, ...]],
    owner: Mapping[str, str],
) -> tuple[Switch, list[tuple[str, Where]]]:
    children: list[str] = []
    domains: list[str] = []
    hosts: list[str] = []
    stray: list[tuple[str, Where]] = []
    for text in texts:
        for item in hostlist.expand(text):
            if item in raw.switches:
                children.append(item)
            elif item in members:
                domains.append(item)
            elif item in owner:
                hosts.append(item)
            else:
                stray.append((item, place_of(text, raw.at["switches"])))
    return Switch(name, tuple(children), tuple(domains), tuple(hosts)), stray


def _misplaced(
    raw: schema.FabricSection,
    members: Mapping[str, tuple[str, ...]],
    switches: Mapping[str, Switch],
) -> list[Problem]:
    """Report switches that no tree of Slurm can hold, and what hangs under two of them."""
    problems: list[Problem] = []
    parent: dict[str, str] = {}
    for name, switch in switches.items():
        place = place_of(name, raw.at["switches"])
        if name in members:
            what = f"switch '{name}' has the name of a supernode or pool"
            problems.append(Problem(place, what, "rename the switch"))
        if not raw.switches[name]:
            what = f"switch '{name}' has nothing under it: slurmctld would refuse it"
            problems.append(Problem(place, what, "delete it"))
        if switch.switches and (switch.members or switch.hosts):
            what = f"switch '{switch.name}' holds switches and nodes"
            todo = "put the nodes under a leaf of their own"
            problems.append(Problem(place, what, todo))
        for child in (*switch.switches, *switch.members, *switch.hosts):
            if child in parent:
                what = f"'{child}' hangs under '{parent[child]}' and '{switch.name}'"
                problems.append(Problem(place, what, "give it one parent"))
            parent[child] = switch.name
    return problems


def _children_first(switches: Mapping[str, Switch]) -> tuple[list[Switch], list[str]]:
    """Return the switches with children before parents, and those on a cycle."""
    ordered: list[Switch] = []
    waiting = dict(switches)
    placed: set[str] = set()
    while waiting:
        ready = [
            switch
            for switch in waiting.values()
            if all(child in placed or child not in switches for child in switch.switches)
        ]
        if not ready:
            return ordered, sorted(waiting)
        for switch in ready:
            ordered.append(switch)
            placed.add(switch.name)
            del waiting[switch.name]
    return ordered, []
