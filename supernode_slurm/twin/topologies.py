"""The topologies of topology.conf and topology.yaml: which nodes stand in which groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..errors import ConfigError, Problem, Where, nearest
from ..inventory import yamltree
from ..slurmconf.grammar import Line, Said, parse_lines
from .reading import hosts_of

CONF, YAML = "topology.conf", "topology.yaml"
_GROUPS = {"switchname": "tree", "blockname": "block", "ringname": "ring"}
Schema = Mapping[str, "Schema | None"]
"""Known keys; None for a value that holds no keys. A list and its items are one level."""
_NAMED: Schema = {"nodes": None}
_DIMS: Schema = {"dims": {"x": None, "y": None, "z": None}}
_KINDS: dict[str, Schema] = {
    "tree": {"switches": {"switch": None, "children": None, **_NAMED}},
    "block": {"block_sizes": None, "blocks": {"block": None, **_NAMED}},
    "flat": {"alpha_step_rank": None},
    "ring": {"rings": {"ring": None, **_NAMED}},
    "torus3d": {
        "toruses": {
            "name": None,
            **_DIMS,
            **_NAMED,
            "regions": {"anchor": _DIMS["dims"], **_DIMS, **_NAMED},
            "placements": {"anchor_seed": None, "anchor_spacing": None, **_DIMS},
        }
    },
}
_SCHEMA: Schema = {"topology": None, "cluster_default": None, **_KINDS}
_NAMES = ("switch", "block", "ring", "name")


@dataclass(frozen=True, slots=True)
class Group:
    """A switch, block, ring or torus."""

    name: str
    hosts: tuple[str, ...]
    children: tuple[str, ...]
    """Names of the switches below it."""
    where: Where


@dataclass(frozen=True, slots=True)
class Topology:
    """One topology: groups of one kind."""

    name: str
    kind: str
    is_default: bool
    groups: tuple[Group, ...]

    @property
    def hosts(self) -> frozenset[str]:
        """Return all hosts in its groups."""
        return frozenset(host for group in self.groups for host in group.hosts)

    @property
    def roots(self) -> frozenset[str]:
        """Return the names of the groups that are below no other."""
        below = {child for group in self.groups for child in group.children}
        return frozenset(group.name for group in self.groups) - below


def read_conf(text: str) -> tuple[list[Topology], list[Problem]]:
    """Return the topology of a topology.conf, and its lines that cannot be read."""
    groups: dict[str, list[Group]] = {}
    problems: list[Problem] = []
    for line in parse_lines(text, CONF):
        if line.problem:
            problems.append(line.problem)
        elif line.first in _GROUPS:
            groups.setdefault(_GROUPS[line.first], []).append(_group(line, problems))
    found = [Topology("default", kind, True, tuple(items)) for kind, items in groups.items()]
    return found, problems


def _group(line: Line, problems: list[Problem]) -> Group:
    keys = line.keys
    hosts = _expand(keys.get("nodes"), problems)
    children = _expand(keys.get("switches"), problems)
    return Group(line.pairs[0][1].text, hosts, children, line.pairs[0][1].where)


def read_yaml(text: str) -> tuple[list[Topology], list[Problem]]:
    """Return the topologies of a topology.yaml, and what slurmctld would pass over in it.

    A file that is no YAML yields one problem: slurmctld refuses it by itself.
    """
    try:
        root, problems = yamltree.parse(text, YAML)
    except ConfigError as error:
        return [], list(error.problems)
    problems = [*problems, *_unknown(root, _SCHEMA)]
    items = [item for item in _items(root) if isinstance(item.value, dict)]
    topologies = [found for item in items for found in _topologies(item, problems)]
    problems += _ambiguous(root, items, topologies)
    if topologies and not any(item.is_default for item in topologies):
        first = topologies[0]
        topologies[0] = Topology(first.name, first.kind, True, first.groups)
    return topologies, problems


def _ambiguous(
    root: yamltree.Node, items: list[yamltree.Node], found: list[Topology]
) -> Iterator[Problem]:
    """Yield what leaves open which topology is meant: slurmctld takes one without a word."""
    defaults = [item for item in found if item.is_default]
    if len(found) > 1 and len(defaults) != 1:
        what = f"{len(defaults) or 'no'} topologies have cluster_default: true"
        yield Problem(root.where, what, "mark exactly one")
    first: dict[str, yamltree.Node] = {}
    for item in items:
        fields = item.value if isinstance(item.value, dict) else {}
        name = _text(fields.get("topology"))
        if first.setdefault(name, item) is not item:
            yield Problem(item.where, f"topology '{name}' stands twice", "rename one")


def _unknown(node: yamltree.Node, schema: Schema) -> Iterator[Problem]:
    for item in _items(node):
        for key, child in item.value.items() if isinstance(item.value, dict) else ():
            if key not in schema:
                what = f"unknown key '{key}': slurmctld passes over it without a word"
                yield Problem(child.key_where or child.where, what, nearest(key, schema))
            elif (below := schema[key]) is not None:
                yield from _unknown(child, below)


def _items(node: yamltree.Node | None) -> list[yamltree.Node]:
    if node is None:
        return []
    return node.value if isinstance(node.value, list) else [node]


def _topologies(node: yamltree.Node, problems: list[Problem]) -> Iterator[Topology]:
    fields = node.value if isinstance(node.value, dict) else {}
    name = _text(fields.get("topology"))
    is_default = "cluster_default" in fields and fields["cluster_default"].value is True
    for kind, schema in _KINDS.items():
        body = fields.get(kind)
        if body is None:
            continue
        lists = body.value if isinstance(body.value, dict) else {}
        groups = [
            _yaml_group(item, problems)
            for key, below in schema.items()
            if below is not None
            for item in _items(lists.get(key))
        ]
        yield Topology(name, kind, is_default, tuple(groups))


def _yaml_group(node: yamltree.Node, problems: list[Problem]) -> Group:
    fields = node.value if isinstance(node.value, dict) else {}
    name = next((_text(fields[key]) for key in _NAMES if key in fields), "")
    regions = [item.value for item in _items(fields.get("regions"))]
    parts = [fields, *(item for item in regions if isinstance(item, dict))]
    hosts = [
        host
        for part in parts
        if "nodes" in part
        for host in _expand(_said(part["nodes"]), problems)
    ]
    return Group(name, tuple(hosts), _expand(_said(fields.get("children")), problems), node.where)


def _said(node: yamltree.Node | None) -> Said | None:
    return Said(node.text, node.where) if node and node.text else None


def _text(node: yamltree.Node | None) -> str:
    return (node.text or "") if node else ""


def _expand(said: Said | None, problems: list[Problem]) -> tuple[str, ...]:
    return hosts_of(said, problems) if said else ()
