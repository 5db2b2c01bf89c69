"""What is allowed but unwise: rules as data, what they find, and what the site lives with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from ..errors import Where
from .model import Inventory
from .power import RoomPower
from .upkeep import Acceptance

SEVERITIES = ("error", "warning", "note")
"""The worst first. A note is no fault of the room: something that its admin must know."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One case of what a rule looks for."""

    where: Where
    what: str
    on: tuple[str, ...]
    """Names of what it is about: each of them is enough to accept it by."""
    hosts: tuple[str, ...] = ()
    """Hosts that it is about: all of them accept it as well."""
    todo: str = ""
    """Empty for the rule's remedy."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that a rule found."""

    where: Where
    rule: str
    severity: str
    """One of ``SEVERITIES``."""
    what: str
    todo: str
    on: tuple[str, ...] = ()
    """Names of what it is about."""
    hosts: tuple[str, ...] = ()
    accepted: Acceptance | None = field(default=None, compare=False)
    """What the inventory says of it, None for nothing: then it counts."""

    def __str__(self) -> str:
        return f"{self.where}: {self.severity}: {self.what}; {self.todo} [{self.rule}]"


@dataclass(frozen=True, slots=True)
class Subject:
    """What rules look at."""

    inventory: Inventory
    today: date
    release: str
    """Slurm's, like ``24.11``, or ``auto``."""
    power: RoomPower
    found: tuple[Finding, ...] = ()
    """What the other rules found, for those that come last."""
    names: tuple[str, ...] = ()
    """Of the other rules, for those that come last."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it looks for, why, and what to do about it."""

    name: str
    severity: str
    reason: str
    """Why it matters, in one line."""
    remedy: str
    find: Callable[[Subject], Iterable[Fault]]


def judge(subject: Subject, rules: Sequence[Rule], last: Sequence[Rule] = ()) -> list[Finding]:
    """Return what rules find, in the order of the file, and mark what the inventory accepts.

    ``last`` are rules that look at what the others found.
    """
    found = [_acceptance(subject, finding) for rule in rules for finding in _run(rule, subject)]
    names = tuple(rule.name for rule in rules)
    after = replace(subject, found=tuple(found), names=names)
    return sorted([*found, *(finding for rule in last for finding in _run(rule, after))])


def covers(item: Acceptance, finding: Finding) -> bool:
    """Return whether an acceptance speaks of a finding, its day left aside."""
    if item.rule != finding.rule:
        return False
    said = set(item.on)
    return (
        not said
        or not said.isdisjoint(finding.on)
        or (bool(finding.hosts) and said.issuperset(finding.hosts))
    )


def is_over(item: Acceptance, today: date) -> bool:
    """Return whether the day up to which something is accepted has passed."""
    return item.until is not None and today > item.until


def _run(rule: Rule, subject: Subject) -> Iterable[Finding]:
    for fault in rule.find(subject):
        yield Finding(
            where=fault.where,
            rule=rule.name,
            severity=rule.severity,
            what=fault.what,
            todo=fault.todo or rule.remedy,
            on=fault.on,
            hosts=fault.hosts,
        )


def _acceptance(subject: Subject, finding: Finding) -> Finding:
    for item in subject.inventory.upkeep.accepted:
        if covers(item, finding) and not is_over(item, subject.today):
            return replace(finding, accepted=item)
    return finding
