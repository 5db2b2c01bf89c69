"""The inventory as a person writes it, folded by class.

Every class here is a mapping of the file: its fields are the keys, fields without a
default are required. ``at`` holds where each value stands; ``at[""]`` is the mapping.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from .fields import (
    Bandwidth,
    Cards,
    CoreRange,
    Cores,
    Count,
    CountOrZero,
    DeviceFiles,
    Feature,
    FilePath,
    GresName,
    GresType,
    HostList,
    HostPattern,
    HourPrice,
    Index,
    Latency,
    LinkCounts,
    LinkName,
    Memory,
    MigProfile,
    Name,
    NodeOption,
    OneOf,
    OptionValue,
    OtherGres,
    PartitionName,
    PartitionOption,
    Percent,
    Power,
    Rate,
    Ratio,
    Release,
    TimeLimit,
    VariableName,
    VariableValue,
    Version,
    Word,
)
from .placed import Placed
from .upkeep_schema import (
    AbsentSection,
    AcceptSection,
    DerateSection,
    FeedSection,
    MaintenanceSection,
    NodePowerSection,
    RackSection,
    Versions,
)

INTERCONNECTS = ("switch", "clos", "full-mesh", "fat-tree", "ring", "torus")
FABRICS = ("fat-tree", "clos", "dragonfly", "ethernet", "torus")

WORKLOADS = ("training", "moe", "inference")
"""What jobs do; ``moe`` is the training of mixtures of experts."""


@dataclass(slots=True, kw_only=True)
class SlurmSection(Placed):
    """The Slurm that the files are for."""

    release: Release = "auto"
    slurmdbd: bool = False
    """slurmdbd runs: only then may a GRES be tracked, slurmctld refuses it otherwise."""
    billing: bool = False
    """Write TRESBillingWeights from what each kind of card delivers."""
    carry_launcher: bool = False
    """sn-launch is not installed where jobs run: it travels in each job's script."""
    job_submit: bool = False
    """Write job_submit.lua, by which slurmctld places the jobs of plain sbatch."""
    task_prolog: FilePath | None = None
    """Where the generated task prolog is installed on the nodes; None for no TaskProlog line."""


@dataclass(slots=True, kw_only=True)
class RailsSection(Placed):
    """The network ports of a node on a fabric."""

    count: Count
    bandwidth: Bandwidth


@dataclass(slots=True, kw_only=True)
class FabricSection(Placed):
    """A scale-out network; ``switches`` maps a switch to what hangs under it."""

    name: Name
    kind: Annotated[str, OneOf(FABRICS)]
    rails: RailsSection | None = None
    """None where nobody has said: then no job that needs the network can be planned."""
    oversubscription: Ratio = 1.0
    switches: dict[Name, list[HostList]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class FiguresSection(Placed):
    """What the site knows of one device of a kind; it takes the place of the catalogue's figure."""

    bf16: Rate | None = None
    """Dense peak."""
    fp16: Rate | None = None
    fp8: Rate | None = None
    matmul: Rate | None = None
    """Highest rate measured for a large bf16 matrix multiplication."""
    memory: Memory | None = None
    memory_bandwidth: Bandwidth | None = None
    link: Bandwidth | None = None
    """To the other cards of its node."""
    power: Power | None = None
    """At full load."""
    least_power: Power | None = None
    """Lowest power limit that it takes."""


@dataclass(slots=True, kw_only=True)
class DeviceSection(Placed):
    """The cards of one kind in a node, where their number does not say it all."""

    count: Cards
    gres: GresName | None = None
    """Of this kind of card; None for that of the nodes."""
    type: GresType | None = None
    files: DeviceFiles | None = None
    """None for the vendor's usual files."""
    missing: list[Index] = field(default_factory=list)
    """Indexes of the usual files that are not there, of a card that was taken out."""
    cores: list[CoreRange] = field(default_factory=list)
    """Cores near the cards, for equal shares of them in order: two ranges halve eight cards."""
    links: list[LinkCounts] = field(default_factory=list)
    """For each card its links to every card of the node, -1 for itself."""
    shards: Count | None = None
    """Shares that each card may be split into."""
    mig: dict[MigProfile, list[Index]] = field(default_factory=dict)
    """For each MIG profile the ids of its GPU instances, the same on each card."""


@dataclass(slots=True, kw_only=True)
class OtherGresSection(Placed):
    """A GRES that is no card of the catalogue: Slurm counts it, no plan uses it."""

    count: Count
    files: DeviceFiles | None = None
    """Without them slurmd must detect gpus by itself."""


@dataclass(slots=True, kw_only=True)
class NetworkSection(Placed):
    """How the communication libraries reach the network from these nodes."""

    interface: LinkName | None = None
    """For the first contact, over TCP."""
    hcas: list[LinkName] = field(default_factory=list)
    """The network cards that carry the data, and no others."""
    environment: dict[VariableName, VariableValue] = field(default_factory=dict)
    """What else these nodes need."""


@dataclass(slots=True, kw_only=True)
class NodesSection(Placed):
    """Equal nodes. ``memory`` is what ``slurmd -C`` reports; ``cores`` are per socket."""

    hosts: HostPattern
    devices: dict[Word, Cards | DeviceSection] = field(default_factory=dict)
    gres: GresName = "gpu"
    type: GresType | None = None
    other_gres: dict[OtherGres, Count | OtherGresSection] = field(default_factory=dict)
    """What else Slurm counts on these nodes, by GRES name and type."""
    sockets: Cores
    cores: Cores
    threads: Cores = 1
    memory: Memory
    power: Power | NodePowerSection | None = None
    """Of one node with its cards at full load; None for the sum of its cards."""
    network: NetworkSection = field(default_factory=NetworkSection)
    features: list[Feature] = field(default_factory=list)
    """The site's own, besides those that are written."""
    cloud: bool = False
    """Slurm powers these nodes up and down."""
    options: dict[NodeOption, OptionValue] = field(default_factory=dict)
    """What else stands on the NodeName line."""


@dataclass(slots=True, kw_only=True)
class InterconnectSection(Placed):
    """The scale-up fabric: bandwidth per device in one direction."""

    kind: Annotated[str, OneOf(INTERCONNECTS)]
    bandwidth: Bandwidth | None = None
    """None where nobody has said: then no job of several nodes can be planned."""
    latency: Latency = 1000.0
    dims: list[Count] = field(default_factory=list)
    """Nodes along x, y and z of a torus; the hosts are in x-fastest order."""
    placements: list[list[Count]] = field(default_factory=list)
    """Shapes that a job may have in a torus; none for all halves of the whole."""


@dataclass(slots=True, kw_only=True)
class SupernodeSection(Placed):
    """One supernode, or a class of equal ones (``name: sn[1-2]``)."""

    name: HostList
    interconnect: InterconnectSection
    spares: CountOrZero = 0
    nodes: NodesSection | list[NodesSection]


@dataclass(slots=True, kw_only=True)
class PoolSection(Placed):
    """Ordinary nodes outside any supernode."""

    name: Name
    nodes: NodesSection | list[NodesSection]


@dataclass(slots=True, kw_only=True)
class ForeignSection(Placed):
    """Nodes that Slurm knows from lines of the site's own, to keep their place in the network."""

    name: Name
    hosts: HostList


@dataclass(slots=True, kw_only=True)
class PartitionSection(Placed):
    """A partition of Slurm."""

    supernodes: list[HostList] = field(default_factory=list)
    pools: list[HostList] = field(default_factory=list)
    foreign: list[HostList] = field(default_factory=list)
    hosts: list[HostList] = field(default_factory=list)
    """Single hosts, where a partition holds a part of a supernode or pool."""
    max_time: TimeLimit | None = None
    default: bool = False
    workload: list[Annotated[str, OneOf(WORKLOADS)]] = field(default_factory=list)
    """What its jobs do; none for training."""
    mixed: bool = False
    """Cards of different speed stand in it on purpose: jobs are planned over them."""
    options: dict[PartitionOption, OptionValue] = field(default_factory=dict)
    """What else stands on the PartitionName line."""


@dataclass(slots=True, kw_only=True)
class DefaultsSection(Placed):
    """What ``sn-submit`` takes where the user says nothing."""

    framework: Word | None = None
    sequence: Count | None = None
    global_batch: Count | None = None


@dataclass(slots=True, kw_only=True)
class PolicySection(Placed):
    """What the site wants of the scheduler."""

    whole_supernode_from: Count | None = None
    small_jobs_to: PartitionName | None = None
    job_sizes: list[Count] = field(default_factory=list)
    """Numbers of devices that the site's jobs ask for."""
    supernode_gain: Percent | None = None
    """A job that a supernode makes faster by less goes to a pool that can hold it."""
    price: dict[Word, HourPrice] = field(default_factory=dict)
    """Of one card for an hour, by name of the catalogue."""
    defaults: DefaultsSection = field(default_factory=DefaultsSection)


@dataclass(slots=True, kw_only=True)
class InventoryFile(Placed):
    """The whole file."""

    version: Version
    cluster: Name
    slurm: SlurmSection = field(default_factory=SlurmSection)
    accelerators: dict[Word, FiguresSection] = field(default_factory=dict)
    """The site's own figures, by name of the catalogue."""
    fabrics: list[FabricSection] = field(default_factory=list)
    racks: list[RackSection] = field(default_factory=list)
    supernodes: list[SupernodeSection] = field(default_factory=list)
    pools: list[PoolSection] = field(default_factory=list)
    foreign: list[ForeignSection] = field(default_factory=list)
    partitions: dict[PartitionName, PartitionSection] = field(default_factory=dict)
    policy: PolicySection = field(default_factory=PolicySection)
    feeds: list[FeedSection] = field(default_factory=list)
    versions: Versions = field(default_factory=dict)
    maintenance: list[MaintenanceSection] = field(default_factory=list)
    accept: list[AcceptSection] = field(default_factory=list)
    absent: list[AbsentSection] = field(default_factory=list)
    derated: list[DerateSection] = field(default_factory=list)
