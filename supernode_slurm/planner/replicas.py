"""Different kinds of devices as data-parallel replicas that take unequal samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import PlanError
from ..plan import Mesh, Pipeline, Plan, Predicted, Stage
from .device import Device, device_of
from .mesh import MeshCost, Shape
from .predict import fits, gradient_bytes, model_operations, plan_of
from .shortage import Shortage
from .split import split_samples
from .stage import Sharing, StageCost, stage_cost
from .workload import RECOMPUTE, Capabilities, Offer, Workload


def replica_plans(
    workload: Workload, offers: Sequence[Offer], capabilities: Capabilities
) -> list[Plan]:
    """Return one plan per ZeRO stage: a whole model on each device, samples by speed.

    The samples sum to the global batch and the slowest replica is as fast as integers
    allow. Where a pipeline's samples do not divide by its ``dp``, its first
    ``samples % dp`` replicas take one more. Raises ``PlanError`` if there is no plan.
    """
    if not capabilities.uneven_samples:
        raise PlanError(f"{capabilities.name} gives all replicas equal samples")
    devices = [device_of(offer, workload.precision) for offer in offers]
    plans = []
    problems: list[PlanError] = []
    # Sharded weights (ZeRO-3) are gathered per micro-batch: unequal counts would dead-lock.
    for zero in (stage for stage in capabilities.zero if stage < 3):
        try:
            plans.append(_plan(workload, offers, devices, zero))
        except PlanError as error:
            problems.append(error)
    if not plans:
        raise problems[-1]
    return plans


@dataclass(frozen=True, slots=True)
class _Choice:
    """A micro-batch with its recomputation: what a replica runs for some samples."""

    end_s: float
    """With what nothing hides of the gradients' traffic."""
    time_s: float
    micro_batch: int
    stage: StageCost


class _Kind:
    """The replicas of one kind of device."""

    def __init__(self, workload: Workload, offer: Offer, device: Device, sharing: Sharing) -> None:
        self.workload = workload
        self.offer = offer
        self.device = device
        self.sharing = sharing
        self._stages: dict[tuple[int, str], StageCost] = {}
        self._choices: dict[int, _Choice] = {}
        self.sizes = {recompute: self._sizes(recompute) for recompute in RECOMPUTE}
        if not any(self.sizes.values()):
            shortage = Shortage()
            shortage.note(self.memory_gib(self.stage(1, RECOMPUTE[-1])))
            raise shortage.error(workload, offer, device)

    def stage(self, micro_batch: int, recompute: str) -> StageCost:
        """Return the whole model as one stage."""
        key = (micro_batch, recompute)
        if key not in self._stages:
            shape = Shape(1, micro_batch, recompute, False)
            mesh = MeshCost(self.workload, self.device, shape)
            self._stages[key] = stage_cost(mesh, self.workload.model.layers, True, True)
        return self._stages[key]

    def memory_gib(self, stage: StageCost) -> float:
        """Return the peak memory of a replica."""
        return stage.memory_bytes(1, self.sharing) / 2**30

    def end_s(self, samples: int) -> float:
        """Return the least time of one replica for its samples and its gradients."""
        return self.choice(samples).end_s

    def choice(self, samples: int) -> _Choice:
        """Return the way to compute so many samples on one replica that ends first."""
        if samples not in self._choices:
            self._choices[samples] = min(
                (
                    self._run(samples, min(size, samples), recompute)
                    for recompute, sizes in self.sizes.items()
                    for size in sizes
                ),
                key=lambda choice: choice.end_s,
            )
        return self._choices[samples]

    def _run(self, samples: int, size: int, recompute: str) -> _Choice:
        full, rest = divmod(samples, size)
        stage = self.stage(size, recompute)
        time_s = full * stage.compute_s
        if rest:
            time_s += self.stage(rest, recompute).compute_s
        return _Choice(time_s + stage.sync_s(self.sharing, 1, False), time_s, size, stage)

    def _sizes(self, recompute: str) -> list[int]:
        """Return the micro-batches that fit: powers of two, up to the largest needed."""
        found: list[int] = []
        size = 1
        while size < 2 * self.workload.global_batch:
            if not fits(self.device, [self.memory_gib(self.stage(size, recompute))]):
                break
            found.append(size)
            size *= 2
        return found


def _plan(
    workload: Workload, offers: Sequence[Offer], devices: Sequence[Device], zero: int
) -> Plan:
    sharing = Sharing(
        dp=sum(offer.devices for offer in offers),
        zero=zero,
        # The replicas form one ring over the network; the slowest link sets its pace.
        bandwidth_bs=min(device.joined_bs(device.domain) for device in devices),
        gradient_bytes=gradient_bytes(workload.precision),
    )
    kinds = [
        _Kind(workload, offer, device, sharing)
        for offer, device in zip(offers, devices, strict=True)
    ]
    counts = [offer.devices for offer in offers]
    samples = split_samples(workload.global_batch, counts, [kind.end_s for kind in kinds])
    if samples is None:
        raise PlanError(
            f"a global batch of {workload.global_batch} leaves some of the {sum(counts)} "
            "replicas without a sample; take a larger batch or fewer devices"
        )
    choices = [
        kind.choice(-(-share // count))
        for kind, share, count in zip(kinds, samples, counts, strict=True)
    ]
    pipelines = tuple(
        _pipeline(index, share, counts[index], choice, zero)
        for index, (share, choice) in enumerate(zip(samples, choices, strict=True))
    )
    groups = tuple(offer.group for offer in offers)
    return plan_of(workload, groups, pipelines, _predicted(workload, kinds, choices))


def _pipeline(group: int, samples: int, dp: int, choice: _Choice, zero: int) -> Pipeline:
    recompute = choice.stage.mesh.shape.recompute
    mesh = Mesh(group, 1, 1, dp, choice.micro_batch, recompute=recompute, zero=zero)
    return Pipeline(samples, (mesh,), (Stage(0, choice.stage.layers, True, True),))


def _predicted(workload: Workload, kinds: Sequence[_Kind], choices: Sequence[_Choice]) -> Predicted:
    sharing = kinds[0].sharing
    compute_s = max(choice.time_s for choice in choices)
    breakdown = {
        "compute": compute_s,
        "tp": 0.0,
        "pp": 0.0,
        "bubble": 0.0,
        "dp": max(choice.end_s for choice in choices) - compute_s,
        "optimizer": max(choice.stage.optimizer_s(sharing) for choice in choices),
    }
    step = sum(breakdown.values())
    peak = sum(kind.device.peak * kind.offer.devices for kind in kinds)
    return Predicted(
        step_time_s=step,
        breakdown_s=breakdown,
        memory_gib=tuple(
            kind.memory_gib(choice.stage) for kind, choice in zip(kinds, choices, strict=True)
        ),
        mfu=model_operations(workload) / step / peak,
    )
