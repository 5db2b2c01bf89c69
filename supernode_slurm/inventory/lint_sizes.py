"""Rules about the sizes of a site's jobs: what a supernode and its spares leave for them.

Slurm gives a job as few planning blocks as could hold it if all nodes were there, so a job of
more nodes than the block is cut over two of them (facts of topology/block in
slurmconf/levels.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import hostlist
from ..errors import Where
from .lint import Fault, Rule, Subject
from .model import Inventory

WASTE = 0.2
"""Share of the nodes or devices that a size may leave idle."""


@dataclass(frozen=True, slots=True)
class _Class:
    """Supernodes of equal size."""

    names: tuple[str, ...]
    total: int
    block: int
    """Nodes of the planning block."""
    devices: int
    """Of a node; the least where they differ."""
    where: Where

    @property
    def shown(self) -> str:
        return hostlist.fold(self.names)

    def nodes(self, size: int) -> int:
        """Return the nodes that a job of so many devices takes."""
        return -(-size // self.devices)


def _classes(inventory: Inventory) -> list[_Class]:
    found: dict[tuple[int, int, int], _Class] = {}
    for item in inventory.supernodes:
        devices = min(nodes.device_count for nodes in item.nodes)
        key = (len(item.hosts), item.planning_nodes, devices)
        if len(item.hosts) > 1 and devices and item.planning_nodes:
            same = found.get(key)
            names = (*(same.names if same else ()), item.name)
            found[key] = _Class(names, *key, where=same.where if same else item.where)
    return list(found.values())


def _over_block(subject: Subject) -> Iterator[Fault]:
    for item in _classes(subject.inventory):
        for size in subject.inventory.policy.job_sizes:
            nodes = item.nodes(size)
            if item.block < nodes <= item.total:
                what = (
                    f"jobs of {size} devices take {nodes} of the {item.total} nodes of "
                    f"{item.shown}, whose planning block is {item.block}: Slurm cuts them over two "
                    "supernodes"
                )
                todo = (
                    f"ask for {item.block * item.devices} devices, or have fewer than "
                    f"{item.total - item.block} spares"
                )
                yield Fault(item.where, what, item.names, todo=todo)


def _no_spare(subject: Subject) -> Iterator[Fault]:
    for item in _classes(subject.inventory):
        whole = [
            size
            for size in subject.inventory.policy.job_sizes
            if item.block == item.total and item.nodes(size) % item.total == 0
        ]
        if whole:
            what = (
                f"jobs of {_listed(whole)} devices take all {item.total} nodes of {item.shown}, "
                f"which ha{'ve' if len(item.names) > 1 else 's'} no spares: one dead node strands "
                "them"
            )
            yield Fault(item.where, what, item.names)


def _wasteful(subject: Subject) -> Iterator[Fault]:
    sizes = subject.inventory.policy.job_sizes
    for item in _classes(subject.inventory):
        for size in sizes:
            nodes = item.nodes(size)
            spread = -(-nodes // item.block)
            room = spread * item.block
            left = _left(room - nodes, [item.nodes(other) for other in sizes])
            idle = nodes * item.devices - size
            if size > item.devices and idle > WASTE * nodes * item.devices:
                what = (
                    f"jobs of {size} devices leave {idle} devices idle in the {nodes} nodes "
                    f"that they take of {item.shown}"
                )
                yield Fault(item.where, what, item.names)
            elif spread <= len(item.names) and left > WASTE * room:
                what = (
                    f"jobs of {size} devices take {nodes} of {room} nodes of {item.shown}, and "
                    f"{left} are left that no size of the site's fills"
                )
                yield Fault(item.where, what, item.names)


def _left(room: int, sizes: list[int]) -> int:
    """Return the nodes that stay empty where jobs of these sizes fill the room, largest first."""
    for nodes in sorted(sizes, reverse=True):
        room %= nodes
    return room


def _too_small(subject: Subject) -> Iterator[Fault]:
    sizes = subject.inventory.policy.job_sizes
    for item in _classes(subject.inventory):
        most = item.total * item.devices
        if sizes and most < min(sizes):
            what = (
                f"{item.shown}: {most} devices, fewer than the least size of the site's jobs, "
                f"{min(sizes)}: none stays inside one supernode"
            )
            yield Fault(item.where, what, item.names)


def _nowhere(subject: Subject) -> Iterator[Fault]:
    inventory = subject.inventory
    most, name = max(
        ((_most(inventory, partition.hosts), partition.name) for partition in inventory.partitions),
        default=(0, ""),
    )
    large = [size for size in inventory.policy.job_sizes if size > most]
    if large and name:
        what = (
            f"jobs of {_listed(large)} devices fit nowhere: the largest partition, {name}, holds "
            f"{most} on one network"
        )
        yield Fault(Where(inventory.source), what, ("job_sizes",))


def _most(inventory: Inventory, hosts: tuple[str, ...]) -> int:
    """Return the devices of some hosts that a network joins; without one, of a supernode."""
    counts: dict[str, int] = {}
    held = set(hosts)
    for domain in inventory.domains:
        for nodes in domain.nodes:
            for host in nodes.hosts:
                if host in held:
                    fabric = inventory.fabric_of(host)
                    key = f"fabric {fabric.name}" if fabric else domain.name
                    counts[key] = counts.get(key, 0) + nodes.device_count
    return max(counts.values(), default=0)


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))


SIZE_RULES = (
    Rule(
        "size-over-block",
        "warning",
        "a job that needs the spares is cut over two supernodes and leaves the fast fabric",
        "ask for the devices of the planning block, or have fewer spares",
        _over_block,
    ),
    Rule(
        "size-no-spare",
        "warning",
        "a job that takes every node of a supernode waits while one of them is down",
        "declare spares, and offer a size that leaves them out",
        _no_spare,
    ),
    Rule(
        "size-waste",
        "warning",
        "nodes that no size of job fills stay idle",
        "choose sizes that divide the planning block, or smaller ones beside them",
        _wasteful,
    ),
    Rule(
        "supernode-below-sizes",
        "warning",
        "a supernode gains nothing for jobs that do not fit into one",
        "offer a size that fits, or let a pool take these jobs",
        _too_small,
    ),
    Rule(
        "size-nowhere",
        "error",
        "a job of that size waits for ever",
        "take the size out of policy.job_sizes, or join more nodes by one network and partition",
        _nowhere,
    ),
)
