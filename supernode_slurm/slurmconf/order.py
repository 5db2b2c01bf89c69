"""The order of blocks: as the switches join them, with places for placeholders between.

Blocks aggregate by their position in the file, whatever network lies between them, so the
blocks of one switch start where an aggregate starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from ..inventory import Fabric, Foreign, Pool, Supernode
from .levels import MAX_LEVEL, top_level

Group = str | tuple["Group", ...]
"""A supernode's name, or what one switch joins."""


def joined(fabric: Fabric | None, members: list[Supernode]) -> Group:
    """Return how the switches of a fabric join the members."""
    place = {item.name: index for index, item in enumerate(members)}
    if fabric is None:
        return tuple(place)
    first = {item.hosts[0]: item.name for item in members}
    below = {child for switch in fabric.switches for child in switch.switches}
    parts: dict[str, list[Group]] = {}
    for switch in fabric.switches:
        mine: list[Group] = []
        for child in switch.switches:
            found = parts[child]
            if found:
                mine.append(found[0] if len(found) == 1 else tuple(found))
        names = {name for name in switch.members if name in place}
        names |= {first[host] for host in switch.hosts if host in first}
        parts[switch.name] = [*mine, *sorted(names, key=place.__getitem__)]
    return tuple(
        part
        for switch in fabric.switches
        if switch.name not in below
        for part in parts[switch.name]
    )


def padded(group: Group, unit: int = 1 << MAX_LEVEL) -> list[str | None]:
    """Return the names with a place for each placeholder, such that no level mixes switches.

    ``unit`` is the number of blocks in the largest aggregate below the top.
    """
    if isinstance(group, str):
        return [group]
    parts = [padded(part, unit) for part in group]
    size = 1 << (max(map(len, parts)) - 1).bit_length()
    places = [name for part in parts for name in (*part, *[None] * (-len(part) % min(size, unit)))]
    while places[-1] is None:
        places.pop()
    return places


def named(places: list[str | None]) -> list[str]:
    """Return the names, with free ones for the placeholders."""
    taken = set(places)
    free = (name for number in count(1) if (name := f"placeholder{number}") not in taken)
    return [next(free) if name is None else name for name in places]


def aligned_level(group: Group) -> int:
    """Return the highest level whose aggregates never hold blocks of two lowest switches."""
    starts, position = [0], 0
    for size in leaf_sizes(group):
        position += size
        starts.append(position)
    highest = top_level(position)
    return next(k for k in range(highest, -1, -1) if not any(s % (1 << k) for s in starts[:-1]))


def leaf_sizes(group: Group) -> Iterator[int]:
    """Yield the number of members under each lowest switch."""
    if isinstance(group, str):
        yield 1
    elif all(isinstance(part, str) for part in group):
        yield len(group)
    else:
        for part in group:
            yield from leaf_sizes(part)


def by_leaf(
    item: Pool | Supernode | Foreign, fabrics: Iterable[Fabric]
) -> dict[str, tuple[str, ...]]:
    """Return the hosts of nodes under each lowest switch, none where they hang under none."""
    mine = set(item.hosts)
    found: dict[str, tuple[str, ...]] = {}
    for switch in (switch for fabric in fabrics for switch in fabric.switches):
        hosts = tuple(host for host in switch.hosts if host in mine)
        if hosts or item.name in switch.members:
            found[switch.name] = hosts or item.hosts
    return found
