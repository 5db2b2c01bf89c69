"""What of the machine room can be used now: the inventory alone, or with a live cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..inventory import Inventory
from ..slurm import LiveNode


@dataclass(frozen=True, slots=True)
class View:
    """Hosts by what a job may do with them."""

    usable: frozenset[str]
    """A job could run there now, or once others end."""
    free: frozenset[str]
    """Nothing runs there."""
    notes: tuple[str, ...] = ()

    def without(self, hosts: Iterable[str]) -> View:
        """Return the view without some hosts."""
        return View(self.usable.difference(hosts), self.free.difference(hosts), self.notes)


def inventory_view(inventory: Inventory) -> View:
    """Return the view of a room in which everything works and nothing runs."""
    hosts = frozenset(host for domain in inventory.domains for host in domain.hosts)
    return View(hosts, hosts)


def live_view(inventory: Inventory, nodes: Iterable[LiveNode]) -> View:
    """Return the view of a running cluster; where it and the inventory differ, it is right."""
    known = {host for domain in inventory.domains for host in domain.hosts}
    live = {node.name: node for node in nodes}
    missing = sorted(known - live.keys())
    notes: tuple[str, ...] = ()
    if missing:
        shown = ", ".join(missing[:4]) + (" ..." if len(missing) > 4 else "")
        notes = (f"{len(missing)} nodes of the inventory are unknown to Slurm ({shown})",)
    return View(
        usable=frozenset(n for n in known & live.keys() if live[n].is_usable),
        free=frozenset(n for n in known & live.keys() if live[n].is_free),
        notes=notes,
    )
