"""Import: sources in, an inventory that loads out, and what its reader should know."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..catalogue import UnknownName, find_accelerator
from ..errors import ConfigError, Problem, UsageError, Where, printable
from ..inventory import Inventory, loads
from .adapters import Wanted
from .billing import ask_for_billing, bills_as_asked
from .build import build
from .cabling import add_fabrics
from .compare import merge_live
from .document import Leaf, Tree, facts, render
from .live import PLACE, SOURCE, Shows, read_live
from .probe_join import join_probes
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
    room: Room
    """All facts of the sources."""


def import_sources(
    texts: Sequence[str],
    given: Mapping[str, str],
    client: Callable[[], Shows],
    wanted: Wanted | None = None,
) -> Imported:
    """Return the inventory of sources: files, directories, ``slurm:`` for the running Slurm.

    ``-`` is standard input. ``given`` maps GRES types, and names that tools of vendors print,
    to accelerators; ``client`` is asked for only where it is needed; ``wanted`` says which
    part of measured fabrics counts. Raises ``ConfigError`` for a source that is none, or if
    they make no inventory.
    """
    _check_names(given)
    room = Room()
    files = [text for text in texts if text != SOURCE]
    if len(files) == len(texts):
        read_sources(files, room)
    else:
        live = Room(sources=[SOURCE])
        conf = read_live(client(), live)
        if conf and os.access(conf, os.R_OK):
            read_sources([conf, *files], room)
            room = merge_live(room, live)
        else:
            what = f"{conf or 'slurm.conf'} cannot be read here"
            todo = "device files and comments of ours are not known: import where it lies"
            live.unsaid(PLACE, what, todo)
            read_sources(files, live)
            room = live
    join_probes(room, given)
    add_fabrics(room, wanted or Wanted())
    return _finish(room, given)


def _check_names(given: Mapping[str, str]) -> None:
    for name in given.values():
        try:
            find_accelerator(name)
        except UnknownName as error:
            raise UsageError(f"--accelerator: {error}") from error


def _finish(room: Room, given: Mapping[str, str]) -> Imported:
    document = build(room, given)
    text, inventory = _loaded(document, room)
    if room.ours and bills_as_asked(inventory):
        ask_for_billing(document)
        text, inventory = _loaded(document, room)
    return Imported(text, inventory, tuple(facts(document)), tuple(room.all_remarks()), room)


def _loaded(document: dict[str, Tree], room: Room) -> tuple[str, Inventory]:
    """Return the text and its inventory; problems are told at the places of the sources."""
    rendered = render(document, printable(f"# Imported from {', '.join(room.sources)}"))
    text = "".join(f"{line}\n" for line in rendered.lines)
    try:
        return text, loads(text, "imported")
    except ConfigError as error:
        problems = []
        for problem in error.problems:
            origin = rendered.origins[problem.where.line - 1] if problem.where.line else ()
            place = origin[0] if origin else Where(room.sources[0])
            problems.append(Problem(place, f"makes no inventory: {problem.what}", problem.todo))
        raise ConfigError(problems) from error
