"""YAML 1.2 as a tree that knows where everything stands, bounded against hostile input.

The tree is built from libyaml's events, not by recursion, so that depth is a number
that can be checked. Scalars follow the YAML 1.2 core schema: ``no`` and ``48:00:00``
are strings. Tags, merge keys and several documents are refused, duplicate keys are
problems. An alias costs what it expands to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError, Problem, Where

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 32
MAX_NODES = 2_000_000

Scalar = str | int | float | bool | None

_INT = re.compile(r"[-+]?[0-9]{1,18}\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?\Z")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(slots=True)
class Node:
    """A value of the file: a scalar, a list of nodes, or a mapping of nodes."""

    value: Scalar | list[Node] | dict[str, Node]
    where: Where
    key_where: Where | None = None
    """Where the key stands, for the values of a mapping."""
    size: int = 1
    text: str | None = None
    """A scalar as it was written: ``0012`` is the number 12 and a good name."""

    @property
    def kind(self) -> str:
        """Return ``mapping``, ``list`` or the name of the scalar's type."""
        value = self.value
        if isinstance(value, dict):
            return "mapping"
        return {list: "list", str: "text", bool: "true or false"}.get(
            type(value), "nothing" if value is None else "number"
        )


def shown(value: object) -> str:
    """Return a value as messages show it."""
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else f"{value!r:.80}"


class Written(str):
    """A text of the file that knows where it stands."""

    where: Where

    def __new__(cls, text: str, where: Where) -> Written:
        """Return the text with its place."""
        found = super().__new__(cls, text)
        found.where = where
        return found


def place_of(text: str, otherwise: Where) -> Where:
    """Return where a text stands, if it is known."""
    return text.where if isinstance(text, Written) else otherwise


def parse(text: str, source: str) -> tuple[Node, list[Problem]]:
    """Return the tree of a YAML (or JSON) text and the duplicate keys found in it.

    Raises ``ConfigError`` where the text is no YAML, or exceeds a bound.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError.one(source, f"larger than {MAX_BYTES >> 20} MiB", "split the site")
    builder = _Builder(source)
    for event in _events(text, source):
        builder.take(event)
    if builder.root is None:
        raise ConfigError.one(source, "the file is empty", "see 'sn show schema'")
    return builder.root, builder.problems


def _events(text: str, source: str) -> Iterator[Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Where(source, mark.line + 1, mark.column + 1) if mark else Where(source)
        what = error.problem or error.context or "not YAML"
        raise ConfigError.one(place, f"not valid YAML: {what}") from error
    except yaml.YAMLError as error:
        raise ConfigError.one(source, f"not valid YAML: {error}") from error


class _Builder:
    """Builds the tree from one event after the other."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._nodes = 0

    def take(self, event: Any) -> None:
        name = type(event).__name__
        place = Where(self.source, event.start_mark.line + 1, event.start_mark.column + 1)
        if name == "ScalarEvent":
            self._refuse_tag(event, place)
            self._add(Node(scalar_of(event), place, text=event.value), event, place)
        elif name in ("MappingStartEvent", "SequenceStartEvent"):
            self._refuse_tag(event, place)
            if len(self._open) >= MAX_DEPTH:
                raise ConfigError.one(place, f"nested deeper than {MAX_DEPTH} levels")
            node = Node({} if name[0] == "M" else [], place)
            self._open.append(_Open(node, event.anchor))
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            done = self._open.pop()
            self._add(done.node, done, done.node.where)
        elif name == "AliasEvent":
            self._alias(event, place)
        elif name == "DocumentStartEvent" and self.root is not None:
            raise ConfigError.one(place, "more than one document in the file")

    def _alias(self, event: Any, place: Where) -> None:
        target = self._anchors.get(event.anchor)
        if target is None:
            todo = f"write '&{event.anchor}' at the value it stands for"
            raise ConfigError.one(place, f"alias '*{event.anchor}' has no anchor before it", todo)
        node = Node(target.value, place, size=target.size, text=target.text)
        self._attach(node, place)

    def _add(self, node: Node, event: Any, place: Where) -> None:
        if event.anchor:
            self._anchors[event.anchor] = node
        self._attach(node, place)

    def _attach(self, node: Node, place: Where) -> None:
        self._nodes += node.size
        if self._nodes > MAX_NODES:
            raise ConfigError.one(place, f"more than {MAX_NODES:,} values (aliases counted)")
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        parent.node.size += node.size
        if isinstance(parent.node.value, list):
            parent.node.value.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            self._put(parent, node)

    def _put(self, parent: _Open, node: Node) -> None:
        key, parent.key = parent.key, None
        values = parent.node.value
        if key is None or not isinstance(values, dict):
            return
        if isinstance(key.value, (list, dict)):
            raise ConfigError.one(
                key.where, "a key must be a plain word", "write it without brackets"
            )
        name = key.text or ""
        if name in values:
            first = values[name].key_where or values[name].where
            self.problems.append(
                Problem(
                    key.where,
                    f"key '{name}' stands twice (first at line {first.line})",
                    "delete one",
                )
            )
            return
        node.key_where = key.where
        values[name] = node

    @staticmethod
    def _refuse_tag(event: Any, place: Where) -> None:
        if event.tag:
            raise ConfigError.one(place, f"tag '{event.tag}' is not allowed here", "leave it out")


@dataclass(slots=True)
class _Open:
    node: Node
    anchor: str | None
    key: Node | None = None


def scalar_of(event: Any) -> Scalar:
    """Return what a scalar event means in YAML 1.2."""
    text: str = event.value
    if event.style:  # quoted or block: always a string
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    return text
