"""New hosts: into the class, supernode, pool and rack that they fit, else entries of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ... import hostlist
from ...errors import Where
from ...inventory import NodeClass
from .changes import Log, of_hosts
from .entries import Entries
from .names import stem
from .network import Network
from .shapes import bare, nodes_of
from .sheet import Part, Section, Sheet, copied, put
from .told import Told
from .wanted import wanted
from .writing import write


@dataclass(slots=True)
class _Joins:
    """What a section gets: hosts by part, and by shape where no part fits."""

    parts: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    """By instance and part."""
    own: dict[tuple[int, NodeClass], list[str]] = field(default_factory=dict)


class Joining:
    """One run over the hosts that an inventory does not have yet."""

    def __init__(self, sheet: Sheet, told: Told, network: Network, log: Log) -> None:
        """Take where the hosts that there are hang."""
        self._sheet = sheet
        self._told = told
        self._network = network
        self._leaves = network.leaves
        self._log = log
        self._joins: dict[int, _Joins] = {}
        self._sections: dict[int, Section] = {}
        self._group = {host: group for group in told.groups for host in group.hosts}
        self._domain = {
            host: domain.name for domain in sheet.inventory.domains for host in domain.hosts
        }
        self._single = {
            host
            for fabric in sheet.inventory.fabrics
            for switch in fabric.switches
            for host in switch.hosts
        }
        self._refused: list[str] = []
        self._in_racks: dict[str, list[str]] = {}
        self._moved: set[str] = set()

    def run(self) -> None:
        """Find a place for every new host."""
        for host in self._told.new:
            self._sheet.each[host] = dict(self._told.hosts[host].own)
        self._moves()
        left = self._as_instances(self._told.new)
        fresh: list[str] = []
        for host in left:
            found = self._find(host)
            if found is None:
                fresh.append(host)
            else:
                self._put(host, *found)
        for key, joins in self._joins.items():
            self._apply(self._sections[key], joins)
        self._racks()
        taken = {*self._domain.values(), *self._domain}
        left = [host for host in fresh if host not in self._refused]
        Entries(self._sheet, self._told, taken, self._log).add(left)

    # From one supernode to another

    def _moves(self) -> None:
        """Move hosts to the supernode that has most of their scale-up fabric."""
        supernodes = {item.name for item in self._sheet.inventory.supernodes}
        for group in self._told.groups:
            held = [host for host in group.hosts if host in self._domain]
            votes = Counter(self._domain[host] for host in held).most_common(1)
            if not votes or 2 * votes[0][1] <= len(held) or votes[0][0] not in supernodes:
                continue
            for host in held:
                old, name = self._domain[host], votes[0][0]
                if old != name and self._can_move(host, old, name):
                    self._take(host, old)
                    found = self._into(host, name)
                    if found is not None:
                        self._put(host, *found, moved=True)
                        self._log.changed(
                            of_hosts([host], "domain"), old, name, self._origin([host])
                        )

    def _can_move(self, host: str, old: str, name: str) -> bool:
        """Return whether neither fabric has an order, and none is left empty."""
        there, here = self._sheet.of_domain(name), self._sheet.of_domain(old)
        if there is None or here is None:
            return False
        spares = int(here[0].item.text("spares") or 0)
        return not (
            there[0].is_ordered
            or here[0].is_ordered
            or len(here[0].all_hosts(here[1])) <= spares + 1
            or self._single & {*there[0].all_hosts(there[1]), host}
        )

    def _take(self, host: str, name: str) -> None:
        found = self._sheet.of_domain(name)
        if found is None:
            return
        section, at = found
        if len(section.names) > 1:
            section = self._sheet.isolate(section, at, f"{name} has fewer nodes than its class")
        for part in list(section.parts):
            hosts = [item for item in section.hosts(part, 0) if item != host]
            if host not in section.hosts(part, 0):
                continue
            if hosts:
                section.set_hosts(part, [hosts])
            else:
                listed = nodes_of(section)
                listed.remove(part.item)
                section.parts.remove(part)

    # Where a host belongs

    def _find(self, host: str) -> tuple[Section, int] | None:
        group = self._group.get(host)
        if group is not None:
            votes = Counter(self._domain[h] for h in group.hosts if h in self._domain)
            name = votes.most_common(1)[0][0] if votes else ""
            return self._into(host, name) if name else None
        near = [
            (section, at)
            for section in self._sheet.domains
            for at in range(len(section.names))
            if self._fitting(host, section, at) is not None
        ]
        alike = [
            (section, at)
            for section, at in near
            if stem(host) in {stem(other) for other in section.all_hosts(at)}
        ]
        if len(alike) != 1 and host in self._leaves:
            leaf = self._leaves[host]
            alike = [
                (section, at)
                for section, at in near
                if section.kind == "pools"
                and any(self._leaves.get(other) == leaf for other in section.all_hosts(at))
            ]
        return self._into(host, alike[0][0].names[alike[0][1]]) if len(alike) == 1 else None

    def _into(self, host: str, name: str) -> tuple[Section, int] | None:
        """Return a supernode or pool by name, None if the host cannot be added to it."""
        found = self._sheet.of_domain(name)
        if found is None:
            return None
        section, at = found
        if section.is_ordered:
            what = f"{host} belongs to {name}, whose hosts stand in the order of the fabric"
            self._refuse(host, what, f"write it, and dims, under {name} by hand")
            return None
        if self._single & set(section.all_hosts(at)) and host not in self._leaves:
            what = f"{host} looks like one of {name}, whose hosts hang under switches one by one"
            self._refuse(host, what, "write it there, and under its switch, by hand")
            return None
        return found

    def _refuse(self, host: str, what: str, todo: str) -> None:
        self._log.differs(self._origin([host])[0], what, todo)
        self._refused.append(host)

    def _fitting(self, host: str, section: Section, at: int) -> int | None:
        """Return the part of an instance that a host is equal to, None if there is none."""
        seen = self._told.seen[host]
        for number, part in enumerate(section.parts):
            current = bare(part.classes[at])
            if wanted(current, section.names[at], seen) == current:
                return number
        return None

    def _put(self, host: str, section: Section, at: int, *, moved: bool = False) -> None:
        joins = self._joins.setdefault(id(section), _Joins())
        self._sections[id(section)] = section
        number = self._fitting(host, section, at)
        if moved:
            self._moved.add(host)
        if number is not None:
            joins.parts.setdefault((at, number), []).append(host)
        else:
            current = bare(section.parts[0].classes[at])
            wish = wanted(current, section.names[at], self._told.seen[host])
            joins.own.setdefault((at, wish), []).append(host)

    # Into what is there

    def _apply(self, section: Section, joins: _Joins) -> None:
        if len(section.names) > 1 and not self._alike(section, joins):
            touched = {at for at, _ in (*joins.parts, *joins.own)}
            for at in sorted(touched, reverse=True):
                name = section.names[at]
                if len(section.names) > 1:
                    alone = self._sheet.isolate(
                        section, at, f"{name} has more nodes than its class"
                    )
                    self._one(alone, _of_instance(joins, at))
                else:
                    self._one(section, _of_instance(joins, at))
            return
        if len(section.names) == 1:
            self._one(section, joins)

    def _alike(self, section: Section, joins: _Joins) -> bool:
        """Let a whole class grow, if all of it grows alike."""
        if joins.own:
            return False
        texts: list[tuple[Part, str]] = []
        instances = range(len(section.names))
        for number, part in enumerate(section.parts):
            hosts = [
                [*section.hosts(part, at), *joins.parts.get((at, number), ())] for at in instances
            ]
            texts.append((part, section.pattern_for(part, hosts)))
        if not all(text for _, text in texts):
            return False
        before = [section.all_hosts(at) for at in instances]
        for part, text in texts:
            put(part.item, "hosts", text)
        for at in instances:
            mine = [host for (i, _), hosts in joins.parts.items() if i == at for host in hosts]
            self._joined(section.names[at], mine, before[at])
        return True

    def _one(self, section: Section, joins: _Joins) -> None:
        before = section.all_hosts(0)
        for (_, number), hosts in joins.parts.items():
            part = section.parts[number]
            section.set_hosts(part, [[*section.hosts(part, 0), *hosts]])
            self._joined(section.names[0], hosts, before)
        for (_, wish), hosts in joins.own.items():
            self._own(section, wish, hosts)
            self._joined(section.names[0], hosts, before)

    def _own(self, section: Section, wish: NodeClass, hosts: Sequence[str]) -> None:
        listed = nodes_of(section)
        first = section.parts[0]
        item = copied(first.item)
        item.fold = True
        item.comment = self._sheet.mark(f"new: {hostlist.fold(hosts)}")
        put(item, "hosts", hostlist.fold(hosts))
        section.fit_options(item)
        write(item, bare(first.classes[0]), wish)
        listed.append(item)
        section.parts.append(Part(item, [replace(wish, where=first.classes[0].where)]))

    def _joined(self, name: str, hosts: Sequence[str], before: Sequence[str]) -> None:
        hosts = [host for host in hosts if host not in self._moved]
        if hosts:
            self._log.changed(of_hosts(hosts), None, f"in {name}", self._origin(hosts))
            self._to_rack(hosts, before)
            if self._single & set(before):
                self._network.hang(hosts)

    def _to_rack(self, hosts: Sequence[str], before: Sequence[str]) -> None:
        """Keep that new hosts go into the rack that held all others of their domain."""
        for section in self._sheet.racks:
            for at, name in enumerate(section.names):
                if set(section.all_hosts(at)) == set(before):
                    self._in_racks.setdefault(name, []).extend(hosts)

    def _racks(self) -> None:
        """Write the hosts that racks got: a class of them stays one where all got alike."""
        for section in list(self._sheet.racks):
            more = [self._in_racks.get(name, []) for name in section.names]
            if not any(more):
                continue
            for name, hosts in zip(section.names, more, strict=True):
                if hosts:
                    self._log.changed(of_hosts(hosts, "rack"), None, name, self._origin(hosts))
            held = [[*section.all_hosts(at), *hosts] for at, hosts in enumerate(more)]
            if text := section.pattern_for(section.parts[0], held):
                put(section.parts[0].item, "hosts", text)
                continue
            for at in reversed(range(len(more))):
                own = section
                if len(section.names) > 1 and more[at]:
                    own = self._sheet.isolate(section, at, f"{section.names[at]} holds more nodes")
                if more[at]:
                    own.set_hosts(own.parts[0], [held[at]])

    def _origin(self, hosts: Iterable[str]) -> list[Where]:
        return [place for host in hosts for place in self._told.seen[host].origin]

    # Another one of a class

    def _as_instances(self, hosts: Sequence[str]) -> list[str]:
        """Add to classes those of which all nodes are new; return the hosts that are left."""
        left = list(hosts)
        for section in self._sheet.domains:
            if section.numbers[0] is None or section.is_ordered:
                continue
            for number in dict.fromkeys(n for host in left for n in re.findall("[0-9]+", host)):
                if number in section.numbers or not self._is_instance(section, number, left):
                    continue
                mine = [h for part in section.parts for h in _expanded(part, number)]
                left = [host for host in left if host not in mine]
                self._instance(section, number, mine)
        return left

    def _is_instance(self, section: Section, number: str, hosts: Sequence[str]) -> bool:
        listed = set(hosts)
        name = _stem_of(section) + number
        taken = {*self._domain.values(), *self._domain, *listed}
        for part in section.parts:
            current = bare(part.classes[0])
            if not _expanded(part, number):
                return False
            for host in _expanded(part, number):
                if host not in listed:
                    return False
                group = self._group.get(host)
                if group is not None and any(h in self._domain for h in group.hosts):
                    return False
                if wanted(current, name, self._told.seen[host]) != current:
                    return False
        return name not in taken and not self._single & set(section.all_hosts(0))

    def _instance(self, section: Section, number: str, hosts: list[str]) -> None:
        name = self._sheet.add_instance(section, number)
        self._log.changed(of_hosts(hosts), None, f"in {name}", self._origin(hosts))
        for rack in self._sheet.racks:
            numbers = [n for n in section.numbers if n != number]
            if rack.numbers == numbers and set(_expanded(rack.parts[0], number)) == set(hosts):
                held = self._sheet.add_instance(rack, number)
                self._log.changed(of_hosts(hosts, "rack"), None, held, self._origin(hosts))


def _of_instance(joins: _Joins, at: int) -> _Joins:
    return _Joins(
        {(0, number): hosts for (i, number), hosts in joins.parts.items() if i == at},
        {(0, wish): hosts for (i, wish), hosts in joins.own.items() if i == at},
    )


def _expanded(part: Part, number: str) -> list[str]:
    try:
        return hostlist.expand(part.pattern.replace("{n}", number))
    except ValueError:
        return []


def _stem_of(section: Section) -> str:
    return section.names[0].removesuffix(section.numbers[0] or "")
