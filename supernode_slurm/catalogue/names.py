"""Names as people write them: compared without case, spaces, dashes and underscores."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any


class UnknownName(LookupError):
    """The catalogue has no such name; the message offers the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        folded = {fold(item): item for item in known}
        near = difflib.get_close_matches(fold(name), folded, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(folded[item] for item in near)}?" if near else ""
        super().__init__(f"no {kind} {name[:80]!r}{hint}")


def fold(name: str) -> str:
    """Return the form in which two spellings of one name are equal."""
    return re.sub(r"[\s_-]+", "", name).casefold()


@cache
def packaged(name: str) -> Any:
    """Return what a YAML file of this package holds; not to be changed."""
    import yaml

    text = (files(__package__) / name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
