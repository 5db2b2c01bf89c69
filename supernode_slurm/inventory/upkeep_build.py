"""From the file's racks, feeds, versions and care to the model: every name looked up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from .. import hostlist
from ..errors import Problem, Where, nearest
from . import schema
from .fields import class_numbers
from .model import Pool, Supernode
from .upkeep import (
    Absent,
    Acceptance,
    Cooling,
    Derate,
    Equipment,
    Feed,
    Installed,
    Maintenance,
    NodePower,
    Rack,
    Upkeep,
)
from .upkeep_schema import CoolingSection, NodePowerSection, RackSection, ShelvesSection
from .yamltree import place_of

_FAILED = {"none": 0.0, "N+1": 1.0}


class _At(Protocol):
    at: dict[str, Where]


def node_power(raw: schema.NodesSection) -> NodePower:
    """Return what a file says of the power of a node."""
    said = raw.power
    if isinstance(said, NodePowerSection):
        return NodePower(said.most, said.host, said.idle)
    return NodePower(most_w=said)


class UpkeepResolver:
    """Turns the sections of one file into the model; adds to ``problems``."""

    def __init__(
        self,
        raw: schema.InventoryFile,
        problems: list[Problem],
        domains: Sequence[Supernode | Pool],
        is_partial: bool,
    ) -> None:
        self.raw = raw
        self.problems = problems
        self._domains = {domain.name: domain for domain in domains}
        self._hosts = {host for domain in domains for host in domain.hosts}
        self._hosts |= {host for raw_ in raw.foreign for host in hostlist.expand(raw_.hosts)}
        self._is_partial = is_partial
        """Names of the file are missing: what is unknown may be defined in what was lost."""

    def racks(self, known: set[str]) -> tuple[Rack, ...]:
        """Return the racks, classes of them expanded."""
        found = [rack for raw in self.raw.racks for rack in self._class_of_racks(raw, known)]
        self._once("rack", [(rack.name, rack.where) for rack in found])
        place: dict[str, str] = {}
        for rack in found:
            twice = [host for host in rack.hosts if host in place]
            if twice:
                what = f"{hostlist.fold(twice)} in rack '{place[twice[0]]}' and in '{rack.name}'"
                self._problem(rack.where, what, "a node stands in one rack")
            place.update(dict.fromkeys(rack.hosts, rack.name))
        return tuple(found)

    def run(self) -> Upkeep:
        """Return all but the racks."""
        return Upkeep(
            feeds=self._feeds(),
            installed=self._installed(),
            maintenance=tuple(
                Maintenance(raw.name, self._names(raw, raw.on), raw.every, raw.last, raw.at["name"])
                for raw in self.raw.maintenance
            ),
            accepted=tuple(
                Acceptance(raw.rule, self._plain(raw.on), raw.why, raw.until, raw.at["rule"])
                for raw in self.raw.accept
            ),
            absent=tuple(
                Absent(self._known(raw.hosts, raw.at["hosts"]), raw.since, raw.at["hosts"])
                for raw in self.raw.absent
            ),
            derated=self._derated(),
        )

    def _problem(self, where: Where, what: str, todo: str = "") -> None:
        self.problems.append(Problem(where, what, todo))

    def _class_of_racks(self, raw: RackSection, known: set[str]) -> list[Rack]:
        names = hostlist.expand(raw.name)
        numbers = class_numbers(raw.name) if len(names) > 1 else [""]
        if len(numbers) != len(names):
            what = f"'{raw.name}': a class has one bracket at the end, like r[1-8]"
            self._problem(raw.at["name"], what)
            return []
        if len(names) > 1 and "{n}" not in raw.hosts:
            self._problem(raw.at["hosts"], "equal racks would share hosts", "write {n}")
            return []
        if len(names) == 1 and "{n}" in raw.hosts:
            what = "'{n}' needs a class of racks, like name: r[1-8]"
            self._problem(raw.at["hosts"], what)
            return []
        found = []
        for name, number in zip(names, numbers, strict=True):
            hosts = tuple(hostlist.expand(raw.hosts.replace("{n}", number)))
            stray = [host for host in hosts if host not in known]
            if stray and not self._is_partial:
                what = f"rack '{name}' holds unknown {hostlist.fold(stray)}"
                self._problem(raw.at["hosts"], what, "name hosts of supernodes or pools")
            found.append(self._rack(raw, name, hosts))
        return found

    def _rack(self, raw: RackSection, name: str, hosts: tuple[str, ...]) -> Rack:
        feeds = self._plain(raw.feeds)
        self._feed_names(feeds, raw.at.get("feeds", raw.at["name"]))
        equipment = tuple(
            Equipment(key, item.count, item.power) for key, item in raw.equipment.items()
        )
        return Rack(
            name=name,
            hosts=hosts,
            power_w=raw.power,
            shelves_w=_shelves(raw.shelves),
            cooling=_cooling(raw.cooling),
            equipment=equipment,
            feeds=feeds,
            where=raw.at["name"],
        )

    def _feeds(self) -> tuple[Feed, ...]:
        found = {
            name: Feed(name, raw.power, self._plain(raw.source), raw.at["name"])
            for raw in self.raw.feeds
            for name in hostlist.expand(raw.name)
        }
        self._once(
            "feed",
            [
                (name, raw.at["name"])
                for raw in self.raw.feeds
                for name in hostlist.expand(raw.name)
            ],
        )
        for feed in found.values():
            self._feed_names(feed.sources, feed.where)
        ordered: list[Feed] = []
        placed: set[str] = set()
        left = dict(found)
        while left:
            ready = [
                feed
                for feed in left.values()
                if all(name in placed or name not in found for name in feed.sources)
            ]
            if not ready:
                feed = next(iter(left.values()))
                names = ", ".join(left)
                self._problem(feed.where, f"feeds hang on each other: {names}")
                break
            ordered += ready
            placed |= {feed.name for feed in ready}
            left = {name: feed for name, feed in left.items() if name not in placed}
        return tuple(ordered)

    def _feed_names(self, names: Iterable[str], where: Where) -> None:
        known = [name for raw in self.raw.feeds for name in hostlist.expand(raw.name)]
        for name in names:
            if name not in known:
                self._problem(where, f"no feed '{name}'", nearest(name, known))

    def _installed(self) -> tuple[Installed, ...]:
        found = []
        for component, versions in self.raw.versions.items():
            seen: dict[str, str] = {}
            for version, text in versions.items():
                where = place_of(text, self.raw.at["versions"])
                hosts = self._known(text, where)
                twice = [host for host in hosts if host in seen]
                if twice:
                    what = (
                        f"{component} of {hostlist.fold(twice)} is {seen[twice[0]]} and {version}"
                    )
                    self._problem(where, what, "a host has one version of a component")
                seen.update(dict.fromkeys(hosts, version))
                found.append(Installed(component, version, hosts, where))
        return tuple(found)

    def _derated(self) -> tuple[Derate, ...]:
        found = [
            Derate(name, raw.cap, raw.at["on"])
            for raw in self.raw.derated
            for name in hostlist.expand(raw.on)
        ]
        for item in found:
            if item.domain not in self._domains and not self._is_partial:
                what = f"no supernode or pool '{item.domain}'"
                self._problem(item.where, what, nearest(item.domain, self._domains))
        self._once("derated", [(item.domain, item.where) for item in found])
        return tuple(found)

    def _names(self, raw: _At, texts: list[str] | str) -> tuple[str, ...]:
        """Return names of things in the room, and report those that are none."""
        found = self._plain(texts)
        racks = {name for item in self.raw.racks for name in hostlist.expand(item.name)}
        fabrics = {item.name for item in self.raw.fabrics}
        known = self._domains.keys() | self._hosts | racks | fabrics
        for name in found if not self._is_partial else ():
            if name not in known:
                what = f"'{name}' is no supernode, pool, rack, fabric or host"
                self._problem(raw.at["on"], what, nearest(name, known))
        return found

    def _plain(self, texts: list[str] | str) -> tuple[str, ...]:
        listed = [texts] if isinstance(texts, str) else texts
        return tuple(dict.fromkeys(name for text in listed for name in hostlist.expand(text)))

    def _known(self, text: str, where: Where) -> tuple[str, ...]:
        hosts = tuple(hostlist.expand(text))
        stray = [host for host in hosts if host not in self._hosts]
        if stray and not self._is_partial:
            what = f"unknown {hostlist.fold(stray)}"
            self._problem(where, what, nearest(stray[0], self._hosts))
        return hosts

    def _once(self, kind: str, named: Iterable[tuple[str, Where]]) -> None:
        seen: set[str] = set()
        for name, where in named:
            if name in seen:
                self._problem(where, f"{kind} '{name}' stands twice", "leave it at one")
            seen.add(name)


def _shelves(raw: ShelvesSection | None) -> float | None:
    if raw is None:
        return None
    failed = raw.count / 2 if raw.redundancy == "N+N" else _FAILED[raw.redundancy]
    return max(int(raw.count - failed), 0) * raw.power


def _cooling(raw: str | CoolingSection | None) -> Cooling | None:
    if isinstance(raw, CoolingSection):
        return Cooling(raw.kind, raw.liquid, raw.air)
    return None if raw is None else Cooling(raw)
