"""What ``sn check`` prints: findings by rule, for people and as JSON; the rules themselves."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import click

from .. import hostlist
from ..errors import printable
from ..inventory import Finding, Inventory
from ..inventory.lint import SEVERITIES, Rule

VERSION = 1
"""Of the JSON."""
WIDTH = 80
"""Where the terminal does not say."""
MANY = 12
"""Findings of one rule that are shown; a fault of a class of equal racks is one of each."""
COLOURS = {"error": "red", "warning": "yellow", "note": "cyan", "accepted": "green"}


def findings_json(
    inventory: Inventory, release: str | None, found: Sequence[Finding]
) -> dict[str, Any]:
    """Return what was found as JSON."""
    return {
        "version": VERSION,
        "inventory": inventory.source,
        "release": release or inventory.release,
        "nodes": _nodes(inventory),
        "findings": [
            {
                "rule": item.rule,
                "severity": item.severity,
                "file": item.where.file,
                "line": item.where.line,
                "column": item.where.column,
                "what": item.what,
                "todo": item.todo,
                "on": list(item.on),
                "hosts": hostlist.fold(item.hosts),
                "accepted": None
                if item.accepted is None
                else {
                    "why": item.accepted.why,
                    "until": str(item.accepted.until) if item.accepted.until else None,
                },
            }
            for item in found
        ],
    }


def findings(
    inventory: Inventory, found: Sequence[Finding], rules: Sequence[Rule], show_all: bool
) -> None:
    """Print what was found: the worst first, by rule, then in the order of the file."""
    width = min(shutil.get_terminal_size((WIDTH, 24)).columns, 120)
    counting = [item for item in found if item.accepted is None]
    order = [rule.name for rule in rules]

    def rank(item: Finding) -> tuple[int, int]:
        return SEVERITIES.index(item.severity), order.index(item.rule)

    for _, group in groupby(sorted(counting, key=rank), key=rank):
        _print_rule(list(group), rules, width, None if show_all else MANY)
    accepted = [item for item in found if item.accepted is not None]
    for _, group in groupby(sorted(accepted, key=rank) if show_all else (), key=rank):
        _print_accepted(list(group), width)
    counts = Counter(item.severity for item in counting)
    shown = [_count(counts[name], name) for name in SEVERITIES if counts[name]]
    if accepted:
        shown.append(f"{len(accepted)} accepted{'' if show_all else ' (--all shows them)'}")
    words = ", ".join(shown) or "nothing found"
    click.echo(printable(f"{inventory.source}: {_count(_nodes(inventory), 'node')}, {words}"))


def rules(listed: Iterable[Rule]) -> None:
    """Print the rules: name and severity, why, and what to do."""
    for rule in listed:
        click.echo(_head(rule.severity, rule.name))
        _wrap(rule.reason, WIDTH, "  ")
        _wrap(rule.remedy, WIDTH, "    do: ")


def rules_json(listed: Iterable[Rule]) -> dict[str, Any]:
    """Return the rules as JSON."""
    keys = ("name", "severity", "reason", "remedy")
    return {"version": VERSION, "rules": [{k: getattr(rule, k) for k in keys} for rule in listed]}


def _print_rule(
    found: list[Finding], rules_: Sequence[Rule], width: int, shown: int | None
) -> None:
    """Print the first findings of one rule; a remedy that all share stands once, at the end."""
    rule = next(rule for rule in rules_ if rule.name == found[0].rule)
    click.echo(_head(rule.severity, rule.name))
    _wrap(rule.reason, width, "  ")
    shared = len({item.todo for item in found}) == 1
    for item in found[:shown]:
        _print_item(item, width)
        if not shared:
            _wrap(item.todo, width, "    do: ")
    if len(found) > len(found[:shown]):
        click.echo(f"  and {len(found) - len(found[:shown])} more: --all shows them")
    if shared:
        _wrap(found[0].todo, width, "    do: ")


def _print_accepted(found: list[Finding], width: int) -> None:
    """Print the findings of one rule that the inventory accepts, each with its reason."""
    click.echo(_head("accepted", found[0].rule))
    for item in found:
        _print_item(item, width)
        said = item.accepted
        if said is not None:
            until = f" (until {said.until})" if said.until else ""
            _wrap(f"{said.why}{until}", width, "    why: ")


def _print_item(item: Finding, width: int) -> None:
    _wrap(f"{item.where}: {item.what}", width, "  ")


def _head(word: str, name: str) -> str:
    return f"{click.style(word, fg=COLOURS[word], bold=True)} {click.style(name, bold=True)}"


def _wrap(text: str, width: int, indent: str) -> None:
    """Print a text within the width, no word of it cut, further lines indented."""
    more = " " * (len(indent) if indent.strip() else len(indent) + 2)
    click.echo(
        textwrap.fill(
            printable(text),
            width,
            initial_indent=indent,
            subsequent_indent=more,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _nodes(inventory: Inventory) -> int:
    return sum(len(domain.hosts) for domain in inventory.domains)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
