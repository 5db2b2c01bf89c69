"""Blocks: one for each supernode, in the order in which the network joins them.

Rules from Slurm's source (topology/block): level sizes are the base times powers of two;
blocks aggregate by their position in the file, whatever network lies between them, so the
blocks of one switch are padded to a power of two with placeholders where a release takes
empty blocks, and levels that would mix switches are left out where it does not. Before
25.05 a block may not have fewer nodes than the base; in 23.11 it must have just as many.
Which levels refuse no job is in levels.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import hostlist
from ..inventory import Foreign, Inventory, Partition, Pool, Supernode
from .levels import MAX_LEVEL, choose_levels, first_refused, top_level
from .order import Group, aligned_level, by_leaf, joined, leaf_sizes, named, padded
from .release import Release
from .render import Block, Blocks
from .rows import Rows, rows_of


@dataclass(frozen=True, slots=True)
class Built:
    """Blocks that serve some partitions, and what is lost with them."""

    body: Blocks
    notes: list[str]
    refused: dict[str, int]
    """Smallest job of ordinary size that is refused, of each partition that is not served."""


def base_size(supernode: Supernode, release: Release) -> int:
    """Return the size of the planning block: the nodes less the spares where it may be less."""
    return len(supernode.hosts) if release.exact_blocks else supernode.planning_nodes


def for_class(
    inventory: Inventory, members: list[Supernode], users: list[Partition], release: Release
) -> Built:
    """Return the blocks of supernodes on one network for the partitions that hold nothing else.

    The base is the largest planning block: smaller supernodes are smaller blocks. Partitions
    whose jobs of ordinary size the blocks would refuse are not served.
    """
    base = max(base_size(item, release) for item in members)
    group = joined(inventory.fabric_of(members[0].hosts[0]), members)
    blocks = _blocks(members, padded(group))
    rows = rows_of(inventory, blocks, users, base)
    refused = rows.ordinary(base, [0, top_level(len(blocks))])
    rows = rows.without(refused)
    levels = choose_levels(base, rows.tried(), MAX_LEVEL)
    # Placeholders serve the levels between; where these are left out, so are they.
    blocks = _blocks(members, padded(group, 1 << (levels[-2] if len(levels) > 1 else 0)))
    rows = rows_of(inventory, blocks, users, base).without(refused)
    levels = choose_levels(base, rows.tried(), levels[-2] if len(levels) > 1 else 0)
    refused |= rows.ordinary(base, levels)
    rows = rows.without(refused)
    notes = [*_missing_levels(group, base, len(blocks), levels)]
    largest = _first_refused(base, rows, len(blocks), levels)
    if largest:
        notes.append(f"Slurm refuses some jobs of {largest} nodes and more without --segment")
    return Built(Blocks(tuple(blocks), tuple(base << level for level in levels)), notes, refused)


def for_all(
    inventory: Inventory, members: list[Supernode], release: Release
) -> tuple[Blocks, list[str]]:
    """Return the blocks of all nodes for a release with one topology, and notes.

    Pools and foreign nodes are blocks too where they are large enough: slurmctld warns of
    nodes outside of all blocks.
    """
    group = joined(inventory.fabric_of(members[0].hosts[0]), members)
    base = base_size(members[0], release)
    blocks = _blocks(members, [name for name in padded(group) if name is not None])
    highest = MAX_LEVEL if len(padded(group)) == len(blocks) else aligned_level(group)
    mine = {item.name for item in members}
    others: list[Pool | Supernode | Foreign] = [*inventory.domains, *inventory.foreign]
    notes = []
    for item in others:
        if item.name not in mine:
            found, note = _other_blocks(inventory, item, base, release)
            blocks += _free(found, blocks)
            notes += note
    rows = rows_of(inventory, blocks, inventory.partitions, base)
    if release.exact_blocks:
        levels = list(range(top_level(len(blocks)) + 1))
        lost = list(_lost_spares(members, release))
    else:
        levels = choose_levels(base, rows.tried(), highest)
        lost = list(_missing_levels(group, base, len(blocks), levels))
    word = " without --segment" if release.segment else ""
    size = _first_refused(base, rows, len(blocks), levels)
    if size and not release.exact_blocks:
        lost.append(f"Slurm refuses some jobs of {size} nodes and more{word}")
    lost += [
        f"partition '{name}' holds parts of blocks: Slurm refuses some of its jobs of "
        f"{size} nodes and more{word}"
        for name, size in rows.parts().refused(base, levels).items()
    ]
    sizes = () if release.exact_blocks else tuple(base << level for level in levels)
    lost += notes
    return Blocks(tuple(blocks), sizes), [*lost, *_mixed(inventory, blocks)]


def _blocks(members: list[Supernode], places: list[str | None]) -> list[Block]:
    hosts = {item.name: item.hosts for item in members}
    return [Block(name, hosts.get(name, ())) for name in named(places)]


def _other_blocks(
    inventory: Inventory, item: Pool | Supernode | Foreign, base: int, release: Release
) -> tuple[list[Block], list[str]]:
    """Return the blocks of nodes that are no supernode, one for each leaf, and what is lost."""
    leaves = by_leaf(item, inventory.fabrics)
    fits = [len(h) == base if release.exact_blocks else len(h) >= base for h in leaves.values()]
    if len(leaves) > 1 and all(fits):
        return [Block(leaf, hosts) for leaf, hosts in leaves.items()], []
    size = len(item.hosts)
    if size < base or (size > base and release.exact_blocks):
        than = "not those of" if release.exact_blocks else "fewer than"
        note = (
            f"'{item.name}' has {size} nodes, {than} the base block of {base}: it is left out "
            "of topology.conf and slurmctld warns of it"
        )
        return [], [note]
    if len(leaves) < 2:
        return [Block(item.name, item.hosts)], []
    note = (
        f"'{item.name}' is one block: not all of its leaves {hostlist.fold(leaves)} hold the base "
        f"of {base} nodes; lost: a job may lie across its leaves"
    )
    return [Block(item.name, item.hosts)], [note]


def _free(found: list[Block], blocks: list[Block]) -> Iterator[Block]:
    """Yield blocks under names that no block has."""
    taken = {block.name for block in blocks}
    for block in found:
        names = (block.name, *(f"{block.name[:56]}-{n}" for n in range(2, len(taken) + 3)))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        yield Block(name, block.nodes)


def _mixed(inventory: Inventory, blocks: list[Block]) -> Iterator[str]:
    """Yield the partitions with nodes inside and outside of the blocks: seen on 24.11."""
    inside = {host for block in blocks for host in block.nodes}
    for partition in inventory.partitions:
        outside = [host for host in partition.hosts if host not in inside]
        if outside and len(outside) < len(partition.hosts):
            yield (
                f"partition '{partition.name}' has {hostlist.fold(outside)} outside of all blocks: "
                "no job gets them together with nodes of a block"
            )


def _missing_levels(group: Group, base: int, count: int, levels: list[int]) -> Iterator[str]:
    """Yield what is lost where levels between the lowest and the top are left out."""
    lost = [base << level for level in range(top_level(count) + 1) if level not in levels]
    if lost and len(list(leaf_sizes(group))) > 1:
        yield (
            "the switches do not join blocks by powers of two: BlockSizes leave out "
            f"{', '.join(map(str, lost))}, which would mix switches or refuse jobs; lost: "
            f"a job of more than {lost[0] // 2} nodes may take blocks of several switches"
        )


def _first_refused(base: int, rows: Rows, count: int, levels: list[int]) -> int | None:
    """Return the smallest job that finds no place in the blocks of whole partitions."""
    refused = [size for held in rows.tried() if (size := first_refused(base, held, levels))]
    largest = base << levels[-1]
    # Seen on 26.05: three blocks of two nodes, sizes 1, 2 and 4, and no place for six nodes.
    if count & (count - 1) and largest < max(map(sum, rows.tried())):
        refused.append(largest + 1)
    return min(refused, default=None)


def _lost_spares(members: list[Supernode], release: Release) -> Iterator[str]:
    if any(item.spares for item in members):
        yield (
            f"Slurm {release.name} wants blocks of exactly the base size; lost: spares, a job of "
            "a whole supernode waits while one of its nodes is down"
        )
