"""What ranks tell the launcher: marked lines among srun's stderr.

A step's stderr is the one way from each rank to the launcher that always works. Slurm
sends lines of up to 1024 bytes whole (seen on 22.05, 24.11 and 26.05); longer ones of
several ranks mix. So a record is one short line.

Python 3.8, standard library only.
"""

from __future__ import annotations

import json
import re
from typing import Any

_LONGEST = 1000
_LABEL = re.compile(rb"(?:\A|\n)( *[0-9]+: )\Z")
"""What ``srun --label`` puts before each line."""


def prefix_of(mark: str) -> bytes:
    """Return how a marked line begins."""
    return b"\x1esn-launch " + mark.encode("ascii", "replace") + b" "


def encode(mark: str, record: dict[str, Any], text: str = "") -> bytes:
    """Return a record as a line, with a text that is cut where the line grows too long."""
    while True:
        body = json.dumps({**record, "text": text}, ensure_ascii=False, separators=(",", ":"))
        line = prefix_of(mark) + body.encode("utf-8", "replace") + b"\n"
        if len(line) <= _LONGEST or not text:
            return line
        text = text[: len(text) * 3 // 4]


class Sieve:
    """Takes the records out of a stream; all else passes at once and unchanged."""

    def __init__(self, mark: str) -> None:
        """Look for lines of this mark."""
        self._prefix = prefix_of(mark)
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, list[dict[str, Any]]]:
        """Return what passes of the stream's next bytes, and the records among them."""
        data = self._held + data
        self._held = b""
        passed = b""
        records: list[dict[str, Any]] = []
        while True:
            start = data.find(b"\x1e")
            if start < 0:
                return passed + data, records
            passed, rest = passed + data[:start], data[start:]
            if not rest.startswith(self._prefix) and not self._prefix.startswith(rest):
                passed, data = passed + rest[:1], rest[1:]
                continue
            end = rest.find(b"\n")
            if end < 0 and len(rest) <= _LONGEST:
                self._held = rest
                return passed, records
            if end < 0:
                return passed + rest, records
            record = _decode(rest[len(self._prefix) : end])
            if record is None:
                passed += rest[: end + 1]
            else:
                passed = _LABEL.sub(lambda found: found[0][: -len(found[1])], passed)
                records.append(record)
            data = rest[end + 1 :]

    def rest(self) -> bytes:
        """Return what is still held when the stream ends."""
        held, self._held = self._held, b""
        return held


def _decode(body: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(body.decode("utf-8", "replace"))
    except ValueError:
        return None
    return record if isinstance(record, dict) and "kind" in record else None
