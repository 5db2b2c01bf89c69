"""Which topology serves which partition of a release, and the file that says so.

A release before 25.05 has one topology for all nodes (``single.py``). From 25.05 on,
topology.yaml holds a tree (or nothing, ``flat``) for everybody and one topology for each
class of supernodes, to which the partitions of that class alone are bound (``several.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..inventory import Inventory
from . import cloud
from .choice import DEFAULT, Choice
from .release import Release
from .render import Topology, Tree, as_conf, as_yaml
from .several import choose_several
from .single import choose_one

MANY_SWITCHES = 1000
"""Beyond it slurmctld's distances, cubic in the switches, take seconds at each reload."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The topology of a configuration: its file, and what it means to the other files."""

    file: str
    """``topology.conf`` or ``topology.yaml``."""
    text: str
    plugin: str
    """Kind of the topology that holds where a partition is not bound to another."""
    bound: Mapping[str, str]
    """Name of the topology of each partition that is bound to one."""
    kinds: Mapping[str, str]
    """Kind of topology that places the jobs of each partition."""
    places: Mapping[str, str]
    """``Topology=`` of each cloud node that would lose its place."""
    notes: tuple[str, ...]


def choose(inventory: Inventory, release: Release) -> Layout:
    """Return the topology that serves an inventory best on a release, and what it loses."""
    choice = _choice(inventory, release)
    default = choice.found[0]
    if isinstance(default.body, Tree) and len(default.body.switches) > MANY_SWITCHES:
        choice.notes.append(
            f"{len(default.body.switches)} switches: slurmctld takes seconds to load them"
        )
    text = as_yaml(choice.found) if release.yaml else as_conf(default)
    return Layout(
        file="topology.yaml" if release.yaml else "topology.conf",
        text=text,
        plugin=default.kind,
        bound=choice.bound,
        kinds=_kinds(inventory, choice),
        places={} if release.cloud_blocks else cloud.places(inventory, choice.found),
        notes=tuple(choice.notes),
    )


def block_partitions(inventory: Inventory, release: Release) -> frozenset[str]:
    """Return the partitions whose jobs topology/block places."""
    kinds = _kinds(inventory, _choice(inventory, release))
    return frozenset(name for name, kind in kinds.items() if kind == "block")


def topologies(inventory: Inventory, release: Release) -> tuple[Topology, ...]:
    """Return the topologies that are written for a release, the default one first."""
    return tuple(_choice(inventory, release).found)


def _choice(inventory: Inventory, release: Release) -> Choice:
    return choose_several(inventory, release) if release.yaml else choose_one(inventory, release)


def _kinds(inventory: Inventory, choice: Choice) -> dict[str, str]:
    """Return the kind of topology that places the jobs of each partition."""
    kinds = {item.name: item.kind for item in choice.found}
    return {p.name: kinds[choice.bound.get(p.name, DEFAULT)] for p in inventory.partitions}
