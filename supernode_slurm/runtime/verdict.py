"""What the ranks told, and what is told of it: who died first.

Python 3.8, standard library only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from .layout import Layout
from .problem import cause, say

_NAMED = 4
"""Ranks that are named in one message."""


@dataclass
class Ranks:
    """What the ranks told."""

    ends: list[dict[str, Any]] = field(default_factory=list)
    """In the order in which they came: clocks of nodes differ."""
    well: set[int] = field(default_factory=set)
    """Ranks that ended well."""
    refused: bool = False
    """One of them said itself why it does not start."""
    lines: dict[int, list[str]] = field(default_factory=dict)


def judge(ranks: Ranks, code: int, layout: Layout | None) -> int:
    """Name the rank that died first; return the exit code of the whole.

    ``code`` is srun's. Without a map nothing is said of ranks that told nothing.
    """
    alone = [end for end in ranks.ends if not end.get("told")]
    if not alone:
        silent = _silent(ranks, layout) if layout and not ranks.refused else []
        if code and silent:
            more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
            ended = f"; {len(ranks.ends)} ranks were ended" if ranks.ends else ""
            say(
                "error",
                f"no word from {', '.join(silent[:_NAMED])}{more}: killed, or the sn-launch beside "
                f"it was: out of memory?{ended}",
            )
        elif ranks.ends and code:
            say("error", f"Slurm, or a user, ended the step: {len(ranks.ends)} ranks with it")
        return code
    first = alone[0]
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(first["at"]))
    others = len(ranks.ends) - 1
    followed = f"; {others} more followed" if others else ""
    what = f"{first['text']} died first: {cause(first['code'], first['signal'])}, {when}{followed}"
    lines = (f"    {line}" for line in ranks.lines.get(first["rank"], ()))
    say("error", "\n".join([what, *lines]))
    return int(first["code"] or 128 + first["signal"])


def _silent(ranks: Ranks, layout: Layout) -> list[str]:
    """Return the ranks that have not told their end."""
    heard = ranks.well.union(end["rank"] for end in ranks.ends)
    return [
        f"{'the task' if layout.per_node else f'rank {number}'} on {place.node}"
        for place in layout.places
        for number in range(place.first, place.first + (1 if layout.per_node else place.count))
        if number not in heard
    ]
