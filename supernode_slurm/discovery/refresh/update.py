"""An inventory brought up to date in its own text."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from ...errors import ConfigError, Problem
from ...inventory import Inventory, loads
from ..adapters import Wanted
from ..importer import import_sources
from ..live import SOURCE, Shows
from ..room import Remark
from . import marks, said
from .changes import Change, Log
from .joining import Joining
from .network import Network
from .partitions import write_partitions
from .patch import CannotEdit, as_list
from .shapes import Shapes
from .sheet import MustSplit, Sheet
from .told import Sources, types_given

MOST_ROUNDS = 6
"""A change that calls for another one is followed so often; one more means a circle."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an update is made."""

    day: date
    """Since when hosts that are not there are absent."""
    given: Mapping[str, str]
    """GRES types, and names of tools, with what they are in the catalogue."""
    is_complete: bool = False
    """The sources name every host that there is."""
    fabrics: Wanted | None = None
    """Which part of measured fabrics counts."""


@dataclass(frozen=True, slots=True)
class Updated:
    """A text that says what sources say now."""

    old: str
    new: str
    changes: tuple[Change, ...]
    remarks: tuple[Remark, ...]
    """What the sources make one doubt."""
    problems: tuple[Problem, ...]
    """What a person wrote and sources say otherwise: it stays."""

    def difference(self, name: str) -> str:
        """Return the unified diff from the old text to the new one."""
        before, after = self.old.splitlines(True), self.new.splitlines(True)
        lines = difflib.unified_diff(before, after, name, f"{name} (updated)")
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


def update(
    text: str,
    source: str,
    texts: Sequence[str],
    options: Options,
    client: Callable[[], Shows],
) -> Updated:
    """Return the text of an inventory with what sources measured otherwise changed in place.

    Raises ``ConfigError`` for a text that is no inventory and for sources that tell of no
    nodes, ``CannotEdit`` where the text cannot be changed as wanted.
    """
    inventory = loads(text, source)
    given = {**types_given(inventory), **options.given}
    imported = import_sources(texts, given, client, options.fabrics)
    sources = Sources(imported, given, live=SOURCE in texts, complete=options.is_complete)
    day = options.day.isoformat()
    changes: list[Change] = []
    new = text
    for _ in range(MOST_ROUNDS):
        log = Log()
        before, new = new, _round(new, source, sources, day, log)
        changes += log.changes
        if new == before:
            break
    else:
        raise CannotEdit(f"{source}: no end of changes; import into a new file and compare")
    if new != text:
        _loaded(new, source)
    problems = tuple(dict.fromkeys(log.problems))
    remarks = tuple(item for item in imported.remarks if not _is_known(item))
    return Updated(text, new, tuple(changes), remarks, problems)


_KNOWN = ("the name of the cluster:", "how fast the interconnect", "how the nodes are wired:")


def _is_known(remark: Remark) -> bool:
    """Return whether a remark is about what the inventory says already."""
    return remark.kind == "unsaid" and remark.problem.what.startswith(_KNOWN)


def _round(text: str, source: str, sources: Sources, day: str, log: Log) -> str:
    while True:
        mine = Log()
        try:
            found = _changed(text, source, sources, day, mine)
        except MustSplit as split:
            text = as_list(text, split.item)
            continue
        log.changes += mine.changes
        log.problems += mine.problems
        return found


def _changed(text: str, source: str, sources: Sources, day: str, log: Log) -> str:
    sheet = Sheet(text, source, day)
    told = sources.told(sheet.inventory)
    away = marks.away_now(sheet, told)
    Shapes(sheet, told, away, log).run()
    Joining(sheet, told, Network(sheet, told, away, Log()), log).run()
    marks.write_absent(sheet, told, away, log)
    marks.write_release(sheet, told, log)
    found = sheet.patched()
    room = _loaded(found, source)
    sheet = Sheet(found, source, day)
    marks.write_versions(sheet, told, (h for item in room.domains for h in item.hosts), log)
    Network(sheet, told, away, log).run()
    found = sheet.patched()
    _loaded(found, source)
    sheet = Sheet(found, source, day)
    write_partitions(sheet, told, away, log)
    said.tell(sheet.inventory, told, log)
    return sheet.patched()


def _loaded(text: str, source: str) -> Inventory:
    try:
        return loads(text, source)
    except ConfigError as error:
        problems = [
            Problem(item.where, f"the update would make this invalid: {item.what}", item.todo)
            for item in error.problems
        ]
        raise ConfigError(problems) from error
