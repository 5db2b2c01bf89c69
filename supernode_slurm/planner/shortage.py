"""Why nothing fits, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import PlanError
from .costs import usable_gib
from .fixed import sizes_words
from .folds import unfolded
from .search import Search
from .space import space_of
from .workload import Capabilities, Fixed, Offer, Workload

DIVISIBLE = 128
"""A sequence that this divides has every usual TP and CP."""


def nothing_fits(
    workload: Workload, offer: Offer, able: Capabilities, least_gib: float | None
) -> PlanError:
    """Return the error that tells what is missing, per device, and what would help."""
    name, count = offer.accelerator.id, offer.devices
    longer = -(-workload.sequence // DIVISIBLE) * DIVISIBLE
    if least_gib is not None and longer != workload.sequence:
        search = Search(replace(workload, sequence=longer), offer, able)
        if search.best(1).layouts:
            return PlanError(
                f"{workload.model.name} does not fit on {count} x {name} with sequences of "
                f"{workload.sequence} tokens, which neither TP nor CP can divide well: layouts "
                f"that are left need at least {least_gib:.1f} GiB per device, a training process "
                f"gets {usable_gib(offer):.1f}; a sequence of {longer} fits"
            )
    if least_gib is not None:
        return PlanError(
            f"{workload.model.name} does not fit on {count} x {name}: every layout needs "
            f"at least {least_gib:.1f} GiB per device, a training process gets "
            f"{usable_gib(offer):.1f} of {offer.accelerator.memory_gib:g} GiB; "
            "take more devices, devices with more memory, or shorter sequences"
        )
    # Any batch that all devices divide leaves only the other sizes to stand in the way.
    if space_of(replace(workload, global_batch=count), offer, able).size:
        return PlanError(
            f"a global batch of {workload.global_batch} does not divide over {count} x "
            f"{name} in any layout that {workload.framework} runs; "
            f"take a multiple of {count}, or another number of devices"
        )
    return PlanError(
        f"{workload.framework} has no layout for {workload.model.name} "
        f"({workload.model.layers} layers, {workload.model.heads} heads) on {count} x {name}; "
        "take another number of devices, or a framework with uneven stages"
    )


def impossible(
    workload: Workload, offer: Offer, able: Capabilities, least_gib: float | None
) -> PlanError:
    """Return the error for fixed sizes that no layout keeps, with a layout where they are open."""
    name = f"{offer.devices} x {offer.accelerator.id}"
    free = replace(workload, fixed=Fixed())
    search = Search(free, offer, able)
    found = search.best(1).layouts
    if not found:
        return nothing_fits(free, offer, able, search.least_gib)
    best = found[0]
    reason = broken(workload, offer, able)
    if least_gib is not None:
        reason = (
            f"they need {least_gib:.1f} GiB per device, a training process gets "
            f"{usable_gib(offer):.1f}"
        )
    return PlanError(
        f"{workload.model.name} on {name} with {workload.fixed.words()} fixed: {reason}; "
        f"left open, the fastest is {sizes_words(best)}"
    )


def broken(workload: Workload, offer: Offer, able: Capabilities) -> str:
    """Return which fixed size is none that the framework can run, and the legal ones.

    Empty where the fixed sizes go together, and only memory may stand in the way.
    """
    fixed = workload.fixed
    open_ = replace(workload, fixed=Fixed(), global_batch=offer.devices)
    free = unfolded(space_of(open_, offer, able), open_, able)[0]
    columns = {
        "tp": "tp",
        "pp": "pp",
        "dp": "dp",
        "cp": "cp",
        "ep": "ep",
        "etp": "etp",
        "virtual_stages": "virtual",
    }
    legal: dict[str, Sequence[int | str]] = {
        size: sorted({int(value) for value in free.columns[column]})
        for size, column in columns.items()
    }
    legal |= {"recompute": able.recompute, "zero": able.zero}
    for size, values in legal.items():
        if getattr(fixed, size) not in (None, *values):
            shown = ", ".join(map(str, values))
            return f"{able.name} can have {size.replace('_', '-')} {shown} here"
    if _layouts(workload, offer, able):
        return ""
    if fixed.recompute_layers and not able.recompute_some:
        return f"{able.name} recomputes all layers of a stage or none"
    loose = replace(workload, global_batch=offer.devices, fixed=replace(fixed, micro_batch=None))
    if _layouts(loose, offer, able):
        return f"the global batch of {workload.global_batch} is no multiple of dp x micro-batch"
    for size in ("virtual_stages", "ep", "etp", "zero", "recompute_layers"):
        others = replace(loose.fixed, **{size: None})
        if others != loose.fixed and _layouts(replace(loose, fixed=others), offer, able):
            words = f"{size.replace('_', '-')} {getattr(fixed, size)}"
            return f"{able.name} cannot have {words} beside the other sizes"
    return f"tp x cp x pp x dp must be its {offer.devices} devices"


def _layouts(workload: Workload, offer: Offer, able: Capabilities) -> int:
    """Return the number of legal layouts, whether they fit or not."""
    return unfolded(space_of(workload, offer, able), workload, able)[0].size
