"""The one topology of a release before 25.05."""

from __future__ import annotations

from ..inventory import Inventory, Supernode
from . import blocks, tree
from .choice import (
    BLOCK_KINDS,
    DEFAULT,
    LOST,
    Choice,
    networks,
    spanned,
    spares_comments,
    wide_supernodes,
)
from .facts import fabric_comment, switch_comment
from .release import Release
from .render import Topology


def choose_one(inventory: Inventory, release: Release) -> Choice:
    """Return blocks where one topology/block serves all nodes, else a tree."""
    wide = wide_supernodes(inventory)
    reason = _no_block(inventory, release, wide)
    if wide and not reason:
        body, notes = blocks.for_all(inventory, wide, release)
        base = blocks.base_size(wide[0], release)
        comments = (*_network_comments(inventory), *spares_comments(wide, base))
        return Choice([Topology(DEFAULT, body, comments)], notes=notes)
    switches, notes = tree.for_all(inventory)
    notes = [f"{reason}: tree is written; {LOST}", *notes] if reason else notes
    return Choice([Topology(DEFAULT, switches)], notes=notes)


def _no_block(inventory: Inventory, release: Release, wide: list[Supernode]) -> str:
    """Return why one topology/block cannot serve these supernodes, empty if it can."""
    if not wide:
        return ""
    if "block" not in release.topologies:
        return f"Slurm {release.name} has no topology/block"
    network = networks(inventory)
    over = f"Slurm {release.name}'s one topology/block would let a job span them"
    if len({network[item.hosts[0]] for item in wide}) > 1:
        fabrics = {fabric.name for item in wide if (fabric := inventory.fabric_of(item.hosts[0]))}
        if len(fabrics) > 1:
            return f"supernodes on {len(fabrics)} fabrics that do not meet: {over}"
        return f"supernodes on networks that do not meet: {over}"
    for partition in inventory.partitions:
        if len(names := spanned(partition, network)) > 1:
            shown = ", ".join(names)
            return f"partition '{partition.name}' spans networks that do not meet ({shown}): {over}"
    other = sorted({item.interconnect.kind for item in wide} - set(BLOCK_KINDS))
    if other:
        return f"interconnect {', '.join(other)} is not a block"
    sizes = sorted({blocks.base_size(item, release) for item in wide})
    if len(sizes) > 1:
        shown = ", ".join(map(str, sizes))
        return (
            f"supernodes of unequal size ({shown} nodes) do not fit the one base size of "
            f"Slurm {release.name}'s topology/block"
        )
    return ""


def _network_comments(inventory: Inventory) -> tuple[str, ...]:
    """Return the networks, which a topology of blocks does not show."""
    return tuple(
        line
        for fabric in inventory.fabrics
        for line in (fabric_comment(fabric), *map(switch_comment, fabric.switches))
    )
