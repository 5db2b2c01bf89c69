"""The machine room, expanded and checked: what every other package reads.

``schema.py`` has the shape that a person writes, folded by class; ``resolve.py``
turns it into this. Units are in the names: GB/s are 1e9 bytes per second in one
direction, per device for an interconnect and per node and rail for a fabric.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import Where


@dataclass(frozen=True, slots=True)
class Devices:
    """The accelerators of one kind in a node."""

    accelerator: str
    """The catalogue's id."""
    count: int
    gres: str
    """GRES name, ``gpu`` unless the site says otherwise."""
    type: str
    """GRES type, unique for its accelerator within the inventory."""


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Equal nodes, as Slurm must know them."""

    hosts: tuple[str, ...]
    devices: tuple[Devices, ...]
    sockets: int
    cores: int
    """Cores per socket."""
    threads: int
    memory_mib: int
    """What ``slurmd -C`` reports, not the nominal size."""
    where: Where

    @property
    def device_count(self) -> int:
        """Return the number of devices in one node."""
        return sum(item.count for item in self.devices)


@dataclass(frozen=True, slots=True)
class Interconnect:
    """The scale-up fabric of a supernode."""

    kind: str
    bandwidth_gbs: float
    latency_ns: float


@dataclass(frozen=True, slots=True)
class Supernode:
    """Nodes that share one scale-up fabric."""

    name: str
    interconnect: Interconnect
    nodes: tuple[NodeClass, ...]
    spares: int
    where: Where

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return all hosts, spares last."""
        return tuple(host for nodes in self.nodes for host in nodes.hosts)

    @property
    def planning_nodes(self) -> int:
        """Return the size of the planning block: the nodes less the spares."""
        return len(self.hosts) - self.spares


@dataclass(frozen=True, slots=True)
class Pool:
    """Ordinary nodes outside any supernode."""

    name: str
    nodes: tuple[NodeClass, ...]
    where: Where

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return all hosts."""
        return tuple(host for nodes in self.nodes for host in nodes.hosts)

    @property
    def planning_nodes(self) -> int:
        """Return the number of nodes: a pool has no spares."""
        return len(self.hosts)


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of a fabric and what hangs directly under it."""

    name: str
    switches: tuple[str, ...]
    members: tuple[str, ...]
    """Names of supernodes and pools."""
    hosts: tuple[str, ...]
    """Hosts named one by one."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """A scale-out network between nodes."""

    name: str
    kind: str
    rails: int
    rail_gbs: float
    """Per rail and node, one direction."""
    oversubscription: float
    switches: tuple[Switch, ...]
    """Children before their parents."""
    hosts: frozenset[str]
    """Every host that the fabric reaches."""
    where: Where

    @property
    def node_gbs(self) -> float:
        """Return what a node gets through the fabric's core: rails over oversubscription."""
        return self.rails * self.rail_gbs / self.oversubscription


@dataclass(frozen=True, slots=True)
class Rack:
    """Where nodes stand, what power they may draw."""

    name: str
    hosts: tuple[str, ...]
    power_w: float | None
    cooling: str | None
    where: Where


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of Slurm over supernodes and pools."""

    name: str
    members: tuple[str, ...]
    """Names of supernodes and pools, in the order written."""
    hosts: tuple[str, ...]
    max_time: str | None
    default: bool
    where: Where


@dataclass(frozen=True, slots=True)
class Policy:
    """What the site wants."""

    whole_supernode_from: int | None
    """Devices from which a job belongs on a supernode, None for none."""
    small_jobs_to: str | None
    """Partition for the jobs below that do not name their cards."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """A machine room."""

    source: str
    cluster: str
    release: str
    """Slurm's release, or ``auto``."""
    fabrics: tuple[Fabric, ...]
    racks: tuple[Rack, ...]
    supernodes: tuple[Supernode, ...]
    pools: tuple[Pool, ...]
    partitions: tuple[Partition, ...]
    policy: Policy

    @property
    def domains(self) -> tuple[Supernode | Pool, ...]:
        """Return supernodes and pools, in the order written."""
        return (*self.supernodes, *self.pools)

    @property
    def node_classes(self) -> tuple[NodeClass, ...]:
        """Return all classes of nodes."""
        return tuple(nodes for domain in self.domains for nodes in domain.nodes)

    def domain(self, name: str) -> Supernode | Pool:
        """Return the supernode or pool of this name; ``KeyError`` if there is none."""
        for domain in self.domains:
            if domain.name == name:
                return domain
        raise KeyError(name)

    def partition(self, name: str) -> Partition:
        """Return the partition of this name; ``KeyError`` if there is none."""
        for partition in self.partitions:
            if partition.name == name:
                return partition
        raise KeyError(name)

    def fabric_of(self, host: str) -> Fabric | None:
        """Return the scale-out network that reaches a host, None if none is declared."""
        return next((fabric for fabric in self.fabrics if host in fabric.hosts), None)
