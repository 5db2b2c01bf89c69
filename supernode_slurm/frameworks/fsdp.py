"""A plan as the words and files by which Transformers' Trainer shards weights with FSDP2.

Names and meanings of Transformers 5.24 and Accelerate 1.15.0. There ``--fsdp`` has no value (those
of 4.x, like full_shard, are deprecated), version 1 is deprecated, and Accelerate's plugin takes
``reshard_after_forward`` for a boolean. Their own classes were given the files and the words. A
model of two layers was trained by 2 and 4 processes on CPUs, whole and with LoRA (peft 0.21.2),
sharded over all and over pairs, and went on from its checkpoint at the other size; for that a line
of Accelerate was changed, which has FSDP on accelerators alone.

Layers are those that a model of Transformers names in ``_no_split_modules``.
"""

from __future__ import annotations

import json

from ..errors import PlanError
from ..plan import Mesh, Plan
from .replicated import accumulation, batch, flag, options, replicated
from .single import model_of

FILE, ACCELERATOR = "fsdp.json", "accelerator.json"

STATE_BYTES = 12
"""Of a parameter in a joined checkpoint: its 32-bit weight, and Adam's two numbers."""


def files(plan: Plan) -> dict[str, str]:
    """Return the files by name; raises ``PlanError`` for what the Trainer cannot shard."""
    mesh = _mesh(plan)
    if mesh.dp == 1:
        return {}
    sections: dict[str, object] = {
        "version": 2,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "reshard_after_forward": True,
        "activation_checkpointing": mesh.recompute == "full",
        # Of sharded ones Trainer.save_model writes nothing.
        "state_dict_type": "FULL_STATE_DICT",
        # Else each process of a node reads the whole model.
        "cpu_ram_efficient_loading": True,
    }
    found = {FILE: json.dumps(sections, indent=1) + "\n"}
    if accumulation(plan, mesh) > 1:
        # Without it each device keeps whole gradients until the last micro-batch.
        kept = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
        found[ACCELERATOR] = json.dumps(kept, indent=1) + "\n"
    return found


def arguments(plan: Plan) -> list[str]:
    """Return the Trainer's words: batch, precision, and the files.

    Recomputation is the file's: the Trainer refuses both, and its own gathers weights once more.
    One device has nothing to shard, and FSDP is refused there.
    """
    mesh, named = _mesh(plan), files(plan)
    full = mesh.recompute == "full"
    pairs = batch(plan, mesh) | {
        plan.precision: "true",
        "gradient_checkpointing": flag(full and not named),
    }
    if named:
        pairs |= {"fsdp": "", "fsdp_config": f"{{{FILE}}}"}
    if ACCELERATOR in named:
        pairs["accelerator_config"] = f"{{{ACCELERATOR}}}"
    return options(pairs)


def notes(plan: Plan) -> tuple[str, ...]:
    """Return what a person should know about the files and the words."""
    mesh, model = _mesh(plan), model_of(plan)
    if mesh.dp == 1:
        return ()
    found = [
        "for Transformers 5 (4.x wants a value behind --fsdp), whose Trainer makes the optimiser "
        "itself: under FSDP it takes none from the script"
    ]
    if mesh.shard not in (0, mesh.dp):
        found.append(
            f"weights are sharded over {mesh.shard} devices each by variables that sn-launch sets; "
            "a script that gives TrainingArguments a parallelism_config must say the same"
        )
    if model is not None and plan.training != "lora":
        found.append(
            f"rank 0 joins checkpoints: {model.params * STATE_BYTES / 2**30:,.0f} GiB of its "
            "node's memory"
        )
    return tuple(found)


def _mesh(plan: Plan) -> Mesh:
    mesh = replicated(plan, "FSDP of the Trainer")
    if mesh.zero != 3:
        raise PlanError(
            f"{plan.framework} shards weights as ZeRO-3 does, the plan has ZeRO-{mesh.zero}; take "
            "zero 3, or plan for hf"
        )
    if mesh.shard and mesh.dp % mesh.shard:
        raise PlanError(
            f"{plan.framework} shards over a divisor of dp {mesh.dp}, the plan over {mesh.shard}"
        )
    if plan.reduction and plan.reduction != plan.precision:
        raise PlanError(
            f"{plan.framework} sums gradients in {plan.precision} as it computes, the plan in "
            f"{plan.reduction}; plan for hf"
        )
    return mesh
