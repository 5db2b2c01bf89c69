"""Slurm's ``--constraint``: which nodes it allows.

``a&b``, ``a|b``, parentheses, and ``[a|b]``, under which all nodes of a job carry the same one.
A count (``[a*2&b*2]``) speaks of the job and not of a node: such a constraint is not read.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*([A-Za-z0-9_.=:/+\-]+|[&|()\[\],*])")
_CLOSING = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A feature, or all or one of several constraints."""

    kind: str
    """``feature``, ``and`` or ``or``."""
    name: str = ""
    parts: tuple[Constraint, ...] = ()
    matching: bool = False
    """All nodes of the job meet the same part."""

    def allows(self, features: Set[str]) -> bool:
        """Return whether a node with these features can be used."""
        if self.kind == "feature":
            return self.name in features
        met = (part.allows(features) for part in self.parts)
        return all(met) if self.kind == "and" else any(met)

    @property
    def names(self) -> frozenset[str]:
        """Return all features that it names."""
        found = (part.names for part in self.parts)
        return frozenset({self.name} - {""}).union(*found)

    @property
    def has_matching(self) -> bool:
        """Return whether a matching OR stands in it."""
        return self.matching or any(part.has_matching for part in self.parts)


def parse(text: str) -> Constraint | None:
    """Return what a constraint says, None where it counts nodes.

    Raises ``ValueError`` for what Slurm would not take.
    """
    words: list[str] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"cannot read {text[position:]!r:.40}")
        words.append(found[1])
        position = found.end()
    if not words:
        raise ValueError("it is empty")
    if "*" in words or "," in words:
        return None
    constraint = _either(words, "")
    if words:
        raise ValueError(f"{words[0]!r} has no beginning")
    return constraint


def joined(ours: str, user: str) -> str:
    """Return the constraint that holds both; an OR of the user's goes into parentheses."""
    bare = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", user)
    return f"{ours}&({user})" if "|" in bare else f"{ours}&{user}"


def _either(words: list[str], closing: str) -> Constraint:
    parts = [_both(words)]
    while words[:1] == ["|"]:
        words.pop(0)
        parts.append(_both(words))
    if closing:
        if words[:1] != [closing]:
            raise ValueError(f"no closing {closing!r}")
        words.pop(0)
    found = parts[0] if len(parts) == 1 else Constraint("or", parts=tuple(parts))
    if closing == "]" and found.kind == "or":
        return Constraint("or", parts=found.parts, matching=True)
    return found


def _both(words: list[str]) -> Constraint:
    parts = [_one(words)]
    while words[:1] == ["&"]:
        words.pop(0)
        parts.append(_one(words))
    return parts[0] if len(parts) == 1 else Constraint("and", parts=tuple(parts))


def _one(words: list[str]) -> Constraint:
    word = words.pop(0) if words else ""
    if word in _CLOSING:
        return _either(words, _CLOSING[word])
    if not word or word in "&|)]":
        raise ValueError(
            f"a feature is missing before {word!r}" if word else "a feature is missing"
        )
    return Constraint("feature", word)
