"""Hosts that changed: their class changes with them, or they leave it for an entry of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ... import hostlist
from ...errors import Where
from ...inventory import NodeClass
from ..machines import OF_EACH
from .changes import Log, of_hosts, shown
from .sheet import MustSplit, Part, Section, Sheet, copied, put
from .spans import Item
from .told import Told
from .wanted import differences, wanted
from .writing import write

Wish = NodeClass | None
"""What a host should be, hosts and place left out; None where nothing speaks for any."""


def bare(nodes: NodeClass) -> NodeClass:
    """Return a class to compare: without hosts, place, and what each host has for itself."""
    options = tuple((k, "" if k.casefold() in OF_EACH else v) for k, v in nodes.options)
    return replace(nodes, hosts=(), where=Where(""), options=options)


@dataclass(slots=True)
class Shapes:
    """One run over all supernodes and pools."""

    sheet: Sheet
    told: Told
    away: frozenset[str]
    """Hosts that are absent: where they are few they go with their class."""
    log: Log

    def run(self) -> None:
        """Change every class whose hosts are seen otherwise."""
        for section in list(self.sheet.domains):
            self._section(section)

    def _wishes(self, section: Section, part: Part, instance: int) -> dict[str, Wish]:
        current = bare(part.classes[instance])
        found: dict[str, Wish] = {}
        hosts = section.hosts(part, instance)
        few = 2 * sum(host in self.away for host in hosts) < len(hosts)
        for host in hosts:
            seen = self.told.seen.get(host)
            if host in self.away:
                found[host] = None if few else current
            elif seen is None:
                found[host] = current
            else:
                found[host] = wanted(current, section.names[instance], seen)
        return found

    def _section(self, section: Section) -> None:
        wishes = [
            [self._wishes(section, part, at) for part in section.parts]
            for at in range(len(section.names))
        ]
        current = tuple(bare(part.classes[0]) for part in section.parts)
        votes = [tuple(map(_agreed, parts, current)) for parts in wishes]
        if len(votes) > 1 and (len(set(votes)) > 1 or None in votes[0]):
            whole = [vote for vote in votes if None not in vote]
            stays = (
                current if current in whole or not whole else Counter(whole).most_common(1)[0][0]
            )
            keeps = [at for at, vote in enumerate(votes) if vote == stays]
            keeps = keeps or [0]  # none is whole: the first keeps the place of the class
            for at in reversed(range(len(votes))):
                if at not in keeps:
                    name = section.names[at]
                    alone = self.sheet.isolate(section, at, f"{name} differs from its class")
                    self._parts(alone, wishes.pop(at))
                    self._refold(alone)
        if len(section.names) == 1:
            self._parts(section, wishes[0])
            self._refold(section)
        else:
            for at, part in enumerate(section.parts):
                hosts = {h: w for parts in wishes for h, w in parts[at].items()}
                self._write(part, _agreed(hosts, current[at]), hosts)

    def _refold(self, section: Section) -> None:
        if section in self.sheet.sections:
            self.sheet.refold(section)

    def _write(self, part: Part, wish: Wish, hosts: Mapping[str, Wish]) -> None:
        """Change a class where it stands."""
        old = bare(part.classes[0])
        if wish is None or wish == old:
            return
        self._tell(old, wish, [host for host, mine in hosts.items() if mine == wish])
        write(part.item, old, wish)
        part.classes[:] = [
            replace(wish, hosts=item.hosts, where=item.where) for item in part.classes
        ]

    def _tell(self, old: NodeClass, new: NodeClass, hosts: Sequence[str]) -> None:
        places = [place for host in hosts for place in self.told.seen[host].origin]
        for key, (before, after) in differences(old, new).items():
            self.log.changed(of_hosts(hosts, key), before, after, places)

    def _parts(self, section: Section, wishes: Sequence[Mapping[str, Wish]]) -> None:
        for part, hosts in list(zip(section.parts, wishes, strict=True)):
            if section.is_ordered:
                self._in_order(section, part, hosts)
            else:
                self._by_wish(section, part, hosts)

    def _by_wish(self, section: Section, part: Part, hosts: Mapping[str, Wish]) -> None:
        old = bare(part.classes[0])
        groups: dict[NodeClass, list[str]] = {}
        for host, wish in hosts.items():
            if wish is not None:
                groups.setdefault(wish, []).append(host)
        if not groups or groups.keys() == {old}:
            return
        stays = old if old in groups else max(groups, key=lambda wish: len(groups[wish]))
        moved = {host for wish, mine in groups.items() if wish != stays for host in mine}
        if not moved and (other := self._equal(section, part, stays)):
            if self.sheet.has_comments(part.item):
                self._write(part, stays, hosts)
                return
            self._tell(old, stays, groups[stays])
            self._give(section, other, list(hosts))
            self._remove(section, part)
            return
        left = [host for host in hosts if host not in moved]
        if moved:
            section.set_hosts(part, [left])
        self._write(part, stays, {host: hosts[host] for host in left})
        for wish, mine in groups.items():
            if wish != stays:
                self._tell(old, wish, mine)
                if other := self._equal(section, part, wish):
                    self._give(section, other, mine)
                else:
                    self._own(section, part, wish, mine, _why(old, wish))

    def _equal(self, section: Section, part: Part, wish: NodeClass) -> Part | None:
        for other in section.parts:
            if other is not part and bare(other.classes[0]) == wish:
                return other
        return None

    def _give(self, section: Section, part: Part, hosts: Sequence[str]) -> None:
        section.set_hosts(part, [[*section.hosts(part, 0), *hosts]])

    def _own(
        self, section: Section, part: Part, wish: NodeClass, hosts: Sequence[str], why: str
    ) -> Part:
        """Add a part behind another one, for hosts that were of it."""
        listed = nodes_of(section)
        old = bare(part.classes[0])
        item = copied(part.item)
        item.fold = True
        item.comment = self.sheet.mark(f"{hostlist.fold(hosts)}: {why}")
        put(item, "hosts", hostlist.fold(hosts, sort=False))
        section.fit_options(item)
        write(item, old, wish)
        own = Part(item, [replace(wish, where=part.classes[0].where)])
        listed.insert(listed.index(part.item) + 1, item)
        section.parts.insert(section.parts.index(part) + 1, own)
        return own

    def _remove(self, section: Section, part: Part) -> None:
        listed = nodes_of(section)
        del listed[listed.index(part.item)]
        section.parts.remove(part)

    def _in_order(self, section: Section, part: Part, hosts: Mapping[str, Wish]) -> None:
        """Split a part into runs of equal hosts: their order is that of the fabric."""
        old = bare(part.classes[0])
        runs: list[tuple[NodeClass, list[str]]] = []
        for host, wish in hosts.items():
            here = wish or (runs[-1][0] if runs else old)
            if runs and runs[-1][0] == here:
                runs[-1][1].append(host)
            else:
                runs.append((here, [host]))
        if len(runs) < 2:
            for wish, _ in runs:
                self._write(part, wish, hosts)
            self._join_neighbours(section, part)
            return
        for wish in dict.fromkeys(wish for wish, _ in runs):
            if wish != old:
                self._tell(old, wish, [host for host, mine in hosts.items() if mine == wish])
        for wish, mine in reversed(runs[1:]):
            self._own(section, part, wish, mine, _why(old, wish))
        first, mine = runs[0]
        section.set_hosts(part, [mine])
        write(part.item, old, first)
        part.classes[0] = replace(first, where=part.classes[0].where)

    def _join_neighbours(self, section: Section, part: Part) -> None:
        """Make one of neighbours that became equal, where nobody commented the second."""
        at = section.parts.index(part)
        before = section.parts[at - 1] if at else None
        if before is None or bare(before.classes[0]) != bare(part.classes[0]):
            return
        if not self.sheet.has_comments(part.item) and is_ours(self.sheet, part.item):
            self._give(section, before, section.hosts(part, 0))
            self._remove(section, part)


def nodes_of(section: Section) -> list[Item]:
    """Return the list of a section's parts; raises ``MustSplit`` where there is none yet."""
    item = section.item.at("nodes")
    if item is None or not isinstance(item.value, list):
        if item is not None and item.span is None:
            item.value = [Item(item.value, fold=True)]
            section.parts[0].item = item.value[0]
            item.fold = True
            return item.value
        raise MustSplit(item or section.item)
    return item.value


def is_ours(sheet: Sheet, item: Item) -> bool:
    """Return whether a comment of ours stands over an entry."""
    if item.span is None:
        return True
    line = sheet.body.rfind("\n", 0, item.span.start)
    above = sheet.body[sheet.body.rfind("\n", 0, max(line, 0)) + 1 : max(line, 0)]
    return above.lstrip().startswith("# sn import")


def _why(old: NodeClass, wish: NodeClass) -> str:
    texts = [f"{k} {shown(a)} -> {shown(b)}" for k, (a, b) in differences(old, wish).items()]
    return "; ".join(texts) or "as before, in their place in the fabric"


def _agreed(hosts: Mapping[str, Wish], otherwise: NodeClass) -> Wish:
    """Return what all hosts should be, None where they differ."""
    found = {wish for wish in hosts.values() if wish is not None}
    return otherwise if not found else found.pop() if len(found) == 1 else None
