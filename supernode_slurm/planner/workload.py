"""What the planner is asked: a workload, the devices on offer, and what the framework can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from ..catalogue import Accelerator, Model
from ..errors import PlanError
from ..plan import DeviceGroup
from .figures import cannot_plan

REDUCTIONS = {"fp32": 4, "bf16": 2, "int8": 1}
"""What gradients are summed in, and bytes of each on the wire. ``int8`` is ZeRO++'s of DeepSpeed
(arXiv 2306.10209): 4 bits inside a node and 8 between nodes, counted as 8."""
LOSSY = ("int8",)
"""They change what is learnt."""
RECOMPUTE = ("none", "selective", "full")
"""From the fastest to the one that needs least memory."""

PRECISIONS = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")
"""What matrices are multiplied in; attention, norms and the head stay in 16 bit."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Sizes that the user's own words set; the search keeps them and finds the others."""

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    micro_batch: int | None = None
    recompute: str | None = None
    """``none``, ``selective`` or ``full``."""
    recompute_layers: int | None = None
    """See ``Layout``."""
    zero: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    """Tensor parallelism of the experts."""
    virtual_stages: int | None = None
    """Chunks per stage of an interleaved pipeline."""

    def words(self) -> str:
        """Return what is fixed, empty if nothing is."""
        values = [(spec.name.replace("_", "-"), getattr(self, spec.name)) for spec in fields(self)]
        return ", ".join(f"{name} {value}" for name, value in values if value is not None)


@dataclass(frozen=True, slots=True)
class Workload:
    """Training of one model: ``global_batch`` sequences of ``sequence`` tokens per step.

    Raises ``PlanError`` for what this planner does not plan.
    """

    model: Model
    sequence: int
    global_batch: int
    precision: str = "bf16"
    framework: str = "megatron"
    training: str = "full"
    """``full``, or ``lora``: adapters on every linear map of a layer, all else frozen."""
    lora_rank: int = 16
    fixed: Fixed = Fixed()
    data_s: float = 0.0
    """Measured time to load the data of one step, which computation hides."""
    reduction: str = ""
    """Of ``REDUCTIONS``: in what replicas sum gradients; empty: as the software does."""
    spare: float = 0.0
    """Share of the memory of a device that plans leave, unless none then fits."""
    exact: bool = False
    """The precision was asked for: no other one stands in for it."""

    def __post_init__(self) -> None:
        if self.sequence < 1 or self.global_batch < 1:
            raise PlanError(
                "sequence length and global batch must be positive, "
                f"got {self.sequence} and {self.global_batch}"
            )
        if self.precision not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise PlanError(f"precision {self.precision!r} is not planned; use one of {known}")
        if self.training not in ("full", "lora"):
            raise PlanError(f"training {self.training!r} is not planned; use full or lora")
        if self.training == "lora" and self.model.mixture:
            raise PlanError(f"LoRA of {self.model.name}, a mixture of experts, is not planned")
        if self.lora_rank < 1:
            raise PlanError(f"the rank of LoRA must be positive, got {self.lora_rank}")
        if self.reduction and self.reduction not in REDUCTIONS:
            known = ", ".join(REDUCTIONS)
            raise PlanError(f"gradients in {self.reduction!r} are not planned; use one of {known}")
        if not 0 <= self.spare < 1:
            raise PlanError(f"the memory to spare must be a share from 0 to 1, got {self.spare}")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a training framework can run."""

    name: str
    tensor: bool
    """Tensor parallelism, with sequence parallelism."""
    copies_kv_heads: bool
    """TP may exceed the number of key heads: several ranks then hold the same one."""
    pipeline: bool
    uneven_stages: bool
    """Stages may hold different numbers of layers."""
    uneven_samples: bool
    """Replicas may take different numbers of samples."""
    meshes: bool
    """Stages may differ in tensor and data parallelism."""
    mixed_vendors: bool
    zero: tuple[int, ...]
    """ZeRO stages."""
    recompute: tuple[str, ...] = RECOMPUTE
    recompute_some: bool = False
    """Full recomputation of some layers of each stage."""
    recompute_by_stage: bool = False
    """Of the meshes of a pipeline some may recompute in full and others not at all."""
    filled_pipelines: bool = False
    """A pipeline has at least as many micro-batches as stages."""
    virtual_stages: bool = False
    """Interleaved pipelines; the micro-batches of a step are then a multiple of the stages."""
    uneven_virtual: bool = False
    """Uneven stages may be interleaved."""
    context: bool = False
    """Context parallelism: one sequence over several devices."""
    cuts_parts: bool = False
    """TP cuts each of the two parts of a sequence on a CP rank, not both of them together."""
    experts: bool = False
    """Expert parallelism: a mixture's experts over several devices."""
    expert_tensor: bool = False
    """Tensor parallelism of experts may differ from that of the rest."""
    whole_experts: bool = False
    """With expert parallelism no expert is cut: its tensor parallelism is 1."""
    sharded_experts: bool = False
    """Experts are parallel among the replicas that share one copy of the weights, no further."""
    pipelined_mtp: bool = True
    """Multi-token prediction goes with a pipeline."""
    hybrid: bool = False
    """Weights may be sharded over a part of the replicas and copied over the others."""
    sharded_replicas: bool = False
    """Groups of devices with sharded weights may take different numbers of samples."""
    precisions: tuple[str, ...] = ("bf16", "fp16")
    """Of ``PRECISIONS``."""
    reductions: tuple[str, ...] = ("fp32",)
    """Of ``REDUCTIONS``: in what replicas can sum their gradients."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Equal devices that the job may use, and how they are wired."""

    group: DeviceGroup
    accelerator: Accelerator
    domain_nodes: int
    """Nodes that share one scale-up fabric, 1 if it ends at the node."""
    scale_up_gbs: float
    """Per device, one direction."""
    scale_up_latency_ns: float
    network_gbs: float
    """Per node, one direction, after oversubscription."""
    node_devices: int
    """In one whole node, of which the job may take a part; they share its network."""
    interconnect: str = "switch"
    """How the scale-up fabric is wired, in the inventory's word."""
    rail_gbs: float = 0.0
    """Of one network card, one direction; 0: each device has a card of its own."""
    calibration: tuple[tuple[str, float], ...] = ()
    """Constants that the site's own runs changed, by name."""

    @property
    def devices(self) -> int:
        """Return the number of devices on offer."""
        return self.group.devices

    @property
    def domain_devices(self) -> int:
        """Return how many of the devices share one scale-up fabric."""
        return min(self.domain_nodes * self.group.devices_per_node, self.devices)

    @property
    def nic_gbs(self) -> float:
        """Return the share of the node's network that one device has, others in use or not."""
        return self.network_gbs / self.node_devices


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to run a workload on one mesh: devices = tp * cp * pp * dp."""

    tp: int
    dp: int
    micro_batch: int
    layers: tuple[int, ...]
    """Per stage, in order."""
    recompute: str = "none"
    zero: int = 1
    sequence_parallel: bool = True
    virtual_stages: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    shard: int = 0
    """Replicas that share one copy of sharded weights (hybrid sharding); 0 for all."""
    recompute_layers: int = 0
    """Of each virtual stage, the layers that are recomputed in full; 0 for all."""
    flash: bool = True
    """Attention is fused; false only for runs of old software."""
    overlap: bool = True
    """Gradient and weight traffic runs under the computation."""

    @property
    def pp(self) -> int:
        """Return the number of pipeline stages."""
        return len(self.layers)

    @property
    def recomputed(self) -> float:
        """Return the share of the layers that are recomputed in full."""
        if self.recompute != "full":
            return 0.0
        some = self.recompute_layers * self.virtual_stages * self.pp
        return min(some / sum(self.layers), 1.0) if some else 1.0


def agree_precision(workload: Workload, offers: Sequence[Offer], able: Capabilities) -> Workload:
    """Return the workload in a precision that all devices have: fp16 where bf16 is missing.

    Raises ``PlanError``, also where bf16 was asked for and is missing.
    """
    wanted = workload.precision
    if workload.reduction and workload.reduction not in able.reductions:
        raise PlanError(
            f"{able.name} does not sum gradients in {workload.reduction}; use "
            f"{' or '.join(able.reductions)}"
        )
    if wanted not in able.precisions:
        raise PlanError(
            f"{able.name} does not train in {wanted}; use {' or '.join(able.precisions)}"
        )
    fallback = ("fp16",) if wanted == "bf16" and "fp16" in able.precisions else ()
    cards = [offer.accelerator for offer in offers]
    for precision in (wanted, *fallback):
        if not all(card.peak_tflops(precision) for card in cards):
            continue
        if workload.exact and precision != wanted:
            lacking = [card.id for card in cards if not card.peak_tflops(wanted)]
            raise PlanError(
                f"{' and '.join(lacking)} have no units for {wanted}, which was asked for: take "
                f"{precision} (--precision, or in the script), or other cards"
            )
        return replace(workload, precision=precision)
    for card in cards:
        if not any(map(card.peak_tflops, (wanted, *fallback))):
            raise cannot_plan(card, (wanted, *fallback))
    names = " and ".join(card.id for card in cards)
    raise PlanError(f"{names} have no precision in common; plan for one of them")
