"""What the user asked of sbatch, as bounds of the search for a place."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from .. import hostlist, units
from ..errors import UsageError, nearest
from ..inventory import Inventory
from ..placement import Limits
from .cards import Group, node_range
from .constraint import parse as parse_constraint
from .devices import DEVICE_OPTIONS, asked_devices, number, per_node
from .settings import Settings
from .site import Site

BOUNDS = (
    *("nodes", *DEVICE_OPTIONS, "partition", "constraint"),
    *("nodelist", "nodefile", "exclude", "reservation", "time", "segment", "account", "qos"),
)
"""Options of sbatch that bound where a job may be."""

_MOST_BYTES = 2**20


def limits_of(site: Site, given: Settings, group: Group, alone: bool) -> Limits:
    """Return the bounds that one component's options set for its devices.

    ``alone`` says that the component holds no other group. Raises ``UsageError`` that names
    the option where it cannot be met by any node.
    """
    each = per_node(given, asked_devices(site.inventory, given))
    if each and each.kind and group.kind and each.kind != group.kind and alone:
        raise UsageError(
            f"{given.said(each.option)} asks for {each.kind}, --cards for {group.kind}"
        )
    named = frozenset(named_hosts(given))
    return Limits(
        partitions=_partitions(site.inventory, given),
        refuses=partial(_refusal, site, given),
        nodes=node_range(given) if alone else None,
        per_node=each.count if each else None,
        hosts=_hosts(site, given),
        named=named if alone else named & _holding(site.inventory, group.kind),
        segment=number(given, "segment"),
    )


def named_hosts(given: Settings) -> list[str]:
    """Return the hosts that must be among those of the job, by ``-w`` and ``-F``."""
    return host_list(given, "nodelist") + host_list(given, "nodefile")


def host_list(given: Settings, option: str) -> list[str]:
    """Return the hosts of an option like ``--nodelist``: a list, or a file of one."""
    text = given.values.get(option, "")
    if not text:
        return []
    try:
        if option != "nodefile" and "/" not in text:
            return hostlist.expand(text)
        with Path(text).open(encoding="utf-8") as stream:
            words = stream.read(_MOST_BYTES).split()
        return [host for word in words for host in hostlist.expand(word.strip(","))]
    except (OSError, ValueError) as error:
        raise UsageError(f"{given.said(option)}: {error}") from error


def _refusal(site: Site, given: Settings, partition: str, nodes: int) -> str:
    """Return why a partition does not take the job, empty if it may."""
    limit = minutes(given)
    most = site.inventory.partition(partition).max_time
    if limit is not None and most is not None and limit > units.minutes(most):
        return f"less time than asked for (max_time {most})"
    return site.refusal(given, partition, nodes, limit)


def _holding(inventory: Inventory, kind: str | None) -> frozenset[str]:
    """Return the hosts with devices of a kind."""
    return frozenset(
        host
        for nodes in inventory.node_classes
        if any(item.type == kind for item in nodes.devices)
        for host in nodes.hosts
    )


def _partitions(inventory: Inventory, given: Settings) -> tuple[str, ...]:
    text = given.values.get("partition")
    names = text.split(",") if text else []
    known = [partition.name for partition in inventory.partitions]
    for name in names:
        if name not in known:
            raise UsageError(f"{given.said('partition')}: no '{name}'; {nearest(name, known)}")
    return tuple(names)


def _hosts(site: Site, given: Settings) -> frozenset[str] | None:
    """Return the hosts that a constraint and a reservation allow; None where all may be used.

    Counts are left to Slurm. So are features that the inventory does not name where Slurm was
    not asked for its own.
    """
    reserved = site.reserved(given)
    if "constraint" not in given.values:
        return reserved
    try:
        constraint = parse_constraint(given.values["constraint"])
    except ValueError as error:
        raise UsageError(f"{given.said('constraint')}: {error}") from error
    known = {name for has in site.features.values() for name in has}
    if constraint is None or (site.release is None and not constraint.names <= known):
        return reserved
    hosts = frozenset(host for host, has in site.features.items() if constraint.allows(has))
    if not hosts:
        unknown = sorted(constraint.names - known)
        hint = nearest(unknown[0], known) if unknown else "they never stand together"
        raise UsageError(f"{given.said('constraint')}: no node has it; {hint}")
    return hosts if reserved is None else hosts & reserved


def minutes(given: Settings) -> float | None:
    """Return the time limit; None where there is none, infinite for 0 as Slurm has it."""
    text = given.values.get("time")
    try:
        found = units.minutes(text) if text else None
    except ValueError as error:
        raise UsageError(f"{given.said('time')}: {error}") from error
    return float("inf") if found == 0 else found
