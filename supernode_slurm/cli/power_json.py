"""What ``sn power --json`` prints; watts throughout, null for what nobody has said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..derating import Cap, DeratePlan, JobShare, RackPlan
    from ..inventory.power import Case, Drawn, RackPower, RoomPower

VERSION = 1


def room_json(power: RoomPower) -> dict[str, Any]:
    """Return racks, feeds and the failures of feeds."""
    return {
        "version": VERSION,
        "over": power.is_over,
        "total": _drawn(power.total),
        "racks": [_rack(item) for item in power.racks],
        "feeds": [_feed(power, load.feed.name) for load in power.normal.loads],
        "failures": [_case(case) for case in power.failures],
        "overrated": [
            {"source": item.source.name, "feeds": [feed.name for feed in item.feeds],
             "rated_w": item.rated_w, "source_w": item.source.power_w}
            for item in power.overrated
        ],
        "in_no_rack": list(power.homeless),
        "on_no_feed": list(power.unfed),
        "power_unchecked": list(power.unsure),
    }  # fmt: skip


def _drawn(drawn: Drawn) -> dict[str, Any]:
    missing = [{"what": item.what, "hosts": list(item.hosts)} for item in drawn.missing]
    return {"w": drawn.w, "missing": missing}


def _rack(item: RackPower) -> dict[str, Any]:
    cooling = item.cooling
    return {
        "name": item.rack.name,
        "hosts": list(item.rack.hosts),
        "budget_w": item.rack.budget_w,
        "power_w": item.rack.power_w,
        "shelves_w": item.rack.shelves_w,
        "draw": _drawn(item.most),
        "idle": _drawn(item.idle),
        "headroom_w": item.headroom_w,
        "over": item.is_over,
        "cooling": None
        if cooling is None
        else {"w": cooling.w, "source": cooling.source, "usual": cooling.is_default},
        "too_hot": item.is_too_hot,
        "derated": item.is_capped,
        "feeds": list(item.rack.feeds),
    }


def _feed(power: RoomPower, name: str) -> dict[str, Any]:
    normal, (case, worst) = power.normal.load(name), power.worst(name)
    return {
        "name": name,
        "rated_w": worst.feed.power_w,
        "sources": list(worst.feed.sources),
        "normal": None if normal is None else _drawn(normal.drawn),
        "worst": _drawn(worst.drawn),
        "worst_when_failed": case.failed or None,
        "over": worst.is_over,
    }


def _case(case: Case) -> dict[str, Any]:
    return {
        "failed": case.failed,
        "dead": list(case.dead),
        "dark_racks": list(case.dark),
        "loads_w": {load.feed.name: load.drawn.w for load in case.loads},
        "over": [load.feed.name for load in case.over],
    }


def plan_json(plan: DeratePlan) -> dict[str, Any]:
    """Return the plan for lost cooling."""
    flops = plan.flops
    return {
        "version": VERSION,
        "target": plan.target,
        "enough": plan.is_enough,
        "live": plan.is_live,
        "racks": [_rack_plan(rack) for rack in plan.racks],
        "peak_tflops": None
        if flops is None
        else {"before": flops.before, "after": flops.after, "after_least": flops.after_least},
        "jobs_ended": [_job(job) for job in plan.ended_jobs],
        "jobs_slowed": [_job(job) for job in plan.slowed_jobs],
        "derated": [{"on": name, "cap_w": watts} for name, watts in plan.domain_caps.items()],
        "in_no_rack": list(plan.outside),
        "assumed": list(plan.assumed),
    }


def _rack_plan(rack: RackPlan) -> dict[str, Any]:
    return {
        "name": rack.name,
        "air_w": rack.limit.w,
        "air_source": rack.limit.source,
        "equipment_w": rack.equipment_w,
        "before_w": rack.before_w,
        "meanwhile_w": rack.meanwhile_w,
        "after_w": rack.after_w,
        "enough": rack.is_enough,
        "drain": [node.host for node in rack.drained],
        "caps": [_cap(cap) for cap in rack.caps],
        "unknown": list(rack.unknown),
    }


def _cap(cap: Cap) -> dict[str, Any]:
    from ..derating import cap_command

    return {
        "accelerator": cap.kind.accelerator,
        "hosts": list(cap.hosts),
        "w": cap.watts,
        "tdp_w": cap.kind.tdp_w,
        "least_w": cap.kind.least_w,
        "command": cap_command(cap),
    }


def _job(job: JobShare) -> dict[str, Any]:
    return {"id": job.id, "name": job.name, "nodes": job.nodes}
