"""Levels of switches: ranked over a whole fabric, and cut to the tree over some of its leaves.

A switch with a host is a leaf; the others rank by how far they are from one. What hangs
together through switches up to a rank is one node of the tree there: the four spines that
join eight leaves are one switch to Slurm, whose trees have a single way up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

Neighbours = Mapping[str, set[str]]
"""By switch the switches it is cabled to."""
FEW = 4
"""How many times fewer hosts than a usual leaf a switch above leaves may have."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A switch, or several of one rank that join the same ones, and what hangs under it."""

    switch: str
    """GUID of the one that joins most; empty where leaves are cabled to each other."""
    switches: tuple[str, ...]
    """GUIDs of all of them."""
    children: tuple[Branch, ...]
    rank: int


def connected(neighbours: Neighbours) -> Iterator[set[str]]:
    """Yield the sets of what hangs together, in the order in which each is met first."""
    seen: set[str] = set()
    for start in neighbours:
        if start in seen:
            continue
        found, waiting = {start}, [start]
        while waiting:
            new = neighbours[waiting.pop()] - found
            found |= new
            waiting += new
        seen |= found
        yield found


def rank_switches(neighbours: Neighbours, hosts: Mapping[str, int]) -> dict[str, int]:
    """Return the rank of each switch: 0 for leaves, and where no host is near.

    ``hosts`` counts the cables of hosts at each switch. A few of them, the fabric's manager
    among them, may sit at a switch above leaves: it stays above them.
    """
    leaves = {switch for switch in neighbours if hosts.get(switch)}
    usual = median(hosts[switch] for switch in leaves) if leaves else 0
    few = {switch for switch in leaves if FEW * hosts[switch] <= usual}
    ranks = dict.fromkeys(leaves - _above(neighbours, leaves - few, few), 0)
    edge = list(ranks)
    while edge:
        new = {peer: ranks[switch] + 1 for switch in edge for peer in neighbours[switch]}
        edge = [peer for peer in new if peer not in ranks]
        ranks |= {peer: new[peer] for peer in edge}
    return {switch: ranks.get(switch, 0) for switch in neighbours}


def _above(neighbours: Neighbours, leaves: set[str], few: set[str]) -> set[str]:
    """Return those of ``few`` that join two leaves, or two parts of what joins leaves."""
    found = {switch for switch in few if len(neighbours[switch] & leaves) > 1}
    if found == few:
        return found
    first = {peer for leaf in leaves for peer in neighbours[leaf]} - leaves - few
    inner = {leaf: neighbours[leaf] & first for leaf in leaves}
    inner |= {switch: neighbours[switch] & leaves for switch in first}
    part_of = {switch: at for at, part in enumerate(connected(inner)) for switch in part}
    for switch in few - found:
        if len({part_of[peer] for peer in neighbours[switch] & first}) > 1:
            found.add(switch)
    return found


def branches(
    neighbours: Neighbours,
    ranks: Mapping[str, int],
    leaves: Iterable[str],
    names: Mapping[str, str],
) -> list[Branch]:
    """Return the trees over some leaves, one for each part of the network that hangs together."""
    current = [Branch(leaf, (leaf,), (), 0) for leaf in sorted(leaves, key=_by_name(names))]
    top = max(ranks.values(), default=0)
    for rank in range(1, top + 2):
        near = {
            switch: {
                peer for peer in peers if rank > top or _joins(ranks[switch], ranks[peer], rank)
            }
            for switch, peers in neighbours.items()
            if ranks[switch] <= rank or rank > top
        }
        current = _joined(near, ranks, current, rank, names)
    return current


def _joins(one: int, other: int, rank: int) -> bool:
    """Return whether cables between two ranks count up to some rank: not those between leaves."""
    return max(one, other) <= rank and (one != other or one > 0)


def _joined(
    near: Neighbours,
    ranks: Mapping[str, int],
    lower: list[Branch],
    rank: int,
    names: Mapping[str, str],
) -> list[Branch]:
    """Return the branches that stand when switches up to a rank join them."""
    parts = list(connected(near))
    part_of = {switch: at for at, part in enumerate(parts) for switch in part}
    held: dict[int | str, list[Branch]] = {}
    for branch in lower:
        leaf = _a_leaf(branch)
        held.setdefault(part_of.get(leaf, leaf), []).append(branch)
    found = []
    for at, children in held.items():
        if len(children) == 1 or isinstance(at, str):
            found += children
            continue
        here = sorted((s for s in parts[at] if ranks[s] == rank), key=_by_name(names))
        best = max(here, key=lambda switch: len(near[switch]), default="")
        found.append(Branch(best, tuple(here), tuple(children), rank))
    return found


def _a_leaf(branch: Branch) -> str:
    while branch.children:
        branch = branch.children[0]
    return branch.switch


def _by_name(names: Mapping[str, str]) -> Callable[[str], tuple[list[tuple[int, str]], str]]:
    return lambda switch: (natural(names[switch]), switch)


def natural(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers within texts as numbers."""
    parts = re.split(r"([0-9]{1,18})", text)
    return [(int(part) if part.isdigit() else 0, part) for part in parts]
