"""``sn generate``."""

from __future__ import annotations

from pathlib import Path

import click

from . import common, room
from .guard import tell


@click.command()
@common.inventory_option
@common.release_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write into this directory.")
@click.option("--check", is_flag=True, help="Write nothing: show how the directory differs.")
@click.option(
    "--groups",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write groups for ClusterShell to this file, and nothing else.",
)
@common.json_option
def command(
    inventory_path: Path | None,
    release: str | None,
    output: Path | None,
    check: bool,
    groups: Path | None,
    as_json: bool,
) -> int:
    """Write Slurm's configuration files for an inventory.

    Without -o they are printed. With --check the difference to the files in the
    directory is printed, and the exit code is 5 if there is one.
    """
    from ..inventory import load
    from ..slurmconf import difference, find_release, generate, write
    from ..slurmconf.groups import write_groups

    inventory = load(room.inventory_path(inventory_path))
    if groups is not None:
        if output is not None or check:
            raise click.UsageError("--groups writes its file alone: leave -o and --check out")
        changed = [str(groups)] if write_groups(inventory, groups) else []
        if as_json:
            common.print_json({"changed": changed})
        else:
            click.echo("".join(f"{name}\n" for name in changed), nl=False)
        return 0
    generated = generate(inventory, find_release(common.release_name(release, inventory.release)))
    for note in generated.notes:
        tell("warning", note)
    if check:
        if output is None:
            raise click.UsageError("--check needs the directory to compare with: -o DIR")
        text = difference(generated, output)
        if as_json:
            common.print_json({"differs": bool(text), "diff": text})
        else:
            click.echo(text, nl=False)
        return 5 if text else 0
    if output is not None:
        changed = write(generated, output)
        if as_json:
            common.print_json({"directory": str(output), "changed": changed})
        else:
            for name in changed:
                click.echo(str(output / name))
    elif as_json:
        common.print_json(generated.files)
    else:
        click.echo("\n".join(f"# ---- {name}\n{text}" for name, text in generated.files.items()))
    return 0
