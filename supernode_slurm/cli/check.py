"""``sn check``."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import click

from . import common, room

FOUND = 5
"""The exit code where something counts."""


@click.command()
@common.inventory_option
@common.release_option
@click.option(
    "--against",
    metavar="live|FILE|DIR",
    help="Say how it differs from the running Slurm, from slurm.conf, or from probes.",
)
@common.json_option
@click.option("--all", "show_all", is_flag=True, help="Show all, also what the inventory accepts.")
@click.option("--strict", is_flag=True, help="Exit with 5 for warnings as well.")
@click.option("--rules", "show_rules", is_flag=True, help="List the rules, and what they are for.")
@click.option(
    "--date",
    "day",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Judge what is due and what is accepted on this day [default: today].",
)
def command(
    inventory_path: Path | None,
    release: str | None,
    against: str | None,
    as_json: bool,
    show_all: bool,
    strict: bool,
    show_rules: bool,
    day: datetime | None,
) -> int:
    """Say what is wrong with an inventory.

    Exit code 4 if the file is invalid, 5 if a rule finds an error. What a site lives with stands
    in its inventory, and counts no more:

    \b
      accept:
        - rule: oversubscription
          on: ib
          why: the core is widened in May
          until: 2027-05-31

    \b
    What will be due, and what would be wrong on another release of Slurm:
      sn check -i room.yaml --date 2027-06-30
      sn check -i room.yaml --release 26.05 --all

    \b
    With --against: where the inventory and what runs differ, and what to do; exit code 5
    if they do, nodes that are drained or down told apart:
      sn check -i room.yaml --against live
      sn check -i room.yaml --against /etc/slurm
    """
    from ..inventory import load
    from ..slurmconf.lint import RULES, lint
    from . import check_text

    if against is not None:
        from . import drift

        if show_rules:
            return drift.rules(as_json)
        path, today = room.inventory_path(inventory_path), day.date() if day else date.today()
        return drift.run(path, against, today, as_json=as_json, show_all=show_all)
    if show_rules:
        common.print_json(check_text.rules_json(RULES)) if as_json else check_text.rules(RULES)
        return 0
    inventory = load(room.inventory_path(inventory_path))
    today = day.date() if day else date.today()
    findings = lint(inventory, today, release)
    if as_json:
        common.print_json(check_text.findings_json(inventory, release, findings))
    else:
        check_text.findings(inventory, findings, RULES, show_all)
    counting = {"error", "warning"} if strict else {"error"}
    return FOUND if any(f.accepted is None and f.severity in counting for f in findings) else 0
