"""The topologies of a release with topology.yaml: a default one, and one for each class.

A class are the supernodes that partitions hold and nothing else: equal ones, or blocks of
unequal size with the same cards on one network.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .. import hostlist
from ..inventory import Inventory, Partition, Supernode
from . import blocks, shapes, tree
from .choice import BLOCK_KINDS, DEFAULT, LOST, Choice, networks, spares_comments, wide_supernodes
from .release import Release
from .render import Body, Flat, Topology

_Shape = tuple[object, ...]


@dataclass(slots=True)
class _Class:
    """Supernodes that share a topology, and the partitions that hold nothing else."""

    members: list[Supernode]
    users: list[Partition] = field(default_factory=list)


def choose_several(inventory: Inventory, release: Release) -> Choice:
    """Return the default topology, a tree or ``flat``, and one for each class that is used."""
    wide = wide_supernodes(inventory)
    choice = Choice([Topology(DEFAULT, Flat())])
    if inventory.fabrics or (wide and len(inventory.domains) + len(inventory.foreign) > 1):
        body, notes = tree.for_all(inventory)
        choice = Choice([Topology(DEFAULT, body)], notes=notes)
    classes, mixed = _classes(inventory, wide)
    for item, name in zip(classes, _names(classes), strict=True):
        _bind(inventory, release, choice, (name, item))
    for partition in mixed:
        choice.notes.append(
            f"partition '{partition.name}' holds more than supernodes of one class: "
            f"{choice.found[0].kind} places its jobs; {LOST}"
        )
    return choice


def _classes(inventory: Inventory, wide: list[Supernode]) -> tuple[list[_Class], list[Partition]]:
    """Return the classes in use, equal ones first, and the partitions of supernodes in none."""
    network = networks(inventory)
    owner = {host: item for item in wide for host in item.hosts}
    shape = {item.name: _shape(item, network[item.hosts[0]]) for item in wide}
    alike: dict[_Shape, list[Supernode]] = {}
    for item in wide:
        alike.setdefault(shape[item.name], []).append(item)
    equal = {key: _Class(members) for key, members in alike.items()}
    unequal: dict[frozenset[_Shape], _Class] = {}
    mixed = []
    for partition in inventory.partitions:
        held = {owner[host].name: owner[host] for host in partition.hosts if host in owner}
        keys = frozenset(shape[name] for name in held)
        if held and not all(host in owner for host in partition.hosts):
            mixed.append(partition)
        elif len(keys) == 1:
            equal[next(iter(keys))].users.append(partition)
        elif held and _may_share(held.values(), keys):
            members = [item for item in wide if shape[item.name] in keys]
            unequal.setdefault(keys, _Class(members)).users.append(partition)
        elif held:
            mixed.append(partition)
    return [item for item in (*equal.values(), *unequal.values()) if item.users], mixed


def _shape(item: Supernode, network: str) -> _Shape:
    """Return what must be equal for supernodes to share a topology whatever holds them."""
    link = item.interconnect
    kind = "block" if link.kind in BLOCK_KINDS else link.kind
    return (kind, network, item.planning_nodes, link.dims, link.placements)


def _may_share(held: Iterable[Supernode], shapes_held: Iterable[_Shape]) -> bool:
    """Return whether supernodes of unequal size may be blocks of one topology.

    Not with unlike cards: topology/block refuses one job over counted features.
    """
    cards = {frozenset(d.type for nodes in item.nodes for d in nodes.devices) for item in held}
    kinds = {(kind, network) for kind, network, *_ in shapes_held}
    return len(cards) == len(kinds) == 1 and next(iter(kinds))[0] == "block"


def _bind(
    inventory: Inventory, release: Release, choice: Choice, named: tuple[str, _Class]
) -> None:
    """Add the topology of a class, and bind the partitions that it serves well."""
    name, item = named
    members = item.members
    default = choice.found[0].kind
    kind, reason = _kind(members[0], release)
    if reason:
        shown = hostlist.fold(member.name for member in members)
        choice.notes.append(f"{shown}: {reason}: {default} places its jobs; {LOST}")
        return
    body: Body
    if kind == "block":
        built = blocks.for_class(inventory, members, item.users, release)
        body, notes = built.body, built.notes
        refused = {
            partition: f"blocks would refuse some of its jobs of {size} nodes and more"
            for partition, size in built.refused.items()
        }
    else:
        body = shapes.rings(members) if kind == "ring" else shapes.toruses(members)
        notes, refused = shapes.refusals(kind, members, item.users)
    choice.notes += [
        f"partition '{partition}': {why}: {default} places its jobs; {LOST}"
        for partition, why in refused.items()
    ]
    served = [partition.name for partition in item.users if partition.name not in refused]
    if served:
        base = max(blocks.base_size(member, release) for member in members)
        choice.notes += notes
        choice.found.append(Topology(name, body, spares_comments(members, base)))
        choice.bound.update(dict.fromkeys(served, name))


def _kind(supernode: Supernode, release: Release) -> tuple[str, str]:
    """Return the plugin that serves a supernode, and why a release cannot if it cannot."""
    link, nodes = supernode.interconnect, len(supernode.hosts)
    kind = {"ring": "ring", "torus": "torus3d"}.get(link.kind, "block")
    if kind not in release.topologies:
        return kind, f"Slurm {release.name} has no topology/{kind}"
    if kind == "ring" and nodes > shapes.MAX_RING:
        return kind, f"{nodes} nodes are more than topology/ring's {shapes.MAX_RING}"
    if kind == "torus3d" and not link.dims:
        return kind, "a torus without dims"
    return kind, ""


def _names(classes: list[_Class]) -> list[str]:
    """Return a name for each class: that of its only supernode, or what the names share."""
    found: list[str] = []
    for item in classes:
        stems = {member.name.rstrip("0123456789-_.") for member in item.members}
        name = stems.pop() if len(item.members) > 1 and len(stems) == 1 else ""
        name = name or item.members[0].name
        while name in found or name == DEFAULT:
            name = f"{name[:61]}-x"
        found.append(name)
    return found
