"""``sn twin``."""

from __future__ import annotations

from pathlib import Path

import click

from . import common, room
from .guard import tell


@click.command(context_settings={"allow_interspersed_args": False})
@common.inventory_option
@click.option("--live", is_flag=True, help="Run a slurmd for every node, with stand-in devices.")
@click.option(
    "--slurm-conf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Take the scheduling parameters of this slurm.conf.",
)
@click.argument("argv", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    inventory_path: Path | None, live: bool, slurm_conf: Path | None, argv: tuple[str, ...]
) -> int:
    """Run a command against a private Slurm of this inventory.

    slurmctld runs alone on loopback, with its own munge, never as root, and is gone
    when the command ends. Its exit code is passed on. Without --live every node is a
    CLOUD node: jobs are placed, and stay CONFIGURING.
    """
    import os

    from ..inventory import load
    from ..slurmconf import find_release, generate
    from ..twin import Twin, TwinSpec, foreground, installed_release

    path = room.inventory_path(inventory_path)
    inventory = load(path)
    release = find_release(installed_release())
    generated = generate(inventory, release)
    site = slurm_conf.read_text(encoding="utf-8", errors="replace") if slurm_conf else None
    foreign = tuple(host for item in inventory.foreign for host in item.hosts)
    spec = TwinSpec(generated.files, live=live, site_conf=site, foreign=foreign)
    with Twin(spec) as twin:
        before = twin.messages
        for note in (*generated.notes, *map(str, twin.dropped), *twin.remarks, *before):
            tell("warning", note)
        env = {**twin.environment(os.environ), "SN_INVENTORY": str(path.resolve())}
        code = foreground(argv, env)
        for note in twin.messages[len(before) :]:
            tell("warning", note)
    return code
