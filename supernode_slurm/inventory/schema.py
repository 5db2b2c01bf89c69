"""The inventory as a person writes it, folded by class.

Every class here is a mapping of the file: its fields are the keys, fields without a
default are required. ``at`` holds where each value stands; ``at[""]`` is the mapping.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from ..errors import Where
from .fields import (
    Bandwidth,
    Cards,
    Cores,
    Count,
    CountOrZero,
    GresName,
    GresType,
    HostList,
    HostPattern,
    Latency,
    Memory,
    Name,
    OneOf,
    Power,
    Ratio,
    Release,
    TimeLimit,
    Version,
    Word,
)

INTERCONNECTS = ("switch", "clos", "full-mesh", "fat-tree", "ring", "torus")
FABRICS = ("fat-tree", "clos", "dragonfly", "ethernet", "torus")

Places = dict[str, Where]


@dataclass(slots=True, kw_only=True)
class Placed:
    """A mapping of the file, with the places of its values."""

    at: Places = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SlurmSection(Placed):
    """The Slurm that the files are for."""

    release: Release = "auto"


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
    rails: RailsSection
    oversubscription: Ratio = 1.0
    switches: dict[Name, list[HostList]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class RackSection(Placed):
    """Where nodes stand."""

    name: Name
    hosts: HostList
    power: Power | None = None
    cooling: Word | None = None


@dataclass(slots=True, kw_only=True)
class NodesSection(Placed):
    """Equal nodes. ``memory`` is what ``slurmd -C`` reports; ``cores`` are per socket."""

    hosts: HostPattern
    devices: dict[Word, Cards] = field(default_factory=dict)
    gres: GresName = "gpu"
    type: GresType | None = None
    sockets: Cores
    cores: Cores
    threads: Cores = 1
    memory: Memory


@dataclass(slots=True, kw_only=True)
class InterconnectSection(Placed):
    """The scale-up fabric: bandwidth per device in one direction."""

    kind: Annotated[str, OneOf(INTERCONNECTS)]
    bandwidth: Bandwidth
    latency: Latency = 1000.0


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
class PartitionSection(Placed):
    """A partition of Slurm."""

    supernodes: list[HostList] = field(default_factory=list)
    pools: list[HostList] = field(default_factory=list)
    max_time: TimeLimit | None = None
    default: bool = False


@dataclass(slots=True, kw_only=True)
class PolicySection(Placed):
    """What the site wants of the scheduler."""

    whole_supernode_from: Count | None = None
    small_jobs_to: Name | None = None


@dataclass(slots=True, kw_only=True)
class InventoryFile(Placed):
    """The whole file."""

    version: Version
    cluster: Name
    slurm: SlurmSection = field(default_factory=SlurmSection)
    fabrics: list[FabricSection] = field(default_factory=list)
    racks: list[RackSection] = field(default_factory=list)
    supernodes: list[SupernodeSection] = field(default_factory=list)
    pools: list[PoolSection] = field(default_factory=list)
    partitions: dict[Name, PartitionSection] = field(default_factory=dict)
    policy: PolicySection = field(default_factory=PolicySection)
