"""One pipeline stage: its layers and tables on the devices of a mesh."""

from __future__ import annotations

from dataclasses import dataclass

from . import constants as k
from .mesh import MeshCost


@dataclass(frozen=True, slots=True)
class Sharing:
    """The devices that hold equal weights: how many, how joined, what each keeps."""

    dp: int
    zero: int
    bandwidth_bs: float
    """Bytes per second of one rank in their collectives."""
    gradient_bytes: int
    """Per parameter, kept and on the wire."""
    overlap: bool = True


@dataclass(frozen=True, slots=True)
class StageCost:
    """A stage's seconds per micro-batch, and the model's parameters on one device."""

    mesh: MeshCost
    layers: int
    last: bool
    compute_s: float
    tp_s: float
    params: float

    @property
    def trained(self) -> float:
        """Return the parameters on one device that have a gradient."""
        return self.layers * self.mesh.adapter_params if self.mesh.frozen else self.params

    @property
    def frozen(self) -> float:
        """Return those that have none."""
        return self.params if self.mesh.frozen else 0.0

    def memory_bytes(self, in_flight: float, sharing: Sharing) -> float:
        """Return the peak memory with ``in_flight`` micro-batches between their passes."""
        return self.layers * layer_bytes(self.mesh, in_flight, sharing) + end_bytes(
            self.mesh, self.params - self.layers * self.mesh.layer_params, self.last, sharing
        )

    def sync_s(self, sharing: Sharing, micro_batches: float, pipelined: bool) -> float:
        """Return the data-parallel traffic of a step that nothing hides."""
        dp, zero = sharing.dp, sharing.zero
        if dp == 1:
            return 0.0
        moved = self.trained * (dp - 1) / dp / sharing.bandwidth_bs
        reduce = sharing.gradient_bytes * moved + k.COLLECTIVE_S
        if zero == 3:
            moved += self.frozen * (dp - 1) / dp / sharing.bandwidth_bs
        gather = k.WEIGHT_BYTES * moved + k.COLLECTIVE_S
        # A pipeline gathers sharded weights once a step, a single stage per micro-batch;
        # sharded gradients are summed as often.
        rounds = 1.0 if zero < 2 or pipelined else micro_batches
        kinds = (2 * reduce, reduce + gather, reduce + gather / rounds, reduce + 2 * gather)
        traffic = rounds * kinds[zero]
        if not sharing.overlap:
            return traffic
        # Gradients leave under the last backward pass, weights come under the next forward.
        backward = 1 / 2 if self.mesh.frozen else 2 / 3
        cover = rounds * self.compute_s * (backward if zero == 0 else 1)
        return traffic - min(k.OVERLAP * traffic, cover)

    def optimizer_s(self, sharing: Sharing) -> float:
        """Return the time of the optimiser's pass."""
        owned = self.trained / (sharing.dp if sharing.zero else 1)
        return owned * k.OPTIMIZER_TRAFFIC_BYTES / self.mesh.device.elementwise_bs


def stage_cost(mesh: MeshCost, layers: int, first: bool, last: bool) -> StageCost:
    """Return the cost of a stage; the first holds the embedding, the last the head."""
    ends = ([mesh.embedding] if first else []) + ([mesh.head] if last else [])
    tables = 1 if first and last and mesh.model.tied else len(ends)
    return StageCost(
        mesh=mesh,
        layers=layers,
        last=last,
        compute_s=layers * mesh.layer.compute_s + sum(end.compute_s for end in ends),
        tp_s=layers * mesh.layer.tp_s + sum(end.tp_s for end in ends),
        params=layers * mesh.layer_params + tables * mesh.table_params,
    )


def layer_bytes(mesh: MeshCost, in_flight: float, sharing: Sharing) -> float:
    """Return what each further layer of a stage adds to its memory."""
    own = mesh.layer_params * _own_bytes(mesh, sharing)
    return own + mesh.adapter_params * _state_bytes(sharing) + in_flight * mesh.kept_bytes


def end_bytes(mesh: MeshCost, table_params: float, last: bool, sharing: Sharing) -> float:
    """Return what a stage needs besides its layers: tables, working memory, logits."""
    # The logits are gone when the last layer's backward pass needs its working memory.
    working = max(mesh.working_bytes, mesh.logit_bytes if last else 0.0)
    needed = table_params * _own_bytes(mesh, sharing) + working
    if sharing.zero == 3:
        # Two layers and the tables are whole while they compute, with one gradient.
        whole = 2 * k.WEIGHT_BYTES + (0 if mesh.frozen else sharing.gradient_bytes)
        needed += whole * mesh.layer_params + k.WEIGHT_BYTES * table_params
        needed += (2 * k.WEIGHT_BYTES + sharing.gradient_bytes) * mesh.adapter_params
    return needed


def in_flight(stage: int, stages: int, micro_batches: float, virtual_stages: int = 1) -> float:
    """Return how many micro-batches a stage of 1F1B holds; interleaving holds more."""
    held = min(micro_batches, stages - stage)
    if virtual_stages == 1:
        return held
    return held * (1 + (stages - 1) / (stages * virtual_stages))


def _own_bytes(mesh: MeshCost, sharing: Sharing) -> float:
    """Return the bytes per parameter of the model; a frozen one is a weight and no more."""
    if not mesh.frozen:
        return _state_bytes(sharing)
    return k.WEIGHT_BYTES / (sharing.dp if sharing.zero == 3 else 1)


def _state_bytes(sharing: Sharing) -> float:
    """Return the bytes per parameter of weight, gradient and optimiser on one device."""
    whole, adam = k.WEIGHT_BYTES + sharing.gradient_bytes, k.ADAM_BYTES
    if sharing.gradient_bytes < k.GRADIENT_BYTES:
        # Adam works on a 32-bit copy of 16-bit gradients, shared as its moments are.
        adam += k.GRADIENT_BYTES
    if sharing.zero == 3:
        return (whole + adam) / sharing.dp
    if sharing.zero == 2:
        return k.WEIGHT_BYTES + (sharing.gradient_bytes + adam) / sharing.dp
    return whole + adam / (sharing.dp if sharing.zero else 1)
