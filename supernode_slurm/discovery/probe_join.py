"""Probes of all nodes put together: what each node has, what is told of it, what they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..errors import Problem, Where
from .probe_cards import Cards, Measured, cards_of
from .probe_domains import add_domains
from .probe_facts import Probe
from .probe_faults import tell_faults
from .probe_network import rails_of
from .probes import place_of
from .room import NodeFacts, Room

MEMORY_SPREAD = 0.02
"""Nodes whose memory differs by less are equal: they get the least of it."""


def join_probes(room: Room, given: Mapping[str, str]) -> None:
    """Make of the probes what a room knows: measured nodes, versions, scale-up fabrics.

    Nodes that no line of slurm.conf names are added. Raises ``UnknownName`` for a wrong name
    in ``given``.
    """
    if not room.probes:
        return
    cards = {host: cards_of(probe, given) for host, probe in room.probes.items()}
    for hosts, measured in _classes(room.probes, cards):
        place = place_of(hosts)
        for host in hosts:
            room.measured[host] = (measured, place)
    tell_faults(room, cards)
    _add_nodes(room)
    _add_versions(room)
    add_domains(room)


def _classes(
    probes: Mapping[str, Probe], cards: Mapping[str, Cards]
) -> Iterable[tuple[tuple[str, ...], Measured]]:
    """Yield the hosts that are alike, and what they have."""
    alike: dict[Measured, list[str]] = {}
    for host, probe in probes.items():
        alike.setdefault(_measured(probe, cards[host]), []).append(host)
    for measured, hosts in alike.items():
        by_memory = sorted(hosts, key=lambda host: probes[host].memory_mib)
        while by_memory:
            least = probes[by_memory[0]].memory_mib
            near = {
                host for host in by_memory if probes[host].memory_mib <= least * (1 + MEMORY_SPREAD)
            }
            whole = least >> 10 << 10 if least >= 4096 else least
            named = tuple(host for host in hosts if host in near)
            yield named, replace(measured, memory_mib=whole)
            by_memory = [host for host in by_memory if host not in near]


def _measured(probe: Probe, cards: Cards) -> Measured:
    return Measured(
        sockets=probe.sockets,
        cores=probe.cores,
        threads=probe.threads,
        memory_mib=0,
        devices=cards.devices,
        others=cards.others,
        adapters=tuple(item.name for item in rails_of(probe.adapters)),
    )


def _add_nodes(room: Room) -> None:
    known = {host for node in room.nodes for host in node.hosts}
    known |= {host for _, hosts in room.foreign for host in hosts}
    had_nodes = bool(room.nodes)
    new: dict[Where, list[str]] = {}
    for host, (_, place) in room.measured.items():
        if host not in known:
            new.setdefault(place, []).append(host)
    for place, hosts in new.items():
        room.nodes.append(NodeFacts(tuple(hosts), {}, place))
        if had_nodes:
            what = "{hosts} answered, and no line of slurm.conf names them"
            room.of_hosts("disagreement", Problem(place, what, "added to the inventory"), hosts)


def _add_versions(room: Room) -> None:
    for host, probe in room.probes.items():
        for component, version in probe.versions:
            if version:
                of_component = room.versions.setdefault(component, {})
                of_component.setdefault(version, []).append(host)
