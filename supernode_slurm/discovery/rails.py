"""Rails: which switches each adapter of the hosts hangs at, and whether all rails agree.

On a rail-optimised network the first adapters of some hosts meet at one leaf, their
second at another. A tree of Slurm follows one rail; the others must part the hosts alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..errors import Problem
from .adapters import Cable
from .levels import natural

Tell = Callable[[Problem, list[str]], None]
"""Takes what is to be said of hosts; ``{hosts}`` stands for them."""


@dataclass(frozen=True, slots=True)
class Rails:
    """The rails of hosts that share their fabrics."""

    leaf_of: Mapping[str, str]
    """By host the leaf under which it counts."""
    name: str
    """Of the rail that is followed; empty where adapters have no names."""
    count: int
    """Of rails that most hosts have."""
    gbs: float
    """Of a rail in one direction, as most have it; 0 where nobody said."""


def find_rails(cables: list[Cable], named: Callable[[str], str], tell: Tell) -> Rails:
    """Return the rails of some hosts' cables, all of them with a host.

    ``named`` gives a leaf its name; ``tell`` hears of hosts that are cabled unlike their
    neighbours.
    """
    rails, of_device = _by_device(cables)
    rails = rails or _by_cover(cables)
    at: dict[str, dict[str, Cable]] = {}
    rail_of = {leaf: rail for rail, leaves in rails.items() for leaf in leaves}
    for cable in cables:
        at.setdefault(cable.host, {}).setdefault(rail_of[cable.switch], cable)
    reach = Counter(rail for mine in at.values() for rail in mine)
    order = list(rails)
    chosen = max(order, key=lambda rail: (reach[rail], -order.index(rail)))
    followed = _Followed(at, chosen, named, tell)
    leaf_of = followed.place(order)
    followed.check(order)
    counts = Counter(cable.host for cable in cables)
    count = int(_most(counts.values(), 1))
    like = [cable for cable in cables if counts[cable.host] == count]
    _check_devices(like, of_device, rail_of, named, tell)
    _check_counts(counts, count, at, tell)
    gbs = _most((cable.gbs for cable in cables if cable.gbs), 0.0)
    _check_speeds(cables, gbs, tell)
    return Rails(leaf_of, chosen, count, gbs)


def _by_device(cables: Iterable[Cable]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the leaves of each rail by the adapter that most hosts have there.

    And the rail that an adapter belongs to.

    Hosts may name their adapters in different ways (``HCA-1``, ``mlx5_0``): the first of one
    way goes with the first of another. None where adapters have no names.
    """
    votes: dict[str, Counter[str]] = {}
    for cable in cables:
        votes.setdefault(cable.switch, Counter())[cable.device] += 1
    device_of = {leaf: min(count, key=lambda d: (-count[d], d)) for leaf, count in votes.items()}
    if not all(device_of.values()):
        return {}, {}
    ways: dict[str, Counter[str]] = {}
    for device in device_of.values():
        ways.setdefault(_way(device), Counter())[device] += 1
    best = max(ways.values(), key=lambda devices: (len(devices), devices.total()))
    rails = sorted(best, key=natural)
    rail_of = {
        device: rails[at]
        for devices in ways.values()
        for at, device in enumerate(sorted(devices, key=natural))
    }
    found: dict[str, list[str]] = {rail: [] for rail in rails}
    for leaf, device in device_of.items():
        found[rail_of[device]].append(leaf)
    return {rail: tuple(leaves) for rail, leaves in found.items()}, rail_of


def _by_cover(cables: Iterable[Cable]) -> dict[str, tuple[str, ...]]:
    """Return rails of leaves that share no host, for adapters without names."""
    hosts: dict[str, set[str]] = {}
    for cable in cables:
        hosts.setdefault(cable.switch, set()).add(cable.host)
    waiting = sorted(hosts, key=lambda leaf: (-len(hosts[leaf]), leaf))
    rails: list[tuple[list[str], set[str]]] = []
    for leaf in waiting:
        rail = next((item for item in rails if item[1].isdisjoint(hosts[leaf])), None)
        if rail is None:
            rails.append(rail := ([], set()))
        rail[0].append(leaf)
        rail[1].update(hosts[leaf])
    return {f"rail {at}": tuple(leaves) for at, (leaves, _) in enumerate(rails, 1)}


class _Followed:
    """Places hosts by one rail and asks the others."""

    def __init__(
        self, at: Mapping[str, Mapping[str, Cable]], chosen: str,
        named: Callable[[str], str], tell: Tell,
    ) -> None:  # fmt: skip
        self._at = at
        self._chosen = chosen
        self._named = named
        self._tell = tell
        self._leaf_of = {host: mine[chosen].switch for host, mine in at.items() if chosen in mine}

    def place(self, order: Iterable[str]) -> dict[str, str]:
        """Return the leaf of each host; one off the rail counts where its neighbours do."""
        found = dict(self._leaf_of)
        for rail in order:
            beside = self._neighbours(rail)
            for host, mine in self._at.items():
                if host not in found and rail in mine:
                    cable = mine[rail]
                    leaf = beside.get(cable.switch, cable.switch)
                    found[host] = leaf
                    what = f"{{hosts}}: no link on {self._chosen}"
                    todo = f"placed under {self._named(leaf)} by {rail}: look at the link"
                    self._tell(Problem(cable.where, what, todo), [host])
        return found

    def check(self, order: Iterable[str]) -> None:
        """Tell of hosts whose neighbours differ from rail to rail."""
        for rail in order:
            if rail == self._chosen:
                continue
            usual = {leaf: other for other, leaf in self._neighbours(rail).items()}
            apart = self._usual(rail)
            for host, leaf in self._leaf_of.items():
                cable = self._at[host].get(rail)
                if cable is None or leaf not in apart or cable.switch == apart[leaf]:
                    continue
                if usual.get(leaf) == cable.switch:
                    continue
                here, there = self._named(cable.switch), self._named(apart[leaf])
                what = f"{rail} of {{hosts}} is at {here}, that of its neighbours on"
                what += f" {self._chosen} at {there}"
                todo = f"placed by {self._chosen}: move the cable, or leave {rail} out with --hca"
                self._tell(Problem(cable.where, what, todo), [host])

    def _usual(self, rail: str) -> dict[str, str]:
        """Return for each leaf that is followed the leaf of most of its hosts on a rail."""
        votes: dict[str, Counter[str]] = {}
        for host, leaf in self._leaf_of.items():
            if rail in self._at[host]:
                votes.setdefault(leaf, Counter())[self._at[host][rail].switch] += 1
        return {leaf: max(count, key=lambda s: (count[s], s)) for leaf, count in votes.items()}

    def _neighbours(self, rail: str) -> dict[str, str]:
        """Return for each leaf of a rail the followed leaf of most of its hosts."""
        votes: dict[str, Counter[str]] = {}
        for host, leaf in self._leaf_of.items():
            if rail in self._at[host]:
                votes.setdefault(self._at[host][rail].switch, Counter())[leaf] += 1
        return {leaf: max(count, key=lambda s: (count[s], s)) for leaf, count in votes.items()}


def _check_devices(
    cables: Iterable[Cable],
    of_device: Mapping[str, str],
    rail_of: Mapping[str, str],
    named: Callable[[str], str],
    tell: Tell,
) -> None:
    """Tell of adapters at a leaf where the others have another of theirs: swapped cables."""
    for cable in cables:
        rail = rail_of[cable.switch]
        if of_device.get(cable.device, rail) != rail:
            what = f"{cable.device} of {{hosts}} hangs at {named(cable.switch)}, where others have"
            tell(Problem(cable.where, f"{what} {rail}", "are two cables swapped?"), [cable.host])


def _check_counts(
    counts: Mapping[str, int], count: int, at: Mapping[str, Mapping[str, Cable]], tell: Tell
) -> None:
    for host, mine in counts.items():
        if mine != count:
            what = f"{{hosts}}: {mine} of {count} links up"
            if mine > count:
                what = f"{{hosts}}: {mine} links up, most hosts have {count}"
            where = next(iter(at[host].values())).where
            todo = "a link or a switch is down, or the hosts are of another kind"
            tell(Problem(where, what, todo), [host])


def _check_speeds(cables: Iterable[Cable], gbs: float, tell: Tell) -> None:
    for cable in cables:
        if cable.gbs and cable.gbs != gbs:
            device = cable.device or "a link"
            what = f"{device} of {{hosts}}: {cable.gbs:g} GB/s in one direction, most have {gbs:g}"
            todo = "is it storage's? leave it out with --hca; else look at the cable"
            tell(Problem(cable.where, what, todo), [cable.host])


def _most(values: Iterable[float], otherwise: float) -> float:
    count = Counter(values)
    return max(count, key=lambda value: (count[value], value)) if count else otherwise


def _way(device: str) -> str:
    return device.split("/", maxsplit=1)[0].rstrip("0123456789")
