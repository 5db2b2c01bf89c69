"""Which nodes of a rack stay, and under which caps, so that the air takes its heat."""

from __future__ import annotations

from collections.abc import Sequence

from ..inventory import Rack
from ..inventory.cooling import Limit, air_limit
from .model import Cap, Kind, Node, RackPlan


def rack_plan(rack: Rack, nodes: Sequence[Node], unknown: Sequence[str]) -> RackPlan:
    """Return the plan that drains the fewest nodes.

    Equipment, hosts and drained nodes are served first; what is left of the limit is shared by
    the cards in proportion to their TDP, none below its lowest cap or above what it had.
    """
    equipment_w = sum(item.count * item.power_w for item in rack.equipment)
    limit = air_limit(rack.cooling)
    if limit.is_default and rack.cooling is not None and rack.cooling.kind == "air":
        before_w = equipment_w + sum(node.most_w for node in nodes)
        limit = Limit(before_w, "no liquid to lose", False)
    drained = _drained(nodes, limit.w - equipment_w)
    gone = {node.host for node in drained}
    kept = [node for node in nodes if node.host not in gone]
    others_w = equipment_w + sum(node.off_w for node in drained)
    others_w += sum(node.host_w for node in kept)
    watts = _shared([kind for node in kept for kind in node.kinds], limit.w - others_w)
    after_w = others_w + sum(kind.count * watts[kind] for node in kept for kind in node.kinds)
    return RackPlan(
        name=rack.name,
        cooling=rack.cooling.kind if rack.cooling else "",
        limit=limit,
        equipment_w=equipment_w,
        nodes=tuple(nodes),
        drained=tuple(drained),
        caps=_caps(kept, watts),
        after_w=after_w,
        unknown=tuple(unknown),
    )


def _drained(nodes: Sequence[Node], limit_w: float) -> list[Node]:
    """Return the fewest nodes without which the others fit, those that are missed least.

    All of them where even that is too little.
    """
    need = sum(node.least_w for node in nodes) - limit_w
    if need <= 0:
        return []
    saved = {node.host: node.least_w - node.off_w for node in nodes}
    largest = sorted(saved.values(), reverse=True)
    count = next((n for n in range(1, len(nodes) + 1) if sum(largest[:n]) >= need - 1e-6), 0)
    if not count:
        return list(nodes)
    ordered = [nodes[index] for index in sorted(range(len(nodes)), key=lambda i: _missed(nodes, i))]
    chosen: list[Node] = []
    got = 0.0
    for index, node in enumerate(ordered):
        left = count - len(chosen) - 1
        later = sorted((saved[item.host] for item in ordered[index + 1 :]), reverse=True)
        if got + saved[node.host] + sum(later[:left]) >= need - 1e-6:
            chosen.append(node)
            got += saved[node.host]
            if len(chosen) == count:
                break
    return chosen


def _missed(nodes: Sequence[Node], index: int) -> tuple[int, int, str, int]:
    """Return what is less of a node that is missed less.

    Those that are out, spares, idle ones, then those of the smallest jobs; of equals the last,
    where spares stand.
    """
    node = nodes[index]
    rank = 0 if node.is_out else 3 if node.jobs else 1 if node.is_spare else 2
    job = max(node.jobs, key=lambda item: item.nodes, default=None)
    return (rank, job.nodes, job.id, -index) if job else (rank, 0, "", -index)


def _shared(kinds: Sequence[Kind], left_w: float) -> dict[Kind, int | float]:
    """Return the watts of each kind: a share of the TDP that is equal for all, within bounds.

    Whole watts where a cap is needed; the lowest caps where even these are too much.
    """
    counts: dict[Kind, int] = {}
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + kind.count

    def at(share: float) -> dict[Kind, float]:
        return {kind: min(max(share * kind.tdp_w, kind.least_w), kind.most_w) for kind in counts}

    def drawn(watts: dict[Kind, float]) -> float:
        return sum(counts[kind] * each for kind, each in watts.items())

    if drawn(at(1.0)) <= left_w + 1e-6:
        return dict(at(1.0))
    low, high = 0.0, 1.0
    for _ in range(60):  # Halving: the sum only rises with the share.
        middle = (low + high) / 2
        low, high = (middle, high) if drawn(at(middle)) <= left_w + 1e-6 else (low, middle)
    found = at(low)
    return {
        kind: each if each == kind.most_w else max(int(each + 1e-6), int(-(-kind.least_w // 1)))
        for kind, each in found.items()
    }


def _caps(kept: Sequence[Node], watts: dict[Kind, int | float]) -> tuple[Cap, ...]:
    """Return the caps that differ from what the cards may draw already."""
    hosts: dict[tuple[Kind, bool], list[str]] = {}
    for node in kept:
        for kind in node.kinds:
            alone = sum(item.vendor == kind.vendor for item in node.kinds) == 1
            if watts[kind] < kind.most_w:
                hosts.setdefault((kind, alone), []).append(node.host)
    return tuple(
        Cap(kind, tuple(names), int(watts[kind]), alone) for (kind, alone), names in hosts.items()
    )
