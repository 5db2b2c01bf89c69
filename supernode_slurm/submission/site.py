"""What is known of the site when a job is prepared: the inventory, and Slurm where it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import UsageError, nearest
from ..inventory import Inventory
from ..placement import View, inventory_view, live_view
from ..slurm import (
    Associations,
    Charge,
    LiveNode,
    LivePartition,
    Reservation,
    SlurmClient,
    User,
    association_objection,
    current_user,
    reservation_objection,
    size_objection,
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
    partitions: Mapping[str, LivePartition] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    """All, where the job asks for any."""
    user: User | None = None
    """Who submits; None where nobody was asked."""
    associations: Associations | None = None
    """What accounting knows of the user, None where nothing can be known."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Slurm's parameters, where it was asked."""

    def decides(self, option: str, partition: str) -> bool:
        """Return whether the site has a default of its own for an option of sbatch."""
        options = dict(self.inventory.partition(partition).options)
        jobs = options.get("JobDefaults", "").replace("=", ",").split(",")
        found = {*self.config, *options, *jobs}.intersection(_SITES_OWN.get(option, ()))
        return any(self.config.get(name, options.get(name, "")) != "UNLIMITED" for name in found)

    def refusal(self, given: Settings, partition: str, nodes: int, minutes: float | None) -> str:
        """Return why Slurm would not run a job there, empty where it may or was not asked."""
        if self.user is None:
            return ""
        if partition not in self.partitions:
            return "Slurm does not know it"
        live = self.partitions[partition]
        values = given.values
        account, qos = self._account(given), values.get("qos", "")
        charge = Charge(account=account, qos=qos, reservation=values.get("reservation", ""))
        closed = usable_partitions([live], self.user, charge)[partition]
        known = self.associations
        return (
            closed
            or size_objection(live, nodes, minutes)
            or (association_objection(known, account, partition, qos) if known else "")
        )

    def _account(self, given: Settings) -> str:
        default = self.associations.default_account if self.associations else ""
        return given.values.get("account", default)

    def reserved(self, given: Settings) -> frozenset[str] | None:
        """Return the hosts of the reservations that a job asks for, None if it asks for none.

        Raises ``UsageError`` for one that this user cannot have.
        """
        names = given.values.get("reservation", "")
        if not names or self.user is None:
            return None
        hosts: set[str] = set()
        account = self._account(given)
        for name in names.split(","):
            if name not in self.reservations:
                hint = nearest(name, self.reservations)
                raise UsageError(f"{given.said('reservation')}: no '{name}'; {hint}")
            found = self.reservations[name]
            if objection := reservation_objection(found, self.user, account):
                raise UsageError(f"{given.said('reservation')}: '{name}' {objection}")
            hosts.update(found.hosts)
        return frozenset(hosts)


def look(inventory: Inventory, client: SlurmClient | None, parts: Sequence[Settings]) -> Site:
    """Return what a job can count on; without a client, what the inventory says."""
    if client is None:
        return Site(
            inventory=inventory,
            release=None,
            view=inventory_view(inventory),
            blocks=block_partitions(inventory, assumed_release(inventory.release)),
            features=inventory_features(inventory),
        )
    release, user = client.release(), current_user()
    nodes = client.nodes()
    asks = [name for given in parts for name in _names(given.values.get("reservation"))]
    reservations = {item.name: item for item in client.reservations()} if asks else {}
    opened = {host for name in asks if name in reservations for host in reservations[name].hosts}
    return Site(
        inventory=inventory,
        release=release,
        view=live_view(
            inventory, [_opened(node) if node.name in opened else node for node in nodes]
        ),
        blocks=block_partitions(inventory, find_release(release)),
        features={node.name: frozenset(node.features) for node in nodes},
        partitions={part.name: part for part in client.partitions()},
        reservations=reservations,
        user=user,
        associations=client.associations(user.name),
        config=client.config(),
    )


def _names(text: str | None) -> list[str]:
    return text.split(",") if text else []


def _opened(node: LiveNode) -> LiveNode:
    """Return a node as a job of its reservation sees it."""
    return replace(node, states=node.states - {"RESERVED", "MAINT"})


def inventory_features(inventory: Inventory) -> dict[str, frozenset[str]]:
    """Return the features that generated files give each host."""
    return {
        host: frozenset(nodes.features_in(domain.name))
        for domain in inventory.domains
        for nodes in domain.nodes
        for host in nodes.hosts
    }
