"""``sn power``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import common, room
from .guard import tell

if TYPE_CHECKING:
    from ..derating import DeratePlan, Usage
    from ..inventory import Inventory

EXAMPLES = """\b
Examples:
  sn power
  sn power --derate sn1
  sn power --derate sn1 --offline --emit sh > /usr/local/sbin/sn1-no-liquid
"""


@click.command(epilog=EXAMPLES)
@common.inventory_option
@click.option(
    "--derate", "target", metavar="NAME", help="Plan for the loss of liquid cooling of a "
    "supernode, a pool or a rack: power caps, nodes to drain, commands.",
)  # fmt: skip
@click.option("--offline", is_flag=True, help="Do not ask Slurm what runs.")
@click.option("--off", is_flag=True, help="Drained nodes are switched off too, and draw nothing.")
@click.option(
    "--emit", type=click.Choice(["sh", "undo"]), help="Print the plan, or what undoes it, as a "
    "script; it acts with --run only.",
)  # fmt: skip
@common.json_option
def command(
    inventory_path: Path | None,
    target: str | None,
    offline: bool,
    off: bool,
    emit: str | None,
    as_json: bool,
) -> int:
    """Show what racks and feeds draw, and what they may; or plan for lost cooling.

    Exit code 5 if a rack or a feed is over, in the worst case of one failed feed, or if no caps
    and drained nodes bring a rack under what the air takes. docs/power.md explains the sums.
    """
    from ..inventory import load

    inventory = load(room.inventory_path(inventory_path))
    if emit and as_json:
        raise click.UsageError("--emit or --json, one of them")
    if target is not None:
        return _derate(inventory, target, None if offline else _usage(), off, emit or as_json)
    if offline or off or emit:
        raise click.UsageError("--offline, --off and --emit belong to --derate NAME")
    from ..inventory.power import room_power

    found = room_power(inventory)
    if as_json:
        from .power_json import room_json

        common.print_json(room_json(found))
    else:
        from .power_text import print_room

        print_room(found)
    return 5 if found.is_over else 0


def _usage() -> Usage | None:
    """Return what runs, None where no Slurm answers."""
    from ..derating import usage_of
    from ..errors import SlurmError
    from ..slurm import CliClient

    try:
        return usage_of(CliClient(os.environ))
    except SlurmError as error:
        why = str(error).splitlines()[0]
        tell("note", f"Slurm does not say what runs ({why}): nodes are taken in their order")
        return None


def _derate(
    inventory: Inventory, target: str, usage: Usage | None, off: bool, form: str | bool | None
) -> int:
    from ..derating import apply_script, derate, undo_script

    plan = derate(inventory, target, usage, off)
    if form in ("sh", "undo"):
        _warn(plan)
        click.echo(apply_script(plan) if form == "sh" else undo_script(plan), nl=False)
    elif form:
        from .power_json import plan_json

        common.print_json(plan_json(plan))
    else:
        from .power_text import print_plan

        print_plan(plan)
    return 0 if plan.is_enough or form == "undo" else 5


def _warn(plan: DeratePlan) -> None:
    """Tell beside a script what it cannot promise."""
    from .power_text import shortfalls

    for line in plan.assumed:
        tell("note", line)
    for line in shortfalls(plan):
        tell("warning", line)
