"""What is allowed but unwise: findings about a room, each with its rule and remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..catalogue import platform_of
from ..errors import Where
from .model import Inventory

TRAINING_OVERSUBSCRIPTION = 2.0
"""Beyond it the core of the network holds up the gradient traffic of training jobs."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that a rule found."""

    where: Where
    rule: str
    severity: str
    """``error`` or ``warning``."""
    what: str
    todo: str

    def __str__(self) -> str:
        return f"{self.where}: {self.severity}: {self.what}; {self.todo} [{self.rule}]"


def lint(inventory: Inventory) -> list[Finding]:
    """Return what the rules find, in the order of the file."""
    rules = (_oversubscribed, _unreachable, _unused, _undirected, _unseen)
    return sorted(finding for rule in rules for finding in rule(inventory))


def _oversubscribed(inventory: Inventory) -> Iterator[Finding]:
    for fabric in inventory.fabrics:
        if fabric.oversubscription > TRAINING_OVERSUBSCRIPTION:
            yield Finding(
                fabric.where,
                "oversubscription",
                "error",
                f"fabric {fabric.name} is oversubscribed {fabric.oversubscription:g}:1",
                f"training wants at most {TRAINING_OVERSUBSCRIPTION:g}:1",
            )


def _unreachable(inventory: Inventory) -> Iterator[Finding]:
    for domain in inventory.domains if inventory.fabrics else ():
        if not any(host in fabric.hosts for fabric in inventory.fabrics for host in domain.hosts):
            yield Finding(
                domain.where,
                "no-fabric",
                "warning",
                f"{domain.name} hangs under no switch",
                "no job can span it and other nodes; add it to a fabric's switches",
            )


def _unused(inventory: Inventory) -> Iterator[Finding]:
    used = {name for partition in inventory.partitions for name in partition.members}
    for domain in inventory.domains:
        if domain.name not in used:
            yield Finding(
                domain.where,
                "no-partition",
                "warning",
                f"{domain.name} is in no partition",
                "nobody can submit to it; add it to one",
            )


def _undirected(inventory: Inventory) -> Iterator[Finding]:
    partitions = inventory.partitions
    if partitions and not any(partition.default for partition in partitions):
        yield Finding(
            partitions[0].where,
            "no-default",
            "warning",
            "no partition is the default",
            "a job without --partition is refused; add default: true to one, "
            "unless a partition of the site's own is it",
        )


def _unseen(inventory: Inventory) -> Iterator[Finding]:
    """Yield the first nodes of each vendor whose variable Slurm does not set."""
    seen: set[str] = set()
    for nodes in inventory.node_classes if inventory.slurm.task_prolog is None else ():
        for item in nodes.devices:
            vendor = platform_of(item.accelerator)
            unset = vendor.slurm_env_flag == "no_gpu_env" or item.gres != "gpu"
            if unset and vendor.vendor not in seen:
                seen.add(vendor.vendor)
                names = ", ".join(vendor.visible_env)
                yield Finding(
                    nodes.where,
                    "vendor-variable",
                    "warning",
                    f"Slurm sets no {names} for {item.type}",
                    "sn-launch does; for tasks without it add task_prolog under slurm",
                )
