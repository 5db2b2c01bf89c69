"""Which topology serves which partition of a release, and the file that says so.

A release before 25.05 has one topology for all nodes. From 25.05 on, topology.yaml holds
a tree (or nothing, ``flat``) for everybody and one topology for each class of equal
supernodes, to which the partitions of that class alone are bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .. import hostlist
from ..inventory import Inventory, Partition, Supernode
from . import blocks, shapes, tree
from .facts import fabric_comment, switch_comment
from .release import Release
from .render import Blocks, Body, Flat, Topology, Tree, as_conf, as_yaml

BLOCK_KINDS = ("switch", "clos", "full-mesh", "fat-tree")
"""Interconnects in which every node reaches every other about alike: one block."""
DEFAULT = "default"
"""Name of the topology for partitions that are bound to no other."""
MANY_SWITCHES = 1000
"""Beyond it slurmctld's distances, cubic in the switches, take seconds at each reload."""
_LOST = "lost: --segment; sn-submit keeps a job inside one supernode by its feature"


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
    nodes: Mapping[str, str]
    """``Topology=`` of the cloud nodes of a supernode, where they would lose their block."""
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Choice:
    """The topologies in the making."""

    found: list[Topology]
    bound: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


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
        nodes={} if release.cloud_blocks else _cloud_blocks(inventory, choice),
        notes=tuple(choice.notes),
    )


def block_partitions(inventory: Inventory, release: Release) -> frozenset[str]:
    """Return the partitions whose jobs topology/block places."""
    kinds = _kinds(inventory, _choice(inventory, release))
    return frozenset(name for name, kind in kinds.items() if kind == "block")


def _choice(inventory: Inventory, release: Release) -> _Choice:
    return _several(inventory, release) if release.yaml else _one(inventory, release)


def _kinds(inventory: Inventory, choice: _Choice) -> dict[str, str]:
    """Return the kind of topology that places the jobs of each partition."""
    kinds = {item.name: item.kind for item in choice.found}
    return {p.name: kinds[choice.bound.get(p.name, DEFAULT)] for p in inventory.partitions}


def _one(inventory: Inventory, release: Release) -> _Choice:
    """Return the one topology of a release before 25.05."""
    wide = _wide(inventory)
    reason = _no_block(inventory, release, wide)
    body: Body
    if wide and not reason:
        body, notes = blocks.for_all(inventory, wide, release)
        comments = (*_network_comments(inventory), *_spares_comments(wide, release))
        return _Choice([Topology(DEFAULT, body, comments)], notes=notes)
    body, notes = tree.for_all(inventory)
    notes = [f"{reason}: tree is written; {_LOST}", *notes] if reason else notes
    return _Choice([Topology(DEFAULT, body)], notes=notes)


def _no_block(inventory: Inventory, release: Release, wide: list[Supernode]) -> str:
    """Return why one topology/block cannot serve these supernodes, empty if it can."""
    if "block" not in release.topologies:
        return f"Slurm {release.name} has no topology/block" if wide else ""
    fabrics = {fabric.name for item in wide if (fabric := inventory.fabric_of(item.hosts[0]))}
    if len(fabrics) > 1:
        return (
            f"supernodes on {len(fabrics)} fabrics that do not meet: Slurm {release.name}'s one "
            "topology/block would let a job span them"
        )
    other = sorted({item.interconnect.kind for item in wide} - set(BLOCK_KINDS))
    if other:
        return f"interconnect {', '.join(other)} is not a block"
    sizes = sorted({blocks.base_size(item, release) for item in wide})
    if len(sizes) > 1:
        shown = ", ".join(map(str, sizes))
        return (
            f"supernodes of unequal size ({shown} nodes) do not fit the one base size of "
            f"Slurm {release.name}'s topology/block"
        )
    return ""


def _several(inventory: Inventory, release: Release) -> _Choice:
    """Return the topologies of a release with topology.yaml, the default one first."""
    if inventory.fabrics:
        body, notes = tree.for_all(inventory)
        choice = _Choice([Topology(DEFAULT, body)], notes=notes)
    else:
        choice = _Choice([Topology(DEFAULT, Flat())])
    wide = _wide(inventory)
    classes: dict[object, list[Supernode]] = {}
    for item in wide:
        classes.setdefault(_shape(inventory, item), []).append(item)
    alike = list(classes.values())
    for members, name in zip(alike, _class_names(alike), strict=True):
        _bind(inventory, release, choice, (name, members))
    for partition in inventory.partitions:
        held = [item for item in wide if item.name in partition.members]
        if held and partition.name not in choice.bound and _is_mixed(partition, held, alike):
            choice.notes.append(
                f"partition '{partition.name}' holds more than supernodes of one class: "
                f"{choice.found[0].kind} places its jobs; {_LOST}"
            )
    return choice


def _bind(
    inventory: Inventory, release: Release, choice: _Choice, named: tuple[str, list[Supernode]]
) -> None:
    """Add the topology of a class of supernodes where a partition holds nothing else."""
    name, members = named
    hosts = {host for item in members for host in item.hosts}
    users = [p.name for p in inventory.partitions if hosts.issuperset(p.hosts)]
    if not users:
        return
    kind, reason = _kind(members[0], release)
    if reason:
        shown = hostlist.fold(item.name for item in members)
        choice.notes.append(f"{shown}: {reason}: {choice.found[0].kind} places its jobs; {_LOST}")
        return
    body: Body
    if kind == "block":
        body, notes = blocks.for_class(inventory, members, release)
        choice.notes += notes
    else:
        body = shapes.rings(members) if kind == "ring" else shapes.toruses(members)
    choice.found.append(Topology(name, body, _spares_comments(members, release)))
    choice.bound.update(dict.fromkeys(users, name))


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


def _is_mixed(partition: Partition, held: list[Supernode], alike: list[list[Supernode]]) -> bool:
    mine = next(members for members in alike if held[0] in members)
    return not {host for item in mine for host in item.hosts}.issuperset(partition.hosts)


def _wide(inventory: Inventory) -> list[Supernode]:
    """Return the supernodes of more than one node: within one node Slurm has no choice."""
    return [item for item in inventory.supernodes if len(item.hosts) > 1]


def _shape(inventory: Inventory, item: Supernode) -> object:
    """Return what must be equal for supernodes to share a topology."""
    link, fabric = item.interconnect, inventory.fabric_of(item.hosts[0])
    kind = "block" if link.kind in BLOCK_KINDS else link.kind
    size = (item.planning_nodes, link.dims, link.placements)
    return (kind, size, fabric.name if fabric else "")


def _class_names(alike: list[list[Supernode]]) -> list[str]:
    """Return a name for each class: that of its only supernode, or what the names share."""
    found: list[str] = []
    for members in alike:
        stems = {item.name.rstrip("0123456789-_.") for item in members}
        name = stems.pop() if len(members) > 1 and len(stems) == 1 else ""
        name = name or members[0].name
        while name in found or name == DEFAULT:
            name = f"{name[:61]}-x"
        found.append(name)
    return found


def _cloud_blocks(inventory: Inventory, choice: _Choice) -> dict[str, str]:
    """Return ``Topology=`` for the cloud nodes of each supernode that is a block.

    Slurm 25.11.0 to 25.11.2 drop powered-down cloud nodes from their block; a node that
    names its place in every topology keeps it.
    """
    default = choice.found[0]
    ways = tree.paths(default.body) if isinstance(default.body, Tree) else {}
    found: dict[str, str] = {}
    for topology in choice.found:
        if isinstance(topology.body, Blocks):
            for block in topology.body.blocks:
                place = f"{topology.name}:{block.name}"
                way = ways.get(block.name)
                found[block.name] = f"{default.name}:{way},{place}" if way else place
    return found


def _spares_comments(members: list[Supernode], release: Release) -> tuple[str, ...]:
    """Return a line for each supernode with spares, and one for the planning block."""
    base = blocks.base_size(members[0], release)
    lines = [f"# One supernode each; the planning block is {base} nodes."]
    for item in members:
        if item.spares:
            spare = hostlist.fold(item.hosts[-item.spares :])
            lines.append(f"# {item.name}: {item.spares} of {len(item.hosts)} are spares: {spare}")
    return tuple(lines)


def _network_comments(inventory: Inventory) -> tuple[str, ...]:
    """Return the networks, which a topology of blocks does not show."""
    return tuple(
        line
        for fabric in inventory.fabrics
        for line in (fabric_comment(fabric), *map(switch_comment, fabric.switches))
    )
