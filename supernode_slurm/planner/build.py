"""A workload, an offer and layouts as the case that the equations take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..catalogue import Model
from .case import Case, Cut, Dims, Software, numbers
from .constants import Constants, constants_of
from .lora import adapter_params
from .rates import rates_of
from .stacks import Stack, stack_of
from .workload import LOSSY, REDUCTIONS, Layout, Offer, Workload


def case_of(
    workload: Workload,
    offer: Offer,
    cut: Cut,
    stack: Stack | None = None,
    constants: Constants | None = None,
) -> Case:
    """Return the case of a cut; ``PlanError`` if the catalogue lacks a figure of the card."""
    stack, constants = stack or stack_of(workload.framework), constants or constants_of(offer)
    return Case(
        dims=dims_of(workload),
        cut=cut,
        rates=rates_of(offer, workload.precision, stack, constants),
        software=software_of(workload, stack, constants),
    )


def dims_of(workload: Workload) -> Dims:
    """Return a workload's numbers."""
    model, latent, mixture = workload.model, workload.model.latent, workload.model.mixture
    hidden = model.hidden
    down = hidden * (latent.query_rank + latent.kv_rank + latent.rotary_dim) if latent else 0
    whole = 2 * hidden + down
    values = {
        "layers": model.layers,
        "hidden": hidden,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "value_dim": latent.value_dim if latent else model.head_dim,
        "query_rank": latent.query_rank if latent else 0,
        "kv_rank": latent.kv_rank if latent else 0,
        "rotary_dim": latent.rotary_dim if latent else 0,
        "ffn": model.ffn,
        "inputs": 2 if model.gated else 1,
        "vocab": model.vocab,
        "tied": model.tied,
        "experts": mixture.experts if mixture else 0,
        "per_token": mixture.per_token if mixture else 0,
        "expert_ffn": mixture.ffn if mixture else 0,
        "shared_ffn": mixture.shared_ffn if mixture else 0,
        "dense_layers": len(mixture.dense_layers) if mixture else model.layers,
        "mtp": model.mtp,
        "sequence": workload.sequence,
        "seen": seen_tokens(model, workload.sequence),
        "global_batch": workload.global_batch,
        "bits": {"nvfp4": 4, "fp8": 8, "mxfp8": 8}.get(workload.precision, 16),
        "lora_rank": workload.lora_rank if workload.training == "lora" else 0,
        "attention_params": model.attention_params - whole,
        "mlp_params": model.dense_mlp_params,
        "shared_params": model.shared_params,
        "adapter_params": adapter_params(workload),
        "whole_params": whole,
        "router_params": model.router_params,
        "expert_params": model.expert_params,
    }
    return Dims(**{name: numbers(value) for name, value in values.items()})


def seen_tokens(model: Model, sequence: int) -> float:
    """Return the tokens that attention sees, the mean over layers; of causal attention the half.

    In a window a token sees all of it, so twice the window stands for half of the sequence.
    """
    if not model.window or model.window * 2 >= sequence:
        return sequence
    share = model.window_layers / model.layers
    return share * 2 * model.window + (1 - share) * sequence


def software_of(workload: Workload, stack: Stack, constants: Constants) -> Software:
    """Return the constants that a stack names."""
    experts = bool(workload.model.mixture)
    half = workload.precision == "fp16"
    gradient = 2 if half else stack.gradient_bytes
    wire = stack.wire_bytes or gradient
    if workload.reduction:
        wire = REDUCTIONS[workload.reduction]
        # Megatron keeps gradients in what it sums them in.
        if stack.family in ("megatron", "mindspeed") and workload.reduction not in LOSSY:
            gradient = wire
    values = {
        "tensor": constants.named(stack.tensor_experts if experts else stack.tensor),
        "passes": constants.named(stack.passes),
        "gap_s": constants.named(stack.gap),
        "launch_s": constants.named(stack.launch) if stack.launch else 0.0,
        "release": constants.named(stack.release) if stack.release else 1.0,
        "gradient_bytes": gradient,
        "wire_bytes": wire,
        # Adam works on a 32-bit copy of 16-bit gradients.
        "optimizer_bytes": 16 if gradient == 2 else 12,
        "logit_bytes": stack.logit_bytes,
        "saves_products": stack.saves == "products",
        "whole_transfers": stack.whole_transfers,
        "copies_each": stack.copies_each,
        "adapter_passes": stack.adapter_passes,
    }
    return Software(**{name: numbers(value) for name, value in values.items()})


def cut_of(layout: Layout, stack: Stack) -> Cut:
    """Return a layout's numbers, with what the stack cannot fuse or hide."""
    return Cut(**{name: numbers(value) for name, value in _values(layout, stack).items()})


def cuts_of(layouts: Sequence[Layout], stack: Stack) -> Cut:
    """Return the numbers of one or more layouts as arrays."""
    rows = [tuple(_values(layout, stack).values()) for layout in layouts]
    columns = np.array(rows, np.float64).T
    return Cut(**dict(zip(_values(layouts[0], stack), columns, strict=True)))


def _values(layout: Layout, stack: Stack) -> dict[str, float]:
    layers = layout.layers
    return {
        "tp": layout.tp,
        "cp": layout.cp,
        "ep": layout.ep,
        "etp": layout.etp,
        "pp": layout.pp,
        "dp": layout.dp,
        "virtual": layout.virtual_stages,
        "micro_batch": layout.micro_batch,
        "zero": layout.zero,
        "shard": layout.shard,
        "sequence_parallel": layout.sequence_parallel and layout.tp > 1,
        "selective": layout.recompute == "selective",
        "full": layout.recomputed,
        "flash": layout.flash and stack.flash,
        "overlap": layout.overlap and stack.overlap,
        "first": layers[0],
        "second": max(layers[1:-1], default=0),
        "last": layers[-1] if len(layers) > 1 else 0,
    }


def layers_of_stages(total: int, stages: int) -> tuple[int, ...]:
    """Return an even split; where it is uneven, the stages at the ends hold fewer."""
    least, more = divmod(total, stages)
    # Late stages hold fewer micro-batches.
    order = [*range(stages - 2, 0, -1), 0, stages - 1]
    chosen = set(order[:more])
    return tuple(least + (stage in chosen) for stage in range(stages))
