"""Host lists in Slurm's own notation: ``n[01-18],login1``.

Reads what ``scontrol show hostnames`` reads (several brackets, mixed lists) and
writes what every release since 22.05 accepts: only a trailing number is folded,
because 22.05 refuses a bracket that does not end the name. Widths are kept:
``n01`` and ``n001`` are different hosts and never share a range.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, product

RANGE_LIMIT = 65_536
"""Most hosts in one range (MAX_RANGE of Slurm's hostlist.c)."""
HOST_LIMIT = 1_000_000
"""Most hosts one list may expand to: a guard, not a limit of Slurm."""

LONGEST_TAIL = 18
"""Most trailing digits that Slurm's hostlist counts right: it overflows at 20."""

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?\Z")


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
    if sort:
        tails.sort(key=_tail_key)
    padded: dict[str, set[int]] = {}
    for prefix, digits in tails:
        if digits[:1] == "0" and len(digits) > 1:
            padded.setdefault(prefix, set()).add(len(digits))
    widths = [_width(digits, padded.get(prefix)) for prefix, digits in tails]
    parts: list[str] = []
    for (prefix, width), group in groupby(
        zip(tails, widths, strict=True), key=lambda pair: (pair[0][0], pair[1])
    ):
        numbers = [int(digits) for (_, digits), _ in group if digits]
        parts.append(prefix + _ranges(numbers, width) if numbers else prefix)
    return ",".join(parts)


def _split_tail(host: str) -> tuple[str, str]:
    """Return the name and its trailing digits, which are empty where none may be folded."""
    digits = digit_tail(host)
    return (host, "") if len(digits) > LONGEST_TAIL else (host[: len(host) - len(digits)], digits)


def digit_tail(host: str) -> str:
    """Return the digits at the end of a name."""
    return host[len(host.rstrip("0123456789")) :]


def _tail_key(tail: tuple[str, str]) -> tuple[str, int, int]:
    prefix, digits = tail
    return prefix, len(digits), int(digits or 0)


def _width(digits: str, padded: set[int] | None) -> int:
    """Return the padding under which these digits may be written, 0 for none.

    A number without a leading zero joins a padded group of its own width, or a
    narrower one (``[08-100]``), or stands unpadded.
    """
    if not padded or not digits:
        return 0
    size = len(digits)
    if digits[0] == "0" and size > 1:
        return size
    return max((width for width in padded if width <= size), default=0)


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
    pieces = re.split(r"\[([^\]]*)\]", item)
    choices = [[piece] if index % 2 == 0 else _numbers(piece) for index, piece in enumerate(pieces)]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > room:
        raise ValueError(f"host list {item[:80]!r} names more than {HOST_LIMIT:,} hosts")
    names = ["".join(parts) for parts in product(*choices)]
    if not _HOST.match(names[0]) or max(map(len, names)) > 63:
        raise ValueError(f"{item[:80]!r} is not a host name: use letters, digits, '_', '.', '-'")
    return names


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.match(part)
        if found is None:
            raise ValueError(f"{part[:80]!r} is not a number or a range of numbers")
        low, high = found.group(1), found.group(2) or found.group(1)
        count = int(high) - int(low) + 1
        if count < 1:
            raise ValueError(f"range {part!r} runs backwards")
        if len(numbers) + count > RANGE_LIMIT:
            raise ValueError(f"range {part!r} names more than {RANGE_LIMIT:,} hosts")
        numbers.extend(f"{n:0{len(low)}d}" for n in range(int(low), int(high) + 1))
    return numbers
