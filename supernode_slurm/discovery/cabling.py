"""From what ``ibnetdiscover`` printed to the tree and the rails of a room's fabrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low

from .. import hostlist
from ..errors import Problem, UsageError, Where
from ..slurmconf.facts import FabricFacts
from ..slurmconf.grammar import read_text
from .adapters import Cable, HostNames, Wanted, Wiring, device_of, short_name, wire
from .ibnetdiscover import parse_ibnetdiscover
from .levels import Branch, branches, connected, natural, rank_switches
from .rails import Rails, find_rails
from .retrace import settle
from .room import Room, SwitchFacts, TopologyFacts

NAME = "ib"
"""Of the only fabric; several are ib-1, ib-2."""
_SHOWN = 8


def read_ibnetdiscover(path: Path, room: Room) -> None:
    """Keep what a text says until all sources are read."""
    subnet = parse_ibnetdiscover(read_text(path), str(path))
    if not any(switch.links for switch in subnet.switches):
        what = "holds no switch with a cable"
        todo = "run ibnetdiscover on a host whose port is up: there is nothing to place"
        room.error(Where(str(path)), what, todo)
    room.subnets.append((str(path), subnet))
    room.check()


def add_fabrics(room: Room, wanted: Wanted) -> None:
    """Turn kept texts into topologies; hosts are those that other sources name, or all.

    Raises ``ConfigError`` if no host can be placed, ``UsageError`` if there is nothing to
    choose from.
    """
    if not room.subnets:
        if wanted != Wanted():
            what = "--hca and --exclude-switch choose within fabrics"
            raise UsageError(f"{what}: no source is the output of ibnetdiscover")
        return
    asked = _asked(room)
    names = HostNames(room.guids, asked)
    wiring = _unique(wire(room.subnets, names, wanted), room)
    for what, guids in names.differ.items():
        todo = "its GUID counts: is the host's name stale in the fabric, or the list?"
        room.disagreement(Where(room.subnets[0][0]), f"adapter {_few(guids)} {what}", todo)
    _tell_idle(room, wanted)
    _Cabling(room, wiring, asked).add()
    room.check()


def _tell_idle(room: Room, wanted: Wanted) -> None:
    """Tell of patterns that nothing has the name of."""
    where = Where(room.subnets[0][0])
    parts = [subnet for _, subnet in room.subnets]
    switches = [switch for subnet in parts for switch in subnet.switches]
    devices = {device_of(item.name) for subnet in parts for item in subnet.adapters} - {""}
    for pattern in wanted.without:
        if not any(map(Wanted(without=(pattern,)).leaves_out, switches)):
            room.mistake(where, f"--exclude-switch {pattern}: no switch has such a name")
    for pattern in wanted.adapters:
        if not any(map(Wanted((pattern,)).takes, devices)):
            room.mistake(where, f"--hca {pattern}: no adapter has such a name")


def _asked(room: Room) -> tuple[str, ...]:
    """Return the hosts that other sources name."""
    named = [host for node in room.nodes for host in node.hosts]
    if not named:
        named += [host for facts in room.scale_ups for host in facts.hosts]
        named += room.bare
        named += [host for facts in room.gres for host in facts.hosts or ()]
        for topology in room.topologies:
            named += [host for switch in topology.switches for host in switch.nodes]
            named += [host for group in topology.groups for host in group.nodes]
    return tuple(dict.fromkeys(named))


def _unique(wiring: Wiring, room: Room) -> Wiring:
    """Return the wiring without hosts whose name several machines have."""
    guids: dict[tuple[str, str], set[str]] = {}
    for cable in wiring.cables:
        if cable.host and cable.device:
            guids.setdefault((cable.host, cable.device), set()).add(cable.guid)
    twice = {host for (host, _), mine in guids.items() if len(mine) > 1}
    for host in sorted(twice):
        where = next(cable.where for cable in wiring.cables if cable.host == host)
        what = f"several machines call themselves {host}: none of them is placed"
        room.fault(where, what, "give them their names, or the GUIDs of each")
    cables = (replace(c, host="") if c.host in twice else c for c in wiring.cables)
    return replace(wiring, cables=tuple(cables))


@dataclass(frozen=True, slots=True)
class _Found:
    """A tree over hosts, and the rails that led to it."""

    branch: Branch
    rails: Rails
    oversubscription: float


class _Cabling:
    """Builds the trees of one wiring."""

    def __init__(self, room: Room, wiring: Wiring, asked: tuple[str, ...]) -> None:
        self._room = room
        self._wiring = wiring
        named = list(dict.fromkeys(c.host for c in wiring.cables if c.host))
        self._asked = asked or tuple(named)
        self._others = [host for host in named if asked and host not in set(asked)]
        self._neighbours = {
            guid: {link.peer for link in switch.links if link.peer in wiring.switches} - {guid}
            for guid, switch in wiring.switches.items()
        }
        self._hosts = Counter(cable.switch for cable in wiring.cables)
        self._ranks = rank_switches(self._neighbours, self._hosts)
        self._names = self._free_names()
        self._leaf_of: dict[str, str] = {}

    def add(self) -> None:
        """Add the topologies, and tell of what could not be placed."""
        found = [tree for cables in self._groups() for tree in self._trees(cables)]
        self._tell_unplaced(found)
        if not found:
            where = Where(self._room.subnets[0][0])
            what = "no switch has a cable to a host that is wanted and has a name"
            self._room.error(where, what, "add the GUIDs of each host: clush -w @all ibstat")
            return
        self._tell_joined(found)
        if len(found) > 1:
            parts = ", ".join(hostlist.fold(self._under(tree.branch)) for tree in found[:_SHOWN])
            what = f"{len(found)} fabrics that no cable joins: over {parts}"
            self._room.mistake(Where(self._room.subnets[0][0]), what, "no job spans two of them")
        switches: list[SwitchFacts] = []
        for number, tree in enumerate(found, 1):
            name = NAME if len(found) == 1 else f"{NAME}-{number}"
            switches += self._switches(tree, name)
        settle(self._room, TopologyFacts(NAME, "tree", switches[0].where, tuple(switches)))

    def _groups(self) -> list[list[Cable]]:
        """Return the cables of wanted hosts, together where their fabrics share hosts."""
        asked = set(self._asked)
        cables = [cable for cable in self._wiring.cables if cable.host in asked]
        parts = enumerate(connected(self._neighbours))
        plane_of = {switch: f"plane {at}" for at, part in parts for switch in part}
        near: dict[str, set[str]] = {}
        for cable in cables:
            plane, host = plane_of[cable.switch], f"host {cable.host}"
            near.setdefault(plane, set()).add(host)
            near.setdefault(host, set()).add(plane)
        group_of = {item: at for at, part in enumerate(connected(near)) for item in part}
        groups: dict[int, list[Cable]] = {}
        for cable in cables:
            groups.setdefault(group_of[f"host {cable.host}"], []).append(cable)
        return list(groups.values())

    def _trees(self, cables: list[Cable]) -> list[_Found]:
        room = self._room

        def tell(problem: Problem, hosts: list[str]) -> None:
            room.of_hosts("disagreement", problem, hosts)

        rails = find_rails(cables, self._names.__getitem__, tell)
        self._leaf_of |= rails.leaf_of
        leaves = dict.fromkeys(rails.leaf_of.values())
        ratio = self._oversubscription(leaves)
        found = branches(self._neighbours, self._ranks, leaves, self._names)
        return [_Found(branch, rails, ratio) for branch in found]

    def _oversubscription(self, leaves: Iterable[str]) -> float:
        """Return how much hosts may ask of leaves for each unit that these have upwards.

        As half of the leaves have it or less; others are told.
        """
        down: dict[str, float] = {}
        for cable in self._wiring.cables:
            down[cable.switch] = down.get(cable.switch, 0.0) + (cable.gbs or 1.0)
        ratios: dict[str, float] = {}
        for leaf in leaves:
            links = [k for k in self._wiring.switches[leaf].links if k.peer in self._neighbours]
            up = sum(link.gbs or 1.0 for link in links)
            if up and len(links) > 1:
                ratios[leaf] = down[leaf] / up
        usual = round(max(median_low(ratios.values()), 1.0), 2) if ratios else 1.0
        for leaf, ratio in ratios.items():
            if ratio > 1.1 * usual:
                what = f"{self._names[leaf]} has {ratio:.2f} times as much to its hosts as upwards"
                todo = f"most leaves have {usual:g} or less: are cables to upper switches down?"
                self._room.fault(self._wiring.places[leaf], what, todo)
        return usual

    def _switches(self, tree: _Found, name: str) -> list[SwitchFacts]:
        """Return the switches of a tree, children before parents, the first with its fabric."""
        held: dict[str, list[str]] = {}
        for host, leaf in self._leaf_of.items():
            held.setdefault(leaf, []).append(host)
        taken: set[str] = set()
        found: list[SwitchFacts] = []

        def add(branch: Branch) -> str:
            below = tuple(add(child) for child in branch.children)
            first = branch.switches[0] if branch.switches else ""
            free = self._names[branch.switch or first] if branch.switch or first else f"{name}-all"
            while free in taken:
                free = f"{free}-up"
            taken.add(free)
            nodes = () if below else tuple(sorted(held[branch.switch], key=natural))
            where = self._wiring.places.get(branch.switch, Where(self._room.subnets[0][0]))
            found.append(SwitchFacts(free, nodes, below, where))
            return free

        add(tree.branch)
        rails = tree.rails
        speed = rails.gbs or None
        facts = FabricFacts(
            name, "fat-tree", rails.count if speed else None, speed, tree.oversubscription
        )
        return [replace(found[0], fabric=facts), *found[1:]]

    def _under(self, branch: Branch) -> list[str]:
        if branch.children:
            return [host for child in branch.children for host in self._under(child)]
        return [host for host, leaf in self._leaf_of.items() if leaf == branch.switch]

    def _free_names(self) -> dict[str, str]:
        """Return a name for each switch that no other and no host has."""
        found: dict[str, str] = {}
        taken = {cable.host for cable in self._wiring.cables} | set(self._asked)
        for guid, switch in self._wiring.switches.items():
            name = short_name(switch)
            if name in taken:
                name = f"{name}-{guid[-6:]}" if f"{name}-{guid[-6:]}" not in taken else f"s{guid}"
            taken.add(name)
            found[guid] = name
        return found

    def _tell_joined(self, found: Iterable[_Found]) -> None:
        """Tell how many real switches stand behind those of the tree."""
        ranks: dict[int, list[Branch]] = {}
        waiting = [tree.branch for tree in found]
        while waiting:
            branch = waiting.pop()
            waiting += branch.children
            if branch.children:
                ranks.setdefault(branch.rank, []).append(branch)
        for rank, joined in sorted(ranks.items()):
            count = sum(len(branch.switches) for branch in joined)
            if count > len(joined):
                first = joined[0].switch
                what = f"{count} switches at level {rank} above leaves are written as {len(joined)}"
                todo = "each is named after one of them: Slurm's trees have a single way up"
                self._room.lost(self._wiring.places[first], what, todo)

    def _tell_unplaced(self, found: Iterable[_Found]) -> None:
        room, source = self._room, Where(self._room.subnets[0][0])
        lost = [host for host in self._asked if host not in self._leaf_of]
        if lost:
            what = "{hosts}: the fabric has no adapter under that name or GUID"
            todo = "is it down? else name a source of its GUIDs too: clush -w @all ibstat"
            room.of_hosts("unsaid", Problem(source, what, todo), lost)
        if self._others:
            what = "{hosts} are in the fabric, but no other source names them: left out"
            room.of_hosts("lost", Problem(source, what), self._others)
        followed = set(self._leaf_of.values())
        bare: dict[str, list[Cable]] = {}
        for cable in self._wiring.cables:
            if not cable.host and (cable.switch in followed or not followed):
                bare.setdefault(cable.switch, []).append(cable)
        for switch, cables in bare.items():
            ports = ",".join(str(cable.port) for cable in sorted(cables, key=lambda c: c.port))
            guids = ", ".join(cable.guid for cable in cables)
            what = f"{self._names[switch]}: adapters at its ports {ports} name no host ({guids})"
            todo = "name a source of GUIDs too, or set their node descriptions"
            room.unsaid(cables[0].where, what, todo)


def _few(items: list[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more
