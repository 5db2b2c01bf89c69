"""NodeName and PartitionName lines, to be included into the site's slurm.conf."""

from __future__ import annotations

from .. import hostlist
from ..inventory import Inventory, NodeClass, Pool, Supernode


def nodes_conf(inventory: Inventory) -> str:
    """Return one NodeName line per class of nodes.

    Features are the supernode or pool and the types of its cards, for ``--constraint``.
    """
    lines = [_node_line(domain, nodes) for domain in inventory.domains for nodes in domain.nodes]
    return "".join(f"{line}\n" for line in lines)


def partitions_conf(inventory: Inventory) -> str:
    """Return one PartitionName line per partition."""
    lines = []
    for partition in inventory.partitions:
        fields = [f"PartitionName={partition.name}", f"Nodes={hostlist.fold(partition.hosts)}"]
        if partition.max_time is not None:
            fields.append(f"MaxTime={partition.max_time}")
        fields.append(f"Default={'YES' if partition.default else 'NO'}")
        lines.append(" ".join([*fields, "State=UP"]))
    return "".join(f"{line}\n" for line in lines)


def gres_types(inventory: Inventory) -> list[str]:
    """Return the GRES names in use, sorted."""
    return sorted({item.gres for nodes in inventory.node_classes for item in nodes.devices})


def _node_line(domain: Supernode | Pool, nodes: NodeClass) -> str:
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
    return " ".join([*fields, "State=UNKNOWN"])
