"""What is known of the site when a job is prepared: the inventory, and Slurm where it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import UsageError, nearest
from ..inventory import Inventory
from ..placement import View, inventory_view, live_view
from ..slurm import (
    Charge,
    LiveNode,
    SlurmClient,
    current_user,
    reservation_objection,
    usable_partitions,
)
from ..slurmconf import assumed_release, block_partitions, find_release
from .settings import Settings

_SITES_OWN = {
    "mem": ("DefMemPerNode", "DefMemPerCPU", "DefMemPerGPU"),
    "cpus-per-task": ("DefCpuPerGPU",),
}
"""Slurm's own defaults, beside which we fill nothing in."""


@dataclass(frozen=True, slots=True)
class Site:
    """A site as this job finds it."""

    inventory: Inventory
    release: str | None
    """Of the Slurm that was asked, None where nobody was."""
    view: View
    blocks: frozenset[str]
    features: Mapping[str, frozenset[str]]
    """Of each host."""
    closed: Mapping[str, str] = field(default_factory=dict)
    """Partitions that this job may not use, and why."""
    reserved: frozenset[str] | None = None
    """The hosts of the reservation that the job asks for."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Slurm's parameters, where it was asked."""

    def decides(self, option: str, partition: str) -> bool:
        """Return whether the site has a default of its own for an option of sbatch."""
        options = dict(self.inventory.partition(partition).options)
        words = {
            *self.config,
            *options,
            *options.get("JobDefaults", "").replace("=", ",").split(","),
        }
        found = words.intersection(_SITES_OWN.get(option, ()))
        return any(self.config.get(name, options.get(name, "")) != "UNLIMITED" for name in found)


def look(inventory: Inventory, client: SlurmClient | None, given: Settings) -> Site:
    """Return what a job can count on; without a client, what the inventory says.

    Raises ``UsageError`` for a reservation that this user cannot have.
    """
    if client is None:
        return Site(
            inventory=inventory,
            release=None,
            view=inventory_view(inventory),
            blocks=block_partitions(inventory, assumed_release(inventory.release)),
            features=inventory_features(inventory),
        )
    release = client.release()
    nodes = client.nodes()
    account = given.values.get("account", "")
    reserved = _reserved(client, given, account)
    return Site(
        inventory=inventory,
        release=release,
        view=live_view(inventory, _opened(nodes, reserved)),
        blocks=block_partitions(inventory, find_release(release)),
        features={node.name: frozenset(node.features) for node in nodes},
        closed=_closed(inventory, client, given, account),
        reserved=reserved,
        config=client.config(),
    )


def _closed(
    inventory: Inventory, client: SlurmClient, given: Settings, account: str
) -> dict[str, str]:
    """Return the inventory's partitions that this job may not use, with the reasons."""
    user = current_user()
    if not account and (known := client.associations(user.name)):
        account = known.default_account
    charge = Charge(
        account, given.values.get("qos", ""), reservation=given.values.get("reservation", "")
    )
    found = usable_partitions(client.partitions(), user, charge)
    unknown = "Slurm does not know it"
    reasons = {part.name: found.get(part.name, unknown) for part in inventory.partitions}
    return {name: reason for name, reason in reasons.items() if reason}


def _reserved(client: SlurmClient, given: Settings, account: str) -> frozenset[str] | None:
    """Return the hosts of the reservations that a job asks for, None if it asks for none."""
    names = given.values.get("reservation", "")
    if not names:
        return None
    known = {item.name: item for item in client.reservations()}
    hosts: set[str] = set()
    for name in names.split(","):
        if name not in known:
            raise UsageError(f"{given.said('reservation')}: no '{name}'; {nearest(name, known)}")
        if objection := reservation_objection(known[name], current_user(), account):
            raise UsageError(f"{given.said('reservation')}: '{name}' {objection}")
        hosts.update(known[name].hosts)
    return frozenset(hosts)


def _opened(nodes: Sequence[LiveNode], reserved: frozenset[str] | None) -> list[LiveNode]:
    """Return the nodes as a job of the reservation sees them."""
    return [
        replace(node, states=node.states - {"RESERVED", "MAINT"})
        if reserved and node.name in reserved
        else node
        for node in nodes
    ]


def inventory_features(inventory: Inventory) -> dict[str, frozenset[str]]:
    """Return the features that generated files give each host."""
    return {
        host: frozenset((domain.name, *(item.type for item in nodes.devices), *nodes.features))
        for domain in inventory.domains
        for nodes in domain.nodes
        for host in nodes.hosts
    }
