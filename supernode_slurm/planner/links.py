"""Bandwidth of groups of ranks: inside a scale-up fabric by its wiring, beyond it by the network.

A group is ``ranks`` devices at a distance of ``stride``. What a wiring gives to a group is counted
in links: a device has a bandwidth over all its links, and a collective uses those that lead to
its own members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .case import Case, Numbers
from .constants import Constants

WIRINGS = ("switch", "full-mesh", "ring", "torus")
"""Behind a switch, a Clos or a fat-tree any group has its devices' whole bandwidth."""

KINDS = {
    "switch": "switch",
    "clos": "switch",
    "fat-tree": "switch",
    "full-mesh": "full-mesh",
    "ring": "ring",
    "torus": "torus",
}
"""Of an inventory's interconnect."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate, at a distance of ``stride`` devices."""

    ranks: Numbers
    stride: Numbers


def ring_bs(case: Case, group: Group) -> Numbers:
    """Return what each rank has in gathers, scatters and reductions."""
    rates = case.rates
    inside = group.ranks * group.stride <= rates.domain
    together = np.maximum(1.0, np.minimum(group.ranks, rates.domain / group.stride))
    local = _local_ring_bs(case, Group(together, group.stride))
    # Members inside one fabric share their network cards; each enters and leaves once.
    outside = np.minimum(np.where(together > 1, local, np.inf), rates.nic_bs * together)
    return np.where(inside, _local_ring_bs(case, group), outside)


def exchange_s(case: Case, group: Group, sent: Numbers, distinct: Numbers) -> Numbers:
    """Return the time of one all-to-all that sends ``sent`` bytes per rank.

    ``distinct`` are the bytes that leave a fabric if what several devices of another one
    want is sent to it once (NVIDIA's and DeepSeek's dispatchers).
    """
    rates = case.rates
    ranks = np.maximum(group.ranks, 1.0)
    inner = sent * (1 - 1 / ranks) / _local_exchange_bs(case, group)
    outside = group.ranks * group.stride > rates.domain
    outer = np.where(outside, distinct / rates.nic_experts_bs, 0.0)
    return np.maximum(inner * case.software.release, outer)


def transfer_bs(case: Case) -> tuple[Numbers, Numbers]:
    """Return a stage's bandwidth to the next one, and what the ends of a tied table share.

    Of many stages in one fabric, only some transfers leave it; those share the node's cards.
    """
    rates, cut = case.rates, case.cut
    ranks = cut.tp * cut.cp * cut.dp
    inside = _neighbour_bs(case)
    sharers = np.minimum(rates.node, ranks)
    wire = np.minimum(rates.rail_bs, rates.nic_bs * rates.node / sharers)
    crossing = np.clip(ranks / np.maximum(rates.domain, 1.0), 0.0, 1.0)
    mixed = 1 / (crossing / wire + (1 - crossing) / inside)
    alone = rates.total <= rates.domain
    return np.where(alone, inside, mixed), np.where(alone, inside, wire)


def start_s(case: Case, group: Group, constants: Constants) -> Numbers:
    """Return what a ring costs before its first byte arrives."""
    outside = group.ranks * group.stride > case.rates.domain
    hops = np.where(outside, constants.hop_s, case.rates.hop_s)
    return case.rates.collective_s + hops * (group.ranks - 1)


def distinct_share(span: Numbers, domain: Numbers, per_token: Numbers) -> Numbers:
    """Return how many other fabrics one token is sent to, at experts chosen evenly.

    ``span`` is the devices that the group's ranks lie among.
    """
    fabrics = np.maximum(span / np.maximum(domain, 1.0), 1.0)
    reached = fabrics * (1 - (1 - 1 / fabrics) ** np.maximum(per_token, 1.0))
    return np.minimum(reached, per_token) * (1 - 1 / fabrics)


def _local_ring_bs(case: Case, group: Group) -> Numbers:
    rates = case.rates
    whole = rates.scale_up_bs

    def mesh() -> Numbers:
        return np.minimum(whole, rates.neighbour_bs * np.maximum(group.ranks - 1, 1.0))

    def ring() -> Numbers:
        # A closed ring has two directions; an arc sends there and back over the same links.
        closed = group.ranks * group.stride >= rates.domain
        return whole * np.where(closed, 1.0, 0.5) / group.stride

    def torus() -> Numbers:
        return whole * _dimensions(case, group) / 3

    return _wired(case, (lambda: whole, mesh, ring, torus))


def _local_exchange_bs(case: Case, group: Group) -> Numbers:
    """As in rings, but what goes further than a neighbour takes the links of those between."""
    rates = case.rates
    ranks = np.minimum(group.ranks, np.maximum(rates.domain / group.stride, 1.0))
    whole = rates.scale_up_bs

    def mesh() -> Numbers:
        found = np.minimum(whole, rates.neighbour_bs * np.maximum(ranks - 1, 1.0))
        return np.asarray(found)

    def ring() -> Numbers:
        return whole / np.maximum(ranks * group.stride / 4, 1.0)

    def torus() -> Numbers:
        dimensions = _dimensions(case, group)
        side = np.maximum(rates.domain, 1.0) ** (1 / 3)
        return whole * dimensions / 3 / np.maximum(dimensions * side / 4, 1.0)

    return _wired(case, (lambda: whole, mesh, ring, torus))


def _neighbour_bs(case: Case) -> Numbers:
    rates = case.rates
    whole = rates.scale_up_bs
    return _wired(
        case, (lambda: whole, lambda: rates.neighbour_bs, lambda: whole / 2, lambda: whole / 6)
    )


def _wired(case: Case, ways: Sequence[Callable[[], Numbers]]) -> Numbers:
    """Return what each case's own wiring gives; where all have one, no other is computed."""
    wiring = case.rates.wiring
    if wiring.ndim == 0:
        return np.asarray(ways[int(wiring)]())
    return np.choose(wiring.astype(np.intp), [way() for way in ways])


def _dimensions(case: Case, group: Group) -> Numbers:
    """Return how many dimensions of a cubic torus a group spans, 1 to 3."""
    side = np.maximum(case.rates.domain, 2.0) ** (1 / 3)
    span = np.log(np.maximum(group.ranks, 2.0)) / np.log(np.maximum(side, 2.0))
    return np.clip(np.ceil(span - 1e-9), 1.0, 3.0)
