"""Rules about what a site accepts: they look at what the other rules found."""

from __future__ import annotations

from collections.abc import Iterator

from .. import hostlist
from ..errors import nearest
from .lint import Fault, Rule, Subject, covers, is_over
from .upkeep import Acceptance

ELSEWHERE = "drift-"
"""How rules begin that need something to hold the inventory against."""


def _unknown(subject: Subject) -> Iterator[Fault]:
    for item in subject.inventory.upkeep.accepted:
        if item.rule not in subject.names and not item.rule.startswith(ELSEWHERE):
            what = f"accepts '{item.rule}', which is no rule"
            todo = f"{nearest(item.rule, subject.names)} 'sn check --rules' lists all"
            yield Fault(item.where, what, (item.rule,), todo=todo)


def _expired(subject: Subject) -> Iterator[Fault]:
    for item in subject.inventory.upkeep.accepted:
        if is_over(item, subject.today) and _found(subject, item):
            what = f"{_shown(item)} was accepted until {item.until} ({item.why}): it counts again"
            yield Fault(item.where, what, (item.rule, *item.on))


def _unused(subject: Subject) -> Iterator[Fault]:
    for item in subject.inventory.upkeep.accepted:
        if item.rule not in subject.names or _found(subject, item):
            continue
        others = {
            name
            for other in subject.found
            if other.rule == item.rule
            for name in other.on or other.hosts
        }
        todo = f"its findings are about {hostlist.fold(sorted(others))}" if others else ""
        what = f"{_shown(item)} is accepted, and nothing of it found"
        yield Fault(item.where, what, (item.rule,), todo=todo)


def _found(subject: Subject, item: Acceptance) -> bool:
    return any(covers(item, finding) for finding in subject.found)


def _shown(item: Acceptance) -> str:
    return f"{item.rule} on {hostlist.fold(item.on)}" if item.on else item.rule


ACCEPT_RULES = (
    Rule(
        "accept-unknown",
        "error",
        "an acceptance of a rule that does not exist accepts nothing",
        "name a rule of 'sn check --rules'",
        _unknown,
    ),
    Rule(
        "accept-expired",
        "warning",
        "what was accepted for a time counts again when the time is over",
        "put it right, or give a later day under 'until'",
        _expired,
    ),
    Rule(
        "accept-unused",
        "warning",
        "an acceptance that fits no finding would hide a later one unseen",
        "take the entry out of 'accept'",
        _unused,
    ),
)
