"""The nodes of a plan by name, where the user wants no choice left to Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Set

from .. import hostlist
from ..placement import Slot, View


def pinned(slot: Slot, view: View, named: Set[str]) -> str:
    """Return the folded list of the nodes that a group takes: those named, then free ones."""
    group = slot.group
    lists = group.domains or (group.hosts,)
    counts: Mapping[str, int] = slot.span.counts if slot.span else {slot.domains[0]: group.nodes}
    chosen: list[str] = []
    for name, hosts in zip(slot.domains, lists, strict=True):
        usable = [host for host in hostlist.expand(hosts) if host in view.usable]
        usable.sort(key=lambda host: (host not in named, host not in view.free))
        chosen += usable[: counts.get(name, 0)]
    return hostlist.fold(chosen)
