"""Texts spoilt at random: cut, doubled, shuffled, sprinkled with what no tool prints."""

from __future__ import annotations

import os
import random

COUNT = int(os.environ.get("SN_FUZZ", "300"))
"""How many spoilt inputs each reader gets."""
ODD = (
    *("", "\0", "\x1b[", "::", " : ", "|", "\t", "\r\n", "\u2502", "\u0663", "N/A", "-1", "0x"),
    *("9" * 400, "1e999", "{", "}" * 40, "<gpu>", "</gpu>", "&amp;", '"', "'", ",,,", "[" * 99),
    *("GPU 0", "Port 1:", "CA 'x'", "card0", "=", "\ufffd", "\ud7ff", "a" * 9000, "\n" * 50),
)


def mangled(text: str, choose: random.Random) -> str:
    """Return a text cut, doubled, shuffled or sprinkled with what no tool prints."""
    for _ in range(choose.randint(1, 8)):
        at = choose.randint(0, len(text))
        to = min(len(text), at + choose.choice((1, 5, 50, 500)))
        kind = choose.randrange(6)
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + choose.choice(ODD) + text[at:]
        elif kind == 2:
            text = text[:at] + text[to:]
        elif kind == 3:
            text = text[:to] + text[at:to] * choose.randint(1, 5) + text[to:]
        elif kind == 4:
            text = text[:at] + choose.choice(ODD) + text[to:]
        else:
            lines = text.split("\n")
            choose.shuffle(lines)
            text = "\n".join(lines[: choose.randint(1, len(lines))])
    return text[:200_000]
