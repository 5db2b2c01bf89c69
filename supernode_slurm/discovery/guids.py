"""GUIDs of hosts' network adapters: ``ibstat`` of many hosts, or a list with a host on each line.

They tell whose adapter it is that a fabric knows under its maker's name only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import Where
from ..probe.network import read_ibstat
from ..slurmconf.grammar import read_text
from .per_host import answers_of
from .room import Room

_HOST = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}"
_GUID = r"(?:0x)?[0-9a-fA-F]{12,16}"
_LINE = re.compile(rf"({_HOST}):?\s+({_GUID}(?:[\s,]+{_GUID})*)\s*\Z")
_HEADING = re.compile(rf"VM_hostname\s+({_HOST})\s*\Z")
_ALONE = re.compile(rf"{_GUID}\s*\Z")
_IBSTAT = re.compile(r"^(?:\S+: )?CA '[^'\n]{1,64}'$", re.MULTILINE)

_Said = tuple[str, str, int]
"""Host, GUID and line."""


def is_guids(text: str) -> bool:
    """Return whether a text is such a list; one whose ids repeat from host to host is not."""
    seen: dict[str, str] = {}
    for host, guid, _ in _said(text):
        if not host or seen.setdefault(guid, host) != host:
            return False
    return bool(seen)


def is_ibstat(text: str) -> bool:
    """Return whether a text looks like the output of ibstat."""
    return _IBSTAT.search(text) is not None and "Node GUID:" in text


def read_guids(path: Path, room: Room) -> None:
    """Add what a list says."""
    text = read_text(path)
    owner: dict[str, tuple[str, int]] = {}
    for host, guid, number in _said(text):
        where = Where(str(path), number, 1)
        if not host:
            room.error(where, f"expected HOST GUID, got {guid[:60]!r}")
        elif owner.setdefault(guid, (host, number))[0] != host:
            what = f"{guid} is of {host} and of {owner[guid][0]} (line {owner[guid][1]})"
            room.error(where, what, "ask the hosts again")
        else:
            _add(room, host, [guid])
    room.check()


def read_ibstats(path: Path, room: Room) -> None:
    """Add what ibstat printed on many hosts."""
    for answer in answers_of(read_text(path), str(path)):
        found = [
            guid
            for card in read_ibstat(answer.text)
            for guid in (card.get("guid"), *(port.get("guid") for port in card.get("ports", [])))
            if guid
        ]
        if not answer.hosts:
            todo = "save what clush -w @all ibstat prints"
            room.error(answer.where, "says no host", todo)
        elif len(answer.hosts) > 1 and found:
            todo = "ask them again: no two hosts have the same"
            room.error(answer.where, f"{len(answer.hosts)} hosts have the same GUIDs", todo)
        else:
            for host in answer.hosts:
                _add(room, host, found)
    room.check()


def _said(text: str) -> Iterator[_Said]:
    """Yield what each line says; without a host what is no line of a list."""
    heading = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if found := _HEADING.match(line):
            heading = found[1]
        elif _ALONE.match(line) and heading:
            yield heading, _digits(line), number
        elif found := _LINE.match(line):
            for guid in re.split(r"[\s,]+", found[2]):
                yield found[1], _digits(guid), number
        else:
            yield "", line.strip(), number


def _digits(text: str) -> str:
    return text.strip().casefold().removeprefix("0x").zfill(16)


def _add(room: Room, host: str, guids: list[str]) -> None:
    room.guids[host] = tuple(dict.fromkeys([*room.guids.get(host, ()), *guids]))
