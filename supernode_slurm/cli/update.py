"""``sn import --update``: the changes are shown, asked for, and written."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import common
from .guard import tell

if TYPE_CHECKING:
    from ..discovery.refresh import Change, Options, Updated

DIFFERS = 5
"""The exit code where the inventory differs and was not written."""


def run(path: Path, sources: Sequence[str], options: Options, *, yes: bool, as_json: bool) -> int:
    """Bring an inventory up to date; return the exit code."""
    from ..discovery import refresh
    from ..slurm import CliClient

    was = refresh.read(path)
    updated = refresh.update(was.text, str(path), sources, options, lambda: CliClient(os.environ))
    for remark in updated.remarks:
        tell("warning", str(remark))
    for problem in updated.problems:
        tell("warning", str(problem))
    differs = updated.new != updated.old
    if not as_json:
        click.echo(updated.difference(str(path)), nl=False)
        for change in updated.changes:
            click.echo(str(change))
    writes = differs and (yes or (not as_json and _asked(path)))
    if writes:
        refresh.write(was, updated.new)
    if as_json:
        common.print_json(_as_json(path, updated, writes))
    else:
        click.echo(f"{path}: {_count(updated)}, {_ending(differs, writes)}")
    return DIFFERS if differs and not writes else 0


def _ending(differs: bool, writes: bool) -> str:
    if writes:
        return "written"
    return "not written: --yes writes them" if differs else "nothing to write"


def _count(updated: Updated) -> str:
    count = len(updated.changes)
    return f"{count} change{'' if count == 1 else 's'}" if count else "no changes"


def _asked(path: Path) -> bool:
    """Ask on a terminal; without one the answer is no."""
    if not sys.stdout.isatty():
        return False
    if sys.stdin is not None and sys.stdin.isatty():
        return click.confirm(f"Write {path}?", default=False)
    try:  # standard input is a source
        with open("/dev/tty", "r+", encoding="utf-8", errors="replace") as terminal:
            terminal.write(f"Write {path}? [y/N]: ")
            terminal.flush()
            return terminal.readline().strip().casefold() in ("y", "yes")
    except (OSError, ValueError):
        return False


def _as_json(path: Path, updated: Updated, writes: bool) -> dict[str, Any]:
    return {
        "inventory": str(path),
        "differs": updated.new != updated.old,
        "written": writes,
        "changes": list(map(_change, updated.changes)),
        "diff": updated.difference(str(path)),
        "disagreements": [
            {**common.place(problem.where), "what": problem.what, "todo": problem.todo}
            for problem in updated.problems
        ],
        "remarks": [
            {
                "kind": remark.kind,
                **common.place(remark.problem.where),
                "what": remark.problem.what,
                "todo": remark.problem.todo,
            }
            for remark in updated.remarks
        ],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "path": change.path,
        "old": change.old,
        "new": change.new,
        "origin": list(map(common.place, change.origin)),
    }
