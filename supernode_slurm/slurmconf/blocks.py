"""Blocks: one for each supernode, in the order in which the network joins them.

Rules from Slurm's source (topology/block): level sizes are the base times powers of two;
blocks aggregate by their position in the file, whatever network lies between them, so the
blocks of one switch are padded to a power of two with placeholders where a release takes
empty blocks, and levels that would mix switches are left out where it does not. Before
25.05 a block may not have fewer nodes than the base; in 23.11 it must have just as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from ..inventory import Fabric, Inventory, Supernode, Switch
from .release import Release
from .render import Block, Blocks

MAX_LEVEL = 15
"""Largest exponent of two between a level and the base."""

Group = str | tuple["Group", ...]
"""A supernode's name, or what one switch joins."""


def base_size(supernode: Supernode, release: Release) -> int:
    """Return the size of the planning block: the nodes less the spares where it may be less."""
    return len(supernode.hosts) if release.exact_blocks else supernode.planning_nodes


def for_class(
    inventory: Inventory, members: list[Supernode], release: Release
) -> tuple[Blocks, list[str]]:
    """Return the blocks of a class of equal supernodes, and notes."""
    group = _joined(inventory.fabric_of(members[0].hosts[0]), members)
    padded = _padded(group)
    names = [name for name in padded if name is not None]
    notes: list[str] = []
    if release.small_blocks:
        names = _named(padded)
        levels = _levels(len(names))
    elif len(padded) > len(names):
        levels = _aligned_levels(group)
        if levels < _levels(len(names)):
            largest = base_size(members[0], release) << levels
            notes.append(
                "the blocks of one switch are no power of two, and Slurm "
                f"{release.name} takes no placeholders: BlockSizes end at {largest} nodes; "
                "lost: larger jobs may take blocks of several switches"
            )
    else:
        levels = _levels(len(names))
    hosts = {item.name: item.hosts for item in members}
    blocks = tuple(Block(name, hosts.get(name, ())) for name in names)
    if release.exact_blocks:
        return Blocks(blocks, ()), [*notes, *_lost_spares(members, release)]
    base = base_size(members[0], release)
    return Blocks(blocks, tuple(base << level for level in range(levels + 1))), notes


def for_all(
    inventory: Inventory, members: list[Supernode], release: Release
) -> tuple[Blocks, list[str]]:
    """Return the blocks of all nodes for a release with one topology, and notes.

    Pools and foreign nodes are blocks too where they are large enough: slurmctld warns of
    nodes outside of all blocks.
    """
    found, notes = for_class(inventory, members, release)
    base = base_size(members[0], release)
    mine = {item.name for item in members}
    blocks = list(found.blocks)
    for item in (*inventory.domains, *inventory.foreign):
        size = len(item.hosts)
        if item.name in mine:
            continue
        if size == base or (size > base and not release.exact_blocks):
            blocks.append(Block(item.name, item.hosts))
        else:
            than = "not those of" if release.exact_blocks else "fewer than"
            notes.append(
                f"'{item.name}' has {size} nodes, {than} the base block of {base}: it is left out "
                "of topology.conf and slurmctld warns of it"
            )
    return Blocks(tuple(blocks), found.sizes), notes


def _lost_spares(members: list[Supernode], release: Release) -> Iterator[str]:
    if any(item.spares for item in members):
        yield (
            f"Slurm {release.name} wants blocks of exactly the base size; lost: spares, a job of "
            "a whole supernode waits while one of its nodes is down"
        )


def _joined(fabric: Fabric | None, members: list[Supernode]) -> Group:
    """Return how the switches of a fabric join the members."""
    wanted = {item.name: item.hosts[0] for item in members}
    if fabric is None:
        return tuple(wanted)
    by_name = {switch.name: switch for switch in fabric.switches}
    below = {child for switch in fabric.switches for child in switch.switches}

    def under(switch: Switch) -> list[Group]:
        parts: list[Group] = []
        for child in switch.switches:
            found = under(by_name[child])
            if found:
                parts.append(found[0] if len(found) == 1 else tuple(found))
        hosts = set(switch.hosts)
        parts += [
            name for name, first in wanted.items() if name in switch.members or first in hosts
        ]
        return parts

    return tuple(
        part for switch in fabric.switches if switch.name not in below for part in under(switch)
    )


def _padded(group: Group) -> list[str | None]:
    """Return the names with a place for each placeholder, such that no level mixes switches."""
    if isinstance(group, str):
        return [group]
    parts = [_padded(part) for part in group]
    size = 1 << (max(map(len, parts)) - 1).bit_length()
    places = [name for part in parts for name in (*part, *[None] * (size - len(part)))]
    while places[-1] is None:
        places.pop()
    return places


def _named(places: list[str | None]) -> list[str]:
    """Return the names, with free ones for the placeholders."""
    free = (name for number in count(1) if (name := f"placeholder{number}") not in places)
    return [next(free) if name is None else name for name in places]


def _aligned_levels(group: Group) -> int:
    """Return the highest level whose aggregates never hold blocks of two lowest switches."""
    starts, position = [0], 0
    for size in _leaf_sizes(group):
        position += size
        starts.append(position)
    levels = _levels(position)
    return next(k for k in range(levels, -1, -1) if not any(s % (1 << k) for s in starts[:-1]))


def _leaf_sizes(group: Group) -> Iterator[int]:
    if isinstance(group, str):
        yield 1
    elif all(isinstance(part, str) for part in group):
        yield len(group)
    else:
        for part in group:
            yield from _leaf_sizes(part)


def _levels(blocks: int) -> int:
    """Return the highest level that this many blocks can fill."""
    return min(blocks.bit_length() - 1, MAX_LEVEL)
