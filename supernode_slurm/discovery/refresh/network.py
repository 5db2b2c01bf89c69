"""Hosts under other switches than the inventory says: a leaf's list changes, names stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ... import hostlist
from ...errors import Where
from ...inventory import Fabric, Inventory, Switch
from .changes import Log
from .names import joined, names_in, put_names, with_more, without
from .sheet import Sheet
from .spans import Item, new, str_of
from .told import Told


def leaves_of(inventory: Inventory, fabrics: Sequence[Fabric]) -> dict[str, str]:
    """Return the switch right above each host."""
    return {
        host: switch.name
        for fabric in fabrics
        for switch in fabric.switches
        for host in hosts_under(inventory, switch)
    }


def hosts_under(inventory: Inventory, switch: Switch) -> list[str]:
    """Return the hosts right under a switch, those of supernodes and pools among them."""
    whole = [host for name in switch.members for host in inventory.member(name).hosts]
    return [*whole, *switch.hosts]


class Network:
    """One run over the switches; the sheet knows all its hosts."""

    def __init__(self, sheet: Sheet, told: Told, away: Collection[str], log: Log) -> None:
        """Take what the sources say."""
        self._sheet = sheet
        self._room = sheet.inventory
        self._log = log
        self._told = told
        self._here = leaves_of(self._room, self._room.fabrics)
        seen = self._seen()
        owned = {host for item in self._room.domains for host in item.hosts}
        owned |= {host for item in self._room.foreign for host in item.hosts}
        self._there = {h: leaf for h, leaf in seen.items() if h in owned and h not in away}
        self._names = self._same()
        self.leaves = {host: self._names.get(leaf, leaf) for host, leaf in seen.items()}
        """The leaf of each host that sources place, by its name here where it has one."""

    def _seen(self) -> dict[str, str]:
        """Return the measured leaf of each host.

        Where switches part what hangs under one leaf here, and what is above them joins nothing
        else, that one stands for them: the files of Slurm have a switch for each supernode.
        """
        found: dict[str, str] = {}
        theirs = self._told.imported.inventory
        for fabric in self._told.fabrics:
            parent = {child: item.name for item in fabric.switches for child in item.switches}
            under: dict[str, set[str]] = {}
            for switch in fabric.switches:
                held = {self._here.get(host, "") for host in hosts_under(theirs, switch)}
                held |= {leaf for child in switch.switches for leaf in under[child]}
                under[switch.name] = held - {""}
            for switch in fabric.switches:
                top = switch.name
                while under[top] and len(under.get(parent.get(top, ""), ())) == 1:
                    top = parent[top]
                found |= dict.fromkeys(hosts_under(theirs, switch), top)
        return found

    def hang(self, hosts: Sequence[str]) -> None:
        """Hang new hosts under their leaves one by one."""
        under: dict[str, list[str]] = {}
        for host in hosts:
            under.setdefault(self.leaves[host], []).append(host)
        for leaf, mine in under.items():
            if self._items(leaf) is None:
                self._add(leaf)
            items = self._items(leaf) or []
            self._write(leaf, with_more(items, mine, self._here))

    def run(self) -> None:
        """Move hosts between leaves, add leaves, take away those that nothing hangs under."""
        moved: dict[tuple[str, str], list[str]] = {}
        for host, leaf in self._there.items():
            here, there = self._here.get(host, ""), self._names.get(leaf, leaf)
            if here != there:
                moved.setdefault((here, there), []).append(host)
        known = {switch.name for fabric in self._room.fabrics for switch in fabric.switches}
        members = {item.name for item in (*self._room.domains, *self._room.foreign)}
        for (here, there), hosts in moved.items():
            if not here and there in members:
                continue  # how Slurm's files write nodes without a fabric
            if not here and not self._are_whole(hosts):
                what = f"{hostlist.fold(hosts)} are under {there}, the rest of theirs under none"
                self._log.differs(self._place(there), what, "write the switches by hand")
            elif there not in known and not self._parent(there):
                what = f"{hostlist.fold(hosts)} are under switch {there}, which is new here"
                self._log.differs(self._place(there), what, "write it under its parent by hand")
            else:
                self._move(hosts, here, there)
        self._drop_empty()

    def _same(self) -> dict[str, str]:
        """Return for each measured leaf the one of the inventory that has most of its hosts."""
        votes: dict[str, Counter[str]] = {}
        for host, leaf in self._there.items():
            if host in self._here:
                votes.setdefault(leaf, Counter())[self._here[host]] += 1
        found: dict[str, str] = {}
        ranked = sorted(
            ((-n, leaf != here, leaf, here) for leaf, c in votes.items() for here, n in c.items())
        )
        for _, _, leaf, here in ranked:
            if leaf not in found and here not in found.values():
                found[leaf] = here
        return found

    def _are_whole(self, hosts: Sequence[str]) -> bool:
        """Return whether hosts are whole supernodes and pools: none may hang in part."""
        under = self._here.keys() | self._there.keys()
        owners = [
            d for d in (*self._room.domains, *self._room.foreign) if set(d.hosts) & set(hosts)
        ]
        return all(under >= set(item.hosts) for item in owners)

    def _place(self, name: str) -> Where:
        for topology in self._told.room.topologies:
            for switch in topology.switches:
                if switch.name == name:
                    return switch.where
        return Where(self._told.room.sources[0] if self._told.room.sources else "sources")

    def _parent(self, leaf: str) -> str:
        """Return the switch of the inventory above the siblings of a new leaf, empty for none."""
        for fabric in self._told.fabrics:
            for switch in fabric.switches:
                if leaf in switch.switches:
                    names = {self._names.get(child, child) for child in switch.switches}
                    above = {
                        mine.name
                        for own in self._room.fabrics
                        for mine in own.switches
                        if names & set(mine.switches)
                    }
                    return above.pop() if len(above) == 1 else ""
        return ""

    def _move(self, hosts: list[str], here: str, there: str) -> None:
        if here:
            self._take(here, set(hosts))
        items = self._items(there)
        if items is None:
            self._add(there)
            items = []
        whole = self._whole(hosts)
        left = [h for h in hosts if not any(h in self._room.member(n).hosts for n in whole)]
        members = {item.name: item for item in (*self._room.domains, *self._room.foreign)}
        items = with_more(items, whole, members) if whole else items
        items = with_more(items, left, self._here.keys() | self._there.keys())
        self._write(there, items)
        origin = [self._place(next(n for n in (*self._names, there) if self._is(n, there)))]
        self._log.changed(f"hosts.{hostlist.fold(hosts)}.switch", here or None, there, origin)

    def _is(self, measured: str, name: str) -> bool:
        return self._names.get(measured, measured) == name

    def _whole(self, hosts: Sequence[str]) -> list[str]:
        """Return supernodes and pools all of whose hosts are among these."""
        listed = set(hosts)
        items = (*self._room.domains, *self._room.foreign)
        return [item.name for item in items if item.hosts and set(item.hosts) <= listed]

    def _take(self, name: str, gone: Collection[str]) -> None:
        """Take hosts from under a switch: a member that loses some is written host by host."""
        items = self._items(name) or []
        members = {item.name: item.hosts for item in (*self._room.domains, *self._room.foreign)}
        held = [n for n in names_in(items) if n in members]
        parted = {n for n in held if not set(members[n]).isdisjoint(gone)}
        rest = [h for n in held if n in parted for h in members[n] if h not in gone]
        items = without(items, {*parted, *gone})
        if rest:
            items = with_more(items, rest, {h for hosts in members.values() for h in hosts})
        self._write(name, items)

    def _switches(self, name: str) -> Item | None:
        for item in self._sheet.root.entries("fabrics"):
            found = item.at("switches")
            if found is not None and isinstance(found.value, dict) and name in found.value:
                return found
        return None

    def _items(self, name: str) -> list[Item] | None:
        mapping = self._switches(name)
        return None if mapping is None else mapping.entries(name)

    def _write(self, name: str, items: list[Item]) -> None:
        mapping = self._switches(name)
        if mapping is not None and isinstance(mapping.value, dict):
            if items:
                put_names(mapping, name, items)
            else:
                mapping.value[name].value = []

    def _add(self, leaf: str) -> None:
        """Add a leaf beside its siblings."""
        parent = self._parent(leaf)
        mapping = self._switches(parent)
        if mapping is not None and isinstance(mapping.value, dict):
            siblings = mapping.entries(parent)
            names = hostlist.expand(str_of(siblings[-1])) if siblings else []
            if names and len(names) > 1:
                siblings[-1].value = joined(names, [leaf])
            else:
                put_names(mapping, parent, [*siblings, new(leaf)])
            mapping.value[leaf] = new([])
            self._log.changed(f"switches.{leaf}", None, f"under {parent}", [self._place(leaf)])

    def _drop_empty(self) -> None:
        for item in self._sheet.root.entries("fabrics"):
            mapping = item.at("switches")
            if mapping is None or not isinstance(mapping.value, dict):
                continue
            while empty := [name for name in mapping.value if not mapping.entries(name)]:
                for name in empty:
                    del mapping.value[name]
                    self._log.changed(f"switches.{name}", "a switch", None, ())
                for name in list(mapping.value):
                    self._rewrite(mapping, name, empty)

    def _rewrite(self, mapping: Item, name: str, gone: Sequence[str]) -> None:
        items = mapping.entries(name)
        if set(names_in(items)) & set(gone):
            left = without(items, gone)
            if left:
                put_names(mapping, name, left)
            elif isinstance(mapping.value, dict):
                mapping.value[name].value = []
