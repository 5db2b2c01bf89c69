"""What the equations take: dimensions, cut, rates and software, as numbers or arrays of them.

A field holds one number, or an array with one for each of many cases; numpy stretches the one
over the other. So the same equations cost one layout, all layouts of a search, or all published
runs at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dims:
    """A model and what is trained."""

    layers: Numbers
    hidden: Numbers
    heads: Numbers
    kv_heads: Numbers
    head_dim: Numbers
    value_dim: Numbers
    query_rank: Numbers
    kv_rank: Numbers
    """Of latent attention, 0 where there is none."""
    rotary_dim: Numbers
    ffn: Numbers
    inputs: Numbers
    """Products into the MLP's width: 2 if gated, else 1."""
    vocab: Numbers
    tied: Numbers
    experts: Numbers
    """0 for a dense model."""
    per_token: Numbers
    expert_ffn: Numbers
    shared_ffn: Numbers
    dense_layers: Numbers
    """Layers with an MLP; they come first."""
    mtp: Numbers
    sequence: Numbers
    seen: Numbers
    """Tokens that attention sees, the mean over layers; half of them if causal."""
    global_batch: Numbers
    bits: Numbers
    """Of matrix products: 16, 8 or 4."""
    lora_rank: Numbers
    """0 in full training."""
    attention_params: Numbers
    """Of one layer, cut over tensor-parallel ranks; so are the next three and the tables."""
    mlp_params: Numbers
    shared_params: Numbers
    adapter_params: Numbers
    """0 in full training."""
    whole_params: Numbers
    """Of one layer, on every rank: norms, the way down to latent ranks."""
    router_params: Numbers
    """On every rank, in layers of experts."""
    expert_params: Numbers
    """Of one expert."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A layout; ``first``, ``second`` and ``last`` are layers of those stages."""

    tp: Numbers
    cp: Numbers
    ep: Numbers
    etp: Numbers
    pp: Numbers
    dp: Numbers
    virtual: Numbers
    micro_batch: Numbers
    zero: Numbers
    shard: Numbers
    """Replicas that share one copy of sharded weights."""
    sequence_parallel: Numbers
    selective: Numbers
    full: Numbers
    """Share of the layers that recompute all."""
    flash: Numbers
    overlap: Numbers
    first: Numbers
    second: Numbers
    """Layers of the second stage, 0 for none; no stage between first and last has more."""
    last: Numbers
    """Layers of the last stage, 0 if it is the first."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Devices and their links: operations, bytes and seconds, per device."""

    peak: Numbers
    matmul: Numbers
    matmul_low: Numbers
    """In the precision of the products."""
    casts: Numbers
    """Bytes per element of casting an operand; 0 in 16 bit."""
    expert_casts: Numbers
    """The same where the products of many experts are one kernel."""
    attention: Numbers
    attention_ramp: Numbers
    """Sequence at which attention reaches half of its rate, 0 for any."""
    memory_bs: Numbers
    elementwise_bs: Numbers
    memory_bytes: Numbers
    scale_up_bs: Numbers
    """Over all links of the scale-up fabric."""
    neighbour_bs: Numbers
    """Over the links to one other device."""
    nic_bs: Numbers
    """Its share of the node's network."""
    nic_experts_bs: Numbers
    rail_bs: Numbers
    """Of one network card."""
    hop_s: Numbers
    """Latency of the scale-up fabric."""
    collective_s: Numbers
    """Start of one collective."""
    wiring: Numbers
    """Index into ``links.WIRINGS``."""
    domain: Numbers
    """Devices of one scale-up fabric."""
    node: Numbers
    """Devices of a node."""
    total: Numbers


@dataclass(frozen=True, slots=True)
class Software:
    """A stack's constants, resolved."""

    tensor: Numbers
    passes: Numbers
    gap_s: Numbers
    launch_s: Numbers
    release: Numbers
    gradient_bytes: Numbers
    """Per parameter, kept."""
    wire_bytes: Numbers
    """Per parameter, summed over replicas."""
    optimizer_bytes: Numbers
    """Adam's state per parameter, with its 32-bit weight."""
    logit_bytes: Numbers
    saves_products: Numbers
    whole_transfers: Numbers
    copies_each: Numbers
    adapter_passes: Numbers


@dataclass(frozen=True, slots=True)
class Case:
    """All that a prediction needs besides the constants."""

    dims: Dims
    cut: Cut
    rates: Rates
    software: Software


def numbers(value: float) -> Numbers:
    """Return a number as the equations take it."""
    return np.asarray(value, np.float64)


def stacked(items: Sequence[T]) -> T:
    """Return one record whose fields hold those of all items."""
    kind = type(items[0])
    return kind(
        **{
            spec.name: np.array([getattr(item, spec.name) for item in items], np.float64)
            for spec in fields(kind)  # type: ignore[arg-type]
        }
    )


def taken(item: T, index: NDArray[np.intp] | NDArray[np.bool_]) -> T:
    """Return the record of some of its cases."""
    kind = type(item)
    values = {spec.name: getattr(item, spec.name) for spec in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value[index] if value.ndim else value for name, value in values.items()})


def taken_cases(case: Case, index: NDArray[np.intp] | NDArray[np.bool_]) -> Case:
    """Return some of the cases."""
    return Case(
        dims=taken(case.dims, index),
        cut=taken(case.cut, index),
        rates=taken(case.rates, index),
        software=taken(case.software, index),
    )
