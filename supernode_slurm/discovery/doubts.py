"""What a topology.conf makes one doubt: forgotten prefixes, and lines that are comments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .. import hostlist
from ..errors import Where
from ..slurmconf.grammar import Line, parse_lines
from .room import GroupFacts, Room, SwitchFacts

_COMMENTED = re.compile(r"\s*#+\s*((?:BlockName|SwitchName)\s*=.*)", re.IGNORECASE)

Part = SwitchFacts | GroupFacts


def tell_doubts(text: str, source: str, parts: Sequence[Part], room: Room) -> None:
    """Tell of what the author of a topology.conf may not have meant.

    ``parts`` are its switches and blocks.
    """
    _tell_commented(text, source, parts, room)
    if not room.nodes:  # with a slurm.conf, names without their prefix are no nodes of it
        _tell_bare_names(parts, room)


def _tell_commented(text: str, source: str, parts: Sequence[Part], room: Room) -> None:
    held = {host for part in parts for host in part.nodes}
    held.update(host for node in room.nodes for host in node.hosts)
    for number, line in enumerate(text.split("\n"), 1):
        found = _COMMENTED.match(line)
        for said in parse_lines(found[1], source) if found else ():
            lost = [host for host in _hosts(said) if host not in held]
            if lost:
                what = f"{said.pairs[0][0]}={said.pairs[0][1].text} is a comment"
                todo = "take the '#' away, or name the slurm.conf that has them"
                place = Where(source, number, 1)
                room.mistake(place, f"{what}: {hostlist.fold(lost)} stand nowhere else", todo)


def _hosts(line: Line) -> list[str]:
    """Return the nodes of a line, none where it is no line that Slurm could read."""
    try:
        return hostlist.expand(line.keys["nodes"].text) if not line.problem else []
    except (KeyError, ValueError):
        return []


def _tell_bare_names(parts: Sequence[Part], room: Room) -> None:
    """Tell of ``a-n[1-3],n[4-5]`` where nothing else is ``a-n[4-5]``."""
    taken = {host for part in parts for host in part.nodes}
    for part in parts:
        numbers: dict[str, list[str]] = {}
        for host in part.nodes:
            digits = hostlist.digit_tail(host)
            numbers.setdefault(host.removesuffix(digits), []).append(digits)
        for prefix, others in numbers.items():
            for bare in _shorter(prefix):
                tails = numbers.get(bare, [])
                meant = [prefix + digits for digits in tails]
                if _like(tails, others) and taken.isdisjoint(meant):
                    what = f"{hostlist.fold(bare + digits for digits in tails)} beside"
                    what += f" {hostlist.fold(prefix + digits for digits in others)}"
                    room.mistake(part.where, what, f"did you mean {hostlist.fold(meant)}?")


def _shorter(prefix: str) -> list[str]:
    """Return what is left of a prefix without its first words."""
    ends = [at for at, letter in enumerate(prefix, 1) if letter in "-_." or at == len(prefix)]
    return [prefix[at:] for at in ends]


def _like(tails: list[str], others: list[str]) -> bool:
    """Return whether a few numbers are written as others are."""
    return (
        bool(tails)
        and all(tails)
        and len(tails) < len(others)
        and set(map(len, tails)) <= set(map(len, others))
    )
