"""The plan for the loss of liquid cooling."""

from __future__ import annotations

from ..errors import UsageError, nearest
from ..inventory import Inventory, Rack
from ..inventory.power_nodes import Places, places
from .model import DeratePlan, RackPlan
from .nodes import IDLE_SHARE, Usage, nodes_of
from .rack import rack_plan


def derate(
    inventory: Inventory, target: str, usage: Usage | None = None, is_off: bool = False
) -> DeratePlan:
    """Return how the racks of a supernode, a pool or of that name live on air alone.

    ``usage`` is None where nobody can say what runs; ``is_off``: drained nodes are switched
    off. Raises ``UsageError`` for a name of nothing, or of what stands in no rack.
    """
    hosts = _hosts(inventory, target)
    racks = [rack for rack in inventory.racks if not hosts.isdisjoint(rack.hosts)]
    if not racks:
        what = f"{target} stands in no rack of the inventory, so nothing is known of its cooling"
        raise UsageError(f"{what}; add racks with its hosts")
    assumed: list[str] = []
    plans = []
    known = places(inventory)
    for rack in racks:
        nodes, unknown, more = nodes_of(inventory, known, rack, usage, is_off)
        plan = rack_plan(rack, nodes, unknown)
        plans.append(plan)
        assumed += [*_of_cooling(rack), *more]
        if not is_off:
            assumed += _of_idle(known, plan)
    racked = {host for rack in racks for host in rack.hosts}
    return DeratePlan(
        target=target,
        racks=tuple(plans),
        outside=tuple(sorted(hosts - racked)),
        assumed=tuple(dict.fromkeys(assumed)),
        is_live=usage is not None,
    )


def _hosts(inventory: Inventory, target: str) -> set[str]:
    domains = {domain.name: domain.hosts for domain in inventory.domains}
    racks = {rack.name: rack.hosts for rack in inventory.racks}
    if target in domains:
        return set(domains[target])
    if target in racks:
        return set(racks[target])
    hint = nearest(target, {**domains, **racks})
    raise UsageError(f"no supernode, pool or rack '{target}'; {hint}")


def _of_idle(known: Places, plan: RackPlan) -> list[str]:
    """Say what drained nodes are taken to draw where nobody has said it."""
    return [
        f"{node.domain}: a drained node taken to draw {IDLE_SHARE:g} of its most, "
        f"{node.off_w:.0f} W: write 'power: {{idle: ...}}' under its nodes"
        for node in plan.drained
        if known[node.host][1].power.idle_w is None
    ]


def _of_cooling(rack: Rack) -> list[str]:
    if rack.cooling is not None and rack.cooling.air_w is not None:
        return []
    kind = rack.cooling.kind if rack.cooling else ""
    if kind == "air":
        return [f"{rack.name} is cooled by air alone: it loses nothing with the liquid"]
    if kind in ("liquid", "immersion"):
        return [f"{rack.name}: {kind} leaves nothing to the air: write 'cooling: {{air: ...}}'"]
    what = "the usual figure for air is taken, 30 kW: write 'cooling: {air: ...}'"
    return [f"{rack.name}: nobody has said what the air takes of it; {what}"]
