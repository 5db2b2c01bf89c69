"""A plan as DeepSpeed's JSON, and as the words of the programs that read it.

Names and meanings of DeepSpeed 0.19.8, whose AutoEP knows Mixtral, Qwen3, DeepSeek and MiniMax;
Transformers 5.24, LLaMA-Factory 0.9.5, ms-swift 4.6.0.
Their own classes were given the file and the words, those of ms-swift were read in its source;
no training was run. Transformers 5 calls ``gradient_checkpointing`` deprecated and reads it.
"""

from __future__ import annotations

import json
import math

from ..catalogue import Model
from ..errors import PlanError
from ..plan import Mesh, Plan
from ..planner.constants import DEFAULT
from .buckets import bandwidth_bs, best_bytes, card_of
from .replicated import accumulation, batch, flag, options, replicated
from .single import model_of

FILE = "deepspeed.json"

WEIGHT_BYTES = 2
"""Of a 16-bit parameter or gradient."""

LARGEST, SMALLEST = 500_000_000, 1_000_000
"""Elements of a bucket: DeepSpeed's default, and one that still keeps a network busy."""

BUFFERS = 4.5
"""Buffers of a bucket's size that overlapping keeps (Transformers' documentation)."""

ADAPTERS = 0.01
"""Parameters of LoRA's adapters as a share of the model's: 0.6 to 2.4 % of 7B at ranks 16 to 64."""


def config(plan: Plan) -> str:
    """Return ``deepspeed.json``: batch, precision, ZeRO stage and the sizes of its buckets.

    Optimiser, schedule and the limit of gradients stay the program's own. Raises ``PlanError``
    for what DeepSpeed cannot run.
    """
    mesh = _mesh(plan)
    sections: dict[str, object] = {
        "train_batch_size": plan.global_batch,
        "train_micro_batch_size_per_gpu": mesh.micro_batch,
        "gradient_accumulation_steps": accumulation(plan, mesh),
        plan.precision: {"enabled": True},
        "communication_data_type": _summed(plan),
        "zero_optimization": _zero(plan, mesh),
    }
    if mesh.ep > 1:
        sections["expert_parallel"] = {"enabled": True, "autoep_size": mesh.ep}
    if plan.framework != "deepspeed":
        # Transformers fills in its own limit, which a file without the key would switch off.
        sections["gradient_clipping"] = "auto"
    return json.dumps(sections, indent=1) + "\n"


def arguments(plan: Plan) -> list[str]:
    """Return the words that give the file, and what it repeats, to the plan's program.

    DeepSpeed and Transformers refuse a file that contradicts the words. LLaMA-Factory takes
    ``key=value`` behind its YAML, the others take options.
    """
    mesh = _mesh(plan)
    file = f"{{{FILE}}}"
    if plan.framework == "deepspeed":
        return ["--deepspeed", "--deepspeed_config", file]
    recompute = mesh.recompute == "full"
    pairs = {
        **batch(plan, mesh),
        **_precision(plan),
        "gradient_checkpointing": flag(recompute),
        "deepspeed": file,
    }
    if plan.framework == "llamafactory":
        del pairs["gradient_checkpointing"]
        pairs["disable_gradient_checkpointing"] = flag(not recompute)
        return [f"{name}={value}" for name, value in pairs.items()]
    return options(pairs)


def notes(plan: Plan) -> tuple[str, ...]:
    """Return what a person should know about the file and the words."""
    found = []
    mesh = _mesh(plan)
    if plan.framework == "deepspeed":
        found.append(f"{FILE} holds no optimiser or schedule: the script passes them")
        if mesh.recompute == "full":
            found.append("the plan recomputes every layer: the script must checkpoint activations")
    if plan.framework == "llamafactory":
        found.append("LLaMA-Factory reads key=value behind its YAML: write {plan} after it")
    if mesh.zero and model_of(plan) is None:
        found.append(f"sizes of buckets are DeepSpeed's own: {plan.model} has no known dimensions")
    return tuple(found)


def _mesh(plan: Plan) -> Mesh:
    mesh = replicated(plan, "DeepSpeed")
    if mesh.shard not in (0, mesh.dp):
        raise PlanError(f"{plan.framework} shards over all {mesh.dp} devices, not {mesh.shard}")
    return mesh


def _precision(plan: Plan) -> dict[str, str]:
    if plan.framework == "swift":
        return {"torch_dtype": "bfloat16" if plan.precision == "bf16" else "float16"}
    return {plan.precision: "true"}


def _summed(plan: Plan) -> str:
    """Return what gradients are summed in; 8-bit ones are quantised by ZeRO-3 itself."""
    return plan.reduction if plan.reduction in ("fp32", "bf16") else plan.precision


def _zero(plan: Plan, mesh: Mesh) -> dict[str, object]:
    found: dict[str, object] = {"stage": mesh.zero}
    if mesh.zero == 0:
        return found
    found.update(overlap_comm=True, contiguous_gradients=True, reduce_scatter=True)
    if mesh.zero == 3 and plan.framework != "deepspeed":
        # Without it Transformers saves shards that only DeepSpeed can join.
        found["stage3_gather_16bit_weights_on_model_save"] = True
    if plan.reduction == "int8":
        found["zero_quantized_gradients"] = True
    model = model_of(plan)
    if model is None:
        return found
    bucket = _bucket(plan, mesh, model)
    found["reduce_bucket_size"] = bucket
    if mesh.zero < 3:
        found["allgather_bucket_size"] = bucket
        return found
    layer = int(model.layer_params)
    # The next layer comes while one computes, as the memory of the plan counts it.
    found["stage3_prefetch_bucket_size"] = layer
    found["stage3_max_live_parameters"] = 2 * layer + model.table_params
    # What takes longer to ask for than to send is kept: norms, biases.
    persistent = int(DEFAULT.collective_s * bandwidth_bs(plan, mesh) / WEIGHT_BYTES)
    found["stage3_param_persistence_threshold"] = persistent
    return found


def _bucket(plan: Plan, mesh: Mesh, model: Model) -> int:
    """Return the elements of a bucket that leave least time exposed, as memory allows.

    Half of the memory left may go to the buffers.
    """
    trained = model.params * (ADAPTERS if plan.training == "lora" else 1)
    whole = trained * WEIGHT_BYTES
    best = best_bytes(plan, mesh, whole) / WEIGHT_BYTES
    kinds = 1 if mesh.zero == 3 else 2
    room = _left_bytes(plan, mesh) / 2 / (BUFFERS * WEIGHT_BYTES * kinds)
    return int(max(SMALLEST, min(best, room, LARGEST)) // SMALLEST) * SMALLEST


def _left_bytes(plan: Plan, mesh: Mesh) -> float:
    """Return the memory that the plan leaves on a device, as much as any bucket where unknown."""
    card = card_of(plan, mesh)
    if card is None or card.memory_gib is None or plan.predicted is None:
        return math.inf
    usable = card.memory_gib * DEFAULT.usable
    return max(0.0, usable - max(plan.predicted.memory_gib)) * 2**30
