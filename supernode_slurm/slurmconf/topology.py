"""topology.conf: a tree of switches, or blocks where the release has them.

Rules from Slurm's source (topology/tree, topology/block): leaves before their parents,
no switch with nodes and switches, no node under two leaves or in two blocks; a block may
not have fewer nodes than the base size in 24.11; level sizes are the base times powers
of two; blocks aggregate by their position in the file.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import hostlist
from ..inventory import Fabric, Inventory, Pool, Supernode, Switch
from .release import Release

BLOCK_KINDS = ("switch", "clos", "full-mesh")
"""Interconnects in which every node reaches every other alike: one block."""


def choose_plugin(inventory: Inventory, release: Release) -> tuple[str, list[str]]:
    """Return the topology plugin that serves these supernodes, and what it loses."""
    wide = [item for item in inventory.supernodes if len(item.hosts) > 1]
    if not wide:
        return "tree", []
    sizes = sorted({item.planning_nodes for item in wide})
    if "block" not in release.topologies:
        todo = "sn-submit keeps a job inside one supernode by its feature"
        return "tree", [f"Slurm {release.name} has no topology/block: tree is written; {todo}"]
    fabrics = {fabric.name for item in wide if (fabric := inventory.fabric_of(item.hosts[0]))}
    if len(fabrics) > 1:
        return "tree", [
            f"supernodes on {len(fabrics)} fabrics that do not meet: Slurm {release.name}'s one "
            "topology/block would let a job span them: tree is written; lost: --segment"
        ]
    other = sorted({item.interconnect.kind for item in wide} - set(BLOCK_KINDS))
    if other:
        return "tree", [f"interconnect {', '.join(other)} is not a block: tree is written"]
    if len(sizes) > 1:
        shown = ", ".join(map(str, sizes))
        return "tree", [
            f"supernodes of unequal size ({shown} nodes) do not fit the one base size of "
            f"Slurm {release.name}'s topology/block: tree is written; lost: --segment"
        ]
    return "block", []


def runs_block(inventory: Inventory, release: Release) -> bool:
    """Return whether the generated configuration runs topology/block."""
    return choose_plugin(inventory, release)[0] == "block"


def block_conf(inventory: Inventory) -> tuple[str, list[str]]:
    """Return the lines of topology.conf for topology/block, and notes."""
    wide = [item for item in inventory.supernodes if len(item.hosts) > 1]
    base = wide[0].planning_nodes
    blocks: list[tuple[str, str]] = []
    notes: list[str] = []
    for domain in inventory.domains:
        if len(domain.hosts) >= base:
            blocks.append((domain.name, hostlist.fold(domain.hosts)))
        else:
            notes.append(
                f"'{domain.name}' has {len(domain.hosts)} nodes, fewer than the base block "
                f"of {base}: it is left out of topology.conf and slurmctld warns of it"
            )
    lines = [f"# One block per supernode; the planning block is {base} nodes."]
    lines += [_spares_line(item) for item in wide if item.spares]
    lines += [f"BlockName={name} Nodes={nodes}" for name, nodes in blocks]
    sizes = [base << level for level in range(16) if 1 << level <= len(blocks)]
    lines.append(f"BlockSizes={','.join(map(str, sizes))}")
    return "\n".join(lines) + "\n", notes


def _spares_line(supernode: Supernode) -> str:
    spares = hostlist.fold(supernode.hosts[-supernode.spares :])
    return f"# {supernode.name}: {supernode.spares} of {len(supernode.hosts)} are spares: {spares}"


def tree_conf(inventory: Inventory) -> tuple[str, list[str]]:
    """Return the lines of topology.conf for topology/tree, and notes.

    A supernode is a switch of its own, so that Slurm's best fit packs a job into it.
    Fabrics that do not meet keep separate roots.
    """
    lines: list[str] = []
    notes: list[str] = []
    for fabric in inventory.fabrics:
        lines.append(f"# fabric {fabric.name}")
        lines += _fabric_lines(inventory, fabric)
    alone = [
        domain
        for domain in inventory.domains
        if not any(host in fabric.hosts for fabric in inventory.fabrics for host in domain.hosts)
    ]
    for domain in alone:
        lines.append(f"SwitchName={domain.name} Nodes={hostlist.fold(domain.hosts)}")
    if alone and len(inventory.domains) > 1:
        names = ", ".join(domain.name for domain in alone)
        notes.append(f"in no fabric: {names}; Slurm never spans a job from there to other nodes")
    return "\n".join(lines) + "\n", notes


def _fabric_lines(inventory: Inventory, fabric: Fabric) -> Iterator[str]:
    for switch in fabric.switches:
        if switch.switches:
            yield f"SwitchName={switch.name} Switches={hostlist.fold(switch.switches)}"
        else:
            yield from _leaf_lines(inventory, switch)


def _leaf_lines(inventory: Inventory, switch: Switch) -> Iterator[str]:
    domains = [inventory.domain(name) for name in switch.members]
    parts = len(domains) + bool(switch.hosts)
    if parts == 1 or not any(_is_wide(domain) for domain in domains):
        hosts = [*switch.hosts, *(host for domain in domains for host in domain.hosts)]
        yield f"SwitchName={switch.name} Nodes={hostlist.fold(hosts)}"
        return
    children = []
    for domain in domains:
        children.append(domain.name)
        yield f"SwitchName={domain.name} Nodes={hostlist.fold(domain.hosts)}"
    if switch.hosts:
        children.append(_free_name(inventory, switch.name))
        yield f"SwitchName={children[-1]} Nodes={hostlist.fold(switch.hosts)}"
    yield f"SwitchName={switch.name} Switches={hostlist.fold(children)}"


def _free_name(inventory: Inventory, switch: str) -> str:
    """Return a name for the switch of a leaf's own hosts that nothing else has."""
    taken = {item.name for fabric in inventory.fabrics for item in fabric.switches}
    taken |= {domain.name for domain in inventory.domains}
    names = (f"{switch[:50]}-nodes{suffix}" for suffix in ("", *range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _is_wide(domain: Supernode | Pool) -> bool:
    return isinstance(domain, Supernode) and len(domain.hosts) > 1
