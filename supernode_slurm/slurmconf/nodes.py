"""NodeName and PartitionName lines, to be included into the site's slurm.conf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from .. import hostlist
from ..inventory import Inventory, NodeClass, Pool, Supernode, gres_devices
from .billing import billing_weights
from .facts import domain_comment, foreign_comment


def nodes_conf(inventory: Inventory, places: Mapping[str, str]) -> str:
    """Return one NodeName line per class of nodes, or per place in a class of cloud nodes.

    Features are the supernode or pool and the types of its cards, for ``--constraint``.
    ``places`` holds the ``Topology=`` of each cloud node that has to name it.
    """
    lines = [foreign_comment(foreign) for foreign in inventory.foreign]
    for domain in inventory.domains:
        lines.append(domain_comment(domain))
        for nodes in domain.nodes:
            lines += [_node_line(domain, *part) for part in _by_place(nodes, places)]
    return "".join(f"{line}\n" for line in lines)


def partitions_conf(inventory: Inventory, topology: Mapping[str, str]) -> str:
    """Return one PartitionName line per partition, bound to its topology if it has one.

    Raises ``ConfigError`` where billing is wanted and a card's rate is unknown.
    """
    lines = []
    for partition in inventory.partitions:
        fields = [f"PartitionName={partition.name}", f"Nodes={hostlist.fold(partition.hosts)}"]
        if partition.max_time is not None:
            fields.append(f"MaxTime={partition.max_time}")
        fields.append(f"Default={'YES' if partition.default else 'NO'}")
        if partition.name in topology:
            fields.append(f"Topology={topology[partition.name]}")
        options = {"State": "UP"} | dict(partition.options)
        if "TRESBillingWeights" not in options and (
            weights := billing_weights(inventory, partition)
        ):
            options["TRESBillingWeights"] = weights
        lines.append(" ".join([*fields, *_options(options)]))
    return "".join(f"{line}\n" for line in lines)


def gres_types(inventory: Inventory) -> list[str]:
    """Return the GRES names in use, sorted."""
    return sorted({name for nodes in inventory.node_classes for name, _ in _counts(nodes)})


def accounting_line(inventory: Inventory) -> str | None:
    """Return the line that tracks every kind of card; None without slurmdbd.

    slurmctld dies of it where no slurmdbd runs ("slurmdbd is required to run with TRES").
    """
    kinds = {kind for nodes in inventory.node_classes for kind in _counts(nodes)}
    if not inventory.slurm.slurmdbd or not kinds:
        return None
    names = {f"gres/{name}" for name, _ in kinds}
    typed = {f"gres/{name}:{kind}" for name, kind in kinds if kind}
    return f"AccountingStorageTRES={','.join(sorted(names | typed))}"


def _by_place(nodes: NodeClass, places: Mapping[str, str]) -> Iterator[tuple[NodeClass, str]]:
    """Yield nodes with their place, in parts that share one.

    Addresses and ports that are listed host by host are parted alike.
    """
    parts: dict[str, list[int]] = {}
    for index, host in enumerate(nodes.hosts if nodes.cloud else ()):
        parts.setdefault(places.get(host, ""), []).append(index)
    if len(parts) < 2:
        yield nodes, next(iter(parts), "")
        return
    for place, indexes in parts.items():
        options = tuple((key, _part(key, value, nodes, indexes)) for key, value in nodes.options)
        hosts = tuple(nodes.hosts[index] for index in indexes)
        yield replace(nodes, hosts=hosts, options=options), place


def _part(key: str, value: str, nodes: NodeClass, indexes: list[int]) -> str:
    """Return the part of an option's value for some hosts, where each host has its own."""
    if key not in ("NodeAddr", "NodeHostname", "BcastAddr", "Port"):
        return value
    each = hostlist.expand(value)
    if len(each) != len(nodes.hosts):
        return value
    return hostlist.fold((each[index] for index in indexes), sort=False)


def _node_line(domain: Supernode | Pool, nodes: NodeClass, place: str) -> str:
    fields = [
        # In the order written: addresses and ports are listed in the same order.
        f"NodeName={hostlist.fold(nodes.hosts, sort=False)}",
        f"Sockets={nodes.sockets}",
        f"CoresPerSocket={nodes.cores}",
        f"ThreadsPerCore={nodes.threads}",
        f"RealMemory={nodes.memory_mib}",
    ]
    gres = [
        ":".join([name, kind, str(count)] if kind else [name, str(count)])
        for (name, kind), count in _counts(nodes).items()
    ]
    if gres:
        fields.append(f"Gres={','.join(gres)}")
    fields.append(f"Feature={','.join(nodes.features_in(domain.name))}")
    if nodes.cloud and place:
        fields.append(f"Topology={place}")
    state = {"State": "CLOUD" if nodes.cloud else "UNKNOWN"}
    return " ".join([*fields, *_options(state | dict(nodes.options))])


def _counts(nodes: NodeClass) -> Counter[tuple[str, str]]:
    """Return how many of each GRES name and type a node has, cards first; shards have no type."""
    devices = gres_devices(nodes.devices)
    counts = Counter((device.gres, device.type) for device in devices)
    shards = sum(device.shards for device in devices)
    others = {(item.name, item.type): item.count for item in nodes.other_gres}
    return counts + Counter({("shard", ""): shards}) + Counter(others)


def _options(options: Mapping[str, str]) -> Iterator[str]:
    """Yield each option as Slurm reads it: a value that holds a space stands in quotes."""
    for key, value in options.items():
        yield f'{key}="{value}"' if " " in value else f"{key}={value}"
