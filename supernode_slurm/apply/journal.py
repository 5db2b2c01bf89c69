"""Several files in the place of others: after a crash all old, all new, or told by a journal.

Before the first file of the configuration changes, the new ones lie complete in a
directory beside it, the old ones have a second name there, and the journal says so.
Going back is a renaming, which a full disk does not stop.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import ConfigError
from .disk import Attributes, Disk
from .history import encoded, hashed

_JOURNAL, _STAGED_JOURNAL, _OLD, _NEW = "journal.json", "journal.new", "old", "new"


@dataclass(frozen=True, slots=True)
class Entry:
    """What the journal says of an apply that is not finished."""

    generation: int
    """Of the new files."""
    previous: int | None
    """Generation of the old files; None where there were none of ours."""
    who: str
    since: str
    needs: str
    """What makes slurmctld read them: ``nothing``, ``reconfigure`` or ``restart``."""
    written: int
    """Seconds since the epoch."""
    old: Mapping[str, str]
    """SHA-256 of each file that changed or went, by name."""
    new: Mapping[str, str]
    """SHA-256 of each file that changed or came, by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all files that the apply touches."""
        return tuple(dict.fromkeys((*self.old, *self.new)))


class Journal:
    """The journal of one configuration directory."""

    def __init__(self, directory: Path, store: Path, disk: Disk) -> None:
        """Take the directory of slurm.conf and the one beside it."""
        self._directory = directory
        self._store = store
        self._disk = disk

    def read(self) -> Entry | None:
        """Return the entry of an unfinished apply, None if there is none.

        Raises ``ConfigError`` for a journal that somebody spoilt.
        """
        path = self._store / _JOURNAL
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            entry = Entry(**{**said, "old": dict(said["old"]), "new": dict(said["new"])})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            todo = f"compare {self._store / _OLD} with the files by hand, then delete it"
            raise ConfigError.one(str(path), "cannot be read", todo) from error
        if any(os.path.basename(name) != name for name in entry.names):
            raise ConfigError.one(str(path), "names files elsewhere", "delete it")
        return entry

    def state(self, entry: Entry) -> str:
        """Return ``new``, ``old`` or ``mixed``, or ``other`` where a person wrote since."""
        seen = set()
        for name in entry.names:
            path = self._directory / name
            found = hashed(path.read_bytes()) if path.is_file() else None
            if found not in (entry.new.get(name), entry.old.get(name)):
                return "other"
            seen.add("new" if found == entry.new.get(name) else "old")
        return seen.pop() if len(seen) == 1 else "mixed"

    def install(
        self,
        entry: Entry,
        texts: Mapping[str, str],
        attributes: Callable[[str], Attributes],
        now: Callable[[], float] = time.time,
    ) -> None:
        """Put new files in the place of old ones; those without a new text go.

        Whatever ends it midway leaves the journal, and ``restore`` undoes it.
        """
        disk = self._disk
        old, new = self._store / _OLD, self._store / _NEW
        self._clear()
        disk.make_directory(old)
        disk.make_directory(new)
        for name in entry.old:
            disk.keep(self._directory / name, old / name)
        for name in entry.new:
            disk.create(new / name, encoded(texts[name]), attributes(name))
            if name in entry.old:
                disk.like(new / name, self._directory / name)
        own = Attributes(0o600, os.geteuid(), os.getegid())
        staged = self._store / _STAGED_JOURNAL
        disk.create(staged, json.dumps(asdict(entry), indent=1).encode(), own)
        disk.replace(staged, self._store / _JOURNAL)
        for name in entry.names:
            if name in entry.new:
                self._put(new / name, name, now)
            else:
                disk.remove(self._directory / name)

    def restore(self, entry: Entry, now: Callable[[], float] = time.time) -> None:
        """Put the old files back; may be called again after it was cut short."""
        for name in entry.names:
            kept = self._store / _OLD / name
            if name not in entry.old:
                self._disk.remove(self._directory / name)
            elif kept.exists():
                self._put(kept, name, now)

    def close(self) -> None:
        """Forget the entry: what is installed counts from now on."""
        self._disk.remove(self._store / _JOURNAL)
        self._clear()

    def _put(self, source: Path, name: str, now: Callable[[], float]) -> None:
        target = self._directory / name
        if name.endswith(".lua"):
            # slurmctld reads a script again only if it is newer, in whole seconds, than the last.
            last = int(target.stat().st_mtime) if target.exists() else 0
            self._disk.touch(source, max(int(now()), last + 1))
        self._disk.replace(source, target)

    def _clear(self) -> None:
        for name in (_OLD, _NEW):
            self._disk.remove_directory(self._store / name)
