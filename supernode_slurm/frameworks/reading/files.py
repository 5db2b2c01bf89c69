"""Small text files of a job, read with bounds; some are only written in its script."""

from __future__ import annotations

import stat
from pathlib import Path

MAX_BYTES = 2 * 2**20
"""Far above any configuration or script."""


class Unread(Exception):
    """A file could not be read; the message says which and why."""


class Files:
    """Reads files of a job; remembers those that the script itself writes."""

    def __init__(self) -> None:
        self._written: dict[Path, tuple[str, str]] = {}

    def write(self, path: Path, text: str, unknown: str) -> None:
        """Keep what the script writes, or why that is not known."""
        self._written[path] = (text, unknown)

    def exists(self, path: Path) -> bool:
        """Say whether there is such a file, to read or written by the script."""
        try:
            return path in self._written or path.is_file()
        except (OSError, ValueError):
            return False

    def read(self, path: Path, shown: str) -> str:
        """Return the text of a file; raises ``Unread``, with the name as it was written."""
        if path in self._written:
            text, unknown = self._written[path]
            if unknown:
                raise Unread(f"{shown} is written by the script, and not wholly known: {unknown}")
            return text
        try:
            # Looked at first: to open a pipe would wait for ever.
            if not stat.S_ISREG(path.stat().st_mode):
                raise Unread(f"{shown} is not a file")
            with path.open("rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Unread(f"{shown} cannot be read: {reason}") from error
        if len(raw) > MAX_BYTES:
            raise Unread(f"{shown} is larger than {MAX_BYTES >> 20} MiB")
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Unread(f"{shown} is not UTF-8 text") from error
        if "\0" in text:
            raise Unread(f"{shown} is not text")
        return text
