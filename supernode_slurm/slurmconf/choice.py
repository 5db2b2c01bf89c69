"""A choice of topologies in the making, and what releases with one and with several share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .. import hostlist
from ..inventory import Foreign, Inventory, Partition, Pool, Supernode
from .render import Topology

BLOCK_KINDS = ("switch", "clos", "full-mesh", "fat-tree")
"""Interconnects in which every node reaches every other about alike: one block."""
DEFAULT = "default"
"""Name of the topology for partitions that are bound to no other."""
LOST = (
    "lost: --segment, and a job of plain sbatch may lie across supernodes; sn-submit keeps it "
    "inside one by its feature"
)


@dataclass(slots=True)
class Choice:
    """The topologies in the making, the default one first."""

    found: list[Topology]
    bound: dict[str, str] = field(default_factory=dict)
    """Name of the topology of each partition that is bound to one."""
    notes: list[str] = field(default_factory=list)


def wide_supernodes(inventory: Inventory) -> list[Supernode]:
    """Return the supernodes of more than one node: within one node Slurm has no choice."""
    return [item for item in inventory.supernodes if len(item.hosts) > 1]


def networks(inventory: Inventory) -> dict[str, str]:
    """Return the network of each host; jobs never span two of them.

    Where no fabric is declared, nobody has described the network: it joins all nodes.
    Nodes outside of the declared ones reach only those of their own supernode or pool.
    """
    found = {host: fabric.name for fabric in inventory.fabrics for host in fabric.hosts}
    items: tuple[Supernode | Pool | Foreign, ...] = (*inventory.domains, *inventory.foreign)
    for item in items:
        alone = f"none of '{item.name}'" if inventory.fabrics else ""
        for host in item.hosts:
            found.setdefault(host, alone)
    return found


def spanned(partition: Partition, network: Mapping[str, str]) -> list[str]:
    """Return the networks that the nodes of a partition stand on, sorted."""
    return sorted({network[host] for host in partition.hosts})


def spares_comments(members: list[Supernode], base: int) -> tuple[str, ...]:
    """Return a line for each supernode with spares, and one for the planning block."""
    lines = [f"# One supernode each; the planning block is {base} nodes."]
    for item in members:
        if item.spares:
            spare = hostlist.fold(item.hosts[-item.spares :])
            lines.append(f"# {item.name}: {item.spares} of {len(item.hosts)} are spares: {spare}")
    return tuple(lines)
