"""Scale-up fabrics by what their devices say: NVLink domains and Ascend super-pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .. import hostlist
from ..catalogue import find_accelerator
from ..errors import Problem
from .probe_facts import Probe
from .probes import place_of
from .room import Room, ScaleUpFacts
from .scale_up import nvlink_domain

_CUT = re.compile(r"[-_.]*(?:c|n|node|compute|tray|host)?[-_.]*\Z", re.IGNORECASE)


def add_domains(room: Room) -> None:
    """Add the scale-up fabrics of the probed nodes; one node alone is no supernode."""
    _of_nvlink(room)
    _of_pods(room)


def _of_nvlink(room: Room) -> None:
    domains: dict[str, list[str]] = {}
    for host, probe in room.probes.items():
        named = (nvlink_domain(card.cluster, card.clique)[0] for card in probe.cards)
        keys = set(filter(None, named))
        pending = {
            card.state
            for card in probe.cards
            if card.state and card.state.casefold() not in ("completed", "n/a", "not supported")
        }
        if pending:
            what = f"NVLink fabric of {{hosts}}: {', '.join(sorted(pending))}"
            todo = "in no NVLink partition: look at the chassis; left out of supernodes"
            room.of_hosts("fault", Problem(place_of([host]), what, todo), [host])
        elif len(keys) > 1:
            what = "cards of {hosts} are in several NVLink domains"
            room.of_hosts("fault", Problem(place_of([host]), what, "left out"), [host])
        elif keys:
            domains.setdefault(keys.pop(), []).append(host)
    _add(room, domains, "switch")


def _of_pods(room: Room) -> None:
    pods: dict[str, list[str]] = {}
    for host, probe in room.probes.items():
        if probe.pod is not None:
            pods.setdefault(f"superpod-{probe.pod.id}", []).append(host)
    _add(room, pods, "clos")


def _add(room: Room, domains: Mapping[str, Sequence[str]], kind: str) -> None:
    nice = _by_hosts(domains, room.probes)
    for name, hosts in domains.items():
        place = place_of(hosts)
        if len(hosts) > 1:
            room.scale_ups.append(ScaleUpFacts(nice[name], tuple(hosts), (), place, kind))
        elif _is_wide(room, hosts[0]):
            what = f"{{hosts}} is alone in its scale-up fabric ({name})"
            room.of_hosts("unsaid", Problem(place, what, "probe the others too"), hosts)


def _is_wide(room: Room, host: str) -> bool:
    """Return whether the cards of a node share a fabric with those of others, as sold."""
    devices = room.measured[host][0].devices if host in room.measured else ()
    kinds = [find_accelerator(item.accelerator) for item in devices]
    return any(kind.domain_cards > kind.cards_per_node for kind in kinds)


def _by_hosts(domains: Mapping[str, Sequence[str]], known: Mapping[str, Probe]) -> dict[str, str]:
    """Return a name for each domain: what its hosts' names share, if no other host's has that."""
    found = {}
    for name, hosts in domains.items():
        stem = _stem(hosts)
        others = (host for host in known if host not in set(hosts))
        shared = stem and not any(host.startswith(stem) for host in others)
        found[name] = _CUT.sub("", stem) if shared and _CUT.sub("", stem) else name
    return found if len(set(found.values())) == len(found) else {name: name for name in domains}


def _stem(hosts: Iterable[str]) -> str:
    """Return what stands before the last number in all names, empty where that differs."""
    stems = {host.removesuffix(hostlist.digit_tail(host)) for host in hosts}
    return stems.pop() if len(stems) == 1 else ""
