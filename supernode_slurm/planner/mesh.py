"""What one micro-batch costs on the devices of one mesh: time and memory of each part.

The arithmetic follows Korthikanti et al. 2022 (arXiv 2205.05198) for activations; a matrix
product takes its operations over the achievable rate plus its bytes over the memory's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import constants as k
from .device import Device
from .lora import ATTENTION_MAPS, adapted_maps, adapter_params, first_weights
from .workload import Workload


@dataclass(frozen=True, slots=True)
class Shape:
    """How a mesh cuts and runs a layer."""

    tp: int
    micro_batch: int
    recompute: str
    """``none``; ``selective``: the MLP again (unfused attention: its core again); ``full``:
    each layer again from its input."""
    sequence_parallel: bool
    flash: bool = True


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one micro-batch, forward and backward."""

    compute_s: float = 0.0
    tp_s: float = 0.0


class MeshCost:
    """Time and memory of a layer, the embedding and the head in one shape."""

    def __init__(self, workload: Workload, device: Device, shape: Shape) -> None:
        self.device = device
        self.shape = shape
        self.model = workload.model
        self.sequence = workload.sequence
        self.tokens = shape.micro_batch * workload.sequence
        self.spread = shape.tp if shape.sequence_parallel else 1
        self.layer_params = self.model.layer_params / shape.tp
        self.table_params = self.model.table_params / shape.tp
        self.frozen = workload.training == "lora"
        self.workload = workload
        self.adapted = adapted_maps(workload)
        self.adapter_params = adapter_params(workload) / shape.tp
        # Each rank has a whole key head, a copy where there are fewer than ranks.
        self.copied = shape.tp > self.model.kv_heads
        self.kv_width = max(self.model.kv_heads / shape.tp, 1) * self.model.head_dim
        self.layer = self._layer()
        self.embedding = self._embedding()
        self.head = self._head()
        self.kept_bytes = self._kept_bytes()
        self.working_bytes = self._whole_bytes()
        self.logit_bytes = k.LOGIT_BYTES * self.tokens * self.model.vocab / shape.tp

    def _matmul_s(self, inner: float, outer: float) -> float:
        operations = 2 * self.tokens * inner * outer
        moved = 2 * (self.tokens * (inner + outer) + inner * outer)
        return operations / self.device.matmul + moved / self.device.memory_bs

    def _touch_s(self, elements: float) -> float:
        """Return the time to read or write 16-bit elements, given per token."""
        return 2 * self.tokens * elements / self.device.elementwise_bs

    def _attention_s(self) -> tuple[float, float]:
        """Return the core's forward and backward time."""
        model, tp = self.model, self.shape.tp
        operations = 4 * self.tokens * self.sequence * model.attention_width / tp
        if self.shape.flash:
            forward = operations / 2 / self.device.attention
            return forward, 2.5 * forward
        scores = self.tokens * self.sequence * model.heads / tp
        forward = operations / self.device.matmul
        forward += k.SCORE_BYTES * scores / self.device.elementwise_bs
        return forward, 2 * forward

    def _adapters_s(self, maps: Sequence[tuple[int, int]]) -> float:
        """Return the forward time of adapters; frameworks scale and add in passes of their own."""
        rank, tp = self.workload.lora_rank, self.shape.tp
        return sum(
            (
                self._matmul_s(inner, rank / tp)
                + self._matmul_s(rank, outer / tp)
                + self._touch_s(5 * outer / tp)
                for inner, outer in maps
            ),
            0.0,
        )

    def _mlp_s(self) -> tuple[float, float]:
        """Return the MLP's forward time, and of it the products with the model's own weights."""
        model, tp = self.model, self.shape.tp
        inputs = 2 if model.gated else 1
        products = self._matmul_s(model.hidden, inputs * model.ffn / tp)
        products += self._matmul_s(model.ffn / tp, model.hidden)
        whole = products + self._touch_s((inputs + 1) * model.ffn / tp)
        return whole + self._adapters_s(self.adapted[ATTENTION_MAPS:]), products

    def _layer(self) -> Cost:
        model, tp = self.model, self.shape.tp
        width = (model.attention_width + 2 * model.kv_width) / tp
        used = model.attention_width / tp + 2 * self.kv_width
        mlp, mlp_products = self._mlp_s()
        products = self._matmul_s(model.hidden, width)
        products += self._matmul_s(model.attention_width / tp, model.hidden)
        # Two norms and two residual sums over the hidden state; rotation of queries, keys.
        linear = products + self._touch_s(10 * model.hidden / self.spread + 2 * used)
        linear += self._adapters_s(self.adapted[:ATTENTION_MAPS])
        core, core_backward = self._attention_s()
        forward = linear + mlp + core
        total = forward + 2 * (linear + mlp) + core_backward
        if self.frozen:
            # A weight's gradient is a product of the size of the forward one.
            total -= products + mlp_products
        reductions = 4
        if self.shape.recompute == "full":
            total += forward
            reductions = 6
        elif self.shape.recompute == "selective":
            total += mlp if self.shape.flash else core
            reductions = 5 if self.shape.flash else 4
        tp_s = reductions * self._reduce_s(model.hidden)
        if self.copied:
            # Projected in shares, then gathered from all ranks, as Megatron does; the way
            # back scatters. A gather and a scatter are one reduction.
            gathers = 1.5 if self.shape.recompute == "full" else 1
            tp_s += gathers * self._reduce_s(width * tp)
        return Cost(max(total, k.LAUNCH_S), tp_s)

    def _reduce_s(self, elements: float) -> float:
        """Return the exposed time of one all-reduce of 16-bit elements, given per token."""
        tp = self.shape.tp
        if tp == 1:
            return 0.0
        moved = 2 * self.tokens * elements * 2 * (tp - 1) / tp
        latency = k.COLLECTIVE_S + 2 * (tp - 1) * self.device.hop_s
        return k.TENSOR_EXPOSED * (moved / self.device.group_bs(tp) + latency)

    def _embedding(self) -> Cost:
        compute_s = self._touch_s(8 * self.model.hidden)
        if self.frozen:
            # Looked up only. Below the first adapters nothing waits for a gradient.
            first = first_weights(self.workload) / self.model.hidden / self.shape.tp
            compute_s = self._touch_s(2 * self.model.hidden)
            compute_s -= self._matmul_s(self.model.hidden, first)
        return Cost(compute_s, self._reduce_s(self.model.hidden))

    def _head(self) -> Cost:
        shard = self.model.vocab / self.shape.tp
        traffic = k.LOGIT_TRAFFIC_BYTES * self.tokens * shard / self.device.elementwise_bs
        products = (2 if self.frozen else 3) * self._matmul_s(self.model.hidden, shard)
        return Cost(products + traffic, self._reduce_s(self.model.hidden))

    def _attention_bytes(self) -> float:
        """Return what attention keeps per token for its backward pass."""
        model, tp = self.model, self.shape.tp
        kept = 2 * (2 * model.attention_width / tp + 2 * self.kv_width)
        kept += self._adapter_bytes(self.adapted[:ATTENTION_MAPS])
        if not self.shape.flash and self.shape.recompute == "none":
            kept += 5 * model.heads * self.sequence / tp
        return kept

    def _adapter_bytes(self, maps: Sequence[tuple[int, int]]) -> int:
        """Return what adapters keep per token between their two products."""
        return 2 * self.workload.lora_rank * len(maps)

    def _whole_bytes(self) -> float:
        """Return the activations of one layer that recomputes nothing."""
        model, tp = self.model, self.shape.tp
        # Input of both norms and of the products behind them; no dropout.
        hidden = 8 * model.hidden / self.spread
        mlp = 2 * (3 if model.gated else 2) * model.ffn / tp
        mlp += self._adapter_bytes(self.adapted[ATTENTION_MAPS:])
        return self.tokens * (hidden + self._attention_bytes() + mlp)

    def _kept_bytes(self) -> float:
        """Return what one layer keeps of one micro-batch until its backward pass."""
        model = self.model
        if self.shape.recompute == "full":
            return self.tokens * 2 * model.hidden / self.spread
        if self.shape.recompute == "selective" and self.shape.flash:
            return self.tokens * (6 * model.hidden / self.spread + self._attention_bytes())
        return self._whole_bytes()
