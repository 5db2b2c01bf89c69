"""The small languages inside Slurm's answers: GRES, states, exit codes."""

from __future__ import annotations

import re

from ..errors import SlurmError
from .model import Gres
from .records import NOTHING

_SCALE = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_GRES_WORD = re.compile(r"[A-Za-z0-9_.-]+\Z")
_WHOLE = re.compile(r"[0-9]{1,18}\Z")
_MOST_INDEXES = 1024
"""Devices of a node whose indexes are read: Slurm takes no more files of a GRES."""
_COUNT = re.compile(r"([0-9]+)([KMG]?)\Z")
_MOST_DIGITS = 15
_FLAG_MARKS = re.compile(r"[*~#!%$@^+-]+\Z")
_MARK_STATES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
}
# In the brackets stand IDX, CNT, or the shares of each card that are held: shard:3(3/4,0/4).
_HELD = re.compile(r"([^,()]+)(?:\((?:(IDX|CNT):)?([^)]*)\))?")


def gres(text: str) -> tuple[Gres, ...]:
    """Return the GRES of ``gpu:h100:8(S:0-1),npu:2`` or ``gres/gpu:h100=8``.

    A count that is left out is 1, as in Slurm; ``(null)`` is empty.
    """
    if text in NOTHING:
        return ()
    plain = re.sub(r"\([^)]*\)|:no_consume(?=[:,]|\Z)", "", text)
    return tuple(_gres_item(item) for item in plain.split(","))


def held_gres(text: str) -> tuple[Gres, ...]:
    """Return the GRES of ``gpu:h100:2(IDX:0,3),npu:910c(CNT:2)``, with indexes if there are."""
    if text in NOTHING:
        return ()
    found = []
    for item, kind, said in _HELD.findall(text):
        held = _gres_item(item)
        count = number(said) if kind == "CNT" else held.count
        found.append(Gres(held.name, held.type, count, _indexes(said if kind == "IDX" else "")))
    return tuple(found)


def states(text: str) -> frozenset[str]:
    """Return the states of ``IDLE+CLOUD+POWERED_DOWN`` or ``DOWN*``."""
    found: set[str] = set()
    for part in re.split("[+,]", text):
        marks = _FLAG_MARKS.search(part)
        found.add(_FLAG_MARKS.sub("", part))
        found.update(
            _MARK_STATES[mark] for mark in (marks[0] if marks else "") if mark in _MARK_STATES
        )
    return frozenset(found - {""})


def exit_code(text: str) -> int:
    """Return the code of ``code:signal``, or of a wait status as 22.05's squeue prints it.

    128 + signal for one that a signal ended.
    """
    code, colon, signal = text.partition(":")
    status = number(code)
    if not colon:
        return 128 + (status & 127) if status & 127 else status >> 8
    return 128 + number(signal) if number(signal) else status


def number(value: str | None) -> int:
    """Return a number, 0 for what is none."""
    return int(value) if value and _WHOLE.match(value) else 0


def _gres_item(text: str) -> Gres:
    words = re.split("[:=]", re.sub(r"\Agres[:/]", "", text.strip()))
    counted = _COUNT.match(words[-1]) if len(words) > 1 else None
    name, *types = words[:-1] if counted else words
    readable = len(types) < 2 and all(map(_GRES_WORD.match, [name, *types]))
    if not readable or (counted and len(counted[1]) > _MOST_DIGITS):
        raise SlurmError(f"cannot read GRES {text[:80]!r}")
    count = int(counted[1]) * _SCALE[counted[2]] if counted else 1
    return Gres(name, "".join(types), count)


def _indexes(text: str) -> tuple[int, ...]:
    """Return the numbers of ``0-3,6``; none for ``N/A``."""
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if _WHOLE.match(low) and _WHOLE.match(high or low):
            found += range(int(low), min(int(high or low), int(low) + _MOST_INDEXES) + 1)
    return tuple(found)
