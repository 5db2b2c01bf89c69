"""New hosts that fit nothing: entries of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ... import hostlist
from ...catalogue import find_accelerator
from ...errors import Where
from ...inventory import Supernode
from ..document import Leaf, Tree
from ..nodes import sections_of, types_of
from .changes import Log, of_hosts
from .sheet import Sheet
from .spans import new
from .told import Told


class Entries:
    """One run over hosts that no supernode and no pool takes."""

    def __init__(self, sheet: Sheet, told: Told, taken: Iterable[str], log: Log) -> None:
        """Take the names that nothing else may have."""
        self._sheet = sheet
        self._told = told
        self._taken = set(taken)
        self._log = log

    def add(self, hosts: Sequence[str]) -> None:
        """Add a pool, or a supernode, for each group of hosts that sources know."""
        groups: dict[str, list[str]] = {}
        for host in hosts:
            machine = self._told.hosts[host].machine
            if machine.unsaid:
                what = f"{host} is new, and no source says its {', '.join(machine.unsaid)}"
                todo = "name a source that does, or write it by hand"
                self._log.differs(self._origin([host])[0], what, todo)
                continue
            groups.setdefault(self._name_of(host), []).append(host)
        for name, mine in groups.items():
            self._entry(name, mine)

    def _name_of(self, host: str) -> str:
        domains = self._told.imported.inventory.domains
        return next((item.name for item in domains if host in item.hosts), "pool-new")

    def _entry(self, name: str, hosts: list[str]) -> None:
        if wrong := self._clash(hosts):
            self._log.differs(self._origin(hosts)[0], *wrong)
            return
        taken = {*self._taken, *hosts}
        free = next(n for n in (name, *(f"{name}-{i}" for i in range(2, 999))) if n not in taken)
        group = next((g for g in self._told.groups if g.name == name), None)
        section: dict[str, object] = {"name": free}
        kind = "pools"
        if group is not None and set(group.hosts) <= set(hosts):
            kind = "supernodes"
            section |= _interconnect(group)
        members = [self._told.hosts[host] for host in hosts]
        parts = [_plain(tree) for tree in sections_of(members, types_of(self._told.hosts))]
        section["nodes"] = parts[0] if len(parts) == 1 else parts
        item = new(section)
        item.fold = True
        item.comment = self._sheet.mark(f"new: {hostlist.fold(hosts)}")
        self._sheet.list_of(kind).append(item)
        self._taken |= {free, *hosts}
        self._log.changed(of_hosts(hosts), None, f"in {free}, which is new", self._origin(hosts))

    def _clash(self, hosts: Sequence[str]) -> tuple[str, str] | None:
        """Return what to say where new cards would change the GRES type of those here."""
        here = {d.accelerator for n in self._sheet.inventory.node_classes for d in n.devices}
        for host in hosts:
            for item in self._told.hosts[host].machine.devices:
                kind = find_accelerator(item.accelerator)
                for other in here - {kind.id}:
                    if find_accelerator(other).gres_type == kind.gres_type:
                        what = f"{hostlist.fold(hosts)} have {kind.id}, others here {other}"
                        todo = (
                            f"both are GRES type {kind.gres_type}: give types, write them by hand"
                        )
                        return what, todo
        return None

    def _origin(self, hosts: Iterable[str]) -> list[Where]:
        return [place for host in hosts for place in self._told.seen[host].origin]


def _interconnect(group: Supernode) -> dict[str, object]:
    link = group.interconnect
    found: dict[str, object] = {"kind": link.kind}
    if link.bandwidth_gbs is not None:
        found["bandwidth"] = f"{link.bandwidth_gbs:g} GB/s"
    if link.dims:
        found["dims"] = list(link.dims)
    return {"interconnect": found}


def _plain(tree: Tree) -> object:
    if isinstance(tree, Leaf):
        return list(tree.value) if isinstance(tree.value, tuple) else tree.value
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    return [_plain(item) for item in tree]
