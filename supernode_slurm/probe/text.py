"""What the readers of all tools share: numbers, values that are none, outlines, tables.

Python 3.6, standard library only.
"""

import re
from typing import Dict, Iterator, List, Optional, Tuple

_NONE = frozenset(
    {
        *("", "-", "n/a", "na", "none", "null", "unknown", "unknown error", "not supported"),
        *(
            "not available",
            "requested functionality has been deprecated",
            "insufficient permissions",
        ),
    }
)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([KMGT]?)(i?)B", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_PAIR = re.compile(r"([\s|*+-]*)([^:=]{1,80}?)\s*[:=](?:\s+|\Z)(.*)\Z")
MOST_LINE = 8192
MOST_TEXT = 200
"""Longest value that is kept, in characters."""


def known(text: Optional[str]) -> str:
    """Return a value on one line, empty where a tool says that it has none."""
    found = " ".join((text or "")[:4096].split())
    bare = found.strip("[]() ").casefold()
    return "" if bare in _NONE else _clean(found[:MOST_TEXT])


def whole(text: Optional[str]) -> Optional[int]:
    """Return the first number of a text as a whole one, None if there is none."""
    found = _NUMBER.search(text or "")
    return int(float(found.group())) if found else None


def decimal(text: Optional[str]) -> Optional[float]:
    """Return the first number of a text, None if there is none."""
    found = _NUMBER.search(text or "")
    return float(found.group()) if found else None


def mebibytes(text: Optional[str]) -> Optional[int]:
    """Return an amount of memory in MiB; a bare number is MiB already."""
    found = _AMOUNT.search(text or "")
    if found is None:
        return whole(text)
    return int(float(found.group(1)) * 1024 ** _POWERS[found.group(2).upper()]) >> 20


def plain(text: str) -> str:
    """Return a text without the escapes that colour it, its line ends as one kind."""
    return _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def lines(text: str) -> Iterator[str]:
    """Yield the lines of a text without what colours them and without blanks at their ends."""
    for line in plain(text).split("\n"):
        yield line[:MOST_LINE].rstrip()


def outline(text: str) -> Iterator[Tuple[int, str, str]]:
    """Yield depth, key and value of lines like ``    Key : value``; a heading has no value."""
    for line in lines(text):
        indent = len(line) - len(line.lstrip())
        found = _PAIR.match(line)
        if found:
            yield indent, " ".join(found.group(2).split()), known(found.group(3))
        elif line.strip():
            yield indent, " ".join(line.split())[:MOST_TEXT], ""


def pairs(text: str) -> Dict[str, str]:
    """Return the values of ``Key : value`` lines by key in small letters, the first of each."""
    found: Dict[str, str] = {}
    for _, key, value in outline(text):
        if value:
            found.setdefault(key.casefold(), value)
    return found


def words_of(line: str) -> Dict[str, str]:
    """Return the values of a line of ``Key=value`` words."""
    words = (word.partition("=") for word in line[:65536].split())
    return {key: value for key, equals, value in words if equals}


def rows(text: str) -> Iterator[List[str]]:
    """Yield the cells of the lines of a table drawn with bars."""
    for line in map(str.strip, lines(text)):
        if line[:1] in ("|", "\u2502") and len(line) > 2:
            yield [cell.strip() for cell in re.split("[|\u2502]", line[1:].rstrip("|\u2502"))]


def without_none(items: Dict[str, object]) -> Dict[str, object]:
    """Return a dictionary without the values that nobody gave."""
    return {key: value for key, value in items.items() if value not in (None, "", [], {})}


def _clean(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())
