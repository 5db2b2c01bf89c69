"""topology.yaml (25.05 and later): several topologies in one file.

slurmctld passes over a key that it does not know without a word, and takes one mapping
where a list of them is expected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from .. import hostlist, units
from ..errors import Where, nearest
from ..inventory import yamltree
from ..inventory.yamltree import Node
from ..slurmconf.facts import FabricFacts, read_fabric_comment
from ..slurmconf.grammar import read_text
from .room import GroupFacts, Room, SwitchFacts, TopologyFacts

KINDS = ("tree", "block", "flat", "ring", "torus3d")


def read_topology_yaml(path: Path, room: Room) -> None:
    """Add what a topology.yaml says."""
    add_topologies(read_text(path), str(path), room)


def add_topologies(text: str, source: str, room: Room) -> None:
    """Add what the text of a topology.yaml says."""
    tree, problems = yamltree.parse(text, source)
    room.errors += problems
    lines = [line.strip() for line in text.splitlines()]
    reader = _Reader(room, lines)
    found = [reader.topology(item) for item in reader.items(tree, "topologies")]
    room.check()
    defaults = [item for item in found if item.default]
    for extra in defaults[1:]:
        room.error(extra.facts.where, "a second cluster_default", "leave it at one")
    names: dict[str, Where] = {}
    for item in found:
        if item.facts.name in names:
            first = names[item.facts.name]
            what = f"topology '{item.facts.name}' stands twice (first at line {first.line})"
            room.error(item.facts.where, what, "rename one")
        names[item.facts.name] = item.facts.where
    room.check()
    found.sort(key=lambda item: not item.default)
    room.topologies += [item.facts for item in found]


class _Topology:
    """A topology, and whether it is the default one."""

    def __init__(self, facts: TopologyFacts, default: bool) -> None:
        self.facts = facts
        self.default = default


class _Reader:
    """Reads the parts of the file; ``room.errors`` takes what is wrong."""

    def __init__(self, room: Room, lines: list[str]) -> None:
        self._room = room
        self._lines = lines

    def topology(self, node: Node) -> _Topology:
        """Return one topology."""
        fields = self._fields(node, ("topology", "cluster_default", *KINDS))
        name = self._text(fields, "topology", node)
        default = fields.get("cluster_default")
        kinds = [kind for kind in KINDS if kind in fields]
        if len(kinds) > 1:  # scontrol show topoconf prints all kinds, empty but for one
            kinds = [kind for kind in kinds if fields[kind].value != {}] or ["flat"]
        if len(kinds) != 1:
            has = " and ".join(kinds) or "none"
            self._error(node.where, f"topology '{name}' has {has} of {', '.join(KINDS)}")
        kind = kinds[0] if kinds else "flat"
        facts = TopologyFacts(name, kind, node.where)
        if kinds:
            facts = self._body(facts, fields[kind])
        return _Topology(facts, bool(default and default.value is True))

    def _body(self, empty: TopologyFacts, node: Node) -> TopologyFacts:
        name, kind, where = empty.name, empty.kind, empty.where
        if kind == "flat":
            if node.value is not True and not isinstance(node.value, dict):
                self._error(node.where, "flat: expected true or a mapping of options")
            return empty
        if kind == "tree":
            fields = self._fields(node, ("switches",))
            switches = tuple(map(self._switch, self.items(fields.get("switches"), "switches")))
            return TopologyFacts(name, kind, where, switches)
        if kind == "block":
            fields = self._fields(node, ("block_sizes", "blocks"))
            sizes = tuple(self._sizes(fields.get("block_sizes")))
            blocks = (self._group(item, "block") for item in self.items(fields.get("blocks"), kind))
            return TopologyFacts(name, kind, where, (), tuple(blocks), sizes)
        if kind == "ring":
            fields = self._fields(node, ("rings",))
            rings = (self._group(item, "ring") for item in self.items(fields.get("rings"), kind))
            return TopologyFacts(name, kind, where, (), tuple(rings))
        fields = self._fields(node, ("toruses",))
        toruses = (self._torus(item) for item in self.items(fields.get("toruses"), "toruses"))
        return TopologyFacts(name, kind, where, (), tuple(toruses))

    def _switch(self, node: Node) -> SwitchFacts:
        fields = self._fields(node, ("switch", "children", "nodes"))
        name = self._text(fields, "switch", node)
        nodes, children = self._hosts(fields.get("nodes")), self._hosts(fields.get("children"))
        return SwitchFacts(name, nodes, children, node.where, self._fabric(node.where))

    def _group(self, node: Node, key: str) -> GroupFacts:
        fields = self._fields(node, (key, "nodes"))
        name = self._text(fields, key, node)
        return GroupFacts(name, self._hosts(fields.get("nodes")), node.where)

    def _torus(self, node: Node) -> GroupFacts:
        fields = self._fields(node, ("name", "nodes", "dims", "placements", "regions"))
        name = self._text(fields, "name", node)
        shapes = []
        for item in self.items(fields.get("placements"), "placements"):
            shape = self._fields(item, ("dims", "anchor_seed", "anchor_spacing"))
            shapes.append(self._dims(shape.get("dims"), item.where))
        regions = fields.get("regions")
        if regions and regions.value:
            self._room.lost(regions.where, f"regions of torus '{name}': left out")
        dims = self._dims(fields.get("dims"), node.where)
        hosts = self._hosts(fields.get("nodes"))
        return GroupFacts(name, hosts, node.where, dims, tuple(shapes))

    def items(self, node: Node | None, name: str) -> list[Node]:
        """Return the mappings of a list, which Slurm takes alone as well."""
        if node is None:
            return []
        if isinstance(node.value, dict):
            return [node]
        if isinstance(node.value, list):
            return node.value
        self._error(node.where, f"{name}: expected a list of mappings, got {node.kind}")
        return []

    def _fields(self, node: Node, known: tuple[str, ...]) -> dict[str, Node]:
        if not isinstance(node.value, dict):
            keys = ", ".join(known[:3])
            self._error(node.where, f"expected a mapping with {keys}, got {node.kind}")
            return {}
        for key, child in node.value.items():
            if key not in known:
                what = f"unknown key '{key}', which slurmctld passes over without a word"
                self._room.mistake(child.key_where or child.where, what, nearest(key, known))
        return node.value

    def _text(self, fields: dict[str, Node], key: str, node: Node) -> str:
        found = fields.get(key)
        if found is None or not found.text:
            if isinstance(node.value, dict):
                self._error((found or node).where, f"'{key}' is missing", "give the name")
            return ""
        return found.text

    def _hosts(self, node: Node | None) -> tuple[str, ...]:
        if node is None or node.value is None or node.text == "":
            return ()
        if node.text is None:
            self._error(node.where, f"expected a host list like n[01-18], got {node.kind}")
            return ()
        try:
            return tuple(dict.fromkeys(hostlist.expand(node.text)))
        except ValueError as error:
            self._error(node.where, str(error))
            return ()

    def _sizes(self, node: Node | None) -> Iterator[int]:
        values = node.value if node else []
        for item in values if isinstance(values, list) else [node]:
            size = item.value if item else None
            if isinstance(size, str):
                with suppress(ValueError):
                    size = units.whole_number(size)
            if item and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
                self._error(item.where, f"block_sizes: expected numbers of nodes, got {item.text}")
            elif isinstance(size, int):
                yield size

    def _dims(self, node: Node | None, place: Where) -> tuple[int, ...]:
        fields = self._fields(node, ("x", "y", "z")) if node else {}
        found = []
        for axis in "xyz":
            size = fields[axis].value if axis in fields else None
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                where = fields[axis].where if axis in fields else (node.where if node else place)
                self._error(where, f"dims: expected a number of nodes along {axis}")
            else:
                found.append(size)
        return tuple(found)

    def _fabric(self, where: Where) -> FabricFacts | None:
        above = takewhile(
            lambda line: line.startswith("#"), reversed(self._lines[: where.line - 1])
        )
        return next(filter(None, map(read_fabric_comment, above)), None)

    def _error(self, where: Where, what: str, todo: str = "") -> None:
        self._room.error(where, what, todo)


def is_topology_yaml(node: Node) -> bool:
    """Return whether a tree looks like a topology.yaml."""
    items = node.value if isinstance(node.value, list) else [node]
    return any(isinstance(item.value, dict) and "topology" in item.value for item in items)
