"""What many hosts print, in one text: each line with its host, or each host under its name.

``clush`` and ``pdsh`` put ``HOST: `` before each line; ``clush -b`` and ``dshbak -c`` gather
equal answers under a list of hosts between two rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .. import hostlist
from ..errors import ConfigError, Where

_PREFIX = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,252}):(?: (.*)|\s*)\Z")
_RULE = re.compile(r"-{6,}\s*\Z")
_HEADING = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.,\[\]-]*)(?: \([0-9]+\))?\s*\Z")


@dataclass(frozen=True, slots=True)
class Answer:
    """What some hosts printed, alike."""

    hosts: tuple[str, ...]
    """Empty where the text does not say which."""
    text: str
    where: Where
    """Of its first line."""


def answers_of(text: str, source: str) -> list[Answer]:
    """Return the answers of a text; one without hosts where it names none.

    Raises ``ConfigError`` for a heading that is no list of hosts.
    """
    lines = text.splitlines()
    if any(map(_RULE.match, lines[:-2])) and (found := _gathered(lines, source)):
        return found
    full = [line for line in lines if line.strip()]
    if full and all(map(_PREFIX.match, full)):
        return _prefixed(lines, source)
    return [Answer((), text, Where(source, 1, 1))]


def _prefixed(lines: Iterable[str], source: str) -> list[Answer]:
    held: dict[str, tuple[int, list[str]]] = {}
    for number, line in enumerate(lines, 1):
        if found := _PREFIX.match(line):
            held.setdefault(found[1], (number, []))[1].append(found[2] or "")
    return [
        Answer((host,), "\n".join(said), Where(source, number, 1))
        for host, (number, said) in held.items()
    ]


def _gathered(lines: list[str], source: str) -> list[Answer]:
    """Return the answers under headings between rules, none if there is no heading."""
    starts = [
        at
        for at in range(len(lines) - 2)
        if _RULE.match(lines[at]) and _HEADING.match(lines[at + 1]) and _RULE.match(lines[at + 2])
    ]
    found = []
    for at, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        heading = _HEADING.match(lines[at + 1])
        try:
            hosts = tuple(hostlist.expand(heading[1])) if heading else ()
        except ValueError as error:
            raise ConfigError.one(Where(source, at + 2, 1), str(error)) from error
        found.append(Answer(hosts, "\n".join(lines[at + 3 : end]), Where(source, at + 4, 1)))
    return found
