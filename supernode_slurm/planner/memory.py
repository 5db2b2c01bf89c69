"""Peak memory of one device of each stage: state of the parameters, activations, logits.

Activations after Korthikanti et al. 2022 (arXiv 2205.05198), with fused attention keeping its
inputs and output; state after Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .case import Case, Cut, Numbers
from .constants import Constants

WEIGHT_BYTES = 2
"""Of a 16-bit weight."""

WORKING = 0.3
"""Of a layer's activations, what its backward pass needs beside those that were kept."""


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters on one device, by kind of part."""

    dense: Numbers
    mixed: Numbers
    """Without the experts."""
    experts: Numbers
    table: Numbers


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on a device of the first, the second and the last stage, and the most of them.

    ``stages`` has them along a first axis. ``activations`` are part of ``peak``.
    """

    peak: Numbers
    activations: Numbers
    stages: Numbers

    def reading(self, case: Case, constants: Constants) -> Numbers:
        """Return what a tool shows of the card: the allocator keeps more, up to all there is."""
        more = (constants.reading - 1) * self.activations + constants.context_gib * 2**30
        limit = constants.usable * case.rates.memory_bytes
        return np.maximum(self.peak, np.minimum(self.peak + more, limit))


@dataclass(frozen=True, slots=True)
class _Kept:
    """Bytes that one layer keeps of a micro-batch, and its whole activations."""

    kept: Numbers
    whole: Numbers


@dataclass(frozen=True, slots=True)
class Stage:
    """Layers of one stage by kind, and its ends as 0 or 1."""

    dense: Numbers
    mixed: Numbers
    first: Numbers
    last: Numbers
    held: Numbers
    """Micro-batches between their passes."""

    @property
    def layers(self) -> Numbers:
        """Return all its layers."""
        return self.dense + self.mixed


def params_of(case: Case) -> Params:
    """Return the parameters that a device holds of each part."""
    dims, cut = case.dims, case.cut
    common = dims.attention_params / cut.tp + dims.whole_params
    mixed = common + dims.shared_params / cut.tp + dims.router_params
    return Params(
        dense=common + dims.mlp_params / cut.tp,
        mixed=mixed,
        experts=dims.expert_params * dims.experts / (cut.ep * cut.etp),
        table=dims.vocab * dims.hidden / cut.tp,
    )


def resharded(cut: Cut) -> NDArray[np.bool_]:
    """Tell whether weights are sharded again after each use: beside a pipeline they are not."""
    return np.asarray((cut.zero == 3) & (cut.pp == 1))


def replicas(case: Case) -> tuple[Numbers, Numbers]:
    """Return how many devices hold the same dense parameters, and the same experts."""
    cut = case.cut
    dense = cut.dp * cut.cp
    return dense, np.maximum(dense * cut.tp / (cut.ep * cut.etp), 1.0)


def stages_of(case: Case) -> tuple[Stage, Stage, Stage]:
    """Return the first, the second and the last stage; a stage that is not has no layers."""
    cut, dims = case.cut, case.dims
    alone = (cut.pp == 1).astype(np.float64)
    some, none = np.ones(()), np.zeros(())
    mixture = dims.experts > 0
    dense = np.where(mixture, np.minimum(cut.first, dims.dense_layers), cut.first)
    places = (
        (cut.first, dense, some, alone, none),
        (cut.second, np.where(mixture, 0.0, cut.second), none, none, some),
        (cut.last, np.where(mixture, 0.0, cut.last), none, 1 - alone, cut.pp - 1),
    )
    found = [
        Stage(own, layers - own, first, last, held_by(case, rank))
        for layers, own, first, last, rank in places
    ]
    return found[0], found[1], found[2]


def held_by(case: Case, rank: Numbers) -> Numbers:
    """Return how many micro-batches a stage holds the activations of at its peak.

    The forward passes before its first backward pass, and one: pp - rank - 1 micro-batches, or
    with chunks 2 (pp - rank - 1) + (vpp - 1) pp of them, of which a micro-batch is vpp
    (schedules.py of Megatron-LM and of torch.distributed.pipelining).
    """
    cut = case.cut
    count = case.dims.global_batch / (cut.dp * cut.micro_batch)
    return held_of(count, cut.pp, cut.pp - rank, cut.virtual)


def held_of(count: Numbers, pp: Numbers, left: Numbers, virtual: Numbers) -> Numbers:
    """Return the same of ``count`` micro-batches for the first of the last ``left`` stages."""
    chunks = 2 * (left - 1) + (virtual - 1) * pp + 1
    held = np.where(virtual > 1, chunks / virtual, left)
    return np.maximum(np.minimum(count, held), 1.0)


def memory_of(case: Case, constants: Constants) -> Memory:
    """Return the peak memory in bytes of the stages that need most."""
    params = params_of(case)
    dense, mixed = _kept(case, False), _kept(case, True)
    peaks, activations = [], []
    for stage in stages_of(case):
        state = _state(case, params, stage)
        acts = _activations(case, stage, dense, mixed)
        there = stage.layers > 0
        peaks.append(np.where(there, state + acts, 0.0))
        activations.append(np.where(there, acts, 0.0))
    stages = np.stack(np.broadcast_arrays(*peaks)) + constants.context_gib * 2**30
    which = np.argmax(stages, axis=0)[None]
    acts = np.take_along_axis(np.stack(np.broadcast_arrays(*activations)), which, axis=0)[0]
    return Memory(stages.max(axis=0), acts, stages)


@dataclass(frozen=True, slots=True)
class StageParts:
    """Bytes of a stage, in parts that add up.

    Its layers are the ones that repeat: those with experts where a model has them. Layers without
    experts before these are all in the first stage.
    """

    layer: Numbers
    """State of one layer."""
    kept: Numbers
    """Activations of one layer for each micro-batch that is held."""
    front: Numbers
    """State of the layers without experts."""
    front_kept: Numbers
    """Their activations for each micro-batch that is held."""
    back: Numbers
    """Of multi-token prediction, in the last stage."""
    table: Numbers
    working: Numbers
    logits: Numbers
    once: Numbers
    """Whatever the stage holds."""

    def stage(
        self, layers: float, held: float | Numbers, tables: float, ends: tuple[bool, bool]
    ) -> Numbers:
        """Return the peak of a stage with this many layers and tables.

        ``ends`` says whether it is the first and the last.
        """
        found = self.once + layers * (self.layer + held * self.kept) + tables * self.table
        if ends[0]:
            found = found + self.front + held * self.front_kept
        if ends[1]:
            found = found + self.back
        return np.asarray(
            found + (np.maximum(self.working, self.logits) if ends[1] else self.working)
        )


def stage_parts(case: Case, constants: Constants) -> StageParts:
    """Return the parts of which ``memory_of`` puts stages together."""
    params, (copies, expert_copies) = params_of(case), replicas(case)
    dims, cut, software = case.dims, case.cut, case.software
    state, frozen = _bytes(case, copies), dims.lora_rank > 0
    whole = WEIGHT_BYTES / np.where(resharded(cut), sharers(case, copies), 1.0)
    each = np.where(frozen, whole, state)
    adapters = np.where(frozen, state * dims.adapter_params / cut.tp, 0.0)
    gathered = np.where(resharded(cut), 1.0, 0.0)
    gradient = np.where(frozen, 0.0, software.gradient_bytes)
    mixture = dims.experts > 0
    dense, mixed = _kept(case, False), _kept(case, True)
    again = np.where((cut.selective > 0) | (cut.full > 0), 1.0, WORKING)
    tokens = cut.micro_batch * dims.sequence / cut.cp
    experts = _bytes(case, expert_copies) * params.experts
    repeated = np.where(mixture, each * params.mixed + experts, each * params.dense + adapters)
    predicting = params.mixed + 2 * dims.hidden * dims.hidden / cut.tp
    front = np.where(mixture, dims.dense_layers, 0.0)
    largest = np.where(mixture, params.mixed + params.experts, params.dense)
    parts = StageParts(
        layer=repeated,
        kept=np.where(mixture, mixed.kept, dense.kept),
        front=front * each * params.dense,
        front_kept=front * dense.kept,
        back=dims.mtp * (each * predicting + experts + mixed.kept),
        table=(each + gathered * np.where(frozen, 1.0, 2.0) * WEIGHT_BYTES) * params.table,
        working=np.where(mixture, mixed.whole, dense.whole) * again,
        logits=software.logit_bytes * tokens * dims.vocab / cut.tp * (1 + dims.mtp),
        once=constants.context_gib * 2**30 + gathered * (2 * WEIGHT_BYTES + gradient) * largest,
    )
    shape = np.broadcast(cut.tp, cut.dp, cut.full).shape
    return StageParts(
        *(np.broadcast_to(getattr(parts, name), shape) for name in StageParts.__slots__)
    )


def tables_of(case: Case, stage: Stage) -> Numbers:
    """Return how many tables a stage holds: a tied one is there once."""
    twice = stage.first * stage.last * case.dims.tied
    return stage.first + stage.last - twice


def _state(case: Case, params: Params, stage: Stage) -> Numbers:
    """Return weights, gradients and Adam's state, and what sharded weights need when whole."""
    dims, cut = case.dims, case.cut
    dense, experts = replicas(case)
    tables = tables_of(case, stage) * params.table
    mtp = stage.last * dims.mtp * (params.mixed + 2 * dims.hidden * dims.hidden / cut.tp)
    common = stage.dense * params.dense + stage.mixed * params.mixed + tables + mtp
    own = stage.mixed + stage.last * dims.mtp
    frozen = dims.lora_rank > 0
    trained = stage.layers * dims.adapter_params / cut.tp
    full = _bytes(case, dense) * common + _bytes(case, experts) * own * params.experts
    shared = np.where(resharded(cut), sharers(case, dense), 1.0)
    lora = WEIGHT_BYTES * (common + own * params.experts) / shared + _bytes(case, dense) * trained
    # Two layers and the tables are whole while they compute, with one gradient.
    layer = np.where(stage.mixed > 0, params.mixed + params.experts, params.dense)
    gradient = np.where(frozen, 0.0, case.software.gradient_bytes)
    # A frozen table has no gradient.
    twice = np.where(frozen, 1.0, 2.0)
    whole = (2 * WEIGHT_BYTES + gradient) * layer + twice * WEIGHT_BYTES * tables
    return np.where(frozen, lora, full) + np.where(resharded(cut), whole, 0.0)


def _bytes(case: Case, copies: Numbers) -> Numbers:
    """Return the bytes per trained parameter that ``copies`` devices share by ZeRO's stage."""
    cut, gradient = case.cut, case.software.gradient_bytes
    adam, shared = case.software.optimizer_bytes, sharers(case, copies)
    none = WEIGHT_BYTES + gradient + adam
    # Gathered once, the weights stay whole for the step, and so do their gradients.
    kept = np.where(resharded(cut), 0.0, WEIGHT_BYTES + gradient)
    return np.choose(
        cut.zero.astype(np.intp),
        [
            none,
            WEIGHT_BYTES + gradient + adam / shared,
            WEIGHT_BYTES + (gradient + adam) / shared,
            kept + (gradient + adam) / shared,
        ],
    )


def sharers(case: Case, copies: Numbers) -> Numbers:
    """Return over how many devices state is sharded: fewer than all where sharding is hybrid."""
    cut = case.cut
    return np.where(cut.shard > 0, copies * cut.shard / cut.dp, copies)


def _activations(case: Case, stage: Stage, dense: _Kept, mixed: _Kept) -> Numbers:
    dims, cut = case.dims, case.cut
    tokens = cut.micro_batch * dims.sequence / cut.cp
    kept = stage.held * (stage.dense * dense.kept + stage.mixed * mixed.kept)
    kept = kept + stage.last * dims.mtp * mixed.kept
    again = np.where((cut.selective > 0) | (cut.full > 0), 1.0, WORKING)
    working = np.where(stage.mixed > 0, mixed.whole, dense.whole) * again
    logits = case.software.logit_bytes * tokens * dims.vocab / cut.tp * (1 + dims.mtp)
    # The logits are gone when the last layer's backward pass needs its working memory.
    return np.asarray(kept + np.maximum(working, np.where(stage.last > 0, logits, 0.0)))


def _kept(case: Case, mixture: bool) -> _Kept:
    """Return what one layer keeps of one micro-batch, by its recomputation."""
    dims, cut = case.dims, case.cut
    tokens = cut.micro_batch * dims.sequence / cut.cp
    spread = np.where(cut.sequence_parallel > 0, cut.tp, 1.0)
    operand = np.where(dims.bits < 16, 1.0, 2.0)
    queries = dims.heads * dims.head_dim / cut.tp
    values = dims.heads * dims.value_dim / cut.tp
    keys = np.maximum(dims.kv_heads / cut.tp, 1.0) * dims.head_dim
    latent = dims.kv_rank > 0
    ranks = dims.query_rank + dims.kv_rank
    attention = np.where(latent, 4 * (queries + values) + 2 * ranks, 4 * (queries + keys))
    # The way up from the latent ranks is computed again.
    thin = np.where(latent, 2 * (values + ranks), attention)
    scores = np.where(cut.flash > 0, 0.0, 5 * dims.heads * dims.sequence / cut.cp / cut.tp)
    drops = np.where(cut.flash > 0, 0.0, 2 * dims.hidden / spread)
    base = (4 + 2 * operand) * dims.hidden / spread + drops
    adapters = 2 * dims.lora_rank * 7
    if mixture:
        routed = dims.per_token / cut.tp
        mlp = routed * (operand * (dims.hidden + dims.expert_ffn) + 4 * dims.expert_ffn)
        mlp = mlp + 2 * routed * dims.hidden + 3 * operand * dims.shared_ffn / cut.tp
        mlp = mlp + 8 * dims.experts / cut.tp
        fused = base + thin + operand * routed * (dims.hidden + 2 * dims.expert_ffn)
    else:
        mlp = (operand + 2 * dims.inputs) * dims.ffn / cut.tp
        fused = base + thin
    whole = base + attention + scores + mlp + adapters
    selective = np.where(cut.flash > 0, fused, base + attention + mlp) + adapters
    kept = cut.full * 2 * dims.hidden / spread + (1 - cut.full) * whole
    return _Kept(tokens * np.where(cut.selective > 0, selective, kept), tokens * whole)
