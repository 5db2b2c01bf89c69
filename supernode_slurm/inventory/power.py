"""What a room draws at most: its racks, and its feeds as they fail; pure sums over the inventory.

18 nodes of 6.667 kW are over 120 kW by 6 W: nothing is rounded and nothing has a margin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .cooling import Limit, cooling_limit
from .model import Inventory
from .power_nodes import (
    NODE,
    Drawn,
    Missing,
    Places,
    headroom,
    in_rack,
    is_over,
    is_unsure,
    node_draw,
    places,
    total,
)
from .upkeep import Feed, Rack

__all__ = [
    "Case",
    "Drawn",
    "Load",
    "Missing",
    "Overrated",
    "RackPower",
    "RoomPower",
    "headroom",
    "is_over",
    "room_power",
    "total",
]


@dataclass(frozen=True, slots=True)
class RackPower:
    """A rack: what it draws, what it may draw, what its cooling takes."""

    rack: Rack
    most: Drawn
    """Of nodes and equipment."""
    idle: Drawn
    cooling: Limit | None
    """None where the inventory does not say how it is cooled, or nobody what that takes."""
    is_capped: bool
    """Cards in it run under a power cap."""

    @property
    def headroom_w(self) -> float | None:
        """Return what is left of the budget, None where one of both is unknown."""
        return headroom(self.most.w, self.rack.budget_w)

    @property
    def is_over(self) -> bool:
        """Return whether it draws more than its budget."""
        return is_over(self.most.w, self.rack.budget_w)

    @property
    def is_too_hot(self) -> bool:
        """Return whether it draws more than its cooling takes, which may be a usual figure."""
        return self.cooling is not None and is_over(self.most.w, self.cooling.w)

    @property
    def is_surely_too_hot(self) -> bool:
        """Return whether it draws more than its cooling takes by the inventory's own figures."""
        return self.is_too_hot and self.cooling is not None and not self.cooling.is_default


@dataclass(frozen=True, slots=True)
class Load:
    """What a feed carries in one case."""

    feed: Feed
    drawn: Drawn

    @property
    def is_over(self) -> bool:
        """Return whether it carries more than it is rated for."""
        return is_over(self.drawn.w, self.feed.power_w)


@dataclass(frozen=True, slots=True)
class Case:
    """The normal case, or the failure of one feed."""

    failed: str
    """Empty for the normal case."""
    dead: tuple[str, ...]
    """The feeds without power: the failed one, and those that hang on nothing else."""
    dark: tuple[str, ...]
    """Racks that no live feed reaches, and that had one."""
    loads: tuple[Load, ...]
    """Of the live feeds."""

    @property
    def over(self) -> tuple[Load, ...]:
        """Return the feeds that carry more than they are rated for."""
        return tuple(load for load in self.loads if load.is_over)

    def load(self, feed: str) -> Load | None:
        """Return what a feed carries, None if it is dead."""
        return next((load for load in self.loads if load.feed.name == feed), None)


@dataclass(frozen=True, slots=True)
class Overrated:
    """Feeds that are rated for more, together, than their source."""

    source: Feed
    feeds: tuple[Feed, ...]

    @property
    def rated_w(self) -> float:
        """Return their ratings together."""
        return sum(feed.power_w for feed in self.feeds)


@dataclass(frozen=True, slots=True)
class RoomPower:
    """The power of a machine room."""

    racks: tuple[RackPower, ...]
    normal: Case
    failures: tuple[Case, ...]
    """Of each feed, in the order of the feeds."""
    overrated: tuple[Overrated, ...]
    homeless: tuple[str, ...]
    """Hosts that stand in no rack, where there are racks."""
    unfed: tuple[str, ...]
    """Racks without a feed, where there are feeds."""
    unsure: tuple[str, ...]
    """Kinds of cards that are counted by a figure of the catalogue that nobody has checked."""

    @property
    def total(self) -> Drawn:
        """Return what all racks draw together."""
        return total(item.most for item in self.racks)

    def worst(self, feed: str) -> tuple[Case, Load]:
        """Return the case in which a feed carries most; the normal one before others."""
        found = [
            (case, load)
            for case in (self.normal, *self.failures)
            if (load := case.load(feed)) is not None
        ]
        return max(found, key=lambda item: item[1].drawn.w or 0.0)

    @property
    def is_over(self) -> bool:
        """Return whether a rack or, in any case, a feed is over a limit that the inventory sets."""
        return any(item.is_over or item.is_surely_too_hot for item in self.racks) or any(
            case.over for case in (self.normal, *self.failures)
        )


def room_power(inventory: Inventory) -> RoomPower:
    """Return what racks and feeds draw, in the normal case and when each feed has failed."""
    known = places(inventory)
    racks = tuple(_rack_power(inventory, known, rack) for rack in inventory.racks)
    feeds = inventory.upkeep.feeds
    racked = {host for rack in inventory.racks for host in rack.hosts}
    hosts = [host for domain in inventory.domains for host in domain.hosts]
    return RoomPower(
        racks=racks,
        normal=_case(feeds, racks, ""),
        failures=tuple(_case(feeds, racks, feed.name) for feed in feeds),
        overrated=tuple(_overrated(feeds)),
        homeless=tuple(host for host in hosts if host not in racked) if racks else (),
        unfed=tuple(item.rack.name for item in racks if not item.rack.feeds) if feeds else (),
        unsure=_unsure(inventory, known),
    )


def _unsure(inventory: Inventory, known: Places) -> tuple[str, ...]:
    classes = {
        id(nodes): nodes
        for rack in inventory.racks
        for _, nodes, _ in in_rack(known, rack)
        if nodes.power.most_w is None
    }
    kinds = {item.accelerator for nodes in classes.values() for item in nodes.devices}
    return tuple(sorted(key for key in kinds if is_unsure(inventory, key)))


def _rack_power(inventory: Inventory, known: Places, rack: Rack) -> RackPower:
    most: list[Drawn] = [Drawn(item.count * item.power_w) for item in rack.equipment]
    idle, capped = list(most), False
    for domain, nodes, hosts in in_rack(known, rack):
        cap_w = inventory.upkeep.cap_w(domain)
        each = node_draw(inventory, nodes, hosts, cap_w)
        most.append(_times(each.most, len(hosts)))
        idle.append(_times(each.idle, len(hosts)))
        capped |= cap_w is not None
    others = tuple(host for host in rack.hosts if host not in known)
    if others:
        stranger = Drawn(None, (Missing(NODE, others),))
        most.append(stranger)
        idle.append(stranger)
    return RackPower(rack, total(most), total(idle), cooling_limit(rack.cooling), capped)


def _times(drawn: Drawn, count: int) -> Drawn:
    return Drawn(None if drawn.w is None else count * drawn.w, drawn.missing)


def _case(feeds: tuple[Feed, ...], racks: tuple[RackPower, ...], failed: str) -> Case:
    """Return the loads when one feed has failed; a load is shared equally by the live ones."""
    dead = {failed} if failed else set()
    for feed in feeds:  # Sources come before what hangs on them.
        if feed.sources and dead.issuperset(feed.sources):
            dead.add(feed.name)
    parts: dict[str, list[Drawn]] = {feed.name: [] for feed in feeds}
    dark = []
    for item in racks:
        live = [name for name in item.rack.feeds if name not in dead]
        if item.rack.feeds and not live:
            dark.append(item.rack.name)
        _share(item.most, live, parts)
    loads: list[Load] = []
    for feed in reversed(feeds):
        if feed.name not in dead:
            drawn = total(parts[feed.name]) if parts[feed.name] else Drawn(0.0)
            _share(drawn, [name for name in feed.sources if name not in dead], parts)
            loads.insert(0, Load(feed, drawn))
    gone = tuple(feed.name for feed in feeds if feed.name in dead)
    return Case(failed, gone, tuple(dark), tuple(loads))


def _share(drawn: Drawn, live: list[str], parts: dict[str, list[Drawn]]) -> None:
    for name in live:
        each = None if drawn.w is None else drawn.w / len(live)
        parts[name].append(Drawn(each, drawn.missing))


def _overrated(feeds: tuple[Feed, ...]) -> Iterable[Overrated]:
    for source in feeds:
        hung = tuple(feed for feed in feeds if source.name in feed.sources)
        if hung and is_over(sum(feed.power_w for feed in hung), source.power_w):
            yield Overrated(source, hung)
