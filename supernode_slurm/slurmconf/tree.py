"""The tree of switches: every fabric with its root, a supernode as a switch of its own.

Rules from Slurm's source (topology/tree): leaves before their parents, no switch with
nodes and switches, no node under two leaves. A job never spans nodes under different
roots.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..inventory import Fabric, Inventory, Supernode, Switch
from .facts import fabric_comment
from .render import SwitchLine, Tree


def for_all(inventory: Inventory) -> tuple[Tree, list[str]]:
    """Return the tree of all nodes, foreign ones too, and notes.

    A supernode is a switch of its own, so that Slurm's best fit packs a job into it.
    """
    lines = [line for fabric in inventory.fabrics for line in _fabric(inventory, fabric)]
    notes: list[str] = []
    alone = [
        item
        for item in (*inventory.domains, *inventory.foreign)
        if not any(fabric.hosts.intersection(item.hosts) for fabric in inventory.fabrics)
    ]
    lines += [SwitchLine(item.name, nodes=item.hosts) for item in alone]
    if alone and len(inventory.domains) + len(inventory.foreign) > 1:
        names = ", ".join(item.name for item in alone)
        notes.append(f"in no fabric: {names}; Slurm never spans a job from there to other nodes")
    return Tree(tuple(lines)), notes


def paths(tree: Tree) -> dict[str, str]:
    """Return the way from the root to each switch, like ``spine:leaf1``."""
    parent = {child: line.name for line in tree.switches for child in line.switches}
    found: dict[str, str] = {}
    for line in reversed(tree.switches):
        above = parent.get(line.name)
        found[line.name] = f"{found[above]}:{line.name}" if above else line.name
    return found


def _fabric(inventory: Inventory, fabric: Fabric) -> Iterator[SwitchLine]:
    comment = fabric_comment(fabric)
    for switch in fabric.switches:
        if switch.switches:
            yield SwitchLine(switch.name, switches=switch.switches, comment=comment)
            comment = ""
        else:
            for line in _leaf(inventory, switch, comment):
                yield line
                comment = ""


def _leaf(inventory: Inventory, switch: Switch, comment: str) -> Iterator[SwitchLine]:
    members = [inventory.member(name) for name in switch.members]
    name = switch.name
    parts = len(members) + bool(switch.hosts)
    if parts == 1 or not any(isinstance(m, Supernode) and len(m.hosts) > 1 for m in members):
        hosts = (*switch.hosts, *(host for member in members for host in member.hosts))
        yield SwitchLine(name, nodes=hosts, comment=comment)
        return
    children = []
    for member in members:
        children.append(member.name)
        yield SwitchLine(children[-1], nodes=member.hosts, comment=comment)
        comment = ""
    if switch.hosts:
        children.append(_free_name(inventory, switch.name))
        yield SwitchLine(children[-1], nodes=switch.hosts)
    yield SwitchLine(name, switches=tuple(children))


def _free_name(inventory: Inventory, switch: str) -> str:
    """Return a name for the switch of a leaf's own hosts that nothing else has."""
    taken = {item.name for fabric in inventory.fabrics for item in fabric.switches}
    taken |= {item.name for item in (*inventory.domains, *inventory.foreign)}
    names = (f"{switch[:50]}-nodes{suffix}" for suffix in ("", *range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)
