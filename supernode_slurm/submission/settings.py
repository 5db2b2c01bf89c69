"""Values that come from several sources, each with its origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Part = TypeVar("Part")


@dataclass(slots=True)
class Settings:
    """Values with where each came from, the strongest source first."""

    values: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What was seen and could not be used, in words."""
    read: frozenset[str] = frozenset()
    """Names of values that nobody asked for: they were found in the job's own script."""

    def add(self, name: str, value: str, origin: str) -> None:
        """Set a value unless a stronger source has."""
        if name not in self.values:
            self.values[name] = value
            self.origins[name] = origin

    def without(self, name: str) -> Settings:
        """Return the values but one."""
        found = Settings(notes=self.notes, read=self.read)
        for other, value in self.values.items():
            if other != name:
                found.add(other, value, self.origins[other])
        return found

    def said(self, name: str) -> str:
        """Return an option as the user wrote it, with its origin, for a message."""
        return f"{option_word(name, self.values[name])} ({self.origins[name]})"


def option_word(name: str, value: str) -> str:
    """Return a long option as one word; a flag has an empty value."""
    return f"--{name}={value}" if value else f"--{name}"


def of_component(parts: Sequence[Part], index: int) -> Part:
    """Return the part of one component; a single part is for all of them."""
    return parts[index if len(parts) > 1 else 0]
