"""The file of an inventory: read as it is, and written only if it is still what was read."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...data import write_atomically
from ...errors import ConfigError, SupernodeError
from ...inventory import yamltree


@dataclass(frozen=True, slots=True)
class InventoryText:
    """A file as it was read."""

    path: Path
    """The file itself, behind any symbolic links."""
    text: str
    """With the ends of lines that it has."""


def read(path: Path) -> InventoryText:
    """Return a file; raises ``ConfigError`` where it cannot be read."""
    try:
        real = path.resolve(strict=True)
        with real.open("rb") as stream:
            text = stream.read(yamltree.MAX_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"not UTF-8: {error.reason} at byte {error.start}"
        raise ConfigError.one(str(path), what) from error
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError.one(str(path), f"cannot read the inventory: {reason}") from error
    return InventoryText(real, text)


def write(was: InventoryText, text: str) -> None:
    """Put a new text in the place of what was read; mode and owner stay.

    Raises ``SupernodeError`` if somebody changed the file since.
    """
    with _alone(was.path):
        if read(was.path).text != was.text:
            todo = "nothing was written; run it again"
            raise SupernodeError(f"{was.path}: was changed by somebody meanwhile; {todo}")
        write_atomically({was.path: text})


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other update writes a file of this directory."""
    handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
