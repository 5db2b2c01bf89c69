"""The plan of one job: who computes what, on which devices.

    Plan         groups, pipelines, framework, predicted
      DeviceGroup  devices of one kind, and the hosts that may hold them
      Pipeline     its samples per step; meshes; stages in order
        Mesh         device group, tp, pp, dp, micro-batch, recompute, ZeRO stage
        Stage        mesh, layers, embedding, head

A homogeneous plan is one pipeline on one mesh. Different kinds of cards as
consecutive stages: one pipeline, several meshes. Different kinds as replicas:
several pipelines with different numbers of samples. A job without a known model
has no pipelines: it is placed, not planned.

This module travels into the job: Python 3.8, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeviceGroup:
    """Devices of one kind that a job uses, and how a process reaches them."""

    name: str
    """The GRES type, for instance ``h100``."""
    accelerator: str
    """The catalogue's id, for instance ``h100-sxm``."""
    vendor: str
    visible_env: tuple[str, ...]
    """The vendor's visible-devices variables."""
    gres: str
    """Slurm's GRES name: ``gpu``, ``npu`` ..."""
    hosts: str
    """Folded list of the hosts on which this group may run."""
    nodes: int
    """How many nodes the group takes."""
    devices_per_node: int
    domains: tuple[str, ...] = ()
    """Folded host lists, one per supernode that the group may run on; empty for a single one."""
    together: int = 0
    """Nodes in a row, in the order of hosts, that must share one of the domains; 0 for all."""
    component: int = -1
    """Component of the heterogeneous job that holds the group; -1 for the group's own index."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables for the network of these nodes, set where the user's job has not."""

    @property
    def devices(self) -> int:
        """Return the number of devices of the group."""
        return self.nodes * self.devices_per_node


@dataclass(frozen=True)
class Mesh:
    """Devices of one group, arranged: devices = tp * cp * pp * dp."""

    group: int
    """Index into ``Plan.groups``."""
    tp: int
    pp: int
    dp: int
    micro_batch: int
    cp: int = 1
    ep: int = 1
    etp: int = 1
    sequence_parallel: bool = False
    recompute: str = "none"
    """``none``, ``selective`` or ``full``."""
    zero: int = 0
    """ZeRO stage of the optimiser's state over ``dp``."""
    shard: int = 0
    """Replicas that share one copy of what ZeRO cuts, and the others have copies; 0 for all."""
    recompute_layers: int = 0
    """Of each (virtual) stage, the layers that are recomputed in full; 0 for all."""

    @property
    def devices(self) -> int:
        """Return the number of devices of the mesh."""
        return self.tp * self.cp * self.pp * self.dp


@dataclass(frozen=True)
class Stage:
    """Consecutive layers that one rank of the pipeline holds."""

    mesh: int
    """Index into ``Pipeline.meshes``."""
    layers: int
    embedding: bool = False
    head: bool = False


@dataclass(frozen=True)
class Pipeline:
    """A chain of stages that sees ``samples`` sequences of every global batch."""

    samples: int
    meshes: tuple[Mesh, ...]
    stages: tuple[Stage, ...]
    schedule: str = "1f1b"
    virtual_stages: int = 1


@dataclass(frozen=True)
class Predicted:
    """What the cost model expects of a plan."""

    step_time_s: float
    breakdown_s: dict[str, float] = field(default_factory=dict)
    """Where the step goes: compute, tp, pp, bubble, dp ... in seconds."""
    memory_gib: tuple[float, ...] = ()
    """Peak memory per device, one figure per group."""
    mfu: float = 0.0
    """Model FLOPS over the dense peak of all devices, 0 to 1."""

    @property
    def worked_s(self) -> float:
        """Return the time of a step without waiting for data."""
        return self.step_time_s - self.breakdown_s.get("data", 0.0)


@dataclass(frozen=True)
class Plan:
    """The parallel layout of one job."""

    model: str
    """Name of the model, empty if the job is placed but not planned."""
    global_batch: int
    sequence: int
    framework: str
    groups: tuple[DeviceGroup, ...]
    pipelines: tuple[Pipeline, ...] = ()
    predicted: Predicted | None = None
    precision: str = "bf16"
    version: int = 1
    tied_embeddings: bool = False
    """The model's output head is its embedding's table."""
    training: str = "full"
    """``full``, or ``lora``: the model's own weights are frozen."""
    arguments: tuple[str, ...] = ()
    """Words that tell the framework its part of the plan."""
    files: dict[str, str] = field(default_factory=dict)
    """Files that the framework reads, by name."""
    reduction: str = ""
    """What replicas sum gradients in: ``fp32``, ``bf16`` ...; empty: as the framework does."""
    rebalance: bool = False
    """The shares of unlike replicas follow their measured step times."""

    @property
    def devices(self) -> int:
        """Return the number of devices of the job."""
        return sum(group.devices for group in self.groups)
