"""Values that are not in the text yet, written as YAML or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ...inventory.yamltree import Scalar
from ..document import WIDTH, scalar
from .spans import Item


@dataclass(frozen=True, slots=True)
class Style:
    """How a file is written."""

    json: bool = False
    """No comments, every text in quotes."""

    def scalar(self, value: Scalar) -> str:
        """Return a scalar such that every reader takes it for what it is."""
        if self.json or value is None:
            return json.dumps(value, ensure_ascii=False)
        return repr(value) if type(value) is float else scalar(value)


def flow_text(item: Item, style: Style) -> str:
    """Return a value on one line, collections in braces and brackets."""
    if isinstance(item.value, dict):
        pairs = [f"{style.scalar(k)}: {flow_text(v, style)}" for k, v in item.value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(item.value, list):
        return f"[{', '.join(flow_text(value, style) for value in item.value)}]"
    return style.scalar(item.value)


def block_lines(key: str | None, item: Item, column: int, style: Style) -> list[str]:
    """Return the lines of a new entry of a block: ``key: value``, or ``- value`` without a key."""
    indent = " " * column
    head = f"{indent}-" if key is None else f"{indent}{style.scalar(key)}:"
    lines = [f"{indent}# {line}" for line in item.comment.splitlines()]
    short = flow_text(item, style)
    is_block = isinstance(item.value, (dict, list)) and item.value
    if not is_block or not (item.fold or len(head) + len(short) >= WIDTH):
        return [*lines, f"{head} {short}"]
    inner = _inner(item, column + 2, style)
    if key is None and isinstance(item.value, dict):
        return [*lines, f"{head} {inner[0].lstrip()}", *inner[1:]]
    return [*lines, head, *inner]


def _inner(item: Item, column: int, style: Style) -> list[str]:
    pairs: Iterable[tuple[str | None, Item]] = (
        item.value.items()
        if isinstance(item.value, dict)
        else [(None, value) for value in item.value]
        if isinstance(item.value, list)
        else []
    )
    return [line for key, value in pairs for line in block_lines(key, value, column, style)]
