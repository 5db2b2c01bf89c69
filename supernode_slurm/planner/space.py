"""Every legal layout of a workload on devices of one kind, as arrays of sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from . import rules
from .stacks import stack_of
from .workload import RECOMPUTE, Capabilities, Offer, Workload

Sizes = NDArray[np.int32]
"""Half as wide as usual: there may be millions of layouts."""

T = TypeVar("T", int, str)

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

    Some rows stand for many layouts (``folds.unfolded``): one with two virtual stages for each
    larger number of them, where they may be uneven, and one with full recomputation of all layers
    for each number of layers, where the framework can.
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
        for outer in _outers(workload, offer, able)
        if workload.global_batch % outer.dp == 0
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
    """Return the legal TP sizes."""
    sizes = divisors(math.gcd(offer.domain_devices, offer.devices))
    return [size for size in sizes if not rules.tensor(workload, offer, able, size)]


def context_sizes(workload: Workload, able: Capabilities, tp: int, devices: int) -> list[int]:
    """Return the legal CP sizes."""
    sizes, tokens = divisors(devices // tp), workload.sequence
    return [size for size in sizes if not rules.sequence(tokens, able, tp, size)]


def pipeline_sizes(workload: Workload, devices: int, able: Capabilities) -> list[int]:
    """Return the legal PP sizes for devices of one rank of the other dimensions."""
    model = workload.model
    return [
        size
        for size in divisors(devices)
        if size <= model.layers
        and not rules.stages(able, size, 1, model.layers % size == 0)
        and not rules.predicted_tokens(model, able, size)
    ]


def zero_stages(workload: Workload, able: Capabilities, copies: int, pp: int) -> list[int]:
    """Return the ZeRO stages worth a look, where so many devices hold the same weights.

    A single copy shares nothing, whatever its optimiser is told.
    """
    fixed = workload.fixed.zero
    stages = [stage for stage in kept(able.zero, fixed) if not rules.sharing(able, stage, pp)]
    if fixed is not None:
        return stages
    return [0] if copies == 1 else [stage for stage in stages if stage != 0 or 1 not in stages]


def expert_sizes(workload: Workload, able: Capabilities, tp: int) -> list[tuple[int, int]]:
    """Return the legal (EP, ETP)."""
    model, fixed = workload.model, workload.fixed
    most = model.mixture.experts if model.mixture else 1
    return [
        (ep, etp)
        for ep in kept(divisors(most), fixed.ep)
        for etp in kept(rules.tensor_of_experts(able, tp, ep) if model.mixture else [1], fixed.etp)
        if not rules.experts(model, able, tp, ep, etp)
    ]


@lru_cache(maxsize=256)
def chunk_sizes(layers: int, pp: int, able: Capabilities) -> tuple[int, ...]:
    """Return the numbers of virtual stages that a framework can run, were batches divisible."""
    sizes = range(1, layers // pp + 1)
    return tuple(
        size
        for size in sizes
        if not rules.stages(able, pp, size, size == 1 or layers % (pp * size) == 0)
    )


def virtual_sizes(workload: Workload, able: Capabilities, pp: int, batches: int) -> list[int]:
    """Return the legal numbers of virtual stages; two stand for more where they may be uneven."""
    sizes, fixed = chunk_sizes(workload.model.layers, pp, able), workload.fixed.virtual_stages
    most = 2 if able.uneven_virtual and fixed is None else len(sizes)
    legal = [any_ for any_ in (False, True) if not rules.micro_batches(able, pp, 1 + any_, batches)]
    return [size for size in kept(sizes[:most], fixed) if (size > 1) in legal]


def recompute_kinds(workload: Workload, able: Capabilities) -> list[str]:
    """Return the legal kinds of recomputation."""
    kinds = kept(able.recompute, workload.fixed.recompute)
    if workload.fixed.recompute_layers:
        return [name for name in kinds if name == "full" and able.recompute_some]
    return kinds


@dataclass(frozen=True, slots=True)
class _Outer:
    """Sizes that the others depend on."""

    tp: int
    cp: int
    pp: int
    dp: int
    shards: tuple[int, ...]
    """Replicas that may share sharded weights, 0 for all."""
    most_tokens: float
    """Of a micro-batch on one device; with more, what one layer keeps is beyond its memory."""


def _outers(workload: Workload, offer: Offer, able: Capabilities) -> Iterator[_Outer]:
    fixed = workload.fixed
    for tp in kept(tensor_sizes(workload, offer, able), fixed.tp):
        for cp in kept(context_sizes(workload, able, tp, offer.devices), fixed.cp):
            rest = offer.devices // tp // cp
            for pp in kept(pipeline_sizes(workload, rest, able), fixed.pp):
                for dp in kept([rest // pp], fixed.dp):
                    tokens = most_tokens(workload, offer, tp, pp)
                    yield _Outer(tp, cp, pp, dp, shard_sizes(able, dp), tokens)


def shard_sizes(able: Capabilities, dp: int) -> tuple[int, ...]:
    """Return how many replicas may share sharded weights: 0 for all, and parts of them."""
    parts = [size for size in divisors(dp) if size < dp and not rules.hybrid(able, dp, 3, size)]
    return (0, *(size for size in parts if size > 1))


def most_tokens(workload: Workload, offer: Offer, tp: int, pp: int) -> float:
    """Return the tokens of a micro-batch that no device can hold more of, however they recompute.

    Some stage keeps the inputs of its share of the layers, and the last one has the logits.
    """
    model, memory = workload.model, (offer.accelerator.memory_gib or math.inf) * 2**30
    inputs = 2 * model.hidden * -(-model.layers // pp)
    logits = stack_of(workload.framework).logit_bytes * model.vocab
    return memory * tp / max(inputs, logits)


def _batches(workload: Workload, able: Capabilities, outer: _Outer) -> list[tuple[int, int]]:
    """Return micro-batches with their numbers of virtual stages."""
    share = workload.global_batch // outer.dp
    most = outer.most_tokens * outer.cp / workload.sequence
    sizes = kept(divisors(share), workload.fixed.micro_batch)
    # The smallest stays whatever it needs, to say how much memory is missing.
    return [
        (size, virtual)
        for size in sizes
        if size <= max(most, sizes[0])
        for virtual in virtual_sizes(workload, able, outer.pp, share // size)
    ]


def _block(workload: Workload, able: Capabilities, outer: _Outer) -> tuple[Sizes, ...]:
    """Return the layouts of these outer sizes, a column for each of ``NAMES``."""
    tp, cp, pp, dp = outer.tp, outer.cp, outer.pp, outer.dp
    # Experts that no tensor-parallel rank cuts are there once on each.
    holders = cp * dp * (tp if workload.model.mixture and able.expert_tensor else 1)
    recompute = [RECOMPUTE.index(name) for name in recompute_kinds(workload, able)]
    zeros = [
        (zero, shard, rules.spread(able, dp, zero, shard))
        for zero in zero_stages(workload, able, holders, pp)
        for shard in (outer.shards if zero == 3 else (0,))
    ]
    batches = _batches(workload, able, outer)
    experts = expert_sizes(workload, able, tp)
    axes: Sequence[Sequence[int]] = [
        range(len(experts)),
        range(len(batches)),
        range(len(zeros)),
        recompute,
    ]
    grid = np.meshgrid(*(np.array(axis, np.int32) for axis in axes), indexing="ij")
    which, batch, zero, again = (axis.ravel() for axis in grid)

    def read(rows: Sequence[tuple[int, ...]], index: Sizes, width: int) -> list[Sizes]:
        return list(np.array(rows, np.int32).reshape(-1, width)[index].T)

    def same(value: int) -> Sizes:
        return np.full(which.size, value, np.int32)

    stage, shard, spread = read(zeros, zero, 3)
    ep, etp = read(experts, which, 2)
    micro_batch, virtual = read(batches, batch, 2)
    legal = tp * cp * spread % (ep * etp) == 0
    sizes = (same(tp), same(cp), ep, etp, same(pp), same(dp))
    columns = (*sizes, virtual, micro_batch, stage, shard, again)
    return tuple(column[legal] for column in columns)
