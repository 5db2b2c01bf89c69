"""Different kinds of devices as data-parallel replicas that take unequal samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..errors import PlanError
from ..plan import Mesh, Pipeline, Plan, Predicted, Stage
from .costs import GIB, limit_gib, model_operations, plan_of
from .fixed import unplanned
from .mesh import MeshCost, Shape, meshes_of
from .shortage import nothing_fits
from .space import kept
from .split import split_samples
from .step import PARTS
from .workload import RECOMPUTE, Capabilities, Fixed, Offer, Workload

ENDS = (True, True)
"""A replica's only stage is the first and the last."""


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
    # Sharded weights (ZeRO-3) are gathered per micro-batch: unequal counts would dead-lock.
    stages = kept([stage for stage in capabilities.zero if stage < 3], workload.fixed.zero)
    reason = whole_replicas(workload.fixed, offers)
    if not stages:
        reason = f"zero {workload.fixed.zero} is not planned of replicas of unlike speed"
    if reason:
        raise PlanError(reason)
    return plans_of_each(stages, lambda zero: _plan(workload, offers, capabilities, zero))


def loop_words(offers: Sequence[Offer], what: str) -> str:
    """Return that a PyTorch loop can do something; empty for several makers: it mixes none."""
    makers = {offer.accelerator.vendor for offer in offers}
    return f"; --framework torch can{what}" if len(makers) == 1 else ""


def whole_replicas(fixed: Fixed, offers: Sequence[Offer]) -> str:
    """Return which fixed size replicas of one device each cannot have, empty if there is none."""
    sizes = dict.fromkeys(("tp", "pp", "cp", "ep", "etp", "virtual_stages"), 1)
    sizes |= {"dp": sum(offer.devices for offer in offers), "recompute_layers": 0}
    return unplanned(fixed, "replicas of one device each", **sizes)


def plans_of_each(sizes: Sequence[int], planned: Callable[[int], Plan]) -> list[Plan]:
    """Return the plan of each size that has one; raises the last ``PlanError`` if none has."""
    plans, problems = [], []
    for size in sizes:
        try:
            plans.append(planned(size))
        except PlanError as error:
            problems.append(error)
    if not plans:
        raise problems[-1]
    return plans


@dataclass(frozen=True, slots=True)
class Run:
    """A micro-batch with its recomputation: what a replica runs for some samples."""

    end_s: float
    """With what nothing hides of the gradients' traffic."""
    time_s: float
    micro_batch: int
    mesh: MeshCost


def memory_gib(mesh: MeshCost) -> float:
    """Return the peak memory of a device of a replica."""
    return mesh.stage_bytes(mesh.layers, ENDS, 1) / GIB


def micro_s(mesh: MeshCost) -> float:
    """Return the time of a replica's micro-batch."""
    return mesh.layers * mesh.layer.time_s + mesh.embedding.time_s + mesh.head.time_s


class _Kind:
    """The replicas of one kind of device."""

    def __init__(
        self, workload: Workload, offer: Offer, replicas: int, able: Capabilities, zero: int
    ) -> None:
        self.workload = workload
        self.offer = offer
        self._replicas, self._zero = replicas, zero
        self._choices: dict[int, Run] = {}
        self._syncs: dict[tuple[int, str], float] = {}
        powers = [1 << place for place in range((2 * workload.global_batch).bit_length())]
        if workload.fixed.micro_batch:
            powers = [workload.fixed.micro_batch]
        kinds = kept(able.recompute, workload.fixed.recompute)
        self._meshes: dict[tuple[int, str], MeshCost] = {}
        self._cost(powers)
        self.sizes = {again: self._fitting(powers, again) for again in kinds}
        largest = max((sizes[-1] for sizes in self.sizes.values() if sizes), default=0)
        if not largest:
            least = memory_gib(self._meshes[powers[0], kinds[-1]])
            raise nothing_fits(workload, offer, able, least)
        self._cost(range(1, largest))
        self._sample_s = min(
            micro_s(self._meshes[size, again]) / size
            for again, fitting in self.sizes.items()
            for size in fitting
        )

    def end_s(self, samples: int) -> float:
        """Return the least time of one replica for its samples and its gradients."""
        return self.choice(samples).end_s

    def even_s(self, samples: int, limit_s: float) -> float:
        """Return the time of so many samples at its best speed, ``inf`` where they end too late."""
        if self.end_s(samples) > limit_s * (1 + 1e-12):
            return math.inf
        return samples * self._sample_s

    def choice(self, samples: int) -> Run:
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

    def _run(self, samples: int, size: int, recompute: str) -> Run:
        full, rest = divmod(samples, size)
        mesh = self._meshes[size, recompute]
        time_s = full * micro_s(mesh)
        if rest:
            time_s += micro_s(self._meshes[rest, recompute])
        key = (size, recompute)
        if key not in self._syncs:
            # Gradients leave under the last micro-batch's way back.
            self._syncs[key] = mesh.sync_s(mesh.layers, ENDS, micro_s(mesh), 1)[0]
        return Run(time_s + self._syncs[key], time_s, size, mesh)

    def _fitting(self, sizes: Sequence[int], recompute: str) -> list[int]:
        """Return the first of rising micro-batches that fit."""
        limit = limit_gib(self.workload, self.offer)
        found: list[int] = []
        for size in sizes:
            if memory_gib(self._meshes[size, recompute]) > limit:
                break
            found.append(size)
        return found

    def _cost(self, sizes: Sequence[int]) -> None:
        shapes = [
            Shape(1, self._replicas, size, again, self._zero)
            for size in sizes
            for again in RECOMPUTE
            if (size, again) not in self._meshes
        ]
        meshes = meshes_of(self.workload, self.offer, shapes, [1] * len(shapes))
        for shape, mesh in zip(shapes, meshes, strict=True):
            self._meshes[shape.micro_batch, shape.recompute] = mesh


def _plan(workload: Workload, offers: Sequence[Offer], able: Capabilities, zero: int) -> Plan:
    counts = [offer.devices for offer in offers]
    kinds = [_Kind(workload, offer, sum(counts), able, zero) for offer in joined(offers)]
    samples = split_samples(workload.global_batch, counts, [kind.end_s for kind in kinds])
    if samples is None:
        raise PlanError(
            f"a global batch of {workload.global_batch} leaves some of the {sum(counts)} "
            f"replicas without a sample; take a batch of {sum(counts)} at least, or fewer devices"
        )
    # Where traffic decides, several deals end at once: of these the one that follows speed.
    end_s = max(
        kind.end_s(-(-share // count))
        for kind, share, count in zip(kinds, samples, counts, strict=True)
    )
    even = [partial(kind.even_s, limit_s=end_s) for kind in kinds]
    samples = split_samples(workload.global_batch, counts, even) or samples
    choices = [
        kind.choice(-(-share // count))
        for kind, share, count in zip(kinds, samples, counts, strict=True)
    ]
    return plan_of_runs(workload, offers, samples, choices)


def plan_of_runs(
    workload: Workload, offers: Sequence[Offer], samples: Sequence[int], runs: Sequence[Run]
) -> Plan:
    """Return the plan in which the devices of each offer run so, on so many samples."""
    pipelines = tuple(
        _pipeline(index, share, offers[index].devices, run)
        for index, (share, run) in enumerate(zip(samples, runs, strict=True))
    )
    groups = tuple(offer.group for offer in offers)
    return plan_of(workload, groups, pipelines, _predicted(workload, offers, runs))


def joined(offers: Sequence[Offer]) -> list[Offer]:
    """Return the offers with the network of one ring over all of them, as fast as the slowest.

    A ring enters and leaves each fabric once, over the network cards of its devices there: the
    fabric with the least of them holds up all others.
    """
    if len(offers) == 1:
        return list(offers)
    slowest = min(offer.domain_devices * offer.nic_gbs for offer in offers)
    rail = min(offer.rail_gbs or offer.nic_gbs for offer in offers)
    return [
        replace(
            offer,
            network_gbs=slowest / offer.domain_devices * offer.node_devices,
            rail_gbs=rail,
        )
        for offer in offers
    ]


def _pipeline(group: int, samples: int, dp: int, run: Run) -> Pipeline:
    shape = run.mesh.shape
    mesh = Mesh(
        group, 1, 1, dp, run.micro_batch,
        recompute=shape.recompute, zero=shape.zero, shard=shape.shard,
    )  # fmt: skip
    return Pipeline(samples, (mesh,), (Stage(0, run.mesh.layers + run.mesh.front, True, True),))


def _predicted(workload: Workload, offers: Sequence[Offer], runs: Sequence[Run]) -> Predicted:
    compute_s = max(run.time_s for run in runs)
    meshes = [run.mesh for run in runs]
    step_s = meshes[0].constants.step_s
    updates_s = [mesh.sync_s(mesh.layers, ENDS, 0.0, 1)[1] for mesh in meshes]
    breakdown = dict.fromkeys(PARTS, 0.0) | {
        "compute": compute_s,
        "dp": max(run.end_s for run in runs) - compute_s,
        "optimizer": max(updates_s) + step_s,
    }
    breakdown["data"] = max(workload.data_s - sum(breakdown.values()), 0.0)
    step = sum(breakdown.values())
    pairs = zip(offers, meshes, strict=True)
    peak = sum(float(mesh.case.rates.peak) * offer.devices for offer, mesh in pairs)
    return Predicted(
        step_time_s=step,
        breakdown_s=breakdown,
        memory_gib=tuple(map(memory_gib, meshes)),
        mfu=model_operations(workload) / step / peak,
    )
