"""The place of cloud nodes in every topology, for the releases that would lose it.

Slurm 25.11.0 to 25.11.2 lose a cloud node that powers down from its block, unless its line
names it (``Topology=default:spine:leaf,nvl:nvl1``). Seen on 26.05: a node whose line names
places is in no topology that the line leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..inventory import Inventory
from . import tree
from .render import Blocks, Topology, Tree


def places(inventory: Inventory, topologies: Iterable[Topology]) -> dict[str, str]:
    """Return ``Topology=`` for each cloud node that a tree or a block holds."""
    cloud = {host for nodes in inventory.node_classes if nodes.cloud for host in nodes.hosts}
    found: dict[str, list[str]] = {}
    for topology in topologies:
        for name, hosts in _units(topology):
            for host in hosts:
                if host in cloud:
                    found.setdefault(host, []).append(f"{topology.name}:{name}")
    return {host: ",".join(names) for host, names in found.items()}


def _units(topology: Topology) -> Iterable[tuple[str, tuple[str, ...]]]:
    if isinstance(topology.body, Tree):
        ways = tree.paths(topology.body)
        return [(ways[line.name], line.nodes) for line in topology.body.switches]
    if isinstance(topology.body, Blocks):
        return [(block.name, block.nodes) for block in topology.body.blocks]
    return []
