"""Equal supernodes written as one class: ``name: sn[1-8]`` with ``{n}`` in the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from .. import hostlist
from .document import Leaf, Tree, merge, plain

Section = dict[str, Tree]


def fold_classes(sections: Sequence[Section]) -> list[Tree]:
    """Return the sections with neighbours that differ by their number alone made one."""
    found: list[Tree] = []
    for _, group in groupby(sections, _shape):
        waiting = list(group)
        while waiting:
            size, patterns = _class_at_start(waiting)
            found.append(_merged(waiting[:size], patterns) if size > 1 else waiting[0])
            waiting = waiting[size:]
    return found


def _shape(section: Section) -> object:
    """Return what equal supernodes share: all but the name and the hosts."""
    nodes = [{k: v for k, v in part.items() if k != "hosts"} for part in _parts(section)]
    rest = {key: value for key, value in section.items() if key not in ("name", "nodes")}
    return plain(rest), tuple(map(plain, nodes))


def _class_at_start(sections: list[Section]) -> tuple[int, list[str]]:
    """Return how many of the first sections make a class, and the hosts of each part."""
    names = [_text(section["name"]) for section in sections]
    tails = [hostlist.digit_tail(name) for name in names]
    stem = names[0].removesuffix(tails[0]) if tails[0] else ""
    options = [places_of_number(text, tails[0]) for text in _hosts(sections[0])]
    size = 1
    for section, name, tail in zip(sections[1:], names[1:], tails[1:], strict=True):
        left = [
            [pattern for pattern in patterns if pattern.replace("{n}", tail) == text]
            for patterns, text in zip(options, _hosts(section), strict=True)
        ]
        folded = hostlist.fold(names[: size + 1], sort=False)
        if not stem or name != stem + tail or not all(left) or folded.count("[") != 1:
            break
        if not folded.endswith("]") or "," in folded.partition("[")[0]:
            break
        options, size = left, size + 1
    return size, [patterns[0] for patterns in options] if size > 1 else []


def _merged(sections: list[Section], patterns: list[str]) -> Tree:
    merged = merge(list(sections))
    if not isinstance(merged, dict):
        return merged
    for part, pattern in zip(_parts(merged), patterns, strict=True):
        part["hosts"] = _with_value(part["hosts"], pattern)
    names = (_text(section["name"]) for section in sections)
    merged["name"] = _with_value(merged["name"], hostlist.fold(names, sort=False))
    return merged


def places_of_number(text: str, number: str) -> list[str]:
    """Return the texts in which ``{n}`` stands for a number, one for each place of it."""
    found = []
    start = text.find(number) if number else -1
    while start >= 0:
        found.append(f"{text[:start]}{{n}}{text[start + len(number) :]}")
        start = text.find(number, start + 1)
    return found


def _hosts(section: Section) -> list[str]:
    return [_text(part["hosts"]) for part in _parts(section)]


def _with_value(tree: Tree, value: str) -> Tree:
    return Leaf(value, tree.origin, tree.remark) if isinstance(tree, Leaf) else tree


def _parts(section: Section) -> list[dict[str, Tree]]:
    nodes = section["nodes"]
    parts = nodes if isinstance(nodes, list) else [nodes]
    return [part for part in parts if isinstance(part, dict)]


def _text(tree: Tree) -> str:
    return str(tree.value) if isinstance(tree, Leaf) else ""
