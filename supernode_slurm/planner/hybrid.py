"""Different kinds of devices as sharded replicas that take unequal samples.

Hybrid sharding as of FSDP2: the weights are sharded over devices of one kind that share a node
or a supernode, and every shard is copied over all of these groups (Zhao et al. 2023, arXiv
2304.11277). Each device computes in as many micro-steps as every other, on more or fewer
samples in each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError
from ..plan import Plan
from .costs import limit_gib
from .mesh import MeshCost, Shape, meshes_of
from .replicas import (
    ENDS,
    Run,
    joined,
    loop_words,
    memory_gib,
    micro_s,
    plan_of_runs,
    plans_of_each,
    whole_replicas,
)
from .shortage import nothing_fits
from .space import divisors, kept
from .workload import Capabilities, Offer, Workload

MOST = 128
"""The largest micro-batch that is tried."""


def hybrid_plans(
    workload: Workload, offers: Sequence[Offer], capabilities: Capabilities
) -> list[Plan]:
    """Return the best plan of each number of devices that one copy of the weights can lie on.

    For each number of micro-steps the samples are dealt so that the slowest device is as fast
    as integers allow; the best number is taken. Samples sum to the global batch. Raises
    ``PlanError`` if there is no plan.
    """
    if not capabilities.sharded_replicas:
        raise PlanError(
            f"{capabilities.name} gives groups of devices with sharded weights equal samples"
            + loop_words(offers, " give unequal ones")
        )
    fixed, total = workload.fixed, sum(offer.devices for offer in offers)
    reason = whole_replicas(fixed, offers)
    if fixed.zero not in (None, 3) or fixed.micro_batch:
        reason = (
            "groups of devices with sharded weights take zero 3 and micro-batches of unlike size"
        )
    if reason:
        raise PlanError(reason)
    if workload.global_batch < total:
        raise PlanError(
            f"a global batch of {workload.global_batch} leaves some of the {total} devices "
            f"without a sample; take a batch of {total} at least, or fewer devices"
        )
    together = math.gcd(*(offer.domain_devices for offer in offers))
    sizes = [size for size in divisors(together) if size > 1]
    if not sizes:
        raise PlanError(
            "weights are sharded over equal numbers of devices inside the nodes or supernodes "
            "of each kind: no number above one divides "
            + " and ".join(str(offer.domain_devices) for offer in offers)
        )
    return plans_of_each(sizes, lambda size: _plan(workload, offers, capabilities, size))


@dataclass(frozen=True, slots=True)
class _Deal:
    """Micro-steps, and the samples of each kind."""

    steps: int
    samples: tuple[int, ...]
    end_s: float


class _Kind:
    """The devices of one kind."""

    def __init__(
        self, workload: Workload, offer: Offer, shape: Shape, able: Capabilities, most: int
    ) -> None:
        self.offer = offer
        self.meshes: list[MeshCost] = []
        """The fastest that fits, of each micro-batch from 1 on."""
        limit = limit_gib(workload, offer)
        sizes = range(1, min(MOST, most) + 1)
        kinds = kept(able.recompute, workload.fixed.recompute)
        shapes = [
            Shape(1, shape.dp, size, again, 3, shape.shard) for size in sizes for again in kinds
        ]
        costs = iter(meshes_of(workload, offer, shapes, [1] * len(shapes)))
        for _ in sizes:
            row = [next(costs) for _ in kinds]
            fitting = [mesh for mesh in row if memory_gib(mesh) <= limit]
            if not fitting:
                break
            self.meshes.append(min(fitting, key=micro_s))
        if not self.meshes:
            raise nothing_fits(workload, offer, able, min(map(memory_gib, row)))
        self.micro_s = np.array([micro_s(mesh) for mesh in self.meshes])
        steps = np.arange(1.0, most + 1)
        layers = np.asarray(float(self.meshes[0].layers))
        # All of the traffic, and what stays of it under any computation.
        self.traffic_s, self.exposed_s = (
            self.meshes[0].syncs_s(layers, ENDS, np.asarray(time_s), steps)[0]
            for time_s in (0.0, math.inf)
        )

    def sizes(self, steps: int, most: int) -> range:
        """Return the micro-batches of which a device can compute so many, of at most ``most``."""
        largest = len(self.meshes)
        if steps > 1:
            largest = min(largest, (most - 1) // (steps - 1))
        return range(1, largest + 1)

    def ends_s(self, size: int, steps: int) -> NDArray[np.float64]:
        """Return when a device is done whose last micro-step has 1 to ``size`` samples."""
        times = (steps - 1) * self.micro_s[size - 1] + np.maximum.accumulate(self.micro_s[:size])
        ends = np.maximum(times + self.exposed_s[steps - 1], self.traffic_s[steps - 1])
        return np.asarray(ends)

    def dealt(self, steps: int, most: int, limit_s: float) -> list[tuple[int, int]]:
        """Return which numbers of samples all devices together end in time, as ranges."""
        count = self.offer.devices
        found: list[tuple[int, int]] = []
        for size in self.sizes(steps, most):
            rest = int(np.searchsorted(self.ends_s(size, steps), limit_s, side="right"))
            if not rest:
                continue
            first, last = count * ((steps - 1) * size + 1), count * ((steps - 1) * size + rest)
            if found and first <= found[-1][1] + 1:
                found[-1] = (found[-1][0], max(last, found[-1][1]))
            else:
                found.append((first, last))
        return found

    def run(self, samples: int, steps: int) -> Run:
        """Return the fastest way of a device with most of so many samples of all devices."""
        least, most = samples // self.offer.devices, -(-samples // self.offer.devices)
        best: Run | None = None
        for size in self.sizes(steps, most):
            done = (steps - 1) * size
            if least <= done or most > done + size:
                continue
            rest = most - done
            end_s = float(self.ends_s(size, steps)[rest - 1])
            if best is None or end_s < best.end_s:
                time_s = (steps - 1) * self.micro_s[size - 1] + self.micro_s[:rest].max()
                best = Run(end_s, float(time_s), size, self.meshes[size - 1])
        if best is None:
            raise ValueError(f"{samples} samples in {steps} micro-steps were not dealt")
        return best


def _plan(workload: Workload, offers: Sequence[Offer], able: Capabilities, shard: int) -> Plan:
    total, batch = sum(offer.devices for offer in offers), workload.global_batch
    shape = Shape(1, total, 1, "none", 3, shard)
    # Each device has a sample in each micro-step; what is left goes to any kind.
    mosts = [-(-(batch - total) // offer.devices) + 1 for offer in offers]
    kinds = [_Kind(workload, offer, shape, able, max(mosts)) for offer in joined(offers)]
    deal = _best_deal(kinds, batch, total)
    if deal is None:
        names = " + ".join(f"{offer.devices} x {offer.accelerator.id}" for offer in offers)
        raise PlanError(
            f"{batch} samples cannot be dealt to {names} in equal numbers of micro-steps; take "
            "another global batch"
        )
    runs = [
        kind.run(samples, deal.steps) for kind, samples in zip(kinds, deal.samples, strict=True)
    ]
    return plan_of_runs(workload, offers, deal.samples, runs)


def _best_deal(kinds: Sequence[_Kind], batch: int, total: int) -> _Deal | None:
    """Return the deal whose last device ends first, None if there is none."""
    best: _Deal | None = None
    for steps in range(1, batch // total + 1):
        # Others have a sample in each micro-step at least.
        mosts = [
            -(-(batch - steps * (total - kind.offer.devices)) // kind.offer.devices)
            for kind in kinds
        ]
        ends = np.unique(np.concatenate(list(_ends(kinds, steps, mosts))))
        if best is not None:
            ends = ends[ends < best.end_s]
        found: _Deal | None = None
        low, high = 0, len(ends)
        # More is dealt in more time: the first end by which the whole batch can be.
        while low < high:
            middle = (high + low) // 2 if found else high - 1
            limit_s = float(ends[middle]) * (1 + 1e-12)
            ranges = [
                kind.dealt(steps, most, limit_s) for kind, most in zip(kinds, mosts, strict=True)
            ]
            samples = _summed(ranges, batch)
            if samples is not None:
                found, high = _Deal(steps, samples, float(ends[middle])), middle
            elif found is None:
                break
            else:
                low = middle + 1
        best = found or best
    return best


def _ends(
    kinds: Sequence[_Kind], steps: int, mosts: Sequence[int]
) -> Iterator[NDArray[np.float64]]:
    for kind, most in zip(kinds, mosts, strict=True):
        for size in kind.sizes(steps, most):
            yield kind.ends_s(size, steps)


def _summed(ranges: Sequence[Sequence[tuple[int, int]]], batch: int) -> tuple[int, ...] | None:
    """Return one number of each list of ranges that sum to the batch, None if there are none."""
    for least, most, pick in _sums(ranges):
        if least <= batch <= most:
            return _dealt_within(pick, batch)
    return None


def _sums(
    ranges: Sequence[Sequence[tuple[int, int]]],
) -> Iterator[tuple[int, int, tuple[tuple[int, int], ...]]]:
    """Yield each combination of one range of each list, with its least and its largest sum."""
    if not ranges:
        yield 0, 0, ()
        return
    for low, high in ranges[0]:
        for least, most, pick in _sums(ranges[1:]):
            yield low + least, high + most, ((low, high), *pick)


def _dealt_within(pick: Sequence[tuple[int, int]], total: int) -> tuple[int, ...]:
    """Return one number of each range that sum to the total, which they can."""
    found = [low for low, _ in pick]
    for index, (low, high) in enumerate(pick):
        found[index] += min(high - low, total - sum(found))
    return tuple(found)
