"""YAML as a tree that can be changed, and that knows which characters each value is.

Built from libyaml's events, like ``inventory.yamltree``, whose bounds are checked first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...errors import ConfigError
from ...inventory import yamltree
from ...inventory.yamltree import Scalar

BOM = "\ufeff"


@dataclass(slots=True)
class Span:
    """Where a value stands: characters ``start`` to ``end`` of the text, its anchor included."""

    start: int
    end: int
    flow: bool = False
    """Inside braces or brackets, or such a collection itself."""
    style: str = ""
    """Of a scalar: a quote, ``|``, ``>``, or empty for a plain one."""
    anchor: str = ""
    alias: str = ""
    text: str = ""
    """Of a scalar as it was written."""


@dataclass(slots=True, eq=False)
class Item:
    """A value of the tree, equal to itself alone; without a span it is not in the text yet."""

    value: Scalar | list[Item] | dict[str, Item]
    span: Span | None = None
    keys: dict[str, Span] = field(default_factory=dict)
    """Of a mapping: where its keys stand."""
    old: dict[str, Item] | list[Item] | None = None
    """What stands in the text here, each in its place."""
    was: object = None
    """The same without places."""
    comment: str = ""
    """For the line above a new entry of a list or mapping."""
    fold: bool = False
    """A new mapping that is written over several lines."""

    def at(self, key: str) -> Item | None:
        """Return the value of a key of a mapping, None if there is none."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def text(self, key: str) -> str:
        """Return a scalar of a mapping as it was written, empty if there is none."""
        item = self.at(key)
        return "" if item is None else str_of(item)

    def entries(self, key: str) -> list[Item]:
        """Return the list that a key holds, a single value as a list of one, else none."""
        item = self.at(key)
        if item is None or item.value is None:
            return []
        return item.value if isinstance(item.value, list) else [item]


def str_of(item: Item) -> str:
    """Return a scalar as a text, as it was written where it was."""
    if item.span is not None and item.was == item.value and not item.span.alias:
        return item.span.text
    return "" if item.value is None else str(item.value)


def plain(item: Item) -> object:
    """Return the bare values of a tree: dictionaries, lists and scalars."""
    if isinstance(item.value, dict):
        return {key: plain(value) for key, value in item.value.items()}
    if isinstance(item.value, list):
        return [plain(value) for value in item.value]
    return item.value


def new(value: object) -> Item:
    """Return bare values as a tree that is not in the text yet."""
    if isinstance(value, dict):
        return Item({str(key): new(held) for key, held in value.items()})
    if isinstance(value, (list, tuple)):
        return Item([new(held) for held in value])
    if isinstance(value, str):
        return Item(str(value))  # without the place that a text of a file knows
    if value is None or isinstance(value, (int, float, bool)):
        return Item(value)
    raise TypeError(f"{type(value).__name__} stands in no inventory")


def parse(text: str, source: str) -> Item:
    """Return the tree of a text, counted without a byte order mark.

    Raises ``ConfigError`` where it is no YAML, or too much of it.
    """
    import yaml

    text = text.removeprefix(BOM)

    yamltree.parse(text, source)
    reader = _Reader(text)
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        reader.take(event)
    if reader.root is None:
        raise ConfigError.one(source, "the file is empty")
    return reader.root


def span_of(item: Item) -> Span:
    """Return where a value stands that is in the text."""
    if item.span is None:
        raise TypeError("a value that is not in the text yet")
    return item.span


@dataclass(slots=True)
class _Open:
    item: Item
    end: int
    key: Span | None = None


class _Reader:
    def __init__(self, text: str) -> None:
        self.root: Item | None = None
        self._text = text
        self._open: list[_Open] = []
        self._anchors: dict[str, Item] = {}

    def take(self, event: Any) -> None:
        name = type(event).__name__
        start, end = event.start_mark.index, event.end_mark.index
        flow = bool(self._open and self._open[-1].item.span and self._open[-1].item.span.flow)
        if name == "ScalarEvent":
            style = event.style or ""
            if style in ("|", ">"):
                end = start + len(self._text[start:end].rstrip())
            value = yamltree.scalar_of(event)
            span = Span(start, end, flow, style, event.anchor or "", "", event.value)
            self._add(Item(value, span, was=value))
        elif name in ("MappingStartEvent", "SequenceStartEvent"):
            span = Span(start, end, bool(event.flow_style), anchor=event.anchor or "")
            self._open.append(_Open(Item({} if name[0] == "M" else [], span), end))
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            self._close(end)
        elif name == "AliasEvent":
            target = self._anchors[event.anchor]
            found = new(plain(target))
            text = target.span.text if target.span else ""
            found.span = Span(start, end, flow, alias=event.anchor, text=text)
            found.was = plain(target)
            self._add(found)

    def _close(self, end: int) -> None:
        done = self._open.pop()
        span = span_of(done.item)
        span.end = end if span.flow else done.end
        done.item.was = plain(done.item)
        held = done.item.value
        done.item.old = held.copy() if isinstance(held, (dict, list)) else None
        self._add(done.item)

    def _add(self, item: Item) -> None:
        span = span_of(item)
        if span.anchor:
            self._anchors[span.anchor] = item
        if not self._open:
            self.root = item
            return
        parent = self._open[-1]
        parent.end = max(parent.end, span.end)
        if isinstance(parent.item.value, list):
            parent.item.value.append(item)
        elif parent.key is None:
            parent.key = span
        elif isinstance(parent.item.value, dict):
            name = parent.key.text
            parent.item.value[name] = item
            parent.item.keys[name] = parent.key
            parent.key = None
