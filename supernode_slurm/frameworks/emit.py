"""A plan in the words and files of its training framework.

Megatron-LM and MindSpeed-LLM take arguments, DeepSpeed and what stands on it (HF Trainer,
LLaMA-Factory, ms-swift) a ``deepspeed.json`` and arguments, the Trainer with FSDP a ``fsdp.json``
and arguments, torchtitan arguments, FlagScale a ``flagscale.yaml`` or the same as arguments. A
plain PyTorch loop is told by SN_* variables and ``supernode_slurm.runtime``. Words may hold
``{NAME}`` of one of the files, which the launcher replaces by its path.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..plan import Plan
from ..runtime.rank import accelerate_variables, job_variables, part_of, part_variables
from . import deepspeed, flagscale, fsdp, megatron, torchtitan


@dataclass(frozen=True, slots=True)
class Emitted:
    """What a framework is given: words, files by name, and what a person should know."""

    arguments: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    variables: dict[str, dict[str, str]] = field(default_factory=dict)
    """By whose they are: what sn-launch sets for a loop that has nothing else to go by, or for
    what the words of a framework cannot say."""


def emit(plan: Plan) -> Emitted:
    """Return a plan as its framework takes it, nothing for a job without a plan.

    What is LoRA's own, rank or maps, stays with the user's configuration. Raises ``PlanError``
    for what the framework cannot express.
    """
    if not plan.pipelines:
        return Emitted()
    found = _told(plan)
    return replace(found, notes=(*found.notes, *plan_notes(plan)))


def plan_notes(plan: Plan) -> tuple[str, ...]:
    """Return what a person should know of a plan in any framework."""
    found = []
    if plan.rebalance:
        found.append(
            "dynamic: shares follow measured step times from these on (SN_REBALANCE=1, "
            "docs/training.md)"
        )
    for pipeline in plan.pipelines:
        kinds = [plan.groups[mesh.group] for mesh in pipeline.meshes]
        for one, other in pairwise(kinds):
            if flagscale.by_host({one.vendor, other.vendor}):
                found.append(_crossing(one.name, other.name))
    return tuple(found)


def _crossing(one: str, other: str) -> str:
    from ..planner.crossings import STAGED_BS

    return (
        f"between {one} and {other} {STAGED_BS / 1e9:g} GB/s a device is taken, through host "
        "memory: an order of magnitude, not measured (docs/planning.md)"
    )


def _told(plan: Plan) -> Emitted:
    """Return the words, files and variables of the plan's framework."""
    name = plan.framework
    if name in ("megatron", "mindspeed"):
        return Emitted(tuple(megatron.arguments(plan)), notes=megatron.notes(plan))
    if name == "flagscale":
        files = {"flagscale.yaml": flagscale.layout(plan)}
        return Emitted(tuple(flagscale.arguments(plan)), files, flagscale.notes(plan))
    if name == "torchtitan":
        return Emitted(tuple(torchtitan.arguments(plan)), notes=torchtitan.notes(plan))
    if name in ("deepspeed", "hf", "llamafactory", "swift"):
        files = {deepspeed.FILE: deepspeed.config(plan)}
        return Emitted(tuple(deepspeed.arguments(plan)), files, deepspeed.notes(plan))
    if name == "hf-fsdp":
        words, files = tuple(fsdp.arguments(plan)), fsdp.files(plan)
        return Emitted(words, files, fsdp.notes(plan), _of_accelerate(plan))
    return Emitted(variables=_variables(plan))


def ranks(plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the first and the last rank of each group, in the order of the ranks."""
    found, start = {}, 0
    for pipeline in plan.pipelines:
        for mesh in pipeline.meshes:
            found[plan.groups[mesh.group].name] = (start, start + mesh.devices - 1)
            start += mesh.devices
    return found


def _of_accelerate(plan: Plan) -> dict[str, dict[str, str]]:
    found = {name: str(value) for name, value in accelerate_variables(plan).items()}
    return {"all ranks": found} if found else {}


def _variables(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the variables of all ranks, and those of the first rank of each group."""
    found = {"all ranks": job_variables(plan)}
    for name, (first, _) in ranks(plan).items():
        found[f"rank {first}, the first of {name}"] = part_variables(part_of(plan, first))
    return {
        whose: {name: str(value) for name, value in sorted(values.items())}
        for whose, values in found.items()
    }
