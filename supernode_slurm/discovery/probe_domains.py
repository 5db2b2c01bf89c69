"""Scale-up fabrics of probed nodes, by what their devices say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..catalogue import find_accelerator
from ..errors import Problem
from .probe_facts import Probe
from .probes import place_of
from .room import Room
from .scale_up import Membership, add_memberships, nvlink_domain

_NONE = frozenset({"", "completed", "n/a", "not supported"})
"""States of a card that waits for no fabric."""


def add_domains(room: Room) -> None:
    """Add the NVLink domains and super pods of the probed nodes; one node is no supernode."""
    nvlink = [item for probe in room.probes.values() for item in _of_nvlink(probe)]
    pods = [
        Membership(host, f"super-pod-{probe.pod.id}", "", place_of([host]))
        for host, probe in room.probes.items()
        if probe.pod is not None
    ]
    _add(room, nvlink, "NVLink domain", "switch")
    _add(room, pods, "super pod", "clos")


def _of_nvlink(probe: Probe) -> Iterator[Membership]:
    """Yield what the cards say that are in a domain or wait for one; others have no such fabric."""
    for card in probe.cards:
        state = card.state if card.state.casefold() not in _NONE else ""
        domain, why = nvlink_domain(card.cluster, card.clique, state)
        if domain or state:
            yield Membership(probe.host, domain, why, place_of([probe.host]))


def _add(room: Room, found: list[Membership], fabric: str, kind: str) -> None:
    before = len(room.scale_ups)
    add_memberships(room, found, fabric, kind)
    added = room.scale_ups[before:]
    room.scale_ups[before:] = [
        replace(item, where=place_of(item.hosts)) for item in added if len(item.hosts) > 1
    ]
    for item in added:
        if len(item.hosts) == 1 and _is_wide(room, item.hosts[0]):
            what = f"{{hosts}} is alone in its scale-up fabric ({item.name})"
            todo = "probe the others too"
            room.of_hosts("unsaid", Problem(item.where, what, todo), item.hosts)


def _is_wide(room: Room, host: str) -> bool:
    """Return whether the cards of a node share a fabric with those of others, as sold."""
    devices = room.measured[host][0].devices if host in room.measured else ()
    kinds = [find_accelerator(item.accelerator) for item in devices]
    return any(kind.domain_cards > kind.cards_per_node for kind in kinds)
