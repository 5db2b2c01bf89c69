"""One training step: micro-batches through a pipeline, gradients summed, the optimiser's pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .case import Case, Numbers
from .constants import Constants
from .layer import Layers, layers_of
from .links import Group, ring_bs, start_s, transfer_bs
from .memory import (
    WEIGHT_BYTES,
    Params,
    Stage,
    params_of,
    replicas,
    resharded,
    sharers,
    stages_of,
    tables_of,
)

OPTIMIZER_BYTES = 38
"""Traffic per parameter of an Adam step: gradient, weight and moments read (16) and written (12),
the norm of the gradient (4), the 16-bit weight written (2) and the gradient cleared (4)."""

PARTS = ("compute", "tp", "cp", "ep", "pp", "bubble", "dp", "optimizer")
"""Of a step; the sum is its time."""


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of one step and where they go."""

    compute: Numbers
    tp: Numbers
    cp: Numbers
    ep: Numbers
    pp: Numbers
    bubble: Numbers
    dp: Numbers
    optimizer: Numbers

    @property
    def time_s(self) -> Numbers:
        """Return the step time."""
        once = self.compute + self.tp + self.cp + self.ep + self.pp
        return once + self.bubble + self.dp + self.optimizer


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds of a stage's micro-batch, by part."""

    compute: Numbers
    tp: Numbers
    cp: Numbers
    ep: Numbers
    pp: Numbers

    @property
    def whole(self) -> Numbers:
        return self.compute + self.tp + self.cp + self.ep + self.pp


def step_of(case: Case, constants: Constants, layers: Layers | None = None) -> Step:
    """Return the time of one step of each case, from its layers' times if they are known.

    The slowest stage computes without a pause while the pipeline is full; what the others add
    when it fills and drains is the bubble, and interleaving divides it. A faster stage sums its
    gradients while the slowest still computes; the optimiser waits for all of them.
    """
    layers = layers or layers_of(case, constants)
    cut, stages = case.cut, stages_of(case)
    count = case.dims.global_batch / (cut.dp * cut.micro_batch)
    hop = hop_s(case, constants)
    times = [stage_s(case, layers, stage, hop) for stage in stages]
    there = [stage.layers > 0 for stage in stages]
    wholes = np.stack(
        np.broadcast_arrays(
            *(np.where(mask, time.whole, 0.0) for mask, time in zip(there, times, strict=True))
        )
    )
    which = np.argmax(wholes, axis=0)
    slow = wholes.max(axis=0)
    ends, updates = _ends(case, constants, times, count)
    exposed = np.maximum(np.max(ends, axis=0) - count * slow, 0.0) + _tied_s(case, params_of(case))
    bubble = np.maximum(_sum_s(case, layers, hop) - slow, 0.0) / cut.virtual

    def part(name: str) -> Numbers:
        """Return a part of the slowest stage over all micro-batches."""
        values = np.stack(np.broadcast_arrays(*(getattr(time, name) + 0 * slow for time in times)))
        return np.asarray(count * np.take_along_axis(values, which[None], axis=0)[0])

    return Step(
        compute=part("compute"),
        tp=part("tp"),
        cp=part("cp"),
        ep=part("ep"),
        pp=part("pp"),
        bubble=bubble,
        dp=exposed,
        optimizer=np.max(updates, axis=0) + constants.step_s,
    )


def hop_s(case: Case, constants: Constants) -> Numbers:
    """Return what a stage waits for one neighbour in one micro-batch, both ways."""
    dims, cut = case.dims, case.cut
    tokens = cut.micro_batch * dims.sequence / cut.cp
    # Each tensor-parallel rank sends its part; Megatron and DeepSpeed gather behind the network.
    spread = np.where(case.software.whole_transfers > 0, 1.0, cut.tp)
    moved = 2 * tokens * dims.hidden / spread / transfer_bs(case)[0]
    interleaved = cut.virtual * moved * constants.transfer_interleaved
    # Each chunk starts a transfer in both directions.
    interleaved = interleaved + 2 * cut.virtual * case.rates.collective_s
    waits = np.where(cut.virtual > 1, interleaved, moved + constants.transfer_s)
    return np.where(cut.pp > 1, waits, 0.0)


def stage_s(case: Case, layers: Layers, stage: Stage, hop: Numbers) -> _Times:
    """Return a stage's micro-batch; one in the middle has two neighbours."""
    mtp = stage.last * case.dims.mtp
    mixed = stage.mixed + mtp
    head = stage.last + mtp
    dense = stage.dense

    def of(name: str) -> Numbers:
        inner = dense * getattr(layers.dense, name) + mixed * getattr(layers.experts, name)
        ends = stage.first * getattr(layers.embedding, name) + head * getattr(layers.head, name)
        return np.asarray(inner + ends)

    neighbours = 2 - stage.first - stage.last
    return _Times(of("compute_s"), of("tp_s"), of("cp_s"), of("ep_s"), neighbours * hop)


def _sum_s(case: Case, layers: Layers, hop: Numbers) -> Numbers:
    """Return one micro-batch's way through all stages."""
    dims, cut = case.dims, case.cut
    dense = np.where(dims.experts > 0, dims.dense_layers, dims.layers)
    whole = dense * layers.dense.time_s + (dims.layers - dense + dims.mtp) * layers.experts.time_s
    ends = layers.embedding.time_s + (1 + dims.mtp) * layers.head.time_s
    return whole + ends + 2 * (cut.pp - 1) * hop


def _ends(
    case: Case, constants: Constants, times: list[_Times], count: Numbers
) -> tuple[Numbers, Numbers]:
    """Return by stage when its gradients are summed, and the time of its update."""
    params, ends, updates = params_of(case), [], []
    for stage, time in zip(stages_of(case), times, strict=True):
        sync, update = sync_s(case, constants, params, (stage, time.whole, count))
        there = stage.layers > 0
        ends.append(np.where(there, count * time.whole + sync, 0.0))
        updates.append(np.where(there, update, 0.0))
    return np.stack(np.broadcast_arrays(*ends)), np.stack(np.broadcast_arrays(*updates))


def sync_s(
    case: Case, constants: Constants, params: Params, of: tuple[Stage, Numbers, Numbers]
) -> tuple[Numbers, Numbers]:
    """Return the data-parallel traffic of a step that nothing hides, and the update."""
    stage, time, count = of
    dims, cut, software = case.dims, case.cut, case.software
    frozen = dims.lora_rank > 0
    common, experts = _held(case, params, stage)
    adapters = stage.layers * dims.adapter_params / cut.tp
    copies, expert_copies = replicas(case)
    groups = (Group(copies, cut.tp), Group(expert_copies, cut.ep * cut.etp))
    trained = np.where(frozen, adapters, common)
    dense_s, common_s = _rings_s(case, groups[0], (trained, common))
    (experts_s,) = _rings_s(case, groups[1], (experts,))
    moved = dense_s + np.where(frozen, 0.0, experts_s)
    whole = common_s + experts_s
    each = np.where(cut.zero == 3, np.maximum(stage.layers, 1.0), 2.0)
    start = np.where(copies > 1, each * start_s(case, groups[0], constants), 0.0)
    reduce = software.wire_bytes * moved + start
    gather = WEIGHT_BYTES * np.where(cut.zero == 3, whole, moved) + start
    # A pipeline gathers sharded weights once a step, a single stage per micro-batch; sharded
    # gradients are summed as often.
    rounds = np.where((cut.zero == 2) | resharded(cut), count, 1.0)
    kinds = [2 * reduce, reduce + gather, reduce + gather / rounds, reduce + 2 * gather]
    traffic = rounds * np.choose(cut.zero.astype(np.intp), kinds)
    # The copies of a hybrid are summed once a step, or with each micro-batch.
    copied = _copies_s(case, groups[0], trained)
    copied = copied + np.where(frozen, 0.0, _copies_s(case, groups[1], experts))
    often = np.where(software.copies_each > 0, count, 1.0)
    traffic = traffic + software.wire_bytes * often * copied
    backward = np.where(frozen, 0.5, 2 / 3)
    cover = rounds * time * np.where(cut.zero == 0, backward, 1.0)
    hidden = np.minimum(constants.data_hidden * traffic, cover)
    exposed = traffic - np.where(cut.overlap > 0, hidden, 0.0)
    # A hybrid's copies of the optimiser each update all that their shard has.
    shards = np.where(cut.zero > 0, sharers(case, copies), 1.0)
    expert_shards = np.where(cut.zero > 0, sharers(case, expert_copies), 1.0)
    own = np.where(frozen, adapters / shards, common / shards + experts / expert_shards)
    return exposed, own * OPTIMIZER_BYTES / case.rates.elementwise_bs


def _held(case: Case, params: Params, stage: Stage) -> tuple[Numbers, Numbers]:
    """Return a stage's parameters on one device: without its experts, and of these."""
    mtp = stage.last * case.dims.mtp
    mixed = stage.mixed + mtp
    tables = tables_of(case, stage) * params.table
    return stage.dense * params.dense + mixed * params.mixed + tables, mixed * params.experts


def _rings_s(case: Case, group: Group, params: Sequence[Numbers]) -> list[Numbers]:
    """Return the time of one ring over a group for each of these, per byte of a parameter."""
    if not any(each.any() for each in params):
        return [np.zeros(()) for _ in params]
    near = _near(case, group)
    bandwidth = ring_bs(case, near)
    moved = [each * (near.ranks - 1) / near.ranks for each in params]
    return [np.where(near.ranks > 1, each / bandwidth, 0.0) for each in moved]


def _copies_s(case: Case, group: Group, params: Numbers) -> Numbers:
    """Return the time to sum a hybrid's shards over their copies, per byte of a parameter."""
    if not (case.cut.shard.any() and params.any()):
        return np.zeros(())
    near = _near(case, group).ranks
    copies = np.maximum(group.ranks, 1.0) / near
    far = Group(copies, group.stride * near)
    moved = 2 * params / near * (copies - 1) / copies
    return np.where(copies > 1, moved / ring_bs(case, far), 0.0)


def _near(case: Case, group: Group) -> Group:
    """Return the ranks that share one copy: hybrid shards lie next to each other."""
    part = np.where(case.cut.shard > 0, case.cut.shard / case.cut.dp, 1.0)
    return Group(np.maximum(group.ranks * part, 1.0), group.stride)


def _tied_s(case: Case, params: Params) -> Numbers:
    """Return the sum of a tied table's gradients over the first and the last stage."""
    dims, cut = case.dims, case.cut
    moved = case.software.wire_bytes * params.table / transfer_bs(case)[1]
    tied = (dims.tied > 0) & (cut.pp > 1) & (dims.lora_rank == 0)
    return np.where(tied, moved, 0.0)
