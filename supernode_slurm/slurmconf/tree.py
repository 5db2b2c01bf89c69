"""The tree of switches: every fabric with its root, a supernode as a switch of its own.

Rules from Slurm's source (topology/tree): leaves before their parents, no switch with
nodes and switches, no node under two leaves. A job never spans nodes under different
roots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..inventory import Fabric, Foreign, Inventory, Pool, Supernode, Switch
from .facts import fabric_comment
from .render import SwitchLine, Tree

_Member = Supernode | Pool | Foreign
_ALL = "all-nodes"
"""Name of the switch over all nodes where no network is described."""


def for_all(inventory: Inventory) -> tuple[Tree, list[str]]:
    """Return the tree of all nodes, foreign ones too, and notes.

    A supernode is a switch of its own, so that Slurm's best fit packs a job into it.
    """
    items: tuple[_Member, ...] = (*inventory.domains, *inventory.foreign)
    members = {item.name: item for item in items}
    lines = [line for fabric in inventory.fabrics for line in _fabric(inventory, members, fabric)]
    notes: list[str] = []
    alone = [
        item
        for item in items
        if not any(fabric.hosts.intersection(item.hosts) for fabric in inventory.fabrics)
    ]
    lines += [SwitchLine(item.name, nodes=item.hosts) for item in alone]
    if not inventory.fabrics and len(alone) > 1:
        # Nobody has described the network: it joins all nodes, as with flat and block.
        root = _free_name(inventory, _ALL)
        lines.append(SwitchLine(root, switches=tuple(item.name for item in alone)))
    elif alone and len(items) > 1:
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


def _fabric(
    inventory: Inventory, members: Mapping[str, _Member], fabric: Fabric
) -> Iterator[SwitchLine]:
    comment = fabric_comment(fabric)
    for switch in fabric.switches:
        if switch.switches:
            yield SwitchLine(switch.name, switches=switch.switches, comment=comment)
            comment = ""
        else:
            held = [members[name] for name in switch.members]
            for line in _leaf(inventory, switch, held, comment):
                yield line
                comment = ""


def _leaf(
    inventory: Inventory, switch: Switch, members: Sequence[_Member], comment: str
) -> Iterator[SwitchLine]:
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
        children.append(_free_name(inventory, f"{switch.name[:50]}-nodes"))
        yield SwitchLine(children[-1], nodes=switch.hosts)
    yield SwitchLine(name, switches=tuple(children))


def _free_name(inventory: Inventory, wanted: str) -> str:
    """Return a name for a switch of ours that nothing else has."""
    taken = {item.name for fabric in inventory.fabrics for item in fabric.switches}
    taken |= {item.name for item in (*inventory.domains, *inventory.foreign)}
    names = (f"{wanted}{suffix}" for suffix in ("", *range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)
