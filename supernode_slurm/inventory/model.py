"""The machine room, expanded and checked: what every other package reads.

``schema.py`` has the shape that a person writes, folded by class; ``resolve.py``
turns it into this. Units are in the names: GB/s are 1e9 bytes per second in one
direction, per device for an interconnect and per node and rail for a fabric.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..catalogue import Accelerator, capped, find_accelerator
from ..errors import Where
from .calibration import Calibration
from .upkeep import NodePower, Rack, Upkeep


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
    files: tuple[str, ...] = ()
    """Device files in order, empty for the vendor's usual ones."""
    missing: tuple[int, ...] = ()
    """Indexes of the usual files that are not there."""
    cores: tuple[str, ...] = ()
    """Cores near the cards, each range for an equal share of them, in order."""
    links: tuple[str, ...] = ()
    """Links of each card to every card, in order."""
    shards: int = 0
    """Shares that each card may be split into, 0 for none."""
    mig: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """MIG profiles with the ids of their GPU instances, the same on each card."""

    @property
    def is_whole(self) -> bool:
        """Return whether a job can have whole cards of these."""
        return not self.mig


@dataclass(frozen=True, slots=True)
class OtherGres:
    """A GRES that is no card of the catalogue: Slurm counts it, no plan uses it."""

    name: str
    type: str
    """Empty for none."""
    count: int
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """How the communication libraries reach the network from a node."""

    interface: str = ""
    """For the first contact; empty where nobody has said."""
    hcas: tuple[str, ...] = ()
    """The cards that carry the data; none for those that the library finds."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the site's own."""


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
    features: tuple[str, ...] = ()
    """The site's own."""
    cloud: bool = False
    """Slurm powers these nodes up and down."""
    options: tuple[tuple[str, str], ...] = ()
    """What else stands on the NodeName line."""
    other_gres: tuple[OtherGres, ...] = ()
    network: Network = Network()
    power: NodePower = field(default_factory=NodePower)

    @property
    def cpus(self) -> int:
        """Return the CPUs of one node as Slurm counts them."""
        return self.sockets * self.cores * self.threads

    @property
    def cpus_per_device(self) -> int:
        """Return the share of a node's CPUs that belongs to one device, at least one."""
        return max(self.cpus // self.device_count, 1)

    def features_in(self, domain: str) -> tuple[str, ...]:
        """Return the features that our files give: where the nodes stand, what they hold."""
        held = (item.type for item in self.devices)
        return tuple(dict.fromkeys((domain, *held, *self.features)))

    @property
    def device_count(self) -> int:
        """Return the number of devices in one node."""
        return sum(item.count for item in self.devices)


@dataclass(frozen=True, slots=True)
class Interconnect:
    """The scale-up fabric of a supernode."""

    kind: str
    bandwidth_gbs: float | None
    """None where nobody has said."""
    latency_ns: float
    dims: tuple[int, ...] = ()
    """Nodes along x, y and z of a torus, empty where nobody has said."""
    placements: tuple[tuple[int, ...], ...] = ()
    """Shapes that a job may have in a torus, empty for the usual ones."""


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
class Foreign:
    """Nodes that Slurm knows from the site's own lines: not ours to write, but in their place."""

    name: str
    hosts: tuple[str, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of a fabric and what hangs directly under it."""

    name: str
    switches: tuple[str, ...]
    members: tuple[str, ...]
    """Names of supernodes, pools and foreign nodes."""
    hosts: tuple[str, ...]
    """Hosts named one by one."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """A scale-out network between nodes."""

    name: str
    kind: str
    rails: int | None
    rail_gbs: float | None
    """Per rail and node, one direction; None where nobody has said."""
    oversubscription: float
    switches: tuple[Switch, ...]
    """Children before their parents."""
    hosts: frozenset[str]
    """Every host that the fabric reaches."""
    where: Where

    @property
    def node_gbs(self) -> float | None:
        """Return what a node gets through the fabric's core: rails over oversubscription."""
        if self.rails is None or self.rail_gbs is None:
            return None
        return self.rails * self.rail_gbs / self.oversubscription


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of Slurm over supernodes and pools."""

    name: str
    members: tuple[str, ...]
    """Names of supernodes and pools that it holds wholly or in part, in the order written."""
    hosts: tuple[str, ...]
    max_time: str | None
    default: bool
    where: Where
    options: tuple[tuple[str, str], ...] = ()
    """What else stands on the PartitionName line."""
    workload: tuple[str, ...] = ()
    """What its jobs do, of ``schema.WORKLOADS``; none for training."""
    mixed: bool = False
    """Cards of different speed stand in it on purpose."""


@dataclass(frozen=True, slots=True)
class Price:
    """What one card costs for an hour."""

    amount: float
    currency: str
    """In three letters, like ``CNY``."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the site wants."""

    whole_supernode_from: int | None
    """Devices from which a job belongs on a supernode, None for none."""
    small_jobs_to: str | None
    """Partition for the jobs below that do not name their cards."""
    supernode_gain: float | None = None
    """Least gain over a pool, 0.1 for 10 %, for which a job gets a supernode; None for any."""
    defaults: tuple[tuple[str, str], ...] = ()
    """Planning options with what they are where the user says nothing."""
    prices: tuple[tuple[str, Price], ...] = ()
    """By the catalogue's id of the card."""
    job_sizes: tuple[int, ...] = ()
    """Numbers of devices that the site's jobs ask for, ascending."""

    def price(self, accelerator: str) -> Price | None:
        """Return the price of a card, None where the site has said none."""
        return dict(self.prices).get(accelerator)


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """The Slurm that the files are for."""

    release: str = "auto"
    """Like ``24.11``, or ``auto``."""
    slurmdbd: bool = False
    billing: bool = False
    """Write TRESBillingWeights from what each kind of card delivers."""
    carry_launcher: bool = False
    """``sn-launch`` travels in each job's script."""
    job_submit: bool = False
    """Write ``job_submit.lua``, by which slurmctld places the jobs of plain sbatch."""
    task_prolog: str | None = None
    """Where the task prolog is installed on the nodes."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """A machine room."""

    source: str
    cluster: str
    slurm: SlurmSettings
    accelerators: tuple[Accelerator, ...]
    """Kinds of cards whose figures the site gave itself."""
    fabrics: tuple[Fabric, ...]
    racks: tuple[Rack, ...]
    supernodes: tuple[Supernode, ...]
    pools: tuple[Pool, ...]
    foreign: tuple[Foreign, ...]
    partitions: tuple[Partition, ...]
    policy: Policy
    calibration: Calibration = field(default_factory=Calibration)
    """Constants of the cost model that the site fitted to its own runs."""
    upkeep: Upkeep = field(default_factory=Upkeep)
    rebuilt: bool = False
    """No person wrote it: it is what Slurm shows, which knows no speeds."""

    def accelerator(self, key: str) -> Accelerator:
        """Return a kind of card by its id, with the site's own figures before the catalogue's."""
        found = next((item for item in self.accelerators if item.id == key), None)
        return found or find_accelerator(key)

    def card_in(self, domain: str, key: str) -> Accelerator:
        """Return a kind of card as it is in a supernode or pool: slower under its power cap."""
        return capped(self.accelerator(key), self.upkeep.cap_w(domain))

    @property
    def release(self) -> str:
        """Return Slurm's release, or ``auto``."""
        return self.slurm.release

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

    def member(self, name: str) -> Supernode | Pool | Foreign:
        """Return what a switch may hold by name; ``KeyError`` if there is none of this name."""
        found = next((item for item in self.foreign if item.name == name), None)
        return found or self.domain(name)

    def partition(self, name: str) -> Partition:
        """Return the partition of this name; ``KeyError`` if there is none."""
        for partition in self.partitions:
            if partition.name == name:
                return partition
        raise KeyError(name)

    def fabric_of(self, host: str) -> Fabric | None:
        """Return the scale-out network that reaches a host, None if none is declared."""
        return next((fabric for fabric in self.fabrics if host in fabric.hosts), None)
