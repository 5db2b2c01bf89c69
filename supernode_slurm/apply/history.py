"""What was installed before: numbered generations of our files, the last twenty of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError
from .disk import Attributes, Disk

KEPT = 20
PENDING, WRITTEN, PROVEN = "pending", "written", "proven"
_FILES, _RECORD, _STATE, _NEW, _GONE = "files", "record.json", "state", ".new", ".gone"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a configuration comes from."""

    who: str
    when: str
    """ISO 8601, with the zone."""
    release: str
    """Of Slurm; empty where it is not known."""
    inventory: str
    """SHA-256 of the inventory, empty for another origin."""
    what: str
    """In words: an inventory's path, ``found``, ``rollback to 7``."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One configuration that is or was installed."""

    number: int
    origin: Origin
    state: str
    """``proven``: a controller ran it, or it was found installed; ``written``: files alone."""
    hashes: Mapping[str, str]
    """SHA-256 of each file, by name."""


class History:
    """The generations of one target."""

    def __init__(self, store: Path, disk: Disk) -> None:
        """Take the directory beside slurm.conf; nothing need be there yet."""
        self._directory = store / "history"
        self._store = store
        self._disk = disk

    def generations(self) -> tuple[Generation, ...]:
        """Return all generations, oldest first; what a crash left unfinished is none."""
        try:
            names = sorted(os.listdir(self._directory))
        except FileNotFoundError:
            return ()
        found = (self._read(self._directory / name) for name in names if name.isdigit())
        return tuple(sorted(filter(None, found), key=lambda item: item.number))

    def get(self, number: int) -> Generation:
        """Return a generation; ``ConfigError`` names those that there are."""
        found = {item.number: item for item in self.generations()}
        if number not in found:
            known = ", ".join(map(str, found)) or "none"
            raise ConfigError.one(f"generation {number}", "is not kept", f"kept: {known}")
        return found[number]

    def files(self, number: int) -> dict[str, str]:
        """Return the files of a generation, by name; ``ConfigError`` for spoilt ones."""
        generation = self.get(number)
        texts = {}
        for name, wanted in generation.hashes.items():
            path = self._path(number) / _FILES / name
            try:
                data = path.read_bytes()
            except OSError as error:
                raise ConfigError.one(str(path), f"cannot be read: {error.strerror}") from error
            if hashed(data) != wanted:
                raise ConfigError.one(str(path), "was changed since it was kept")
            texts[name] = data.decode("utf-8", "surrogateescape")
        return texts

    def save(self, files: Mapping[str, str], origin: Origin, state: str = PENDING) -> Generation:
        """Keep a configuration under the next number."""
        numbers = [item.number for item in self.generations()]
        number = max(numbers, default=0) + 1
        disk, own = self._disk, Attributes(0o600, os.geteuid(), os.getegid())
        disk.make_directory(self._store)
        disk.make_directory(self._directory)
        new = self._directory / _NEW
        disk.remove_directory(new)
        disk.make_directory(new)
        disk.make_directory(new / _FILES)
        hashes = {}
        for name, text in files.items():
            data = encoded(text)
            hashes[name] = hashed(data)
            disk.create(new / _FILES / name, data, own)
        record = {
            "who": origin.who,
            "when": origin.when,
            "release": origin.release,
            "inventory": origin.inventory,
            "what": origin.what,
            "files": hashes,
        }
        disk.create(new / _RECORD, json.dumps(record, indent=1).encode(), own)
        disk.create(new / _STATE, state.encode(), own)
        disk.remove_directory(self._path(number))  # a spoilt one that generations() passes over
        disk.replace(new, self._path(number))
        return Generation(number, origin, state, hashes)

    def mark(self, number: int, state: str) -> None:
        """Say what became of a generation."""
        own = Attributes(0o600, os.geteuid(), os.getegid())
        staged = self._path(number) / _NEW
        self._disk.create(staged, state.encode(), own)
        self._disk.replace(staged, self._path(number) / _STATE)

    def forget_pending(self) -> None:
        """Drop what was never installed."""
        for item in self.generations():
            if item.state == PENDING:
                self.forget(item.number)

    def forget(self, number: int) -> None:
        """Drop a generation that did not hold; never half of it."""
        gone = self._directory / _GONE
        self._disk.remove_directory(gone)
        if self._path(number).exists():
            self._disk.replace(self._path(number), gone)
            self._disk.remove_directory(gone)

    def prune(self, needed: Iterable[int]) -> None:
        """Drop all but the last ones and those that are needed."""
        kept = set(needed)
        for item in self.generations()[:-KEPT]:
            if item.number not in kept:
                self.forget(item.number)

    def current(self, installed: Mapping[str, str]) -> Generation | None:
        """Return the newest generation that is what is installed."""
        hashes = {name: hashed(encoded(text)) for name, text in installed.items()}
        same = (item for item in reversed(self.generations()) if dict(item.hashes) == hashes)
        return next(same, None)

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:04d}"

    def _read(self, path: Path) -> Generation | None:
        try:
            record = json.loads((path / _RECORD).read_text(encoding="utf-8"))
            words = ("who", "when", "release", "inventory", "what")
            origin = Origin(**{word: str(record[word]) for word in words})
            state = (path / _STATE).read_text(encoding="utf-8")
            hashes = {str(name): str(text) for name, text in record["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if any("/" in name or name.startswith(".") for name in hashes):
            return None
        return Generation(int(path.name), origin, state, hashes)


def encoded(text: str) -> bytes:
    """Return the bytes of a file."""
    return text.encode("utf-8", "surrogateescape")


def hashed(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
