"""Host lists in Slurm's own notation: ``n[01-18],login1``.

Reads what ``scontrol show hostnames`` reads (several brackets, mixed lists) and
writes what every release since 22.05 accepts: only a trailing number is folded,
because 22.05 refuses a bracket that does not end the name. Widths are kept:
``n01`` and ``n001`` are different hosts and never share a range.

Travels into the job: Python 3.8, standard library only.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Iterable, Iterator, List, Tuple

RANGE_LIMIT = 65_536
"""Most hosts in one range (MAX_RANGE of Slurm's hostlist.c)."""
HOST_LIMIT = 1_000_000
"""Most hosts one list may expand to: a guard, not a limit of Slurm."""

LONGEST_TAIL = 18
"""Most trailing digits that are folded: Slurm counts in 64 bits, and scontrol dies at the end."""

_DIGITS = "0123456789"
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z")
_BRACKET = re.compile(r"\[([^\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,63})(?:-([0-9]{1,63}))?\Z")
_TOP = 2**64 - 1
"""What Slurm takes any larger number for."""


def expand(text: str) -> list[str]:
    """Return the hosts of a list, in the order in which they are written.

    Raises ``ValueError`` with the part of the text that is not a host list.
    """
    hosts: list[str] = []
    for item in _items(text):
        hosts.extend(_expand_item(item, HOST_LIMIT - len(hosts)))
    return hosts


def fold(hosts: Iterable[str], sort: bool = True) -> str:
    """Return the shortest list that expands to these hosts.

    Duplicates are dropped. Sorted, hosts come in natural order; unsorted, they keep
    the given order and only neighbours share a range.
    """
    tails = [_split_tail(host) for host in dict.fromkeys(hosts)]
    padded: dict[str, set[int]] = {}
    for prefix, digits in tails:
        if digits[:1] == "0" and len(digits) > 1:
            padded.setdefault(prefix, set()).add(len(digits))
    parts: list[str] = []
    groups = _sorted_groups(tails) if sort else _given_groups(tails)
    for (prefix, width), group in groupby(
        groups, key=lambda item: (item[0][0], _width(item[0][1], padded.get(item[0][0])))
    ):
        numbers = [number for _, some in group for number in some]
        parts.append(prefix if width < 0 else prefix + _ranges(numbers, width))
    return ",".join(parts)


_Tail = Tuple[str, str]
"""The name without its trailing digits, and the digits."""
_Group = Tuple[Tuple[str, int], List[int]]
"""A name and how many digits follow it, and the numbers that these are."""


def _sorted_groups(tails: Iterable[_Tail]) -> Iterator[_Group]:
    names: dict[str, dict[int, list[int]]] = {}
    for prefix, digits in tails:
        names.setdefault(prefix, {}).setdefault(len(digits), []).append(int(digits or 0))
    for prefix in sorted(names):
        for size, numbers in sorted(names[prefix].items()):
            yield (prefix, size), sorted(numbers)


def _given_groups(tails: Iterable[_Tail]) -> Iterator[_Group]:
    for key, group in groupby(tails, key=lambda tail: (tail[0], len(tail[1]))):
        yield key, [int(digits or 0) for _, digits in group]


def _split_tail(host: str) -> _Tail:
    """Return the name and its trailing digits, which are empty where none may be folded."""
    prefix = host.rstrip(_DIGITS)
    digits = host[len(prefix) :]
    return (host, "") if len(digits) > LONGEST_TAIL else (prefix, digits)


def digit_tail(host: str) -> str:
    """Return the digits at the end of a name."""
    return host[len(host.rstrip(_DIGITS)) :]


def _width(size: int, padded: set[int] | None) -> int:
    """Return the padding under which numbers of some digits may be written, 0 for none.

    A name without a number, whose size is 0, is no member of a range: -1.

    Numbers without a leading zero join a padded group of their own width, or a
    narrower one (``[08-100]``), or stand unpadded.
    """
    if not size:
        return -1
    return max((width for width in padded or () if width <= size), default=0)


def _ranges(numbers: list[int], width: int) -> str:
    spans: list[tuple[int, int]] = []
    for number in numbers:
        last = spans[-1] if spans else None
        if last and number == last[1] + 1 and number - last[0] < RANGE_LIMIT:
            spans[-1] = (last[0], number)
        else:
            spans.append((number, number))
    texts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans]
    if len(spans) == 1 and spans[0][0] == spans[0][1]:
        return texts[0]
    return f"[{','.join(texts)}]"


def _items(text: str) -> Iterator[str]:
    """Split at the commas that stand outside brackets."""
    depth, start = 0, 0
    for position, letter in enumerate(text):
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        if depth not in (0, 1):
            raise ValueError(f"unbalanced brackets in host list {text[:80]!r}")
        if letter == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    if depth:
        raise ValueError(f"unbalanced brackets in host list {text[:80]!r}")
    if text[start:] or start == 0:
        yield text[start:]


def _expand_item(item: str, room: int) -> list[str]:
    literal, *pieces = _BRACKET.split(item)
    literals, choices = [literal, *pieces[1::2]], [_numbers(piece) for piece in pieces[::2]]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > room:
        raise ValueError(f"host list {item[:80]!r} names more than {HOST_LIMIT:,} hosts")
    names = _combine(literals, choices)
    longest = max(names, key=len)
    if not _HOST.match(longest) or len(longest) > 63:
        raise ValueError(f"{item[:80]!r} is not a host name: use letters, digits, '_', '.', '-'")
    if len(digit_tail(longest)) > 19 and any(int(digit_tail(name) or 0) >= _TOP for name in names):
        raise ValueError(f"Slurm cannot count to the number at the end of {item[:80]!r}")
    return names


def _combine(literals: list[str], choices: list[list[str]]) -> list[str]:
    """Return the names in Slurm's order: the last bracket runs first, then from the left."""
    names = [literals[0]]
    for choice, literal in zip(choices, literals[1:-1]):
        names = [f"{name}{number}{literal}" for number in choice for name in names]
    if choices:
        end = literals[-1]
        names = [f"{name}{number}{end}" for name in names for number in choices[-1]]
    return names


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.match(part)
        if found is None:
            raise ValueError(f"{part[:80]!r} is not a number or a range of numbers")
        low, high = found.group(1), found.group(2) or found.group(1)
        count = int(high) - int(low) + 1
        if int(high) >= _TOP:
            raise ValueError(f"Slurm cannot count to {high}")
        if count < 1:
            raise ValueError(f"range {part!r} runs backwards")
        if count > RANGE_LIMIT:
            raise ValueError(f"range {part!r} names more than {RANGE_LIMIT:,} hosts")
        if len(numbers) + count > HOST_LIMIT:
            raise ValueError(f"range {part!r} names more than {HOST_LIMIT:,} hosts with the others")
        width = len(low)
        numbers.extend([f"{n:0{width}d}" for n in range(int(low), int(high) + 1)])
    return numbers
