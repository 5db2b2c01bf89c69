"""Every legal layout of a workload on devices of one kind, as arrays of sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .workload import RECOMPUTE, Capabilities, Offer, Workload

Sizes = NDArray[np.int32]
"""Half as wide as usual: there may be millions of layouts."""

T = TypeVar("T", int, str)

MOST_TOKENS = 1 << 20
"""Of one micro-batch on one device: no published run comes near."""

MANY_CHUNKS = 16
"""More virtual stages than these are tried only where all hold as many layers."""

NAMES = (
    "tp",
    "cp",
    "ep",
    "etp",
    "pp",
    "dp",
    "virtual",
    "micro_batch",
    "zero",
    "shard",
    "recompute",
)


@dataclass(frozen=True, slots=True)
class Space:
    """One column per layout; ``recompute`` is an index into ``RECOMPUTE``.

    Where full recomputation of some layers is legal, one of all stands for each number of them
    (``again.unfolded``).
    """

    columns: dict[str, Sizes]

    @property
    def size(self) -> int:
        """Return the number of layouts."""
        return int(self.columns["tp"].size)

    def taken(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Space:
        """Return some of the layouts."""
        return Space({name: column[index] for name, column in self.columns.items()})


def space_of(workload: Workload, offer: Offer, able: Capabilities) -> Space:
    """Return the legal layouts that use all devices, those of fixed sizes alone.

    Left out are layouts that another one beats in time and in memory alike: ZeRO-0 where ZeRO-1
    may be had, which sends less, updates less and keeps less.
    """
    blocks = [
        _block(workload, able, outer)
        for outer in _outer(workload, offer, able)
        if workload.global_batch % outer[3] == 0
    ]
    return Space(
        {
            name: np.concatenate([block[place] for block in blocks] or [np.zeros(0, np.int32)])
            for place, name in enumerate(NAMES)
        }
    )


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive number in rising order."""
    small = [item for item in range(1, math.isqrt(number) + 1) if number % item == 0]
    return sorted({*small, *(number // item for item in small)})


def kept(legal: Iterable[T], fixed: T | None) -> list[T]:
    """Return the legal values, or of them only the one that is fixed."""
    return [value for value in legal if fixed is None or value == fixed]


def tensor_sizes(workload: Workload, offer: Offer, able: Capabilities) -> list[int]:
    """Return the legal TP sizes: inside one fabric; heads and the sequence must divide.

    Sequence parallelism goes with TP and cuts the sequence. Fewer key heads than ranks are
    legal where the framework copies them.
    """
    if not able.tensor:
        return [1]
    model = workload.model
    return [
        size
        for size in divisors(math.gcd(offer.domain_devices, offer.devices))
        if model.heads % size == 0
        and (
            model.kv_heads % size == 0
            or model.latent is not None
            or (able.copies_kv_heads and size % model.kv_heads == 0)
        )
        and model.ffn % size == 0
        and workload.sequence % size == 0
    ]


def context_sizes(workload: Workload, able: Capabilities, tp: int, devices: int) -> list[int]:
    """Return the legal CP sizes: each rank has an early and a late part of a sequence."""
    if not able.context:
        return [1]
    part = math.lcm(2, tp) if able.name != "torchtitan" else 2 * tp
    return [
        size
        for size in divisors(devices // tp)
        if size == 1 or workload.sequence % (size * part) == 0
    ]


def pipeline_sizes(workload: Workload, devices: int, able: Capabilities) -> list[int]:
    """Return the legal PP sizes for devices of one rank of the other dimensions."""
    layers = workload.model.layers
    legal = able.pipeline and (able.pipelined_mtp or not workload.model.mtp)
    return [
        size
        for size in (divisors(devices) if legal else [1])
        if size <= layers and (able.uneven_stages or layers % size == 0)
    ]


def zero_stages(workload: Workload, able: Capabilities, copies: int, pp: int) -> list[int]:
    """Return the ZeRO stages worth a look, where so many devices hold the same weights.

    A single copy shares nothing, whatever its optimiser is told; sharded gradients do not
    go with a pipeline in the frameworks that have both.
    """
    if workload.fixed.zero is not None:
        return kept(able.zero, workload.fixed.zero)
    if copies == 1:
        return [0]
    stages = [stage for stage in able.zero if stage != 2 or pp == 1]
    return [stage for stage in stages if stage != 0 or 1 not in stages]


def expert_sizes(
    workload: Workload, able: Capabilities, tp: int, around: int
) -> list[tuple[int, int]]:
    """Return the legal (EP, ETP) among the ``around`` devices of a stage, TP x CP x DP."""
    mixture, fixed = workload.model.mixture, workload.fixed
    if mixture is None:
        return [(1, 1)] if fixed.ep in (None, 1) else []
    whole = [tp] if not able.expert_tensor else sorted({1, tp})
    found = []
    for ep in kept(divisors(mixture.experts) if able.experts else [1], fixed.ep):
        sizes = [1] if able.whole_experts and ep > 1 else whole
        found += [
            (ep, etp)
            for etp in kept(sizes, fixed.etp)
            if around % (ep * etp) == 0 and mixture.ffn % etp == 0
        ]
    return found


def virtual_sizes(workload: Workload, able: Capabilities, pp: int, batches: int) -> list[int]:
    """Return the legal numbers of virtual stages: micro-batches must fill all stages at once."""
    layers = workload.model.layers
    most = layers // pp if able.virtual_stages and pp > 1 and batches % pp == 0 else 1
    legal = [
        size
        for size in range(1, most + 1)
        if size == 1
        or layers % (pp * size) == 0
        or (able.uneven_virtual and able.uneven_stages and size <= MANY_CHUNKS)
    ]
    return kept(legal, workload.fixed.virtual_stages)


def recompute_kinds(workload: Workload, able: Capabilities) -> list[str]:
    """Return the legal kinds of recomputation."""
    kinds = kept(able.recompute, workload.fixed.recompute)
    if workload.fixed.recompute_layers:
        return [name for name in kinds if name == "full" and able.recompute_some]
    return kinds


def _outer(
    workload: Workload, offer: Offer, able: Capabilities
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield TP, CP, PP, DP and the replicas that share sharded weights."""
    fixed = workload.fixed
    for tp in kept(tensor_sizes(workload, offer, able), fixed.tp):
        for cp in kept(context_sizes(workload, able, tp, offer.devices), fixed.cp):
            rest = offer.devices // tp // cp
            for pp in kept(pipeline_sizes(workload, rest, able), fixed.pp):
                for dp in kept([rest // pp], fixed.dp):
                    yield tp, cp, pp, dp, _near(offer, able, tp * cp, dp)


def _near(offer: Offer, able: Capabilities, apart: int, dp: int) -> int:
    """Return the replicas inside one fabric, 0 where hybrid sharding is not worth a look."""
    near = max(offer.domain_devices // apart, 1)
    return near if able.hybrid and 1 < near < dp and dp % near == 0 else 0


def _block(
    workload: Workload, able: Capabilities, outer: tuple[int, int, int, int, int]
) -> tuple[Sizes, ...]:
    """Return the layouts of these outer sizes, a column for each of ``NAMES``."""
    tp, cp, pp, dp, near = outer
    share = workload.global_batch // dp
    # Experts that no tensor-parallel rank cuts are there once on each.
    holders = cp * dp * (tp if workload.model.mixture and able.expert_tensor else 1)
    recompute = [RECOMPUTE.index(name) for name in recompute_kinds(workload, able)]
    zeros = [
        (zero, shard)
        for zero in zero_stages(workload, able, holders, pp)
        for shard in ([0, near] if zero == 3 and near else [0])
    ]
    batches = [
        (size, virtual)
        for size in kept(divisors(share), workload.fixed.micro_batch)
        if size * workload.sequence // cp <= MOST_TOKENS
        for virtual in virtual_sizes(workload, able, pp, share // size)
    ]
    experts = expert_sizes(workload, able, tp, tp * cp * dp)
    axes: Sequence[Sequence[int]] = [
        range(len(experts)),
        range(len(batches)),
        range(len(zeros)),
        recompute,
    ]
    grid = np.meshgrid(*(np.array(axis, np.int32) for axis in axes), indexing="ij")
    which, batch, zero, again = (axis.ravel() for axis in grid)

    def read(pairs: Sequence[tuple[int, int]], index: Sizes, place: int) -> Sizes:
        return np.asarray(np.array(pairs, np.int32).reshape(-1, 2)[index, place])

    def same(value: int) -> Sizes:
        return np.full(which.size, value, np.int32)

    stage, shard = read(zeros, zero, 0), read(zeros, zero, 1)
    ep, etp = read(experts, which, 0), read(experts, which, 1)
    columns = (
        *(same(tp), same(cp), ep, etp, same(pp), same(dp)),
        *(read(batches, batch, 1), read(batches, batch, 0), stage, shard, again),
    )
    if not able.sharded_experts:
        return columns
    copies = np.where(stage == 3, np.where(shard, shard, dp), 1)
    legal = tp * cp * copies % (ep * etp) == 0
    return tuple(column[legal] for column in columns)
