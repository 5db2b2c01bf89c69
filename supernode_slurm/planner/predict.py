"""Step time and memory of a chain of stages, put together from its micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..plan import DeviceGroup, Pipeline, Plan, Predicted
from . import constants as k
from .device import Device, device_of
from .lora import adapter_params, idle_operations, weight_operations
from .mesh import MeshCost, Shape
from .stage import Sharing, StageCost, in_flight, stage_cost
from .workload import Layout, Offer, Workload


@dataclass(frozen=True, slots=True)
class Chain:
    """Stages in order, each with its sharing and its transfers per micro-batch."""

    stages: tuple[StageCost, ...]
    sharing: tuple[Sharing, ...]
    p2p_s: tuple[float, ...]
    micro_batches: float
    virtual_stages: int = 1

    def breakdown_s(self) -> dict[str, float]:
        """Return where the step goes; the sum is the step time.

        The slowest stage computes without a pause while the pipeline is full; what the
        others add when it fills and drains is the bubble. A faster stage sums its gradients
        while the slowest still computes; the optimiser waits for the norm of all of them.
        """
        count = self.micro_batches
        times = [
            stage.compute_s + stage.tp_s + p2p
            for stage, p2p in zip(self.stages, self.p2p_s, strict=True)
        ]
        slow = max(range(len(times)), key=times.__getitem__)
        pairs = list(zip(self.stages, self.sharing, strict=True))
        pipelined = len(pairs) > 1
        ends = [
            count * time + stage.sync_s(sharing, count, pipelined)
            for time, (stage, sharing) in zip(times, pairs, strict=True)
        ]
        return {
            "compute": count * self.stages[slow].compute_s,
            "tp": count * self.stages[slow].tp_s,
            "pp": count * self.p2p_s[slow],
            "bubble": (sum(times) - times[slow]) / self.virtual_stages,
            "dp": max(ends) - count * times[slow],
            "optimizer": max(stage.optimizer_s(sharing) for stage, sharing in pairs),
        }

    def memory_bytes(self) -> list[float]:
        """Return the peak memory of one device of each stage."""
        total = len(self.stages)
        return [
            stage.memory_bytes(
                in_flight(index, total, self.micro_batches, self.virtual_stages), sharing
            )
            for index, (stage, sharing) in enumerate(zip(self.stages, self.sharing, strict=True))
        ]


def predict(workload: Workload, offer: Offer, layout: Layout) -> Predicted:
    """Return what the cost model expects of a workload on one mesh, whether it fits or not.

    Raises ``PlanError`` if the catalogue does not know the devices' rates.
    """
    device = device_of(offer, workload.precision)
    shape = Shape(
        layout.tp, layout.micro_batch, layout.recompute, layout.sequence_parallel, layout.flash
    )
    return predict_mesh(MeshCost(workload, device, shape), workload, layout)


def predict_mesh(mesh: MeshCost, workload: Workload, layout: Layout) -> Predicted:
    """Return the prediction of ``predict`` from the costs of the layout's shape."""
    device, pp = mesh.device, layout.pp
    chain = Chain(
        stages=tuple(
            stage_cost(mesh, layers, index == 0, index == pp - 1)
            for index, layers in enumerate(layout.layers)
        ),
        sharing=(sharing_of(device, layout, workload.precision),) * pp,
        p2p_s=(p2p_s(mesh, layout),) * pp,
        micro_batches=workload.global_batch / (layout.dp * layout.micro_batch),
        virtual_stages=layout.virtual_stages,
    )
    breakdown = chain.breakdown_s()
    step = sum(breakdown.values())
    peak = device.peak * layout.tp * layout.dp * pp
    return Predicted(
        step_time_s=step,
        breakdown_s=breakdown,
        memory_gib=(max(chain.memory_bytes()) / 2**30,),
        mfu=model_operations(workload) / step / peak,
    )


def sharing_of(device: Device, layout: Layout, precision: str) -> Sharing:
    """Return how the replicas of a mesh share their weights."""
    tp, dp = layout.tp, layout.dp
    return Sharing(
        dp=dp,
        zero=layout.zero,
        bandwidth_bs=device.reach_bs(tp * dp, dp, tp),
        gradient_bytes=gradient_bytes(precision),
        overlap=layout.overlap,
    )


def gradient_bytes(precision: str) -> int:
    """Return the size of a gradient: Megatron keeps and sums bf16 gradients in 32 bit."""
    return 4 if precision == "bf16" else 2


def p2p_s(mesh: MeshCost, layout: Layout) -> float:
    """Return a stage's transfers of one micro-batch: activations on, gradients back."""
    # An interleaved schedule sends under its computation (overlap_p2p_communication).
    if layout.pp == 1 or layout.virtual_stages > 1:
        return 0.0
    device = mesh.device
    inside = device.inside(layout.tp * layout.dp * layout.pp)
    bandwidth = device.group_bs(2) if inside else device.nic_bs
    return 2 * (mesh.tokens * mesh.model.hidden * 2 / layout.tp / bandwidth + k.COLLECTIVE_S)


def model_operations(workload: Workload) -> float:
    """Return the operations that one step needs, without recomputation, attention causal.

    Those of LoRA are fewer: gradients of frozen weights are not counted, nor computed. So its
    MFU is the share of the peak that does needed work, as it is in full training.
    """
    model, sequence = workload.model, workload.sequence
    products = weight_operations(model) + 2 * model.layers * adapter_params(workload)
    attention = model.layers * 2 * sequence * model.attention_width
    tokens = workload.global_batch * sequence
    return 3.0 * tokens * (products + attention) - tokens * idle_operations(workload)


def plan_of(
    workload: Workload,
    groups: tuple[DeviceGroup, ...],
    pipelines: tuple[Pipeline, ...],
    predicted: Predicted,
) -> Plan:
    """Return the plan of a workload on these pipelines."""
    return Plan(
        model=workload.model.name,
        global_batch=workload.global_batch,
        sequence=workload.sequence,
        framework=workload.framework,
        groups=groups,
        pipelines=pipelines,
        predicted=predicted,
        precision=workload.precision,
        tied_embeddings=workload.model.tied,
        training=workload.training,
    )


def fits(device: Device, memory_gib: Sequence[float]) -> bool:
    """Tell whether the memory is there."""
    return max(memory_gib) * 2**30 <= device.memory_bytes
