"""Plans of data parallelism alone, and the words of Transformers' Trainer for them."""

from __future__ import annotations

from ..errors import PlanError
from ..plan import Mesh, Plan
from .single import single


def replicated(plan: Plan, name: str) -> Mesh:
    """Return the only mesh of a plan that cuts no model, in a precision of 16 bits.

    Raises ``PlanError`` with the framework's name for any other.
    """
    pipeline, mesh = single(plan, name)
    if (mesh.tp, mesh.cp, len(pipeline.stages)) != (1, 1, 1):
        raise PlanError(
            f"{plan.framework} is planned with data parallelism alone, the plan has tp {mesh.tp}, "
            f"cp {mesh.cp}, pp {len(pipeline.stages)}; take dp {plan.devices} under ZeRO-3"
        )
    if mesh.recompute == "selective":
        raise PlanError(
            f"{plan.framework} recomputes whole layers or nothing, the plan only their MLP; "
            "take recompute full"
        )
    if mesh.etp > 1 or (mesh.ep > 1 and plan.framework != "deepspeed"):
        raise PlanError(
            f"{plan.framework} is not planned with parallel experts (ep {mesh.ep}, etp {mesh.etp})"
            "; take 1, or for ep plan for deepspeed"
        )
    if plan.precision not in ("bf16", "fp16"):
        raise PlanError(f"{plan.framework} trains in bf16 or fp16, the plan in {plan.precision}")
    return mesh


def accumulation(plan: Plan, mesh: Mesh) -> int:
    """Return the micro-batches of a step."""
    return plan.global_batch // (mesh.micro_batch * mesh.dp)


def batch(plan: Plan, mesh: Mesh) -> dict[str, str]:
    """Return the Trainer's options for batch and accumulation."""
    return {
        "per_device_train_batch_size": str(mesh.micro_batch),
        "gradient_accumulation_steps": str(accumulation(plan, mesh)),
    }


def flag(value: bool) -> str:
    """Return a boolean as the Trainer's parser reads it."""
    return "true" if value else "false"


def options(pairs: dict[str, str]) -> list[str]:
    """Return options with their values as words; one without a value is a flag."""
    return [word for name, value in pairs.items() for word in (f"--{name}", value) if word]
