"""What the user asked of sbatch, as bounds of the search for a place."""

from __future__ import annotations

import re

from .. import hostlist, units
from ..errors import UsageError, nearest
from ..inventory import Inventory
from ..placement import Limits
from .cards import Group, devices_per_node, node_range
from .settings import Settings
from .site import Site

BOUNDS = (
    *("nodes", "gres", "gpus", "gpus-per-node", "gpus-per-task", "partition", "constraint"),
    *("nodelist", "exclude", "reservation", "time"),
)
"""Options of sbatch that bound where a job may be."""

_AND = re.compile(r"[A-Za-z0-9_.=\-]+(?:&[A-Za-z0-9_.=\-]+)*\Z")
_OR = re.compile(r"\[?([A-Za-z0-9_.=\-]+(?:\|[A-Za-z0-9_.=\-]+)*)\]?\Z")


def limits_of(site: Site, given: Settings, group: Group) -> Limits:
    """Return the bounds that one component's options set for its devices.

    Raises ``UsageError`` that names the option where it cannot be met by any node.
    """
    nodes = node_range(given)
    each = devices_per_node(given)
    per_node = None
    if each is not None:
        kind, per_node, option = each
        if kind is not None and group.kind is not None and kind != group.kind:
            raise UsageError(f"{given.said(option)} asks for {kind}, --cards for {group.kind}")
    hosts = _hosts(site, given)
    if site.reserved is not None:
        hosts = site.reserved if hosts is None else hosts & site.reserved
    return Limits(
        partitions=_partitions(site.inventory, given),
        nodes=nodes,
        per_node=per_node,
        hosts=hosts,
        named=frozenset(host_list(given, "nodelist")),
        minutes=_minutes(given),
    )


def host_list(given: Settings, option: str) -> list[str]:
    """Return the hosts of an option like ``--nodelist``; a file is read by Slurm alone."""
    text = given.values.get(option, "")
    try:
        return hostlist.expand(text) if text and "/" not in text else []
    except ValueError as error:
        raise UsageError(f"{given.said(option)}: {error}") from error


def _partitions(inventory: Inventory, given: Settings) -> tuple[str, ...]:
    text = given.values.get("partition")
    names = text.split(",") if text else []
    known = [partition.name for partition in inventory.partitions]
    for name in names:
        if name not in known:
            raise UsageError(f"{given.said('partition')}: no '{name}'; {nearest(name, known)}")
    return tuple(names)


def _hosts(site: Site, given: Settings) -> frozenset[str] | None:
    """Return the hosts that a constraint allows; None where there is none that we can read.

    ``a&b``, ``a|b`` and ``[a|b]`` are read, other forms left to Slurm. So are features that
    the inventory does not name where Slurm was not asked for its own.
    """
    text = given.values.get("constraint", "")
    found = _OR.match(text)
    if not found and not _AND.match(text):
        return None
    words = set(re.split(r"[&|]", found[1] if found else text))
    known = {name for has in site.features.values() for name in has}
    if site.release is None and not words <= known:
        return None
    fits = words.intersection if found else words.issubset
    hosts = frozenset(host for host, has in site.features.items() if fits(has))
    if not hosts:
        word = next((word for word in sorted(words) if word not in known), text)
        raise UsageError(f"{given.said('constraint')}: no node has it; {nearest(word, known)}")
    return hosts


def _minutes(given: Settings) -> float | None:
    text = given.values.get("time")
    try:
        return units.minutes(text) if text else None
    except ValueError as error:
        raise UsageError(f"{given.said('time')}: {error}") from error
