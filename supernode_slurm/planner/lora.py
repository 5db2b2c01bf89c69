"""LoRA (Hu et al. 2021, arXiv 2106.09685): the model's weights are frozen, thin adapters learn.

Every linear map of a layer has an adapter of its own, as in PEFT's ``all-linear``: two
products of ``lora_rank`` width beside it. Embedding and head have none. Adapters are cut
over tensor-parallel ranks like their maps; what their thin products send is left out.
"""

from __future__ import annotations

from ..catalogue import Model
from .workload import Workload

ATTENTION_MAPS = 4
"""Of the maps, those of attention come first: query, key, value, output."""


def adapted_maps(workload: Workload) -> tuple[tuple[int, int], ...]:
    """Return (inputs, outputs) of a layer's maps with an adapter; none in full training."""
    if workload.training == "full":
        return ()
    model = workload.model
    hidden, queries, keys = model.hidden, model.attention_width, model.kv_width
    inward = ((hidden, model.ffn),) * (2 if model.gated else 1)
    attention = ((hidden, queries), (hidden, keys), (hidden, keys), (queries, hidden))
    return (*attention, *inward, (model.ffn, hidden))


def adapter_params(workload: Workload) -> int:
    """Return the parameters of one layer's adapters; none in full training."""
    return workload.lora_rank * sum(map(sum, adapted_maps(workload)))


def idle_operations(workload: Workload) -> float:
    """Return the operations per token of full training's backward pass that LoRA does not need.

    The products for gradients of frozen weights, and those for gradients of what stands below
    the first adapters: the input of the first layer's queries, keys and values.
    """
    if workload.training == "full":
        return 0.0
    return weight_operations(workload.model) + 2 * first_weights(workload)


def weight_operations(model: Model) -> float:
    """Return the operations per token of the products with all weights that it meets, forward."""
    per_token = model.mixture.per_token if model.mixture else 0
    mixed = model.router_params + model.shared_params + per_token * model.expert_params
    dense = model.layers - model.mixture_layers
    attention = model.attention_params - 2 * model.hidden  # Norms are no products.
    inner = model.layers * attention + dense * model.dense_mlp_params
    return 2 * (inner + model.mixture_layers * mixed + model.table_params)


def first_weights(workload: Workload) -> int:
    """Return the weights that the input of the first layer's attention meets."""
    model = workload.model
    width = model.attention_width + 2 * model.kv_width
    return model.hidden * (width + (ATTENTION_MAPS - 1) * workload.lora_rank)
