"""What an update changed, and what it did not although a source says otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ... import hostlist
from ...errors import Problem, Where
from ..document import origin_text


@dataclass(frozen=True, slots=True)
class Change:
    """A value of the inventory that is another one now."""

    path: str
    """Like ``hosts.n[01-03].memory``: of what, and what."""
    old: object
    """None where there was none."""
    new: object
    """None where there is none any more."""
    origin: tuple[Where, ...]
    """Who said it."""

    def __str__(self) -> str:
        """Return it in one line."""
        said = origin_text(self.origin)
        source = f" ({said})" if said else ""
        if self.old is None:
            return f"{self.path}: {shown(self.new)}{source}"
        if self.new is None:
            return f"{self.path}: no more{source}"
        return f"{self.path}: {shown(self.old)} -> {shown(self.new)}{source}"


@dataclass(slots=True)
class Log:
    """Changes and disagreements, in the order found."""

    changes: list[Change] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def changed(self, path: str, old: object, new: object, origin: Iterable[Where]) -> None:
        """Keep a change."""
        self.changes.append(Change(path, old, new, tuple(dict.fromkeys(origin))))

    def differs(self, where: Where, what: str, todo: str) -> None:
        """Keep what a source says otherwise and what stays as a person wrote it."""
        self.problems.append(Problem(where, what, todo))


def of_hosts(hosts: Iterable[str], key: str = "") -> str:
    """Return the path of hosts, or of a value of theirs."""
    path = f"hosts.{hostlist.fold(hosts)}"
    return f"{path}.{key}" if key else path


def shown(value: object) -> str:
    """Return a value as messages show it."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)
