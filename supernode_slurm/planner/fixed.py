"""Sizes that a user fixed, where several kinds of devices are planned for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..errors import PlanError
from ..plan import Mesh, Plan
from .workload import Fixed, Layout, Workload


def unplanned(fixed: Fixed, what: str, **usual: int) -> str:
    """Return which fixed size has another value than the only one that is planned, if any."""
    for name, value in usual.items():
        given = getattr(fixed, name)
        if given not in (None, value):
            return f"{name.replace('_', '-')} {given} is not planned of {what}, only {value}"
    return ""


def with_sizes(
    planned: Callable[[Workload], tuple[Plan, ...]], workload: Workload
) -> tuple[Plan, ...]:
    """Return the plans; where the fixed sizes leave none, the error says what else there is."""
    try:
        return planned(workload)
    except PlanError as error:
        if workload.fixed == Fixed():
            raise
        try:
            best = planned(replace(workload, fixed=Fixed()))[0]
        except PlanError:
            raise error from None
        reason = "; ".join(str(error).split("\n"))
        raise PlanError(
            f"{workload.model.name} with {workload.fixed.words()} fixed: {reason}; left open, "
            f"the fastest is {_words(best)}"
        ) from None


def sizes_words(cut: Mesh | Layout) -> str:
    """Return the sizes of a mesh or a layout, as errors name what would run."""
    return (
        f"tp {cut.tp}, pp {cut.pp}, dp {cut.dp}, micro-batch {cut.micro_batch}, recompute "
        f"{cut.recompute}, zero {cut.zero}"
    )


def _words(plan: Plan) -> str:
    """Return the sizes of a plan's meshes."""
    meshes = [
        f"{sizes_words(mesh)} on {plan.groups[mesh.group].name}"
        for pipeline in plan.pipelines
        for mesh in pipeline.meshes
    ]
    return " + ".join(meshes)
