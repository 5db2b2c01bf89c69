"""The peer's models (NVIDIA/topograph): switches, and blocks of nodes with their domains.

``accelerator.*/domain`` names the scale-up fabric of a block's nodes, ``.../sub-domain``
the rack within it. Switches without an entry of their own are leaves.
"""

from __future__ import annotations

from pathlib import Path

from .. import hostlist
from ..errors import Where, nearest
from ..inventory import yamltree
from ..inventory.yamltree import Node
from ..slurmconf.grammar import read_text
from .room import Room, ScaleUpFacts, SwitchFacts, TopologyFacts

_BLOCK_KEYS = ("switch", "nodes", "labels", "annotations", "name")


def read_topograph(path: Path, room: Room) -> None:
    """Add what a model says."""
    tree, problems = yamltree.parse(read_text(path), str(path))
    room.errors += problems
    _Reader(room, tree).read()
    room.check()


def is_topograph(node: Node) -> bool:
    """Return whether a tree looks like a model."""
    return isinstance(node.value, dict) and "blocks" in node.value


class _Reader:
    """Reads one model; ``room.errors`` takes what is wrong."""

    def __init__(self, room: Room, tree: Node) -> None:
        self._room = room
        self._tree = tree
        self._children: dict[str, tuple[tuple[str, ...], Where]] = {}
        self._nodes: dict[str, list[str]] = {}
        self._domains: dict[str, tuple[list[str], dict[str, list[str]], Where]] = {}
        self._seen: dict[str, Where] = {}

    def read(self) -> None:
        """Read the whole model."""
        fields = self._fields(self._tree, ("switches", "blocks"))
        switches = fields.get("switches")
        for name, node in self._fields(switches, None).items() if switches else ():
            below = self._fields(node, ("switches", "labels", "annotations", "name"))
            self._children[name] = (
                self._names(below.get("switches")),
                node.key_where or node.where,
            )
        known = {*self._children, *(c for names, _ in self._children.values() for c in names)}
        blocks = fields.get("blocks")
        for index, node in enumerate(self._list(blocks, "blocks")):
            self._block(node, index, known)
        self._room.check()
        self._keep()

    def _block(self, node: Node, index: int, known: set[str]) -> None:
        fields = self._fields(node, _BLOCK_KEYS)
        hosts = [
            host for text in self._names(fields.get("nodes")) for host in self._expand(text, node)
        ]
        if not hosts:
            self._room.error(node.where, f"block {index} has no nodes", "list at least one")
        for host in hosts:
            if host in self._seen:
                what = f"node {host} is in two blocks (first at line {self._seen[host].line})"
                self._room.error(node.where, what, "delete it from one")
            self._seen[host] = node.where
        switch = fields.get("switch")
        if switch is not None and switch.text:
            if self._children and switch.text not in known:
                what = f"block {index} hangs under unknown switch '{switch.text}'"
                self._room.error(switch.where, what, nearest(switch.text, known))
            self._nodes.setdefault(switch.text, []).extend(hosts)
        domain, rack = self._domain(fields.get("annotations"))
        if domain:
            members, racks, _ = self._domains.setdefault(domain, ([], {}, node.where))
            members += hosts
            if rack:
                racks.setdefault(rack, []).extend(hosts)

    def _domain(self, node: Node | None) -> tuple[str, str]:
        domain = rack = ""
        for key, value in self._fields(node, None).items() if node else ():
            if key.endswith("/domain"):
                domain = value.text or ""
            elif key.endswith("/sub-domain"):
                rack = value.text or ""
        return domain, rack

    def _keep(self) -> None:
        place = self._tree.where
        found = [
            SwitchFacts(name, tuple(self._nodes.pop(name, ())), children, where)
            for name, (children, where) in self._children.items()
        ]
        undeclared = {child for children, _ in self._children.values() for child in children}
        for name in dict.fromkeys((*self._nodes, *sorted(undeclared - self._children.keys()))):
            found.append(SwitchFacts(name, tuple(self._nodes.get(name, ())), (), place))
        if found:
            self._room.topologies.append(TopologyFacts("default", "tree", place, tuple(found)))
        for name, (hosts, racks, where) in self._domains.items():
            held = tuple((rack, tuple(nodes)) for rack, nodes in racks.items())
            self._room.scale_ups.append(ScaleUpFacts(name, tuple(hosts), held, where))

    def _names(self, node: Node | None) -> tuple[str, ...]:
        return tuple(item.text or "" for item in self._list(node, "list"))

    def _list(self, node: Node | None, name: str) -> list[Node]:
        if node is None or node.value is None:
            return []
        if isinstance(node.value, list):
            return node.value
        self._room.error(node.where, f"{name}: expected a list, got {node.kind}")
        return []

    def _fields(self, node: Node | None, known: tuple[str, ...] | None) -> dict[str, Node]:
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            self._room.error(node.where, f"expected a mapping, got {node.kind}")
            return {}
        for key, child in node.value.items():
            if known is not None and key not in known:
                place = child.key_where or child.where
                self._room.error(place, f"unknown key '{key}'", nearest(key, known))
        return node.value

    def _expand(self, text: str, node: Node) -> list[str]:
        try:
            return hostlist.expand(text)
        except ValueError as error:
            self._room.error(node.where, str(error))
            return []
