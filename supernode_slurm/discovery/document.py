"""An inventory to be written: a tree of YAML whose values know who said them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import Where, printable

WIDTH = 96
"""Longest line that holds a mapping or a list in braces."""

Scalar = str | int | float | bool

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+=~-]*(?: [A-Za-z0-9_./+=~-]+)*\Z")
_QUANTITY = re.compile(r"[0-9]+(?:\.[0-9]+)? [A-Za-z]+(?:/s)?\Z")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value and who said it."""

    value: Scalar | tuple[Scalar, ...]
    origin: tuple[Where, ...] = ()
    remark: str = ""
    """Stands before the origin in the comment."""


Tree = Leaf | dict[str, "Tree"] | list["Tree"]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A document as text, and who said each line of it."""

    lines: tuple[str, ...]
    origins: tuple[tuple[Where, ...], ...]


def render(tree: dict[str, Tree], head: str) -> Rendered:
    """Return the YAML text; an origin is a comment where it is not that of the line above."""
    writer = _Writer()
    writer.put(head)
    for key, value in tree.items():
        if isinstance(value, (dict, list)):
            writer.put("")
        writer.entry(key, value, 0, "")
    return Rendered(tuple(writer.lines), tuple(writer.origins))


def facts(tree: Tree, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield each value of a tree with its path, like ``pools[0].nodes.cores``."""
    if isinstance(tree, Leaf):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from facts(value, f"{path}.{key}" if path else key)
    else:
        for index, item in enumerate(tree):
            yield from facts(item, f"{path}[{index}]")


def merge(trees: list[Tree]) -> Tree:
    """Return one tree for several equal ones, with the origins of all."""
    first = trees[0]
    if isinstance(first, Leaf):
        found = dict.fromkeys(
            where for tree in trees if isinstance(tree, Leaf) for where in tree.origin
        )
        return Leaf(first.value, tuple(found), first.remark)
    if isinstance(first, dict):
        return {
            key: merge([tree[key] for tree in trees if isinstance(tree, dict)]) for key in first
        }
    return [
        merge([tree[index] for tree in trees if isinstance(tree, list)])
        for index in range(len(first))
    ]


def plain(tree: Tree) -> object:
    """Return the bare values of a tree, to compare."""
    if isinstance(tree, Leaf):
        return tree.value
    if isinstance(tree, dict):
        return tuple((key, plain(value)) for key, value in tree.items())
    return tuple(plain(item) for item in tree)


def origin_text(origin: Iterable[Where]) -> str:
    """Return places folded by file: ``slurm.conf:12-98,101``."""
    lines: dict[str, list[int]] = {}
    for where in origin:
        lines.setdefault(where.file, []).append(where.line)
    texts = []
    for file, numbers in lines.items():
        name = printable(Path(file).name or file)
        texts.append(f"{name}:{_ranges(sorted(set(numbers)))}" if any(numbers) else name)
    return ", ".join(texts)


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.origins: list[tuple[Where, ...]] = []
        self._said = ""

    def put(self, line: str, origin: tuple[Where, ...] = ()) -> None:
        """Add a line."""
        self.lines.append(line)
        self.origins.append(origin)

    def entry(self, key: str, value: Tree, depth: int, dash: str) -> None:
        """Write ``key: value``; ``dash`` begins an item of a list."""
        indent = "  " * depth + dash
        label = f"{indent}{scalar(key)}:"
        if isinstance(value, Leaf):
            self._line(f"{label} {_leaf(value)}", value)
        elif not value:
            self.put(f"{label} {'{}' if isinstance(value, dict) else '[]'}")
        elif (short := _flow(value)) and len(label) + len(short) < WIDTH:
            self._line(f"{label} {short}", _summary(value))
        elif isinstance(value, dict):
            self.put(label)
            for name, item in value.items():
                self.entry(name, item, depth + 1 + bool(dash), "")
        else:
            self.put(label)
            for item in value:
                self._item(item, depth + 1 + bool(dash))

    def _item(self, item: Tree, depth: int) -> None:
        if isinstance(item, dict):
            for index, (name, value) in enumerate(item.items()):
                if index:
                    self.entry(name, value, depth + 1, "")
                else:
                    self.entry(name, value, depth, "- ")
        else:
            leaf = item if isinstance(item, Leaf) else Leaf("")
            self._line("  " * depth + f"- {_leaf(leaf)}", leaf)

    def _line(self, text: str, leaf: Leaf) -> None:
        origin = origin_text(leaf.origin)
        said = [] if origin == self._said and not leaf.remark else [origin]
        if origin:
            self._said = origin
        comment = ", ".join(filter(None, [leaf.remark, *said]))
        self.put(f"{text}  # {comment}" if comment else text, leaf.origin)


def scalar(value: Scalar) -> str:
    """Return a scalar such that every reader of YAML 1.1 and 1.2 takes it for what it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if value.casefold() in _ODD_WORDS or not (_PLAIN.match(value) or _QUANTITY.match(value)):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return value


_ODD_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def _leaf(leaf: Leaf) -> str:
    if isinstance(leaf.value, tuple):
        return f"[{', '.join(map(scalar, leaf.value))}]"
    return scalar(leaf.value)


def _flow(tree: Tree) -> str:
    """Return a small mapping or list in braces, empty if it may not stand so."""
    if isinstance(tree, dict):
        parts = []
        for key, value in tree.items():
            if isinstance(value, list) or (isinstance(value, dict) and not value):
                return ""
            inner = _leaf(value) if isinstance(value, Leaf) else _flow(value)
            if not inner:
                return ""
            parts.append(f"{scalar(key)}: {inner}")
        said = {(leaf.origin, leaf.remark) for _, leaf in facts(tree)}
        return f"{{{', '.join(parts)}}}" if len(said) == 1 else ""
    return ""


def _summary(tree: Tree) -> Leaf:
    leaves = [leaf for _, leaf in facts(tree)]
    remark = next((leaf.remark for leaf in leaves if leaf.remark), "")
    return Leaf("", leaves[0].origin, remark)


def _ranges(numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in spans)
