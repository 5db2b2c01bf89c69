"""Import: sources in, an inventory that loads out, and what its reader should know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..catalogue import UnknownName, find_accelerator
from ..errors import ConfigError, Problem, UsageError, Where
from ..inventory import Inventory, loads
from .build import build
from .document import Leaf, Tree, facts, render
from .room import Remark, Room
from .sources import read_sources


@dataclass(frozen=True, slots=True)
class Imported:
    """An inventory, and how it came to be."""

    text: str
    """YAML, with the origin of each value as a comment."""
    inventory: Inventory
    facts: tuple[tuple[str, Leaf], ...]
    """Path and value of each fact, with its origins."""
    remarks: tuple[Remark, ...]
    """Mistakes, disagreements, what is lost and what no source says."""


def import_files(texts: Sequence[str], given: Mapping[str, str]) -> Imported:
    """Return the inventory of files; ``given`` maps GRES types to accelerators."""
    room = Room()
    read_sources(list(texts), room)
    return finish(room, given)


def finish(room: Room, given: Mapping[str, str]) -> Imported:
    """Return the inventory that facts amount to; raises ``ConfigError`` if there is none."""
    for name in given.values():
        try:
            find_accelerator(name)
        except UnknownName as error:
            raise UsageError(f"--accelerator: {error}") from error
    document = build(room, given)
    text = HEAD.format(sources=", ".join(room.sources)) + render(document)
    try:
        inventory = loads(text, "imported inventory")
    except ConfigError as error:
        raise ConfigError(_at_sources(error, document, room)) from error
    return Imported(text, inventory, tuple(facts(document)), tuple(room.all_remarks()))


HEAD = "# Imported from {sources}\n"


def _at_sources(error: ConfigError, document: Tree, room: Room) -> list[Problem]:
    """Return the problems of an inventory that does not load, with where their values are from."""
    place = Where(room.sources[0] if room.sources else "")
    return [Problem(place, f"does not make an inventory: {p.what}", p.todo) for p in error.problems]
