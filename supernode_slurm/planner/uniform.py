"""The best plans of a workload on devices of one kind, in one pipeline on one mesh."""

from __future__ import annotations

from dataclasses import replace

from ..plan import Mesh, Pipeline, Plan, Predicted, Stage
from .answers import KEEP
from .costs import plan_of, predicted_at
from .search import Ranked, Search
from .shortage import impossible, nothing_fits
from .workload import Capabilities, Fixed, Layout, Offer, Workload, agree_precision


def plan_uniform(
    workload: Workload, offer: Offer, able: Capabilities, keep: int = KEEP
) -> tuple[Plan, ...]:
    """Return the best plans that use all devices of the offer, at most ``keep``, best first.

    Every legal layout is considered; those that cannot be among the best are left out by a time
    that they cannot beat. Sizes that the workload fixes are kept. Raises ``PlanError`` with the
    least memory that any layout needs if none fits, and names fixed sizes that stand in the way.
    Where no layout leaves the workload's ``spare``, those that fit without it are returned.
    """
    workload = agree_precision(workload, [offer], able)
    search = Search(workload, offer, able)
    found = search.best(keep)
    if not found.layouts and workload.spare:
        return plan_uniform(replace(workload, spare=0.0), offer, able, keep)
    if not found.layouts and workload.fixed != Fixed():
        raise impossible(workload, offer, able, search.least_gib)
    if not found.layouts:
        raise nothing_fits(workload, offer, able, search.least_gib)
    return tuple(
        plan_at(workload, offer, layout, predicted)
        for layout, predicted in zip(found.layouts, predictions(search, found), strict=True)
    )


def predictions(search: Search, found: Ranked) -> list[Predicted]:
    """Return what each of the layouts costs."""
    if found.costs is None:
        return []
    return [
        predicted_at(search.workload, found.costs, search.peak, row)
        for row in range(len(found.layouts))
    ]


def plan_at(workload: Workload, offer: Offer, layout: Layout, predicted: Predicted) -> Plan:
    """Return the plan of a layout."""
    mesh = Mesh(
        group=0,
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        micro_batch=layout.micro_batch,
        cp=layout.cp,
        ep=layout.ep,
        etp=layout.etp,
        sequence_parallel=layout.sequence_parallel,
        recompute=layout.recompute,
        recompute_layers=layout.recompute_layers,
        zero=layout.zero,
        shard=layout.shard,
    )
    last = layout.pp - 1
    stages = tuple(
        Stage(mesh=0, layers=layers, embedding=index == 0, head=index == last)
        for index, layers in enumerate(layout.layers)
    )
    pipeline = Pipeline(
        workload.global_batch,
        (mesh,),
        stages,
        schedule="interleaved" if layout.virtual_stages > 1 else "1f1b",
        virtual_stages=layout.virtual_stages,
    )
    return plan_of(workload, (offer.group,), (pipeline,), predicted)
