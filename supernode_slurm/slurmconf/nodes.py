"""NodeName and PartitionName lines, to be included into the site's slurm.conf."""

from __future__ import annotations

from collections.abc import Mapping

from .. import hostlist
from ..inventory import Inventory, NodeClass, Pool, Supernode
from .facts import domain_comment


def nodes_conf(inventory: Inventory, topology: Mapping[str, str]) -> str:
    """Return one NodeName line per class of nodes.

    Features are the supernode or pool and the types of its cards, for ``--constraint``.
    ``topology`` holds the ``Topology=`` of the cloud nodes of a supernode.
    """
    lines = []
    for domain in inventory.domains:
        lines.append(domain_comment(domain))
        place = topology.get(domain.name, "")
        lines += [_node_line(domain, nodes, place) for nodes in domain.nodes]
    return "".join(f"{line}\n" for line in lines)


def partitions_conf(inventory: Inventory, topology: Mapping[str, str]) -> str:
    """Return one PartitionName line per partition, bound to its topology if it has one."""
    lines = []
    for partition in inventory.partitions:
        fields = [f"PartitionName={partition.name}", f"Nodes={hostlist.fold(partition.hosts)}"]
        if partition.max_time is not None:
            fields.append(f"MaxTime={partition.max_time}")
        fields.append(f"Default={'YES' if partition.default else 'NO'}")
        if partition.name in topology:
            fields.append(f"Topology={topology[partition.name]}")
        lines.append(" ".join([*fields, "State=UP"]))
    return "".join(f"{line}\n" for line in lines)


def gres_types(inventory: Inventory) -> list[str]:
    """Return the GRES names in use, sorted."""
    return sorted({item.gres for nodes in inventory.node_classes for item in nodes.devices})


def _node_line(domain: Supernode | Pool, nodes: NodeClass, place: str) -> str:
    types = [devices.type for devices in nodes.devices]
    fields = [
        f"NodeName={hostlist.fold(nodes.hosts)}",
        f"Sockets={nodes.sockets}",
        f"CoresPerSocket={nodes.cores}",
        f"ThreadsPerCore={nodes.threads}",
        f"RealMemory={nodes.memory_mib}",
    ]
    if nodes.devices:
        gres = ",".join(f"{item.gres}:{item.type}:{item.count}" for item in nodes.devices)
        fields.append(f"Gres={gres}")
    fields.append(f"Feature={','.join(dict.fromkeys([domain.name, *types]))}")
    if nodes.cloud and place:
        fields.append(f"Topology={place}")
    return " ".join([*fields, f"State={'CLOUD' if nodes.cloud else 'UNKNOWN'}"])
