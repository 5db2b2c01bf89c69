"""The plain part of TOML, with lines: tables, and keys with numbers, words and texts.

Python has a reader of its own from 3.11 on, which tells no lines. Values over several lines
and arrays are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...errors import Where

_KEY = r"(?:[A-Za-z0-9_-]+|\"[^\"\\]*\"|'[^']*')"
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\[(?:\[\s*({_DOTTED})\s*\]|\s*({_DOTTED})\s*)\]\s*(?:#.*)?\Z")
_PAIR = re.compile(rf"({_DOTTED})\s*=\s*(.*)\Z", re.DOTALL)
_SCALAR = re.compile(
    r"(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s#,\[\]{}\"']+))\s*(?:#.*)?\Z", re.DOTALL
)
_QUOTES = ('"' * 3, "'" * 3)
_STRINGS = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|#.*")


class Malformed(ValueError):
    """The text is no TOML; the message says where."""


def pairs(text: str, shown: str) -> Iterator[tuple[str, str, Where]]:
    """Yield each key with its table's name before it, its value as text, and its place.

    Raises ``Malformed``.
    """
    prefix = ""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        table, pair = _TABLE.match(stripped), _PAIR.match(stripped)
        if table:
            prefix = _name(table[1] or table[2]) + "."
        elif pair is None:
            raise Malformed(f"{shown}:{number}: expected [table] or key = value")
        elif scalar := _SCALAR.match(pair[2]):
            value = next(group for group in scalar.groups() if group is not None)
            column = line.index(stripped[0]) + pair.start(2) + 1
            value = value.replace("_", "") if re.fullmatch(r"[+-]?[0-9_]+", value) else value
            yield prefix + _name(pair[1]), value, Where(shown, number, column)
        elif not _skip(pair[2], lines):
            raise Malformed(f"{shown}:{number}: the value of '{_name(pair[1])}' does not end")


def _name(dotted: str) -> str:
    return ".".join(re.sub(r"['\"]", "", part).strip() for part in dotted.split("."))


def _skip(value: str, lines: Iterator[tuple[int, str]]) -> bool:
    """Go past a value of several lines, or one with brackets; say whether it ends."""
    for quotes in _QUOTES:
        if value.startswith(quotes):
            rest = value[3:]
            while quotes not in rest:
                following = next(lines, None)
                if following is None:
                    return False
                rest = following[1]
            return True
    depth = _depth(value)
    if not value.startswith(("[", "{")):
        return False
    while depth > 0:
        following = next(lines, None)
        if following is None:
            return False
        depth += _depth(following[1])
    return depth == 0


def _depth(line: str) -> int:
    bare = _STRINGS.sub("", line)
    return sum(bare.count(sign) for sign in "[{") - sum(bare.count(sign) for sign in "]}")
