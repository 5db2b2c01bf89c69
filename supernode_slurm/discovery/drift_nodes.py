"""Nodes: which are missing on either side, and what they have otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import hostlist
from ..errors import Where
from ..inventory import Inventory, NodeClass
from ..inventory.lint import Fault
from ..slurm import LiveNode
from .compare import weight_of
from .refresh.changes import shown
from .refresh.shapes import bare
from .refresh.told import Told
from .refresh.wanted import differences, wanted

_RULES = {
    "sockets": "drift-cpus",
    "cores": "drift-cpus",
    "threads": "drift-cpus",
    "memory": "drift-memory",
    "features": "drift-features",
    "devices": "drift-gres",
    "other_gres": "drift-gres",
    "network.hcas": "drift-adapters",
    "cloud": "drift-options",
}
_DOWN = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "INVAL", "NOT_RESPONDING"})
_ASLEEP = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
Found = tuple[str, Fault]
"""The name of a rule, and a case of it."""


class Nodes:
    """One run over the nodes of an inventory and of what runs."""

    def __init__(
        self, inventory: Inventory, told: Told, live: Sequence[LiveNode], is_live: bool
    ) -> None:
        """Take both sides; ``live`` are the nodes with their states, none where no Slurm runs."""
        self._room = inventory
        self._told = told
        self._live = live
        self._here = "runs" if is_live else "is there"
        self._absent = {host for item in inventory.upkeep.absent for host in item.hosts}

    def run(self) -> Iterator[Found]:
        """Yield what differs."""
        if self._told.is_config:
            yield from self._missing()
        yield from self._unknown()
        yield from self._back()
        yield from self._shapes()
        yield from self._weights()
        yield from self._versions()
        yield from self._down()

    def _missing(self) -> Iterator[Found]:
        for domain in self._room.domains:
            lost = [h for h in domain.hosts if h not in self._told.seen and h not in self._absent]
            if lost:
                what = f"{hostlist.fold(lost)} of {domain.name}: Slurm does not know them"
                yield "drift-node-missing", Fault(domain.where, what, (domain.name,), tuple(lost))

    def _unknown(self) -> Iterator[Found]:
        if self._told.new:
            there = "Slurm knows them" if self._told.is_config else "they answer"
            what = f"{hostlist.fold(self._told.new)}: {there}, the inventory does not have them"
            place = Where(self._room.source)
            yield "drift-node-unknown", Fault(place, what, self._told.new, self._told.new)

    def _back(self) -> Iterator[Found]:
        for item in self._room.upkeep.absent:
            back = [
                host
                for host in item.hosts
                if host in self._told.seen and host not in self._told.silent
            ]
            if back:
                what = f"{hostlist.fold(back)} are absent since {item.since}, and answer"
                yield "drift-absent", Fault(item.where, what, tuple(back), tuple(back))

    def _shapes(self) -> Iterator[Found]:
        found: dict[tuple[str, str, str, str], tuple[NodeClass, str, list[str]]] = {}
        for domain in self._room.domains:
            for nodes in domain.nodes:
                current = bare(nodes)
                for host in nodes.hosts:
                    seen = self._told.seen.get(host)
                    if seen is None or host in self._absent:
                        continue
                    wish = wanted(current, domain.name, seen)
                    for key, (old, new) in differences(current, wish).items():
                        case = (domain.name, key, shown(old), shown(new))
                        found.setdefault(case, (nodes, domain.name, []))[2].append(host)
        for (_, key, old, new), (nodes, name, hosts) in found.items():
            what = f"{key} of {hostlist.fold(hosts)}: {old} here, {new} {self._here}"
            yield _RULES[key], Fault(nodes.where, what, (name,), tuple(hosts))

    def _weights(self) -> Iterator[Found]:
        """Yield weights that were changed while Slurm runs, or beside our lines."""
        lines = {host: line for line in self._told.room.nodes for host in line.hosts}
        found: dict[tuple[str, str, str], tuple[NodeClass, list[str]]] = {}
        for domain in self._room.domains if self._told.is_config else ():
            for nodes in domain.nodes:
                mine = dict(nodes.options).get("Weight", "1")
                for host in nodes.hosts:
                    line = lines.get(host)
                    if line is not None and host in self._told.seen:
                        weight = weight_of(line.keys)
                        if weight != mine:
                            case = (domain.name, mine, weight)
                            found.setdefault(case, (nodes, []))[1].append(host)
        for (name, mine, weight), (nodes, hosts) in found.items():
            what = f"weight of {hostlist.fold(hosts)}: {mine} here, {weight} {self._here}"
            yield "drift-options", Fault(nodes.where, what, (name,), tuple(hosts))

    def _versions(self) -> Iterator[Found]:
        here = {
            (item.component, host): (item.version, item.where)
            for item in self._room.upkeep.installed
            for host in item.hosts
        }
        found: dict[tuple[str, str, str], tuple[Where, list[str]]] = {}
        for item in self._told.imported.inventory.upkeep.installed:
            for host in item.hosts:
                old, where = here.get((item.component, host), ("", Where(self._room.source)))
                if old and old != item.version:
                    case = (item.component, old, item.version)
                    found.setdefault(case, (where, []))[1].append(host)
        for (component, old, new), (where, hosts) in found.items():
            what = f"{component} of {hostlist.fold(hosts)}: {old} here, {new} is there"
            yield "drift-versions", Fault(where, what, (component,), tuple(hosts))

    def _down(self) -> Iterator[Found]:
        """Yield nodes that are drained or down, with the reasons that were given."""
        ours = {host: domain for domain in self._room.domains for host in domain.hosts}
        found: dict[tuple[str, str, str], list[str]] = {}
        for node in self._live:
            states = node.states & _DOWN
            if node.states & _ASLEEP:
                states -= {"NOT_RESPONDING"}
            if states and node.name in ours and node.name not in self._absent:
                words = "+".join(sorted(states)).lower()
                case = (ours[node.name].name, words, node.reason)
                found.setdefault(case, []).append(node.name)
        for (name, words, reason), hosts in found.items():
            why = f": {reason}" if reason else ""
            what = f"{hostlist.fold(hosts)} are {words}{why}"
            todo = "scontrol update nodename=... state=resume once they are well"
            fault = Fault(self._room.domain(name).where, what, (name,), tuple(hosts), todo)
            yield "drift-node-down", fault
