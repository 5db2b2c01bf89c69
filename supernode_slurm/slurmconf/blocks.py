"""Blocks: one for each supernode, in the order in which the network joins them.

Rules from Slurm's source (topology/block): level sizes are the base times powers of two;
blocks aggregate by their position in the file, whatever network lies between them, so the
blocks of one switch are padded to a power of two with placeholders where a release takes
empty blocks, and levels that would mix switches are left out where it does not. Before
25.05 a block may not have fewer nodes than the base; in 23.11 it must have just as many.
Which levels refuse no job is in levels.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

from ..inventory import Fabric, Inventory, Supernode, Switch
from .levels import MAX_LEVEL, choose_levels, first_refused, top_level
from .release import Release
from .render import Block, Blocks

Group = str | tuple["Group", ...]
"""A supernode's name, or what one switch joins."""


def base_size(supernode: Supernode, release: Release) -> int:
    """Return the size of the planning block: the nodes less the spares where it may be less."""
    return len(supernode.hosts) if release.exact_blocks else supernode.planning_nodes


def for_class(
    inventory: Inventory, members: list[Supernode], release: Release
) -> tuple[Blocks, list[str]]:
    """Return the blocks of a class of equal supernodes, and notes."""
    blocks, highest = _in_order(inventory, members, release)
    return _with_sizes(inventory, (members, blocks, highest), release)


def for_all(
    inventory: Inventory, members: list[Supernode], release: Release
) -> tuple[Blocks, list[str]]:
    """Return the blocks of all nodes for a release with one topology, and notes.

    Pools and foreign nodes are blocks too where they are large enough: slurmctld warns of
    nodes outside of all blocks.
    """
    blocks, highest = _in_order(inventory, members, release)
    base = base_size(members[0], release)
    mine = {item.name for item in members}
    left_out = []
    for item in (*inventory.domains, *inventory.foreign):
        size = len(item.hosts)
        if item.name in mine:
            continue
        if size == base or (size > base and not release.exact_blocks):
            blocks.append(Block(item.name, item.hosts))
        else:
            than = "not those of" if release.exact_blocks else "fewer than"
            left_out.append(
                f"'{item.name}' has {size} nodes, {than} the base block of {base}: it is left out "
                "of topology.conf and slurmctld warns of it"
            )
    found, notes = _with_sizes(inventory, (members, blocks, highest), release)
    return found, [*notes, *left_out]


def _in_order(
    inventory: Inventory, members: list[Supernode], release: Release
) -> tuple[list[Block], int]:
    """Return the blocks of supernodes, and the highest level that mixes no switches."""
    group = _joined(inventory.fabric_of(members[0].hosts[0]), members)
    padded = _padded(group)
    names = [name for name in padded if name is not None]
    highest = MAX_LEVEL
    if release.small_blocks:
        names = _named(padded)
    elif len(padded) > len(names):
        highest = _aligned_level(group)
    hosts = {item.name: item.hosts for item in members}
    return [Block(name, hosts.get(name, ())) for name in names], highest


def _with_sizes(
    inventory: Inventory, found: tuple[list[Supernode], list[Block], int], release: Release
) -> tuple[Blocks, list[str]]:
    """Return blocks with the sizes of their levels, and what is lost."""
    members, blocks, highest = found
    if release.exact_blocks:
        return Blocks(tuple(blocks), ()), list(_lost_spares(members, release))
    base = base_size(members[0], release)
    held = _held(inventory, blocks, base)
    levels = choose_levels(base, held, highest)
    every = range(top_level(len(blocks)) + 1)
    lost = [base << level for level in every if level not in levels]
    joined = _joined(inventory.fabric_of(members[0].hosts[0]), members)
    notes = []
    if lost and len(list(_leaf_sizes(joined))) > 1:
        notes.append(
            "the switches do not join blocks by powers of two: BlockSizes leave out "
            f"{', '.join(map(str, lost))}, which would mix switches or refuse jobs; lost: "
            f"a job of more than {lost[0] // 2} nodes may take blocks of several switches"
        )
    refused = [size for row in held if (size := first_refused(base, row, levels))]
    largest = base << levels[-1]
    # Seen on 26.05: three blocks of two nodes, sizes 1, 2 and 4, and no place for six nodes.
    if len(blocks) & (len(blocks) - 1) and largest < max(map(sum, held)):
        refused.append(largest + 1)
    if refused:
        notes.append(f"Slurm refuses some jobs of {min(refused)} nodes and more without --segment")
    return Blocks(tuple(blocks), tuple(base << level for level in levels)), notes


def _held(inventory: Inventory, blocks: list[Block], base: int) -> list[tuple[int, ...]]:
    """Return what the jobs of each partition and kind of node can have in each block.

    Both with every node and with the spares gone. Left out is who has only a part of a
    block: no levels can serve all sizes of their jobs.
    """
    place = {host: index for index, block in enumerate(blocks) for host in block.nodes}
    kind = {
        host: tuple(devices.type for devices in nodes.devices)
        for nodes in inventory.node_classes
        for host in nodes.hosts
    }
    counts: dict[object, Counter[int]] = {}
    for partition in inventory.partitions:
        for host in partition.hosts:
            if host in place and host in kind:
                counts.setdefault((partition.name, kind[host]), Counter())[place[host]] += 1
    every = Counter({index: len(block.nodes) for index, block in enumerate(blocks)})
    whole = [count for count in counts.values() if min(count.values()) >= base] or [every]
    rows = [tuple(count[index] for index in range(len(blocks))) for count in whole]
    return list(dict.fromkeys([*rows, *(tuple(min(n, base) for n in row) for row in rows)]))


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


def _aligned_level(group: Group) -> int:
    """Return the highest level whose aggregates never hold blocks of two lowest switches."""
    starts, position = [0], 0
    for size in _leaf_sizes(group):
        position += size
        starts.append(position)
    highest = top_level(position)
    return next(k for k in range(highest, -1, -1) if not any(s % (1 << k) for s in starts[:-1]))


def _leaf_sizes(group: Group) -> Iterator[int]:
    if isinstance(group, str):
        yield 1
    elif all(isinstance(part, str) for part in group):
        yield len(group)
    else:
        for part in group:
            yield from _leaf_sizes(part)
