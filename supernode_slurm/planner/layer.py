"""Time of one micro-batch in one layer and in the tables at both ends, forward and backward.

A product takes its operations over the reached rate plus its bytes over the memory's rate; what
is read and written element by element takes its bytes. Activations after Korthikanti et al. 2022
(arXiv 2205.05198), attention after Dao 2023 (arXiv 2307.08691): 2.5 times the products backward.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .case import Case, Numbers
from .constants import Constants
from .links import Group, distinct_share, exchange_s, ring_bs, start_s

SCORE_BYTES = 14
"""Traffic per element of unfused scores, forward: two products, scaling and mask, softmax, drop."""

LOGIT_BYTES = 16
"""Traffic per logit of a fused cross entropy, both ways: read twice (4), softmax written (4), read
(4) and turned into the gradient (4)."""

ATTENTION_BACKWARD = 2.5

ONE = np.ones(())


@dataclass(frozen=True, slots=True)
class Layer:
    """Seconds of one layer in one micro-batch, both ways."""

    compute_s: Numbers
    tp_s: Numbers
    cp_s: Numbers
    ep_s: Numbers

    @property
    def time_s(self) -> Numbers:
        """Return the sum."""
        return self.compute_s + self.tp_s + self.cp_s + self.ep_s

    def taken(self, index: NDArray[np.intp], size: int) -> Layer:
        """Return what some of ``size`` cases cost."""
        parts = (self.compute_s, self.tp_s, self.cp_s, self.ep_s)
        return Layer(*(np.broadcast_to(part, (size,))[index] for part in parts))


@dataclass(frozen=True, slots=True)
class Layers:
    """What a micro-batch costs in each kind of part."""

    dense: Layer
    experts: Layer
    embedding: Layer
    head: Layer

    def taken(self, index: NDArray[np.intp], size: int) -> Layers:
        """Return what some of ``size`` cases cost."""
        parts = (self.dense, self.experts, self.embedding, self.head)
        return Layers(*(part.taken(index, size) for part in parts))


@dataclass(frozen=True, slots=True)
class _Part:
    """Forward seconds: products with weights, and what is read and written beside them."""

    products: Numbers
    touched: Numbers

    @property
    def forward(self) -> Numbers:
        return self.products + self.touched


class _Micro:
    """One micro-batch on the devices of one stage."""

    def __init__(self, case: Case, constants: Constants) -> None:
        self.case = case
        self.k = constants
        self.dims, self.cut, self.rates = case.dims, case.cut, case.rates
        self.tokens = case.cut.micro_batch * case.dims.sequence / case.cut.cp
        self.spread = np.where(case.cut.sequence_parallel > 0, case.cut.tp, 1.0)
        self.queries = case.dims.heads * case.dims.head_dim / case.cut.tp
        self.values = case.dims.heads * case.dims.value_dim / case.cut.tp
        self.keys = np.maximum(case.dims.kv_heads / case.cut.tp, 1.0) * case.dims.head_dim

    def product_s(self, rows: Numbers, inner: Numbers, outer: Numbers) -> Numbers:
        """Return the forward time of a product in the workload's precision."""
        casts = self.rates.casts * rows * (inner + outer) / 2 / self.rates.elementwise_bs
        return self._product_s(rows, inner, outer, self.rates.matmul_low) + casts

    def _product_s(
        self,
        rows: Numbers,
        inner: Numbers,
        outer: Numbers,
        rate: Numbers,
        weights: Numbers = ONE,
    ) -> Numbers:
        moved = 2 * (rows * (inner + outer) + weights * inner * outer)
        return 2 * rows * inner * outer / rate + moved / self.rates.memory_bs

    def touch_s(self, elements: Numbers) -> Numbers:
        """Return the time to read or write 16-bit elements, given per token."""
        passes = self.case.software.passes
        return 2 * self.tokens * elements * passes / self.rates.elementwise_bs

    def adapters_s(self, maps: list[tuple[Numbers, Numbers]]) -> Numbers:
        """Return the forward time of LoRA's adapters, in 16 bit; none in full training."""
        rank = self.dims.lora_rank
        thin = sum(
            (
                self._product_s(self.tokens, inner, rank / self.cut.tp, self.rates.matmul)
                + self._product_s(self.tokens, rank / self.cut.tp, outer, self.rates.matmul)
                + self.touch_s(self.case.software.adapter_passes * outer)
                for inner, outer in maps
            ),
            np.zeros(()),
        )
        return np.where(rank > 0, thin, 0.0)

    def attention(self) -> _Part:
        """Return what surrounds attention's core."""
        dims, tp, hidden = self.dims, self.cut.tp, self.dims.hidden
        latent = dims.kv_rank > 0
        down = dims.query_rank + dims.kv_rank + dims.rotary_dim
        up = dims.heads * (dims.head_dim - dims.rotary_dim + dims.value_dim) / tp
        # Without its own rank a query is projected at once.
        query = np.where(
            dims.query_rank > 0,
            self.product_s(self.tokens, np.maximum(dims.query_rank, 1.0), self.queries),
            self.product_s(self.tokens, hidden, self.queries),
        )
        low_rank = self.product_s(self.tokens, hidden, down) + query
        low_rank = low_rank + self.product_s(self.tokens, np.maximum(dims.kv_rank, 1.0), up)
        plain = self.product_s(self.tokens, hidden, self.queries + 2 * self.keys)
        out = self.product_s(self.tokens, self.values, hidden)
        touched = self.touch_s(10 * hidden / self.spread + 2 * (self.queries + self.keys))
        return _Part(np.where(latent, low_rank, plain) + out, touched)

    def core_s(self) -> tuple[Numbers, Numbers]:
        """Return the core's time forward and backward, causal."""
        dims, rates, cut = self.dims, self.rates, self.cut
        operations = 2 * self.tokens * dims.seen * dims.heads * (dims.head_dim + dims.value_dim)
        operations = operations / cut.tp
        ramp = dims.sequence / (dims.sequence + rates.attention_ramp)
        fused = operations / 2 / (rates.attention * ramp)
        scores = SCORE_BYTES * self.tokens * dims.sequence * dims.heads / cut.tp
        scores = scores * self.case.software.passes / rates.elementwise_bs
        plain = operations / rates.matmul + scores
        return (
            np.where(cut.flash > 0, fused, plain),
            np.where(cut.flash > 0, ATTENTION_BACKWARD * fused, 2 * plain),
        )

    def mlp(self) -> _Part:
        """Return a dense layer's MLP."""
        dims, width = self.dims, self.dims.ffn / self.cut.tp
        products = self.product_s(self.tokens, dims.hidden, dims.inputs * width)
        products = products + self.product_s(self.tokens, width, dims.hidden)
        return _Part(products, self.touch_s((dims.inputs + 1) * width))

    def experts(self) -> _Part:
        """Return the experts of a layer, routed and shared, and the router.

        Tokens are routed evenly. A device computes what its share of the tokens sends out.
        """
        dims, cut, rates, k = self.dims, self.cut, self.rates, self.k
        routed = self.tokens * dims.per_token / cut.tp * cut.etp
        local = np.maximum(dims.experts / cut.ep, 1.0)
        each = np.maximum(routed / local, 1.0)
        # What products of many experts lose, they lose in any precision.
        rate = 1 / (1 / rates.matmul_low + k.grouped / rates.matmul)
        rate = rate * each / (each + k.grouped_tokens)
        width = dims.expert_ffn / cut.etp
        casts = rates.expert_casts * routed * (2 * dims.hidden + 3 * width)
        casts = casts / 2 / rates.elementwise_bs
        products = self._product_s(routed, dims.hidden, 2 * width, rate, local)
        products = products + self._product_s(routed, width, dims.hidden, rate, local) + casts
        shared = dims.shared_ffn / cut.tp
        common = self.product_s(self.tokens, dims.hidden, 2 * shared)
        common = common + self.product_s(self.tokens, shared, dims.hidden)
        router = self._product_s(self.tokens / self.spread, dims.hidden, dims.experts, rates.matmul)
        passes = k.expert_passes / 3 * self.case.software.release * routed / cut.etp * dims.hidden
        gates = 3 * routed * width * self.case.software.passes
        touched = 2 * (passes + gates) / rates.elementwise_bs
        return _Part(products + np.where(shared > 0, common, 0.0) + router, touched)

    def again_s(self, attention: _Part, mlp: _Part, core: Numbers, dense: bool) -> Numbers:
        """Return what selective recomputation adds.

        The MLP of a dense layer; norms and activations of experts; scores that no kernel fuses;
        every second product where a stack says so.
        """
        norms = mlp.touched + self.touch_s(4 * self.dims.hidden / self.spread)
        fused = norms + (mlp.products if dense else 0.0)
        fused = fused + np.where(self.dims.kv_rank > 0, attention.products / 2, 0.0)
        half = (attention.products + mlp.products) / 2 + attention.touched + mlp.touched
        fused = np.where(self.case.software.saves_products > 0, half, fused)
        return np.where(self.cut.flash > 0, fused, core)

    def layer_s(self, mlp: _Part, host_s: Numbers, dense: bool) -> Numbers:
        """Return a layer's computation, with what it recomputes."""
        attention, cut = self.attention(), self.cut
        core, core_backward = self.core_s()
        adapters = self._adapters(dense)
        forward = attention.forward + mlp.forward + core + adapters
        # The gradient of a frozen weight is not computed.
        both = np.where(self.dims.lora_rank > 0, 1.0, 2.0)
        backward = both * (attention.products + mlp.products)
        backward = backward + 2 * (attention.touched + mlp.touched + adapters) + core_backward
        again = self.again_s(attention, mlp, core, dense)
        again = np.where(cut.selective > 0, again, cut.full * forward)
        software = self.case.software
        whole = forward + backward + again + software.gap_s
        return np.maximum(whole, software.launch_s) + host_s

    def _adapters(self, dense: bool) -> Numbers:
        dims, hidden, width = self.dims, self.dims.hidden, self.dims.ffn / self.cut.tp
        maps = [(hidden, self.queries), (hidden, self.keys), (hidden, self.keys)]
        maps.append((self.values, hidden))
        if dense:
            inward = self.adapters_s([(hidden, width)]) * dims.inputs
            return self.adapters_s([*maps, (width, hidden)]) + inward
        return self.adapters_s(maps)

    def reduce_s(self, elements: Numbers) -> Numbers:
        """Return one all-reduce of 16-bit elements over tensor-parallel ranks, per token."""
        tp = self.cut.tp
        group = Group(tp, np.ones(()))
        moved = 4 * self.tokens * elements * (tp - 1) / tp / ring_bs(self.case, group)
        latency = self.rates.collective_s + 2 * (tp - 1) * self.rates.hop_s
        return np.where(tp > 1, (moved + latency) * self.case.software.tensor, 0.0)

    def tensor_s(self) -> Numbers:
        """Return a layer's tensor-parallel traffic that nothing hides."""
        cut = self.cut
        reductions = 4 + 2 * np.where(cut.selective > 0, 0.0, cut.full)
        # Fewer key heads than ranks: projected in shares, gathered, scattered on the way back.
        copied = np.where(
            cut.tp > self.dims.kv_heads, self.reduce_s(self.queries + 2 * self.keys), 0
        )
        return reductions * self.reduce_s(self.dims.hidden) + np.where(
            self.dims.kv_rank > 0, 0.0, copied
        )

    def context_s(self, core: tuple[Numbers, Numbers]) -> Numbers:
        """Return the exchange of keys and values over context-parallel ranks, not hidden."""
        cut = self.cut
        width = np.where(self.dims.kv_rank > 0, self.queries, self.keys)
        sent = 4 * self.tokens * width * (cut.cp - 1)
        group = Group(cut.cp, cut.tp)
        ring = 3 * sent / ring_bs(self.case, group)
        exposed = np.maximum(ring * self.k.context_exposed, ring - core[0] - core[1])
        start = start_s(self.case, group, self.k) + self.rates.collective_s * cut.cp
        return np.where(cut.cp > 1, exposed + start, 0.0)

    def exchange_s(self) -> Numbers:
        """Return the four all-to-all of a layer of experts, six if all is computed again."""
        dims, cut, k = self.dims, self.cut, self.k
        group = Group(cut.ep, np.where(cut.etp > 1, cut.tp, 1.0))
        token = 2 * self.tokens / cut.tp * dims.hidden
        spread = distinct_share(group.ranks * group.stride, self.rates.domain, dims.per_token)
        sent = token * cut.etp  # To each of the devices that share an expert.
        once = exchange_s(self.case, group, sent * dims.per_token, sent * spread)
        once = once + self.rates.collective_s
        exposed = np.where(cut.virtual > 1, k.experts_interleaved, k.experts_exposed)
        rounds = 4 + 2 * np.where(cut.selective > 0, 0.0, cut.full)
        return np.where((dims.experts > 0) & (cut.ep > 1), rounds * once * exposed, 0.0)


def layers_of(case: Case, constants: Constants) -> Layers:
    """Return what one micro-batch costs on one device, by kind of part."""
    micro = _Micro(case, constants)
    nothing = np.zeros(())
    tensor, context = micro.tensor_s(), micro.context_s(micro.core_s())
    local = np.maximum(case.dims.experts / case.cut.ep, 1.0)
    host = (constants.expert_host_s + constants.expert_each_s * local) * case.software.release
    dense = Layer(micro.layer_s(micro.mlp(), nothing, True), tensor, context, nothing)
    if np.any(case.dims.experts > 0):
        computed = micro.layer_s(micro.experts(), host, False)
        experts = Layer(computed, tensor, context, micro.exchange_s())
    else:
        experts = dense
    return Layers(dense, experts, _embedding(micro), _head(micro))


def _embedding(micro: _Micro) -> Layer:
    dims = micro.dims
    touched = 2 * micro.tokens * dims.hidden / micro.rates.elementwise_bs
    nothing = np.zeros(())
    compute = np.where(dims.lora_rank > 0, 2 * touched, 8 * touched)
    return Layer(compute, micro.reduce_s(dims.hidden), nothing, nothing)


def _head(micro: _Micro) -> Layer:
    dims, shard = micro.dims, micro.dims.vocab / micro.cut.tp
    once = micro._product_s(micro.tokens, dims.hidden, shard, micro.rates.matmul)
    traffic = LOGIT_BYTES * micro.tokens * shard / micro.rates.elementwise_bs
    nothing = np.zeros(())
    compute = np.where(dims.lora_rank > 0, 2.0, 3.0) * once + traffic
    return Layer(compute, micro.reduce_s(dims.hidden), nothing, nothing)
