"""``sn import``."""

from __future__ import annotations

import os
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import common
from .guard import tell

if TYPE_CHECKING:
    from ..discovery import Imported, Wanted


@click.command(
    "import",
    epilog="""\b
Examples:
  sn import slurm: -o site.yaml                             from what runs
  clush -w @all sn-probe | sn import - --update site.yaml   what was measured, in place
  sn import slurm: --update site.yaml --yes                 from cron""",
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("-o", "--output", "output_name", type=click.Path(), help="Write into this new file.")
@click.option(
    "--accelerator",
    "accelerators",
    multiple=True,
    metavar="TYPE=NAME",
    help="What a GRES type, or a GRES without one, is in the catalogue, like gpu=h100-sxm.",
)
@click.option(
    "--hca",
    "adapters",
    multiple=True,
    metavar="NAMES",
    help="InfiniBand adapters that count, like mlx5_[0-3] or HCA-*: without those of storage.",
)
@click.option(
    "--exclude-switch",
    "switches",
    multiple=True,
    metavar="PATTERN",
    help="InfiniBand switches to leave out, like '*storage*'.",
)
@click.option(
    "--update",
    "update_name",
    metavar="INVENTORY",
    type=click.Path(),
    help="Edit this inventory in place: show the changes, ask, and write.",
)
@click.option("--yes", is_flag=True, help="With --update: write without asking.")
@click.option(
    "--complete",
    is_flag=True,
    help="With --update: probes answered for all nodes; mark those that did not as absent.",
)
@click.option(
    "--date",
    "day",
    type=click.DateTime(["%Y-%m-%d"]),
    help="With --update: the day since when hosts are absent [default: today].",
)
@common.json_option
def command(
    sources: tuple[str, ...],
    output_name: str | None,
    accelerators: tuple[str, ...],
    adapters: tuple[str, ...],
    switches: tuple[str, ...],
    update_name: str | None,
    yes: bool,
    complete: bool,
    day: datetime | None,
    as_json: bool,
) -> int:
    """Make an inventory from Slurm's files, a running Slurm, probes or other tools' models.

    A SOURCE is slurm.conf (with what lies beside it), its directory, gres.conf,
    topology.conf, topology.yaml, a model of topograph, the output of ibnetdiscover, what
    nvidia-smi, npu-smi or ibstat print on many hosts (as clush shows it), a list of HOST:
    DOMAIN or HOST GUID lines, a rank table, or slurm: for the running Slurm. The kind is
    known from the content; KIND:PATH forces it.

    A SOURCE of '-' is standard input: clush -w @all sn-probe | sn import -.

    Each value says in a comment where it comes from. Authors' mistakes, sources that
    disagree, what an inventory cannot hold and what no source says are warnings. Exit
    code 4 if there is nothing to import, or a file that Slurm itself would refuse.

    With --update an inventory is edited in place: comments, order and what a person wrote
    stay, measured facts change. Exit code 5 if it differs and is not written: without a
    terminal nothing is, unless --yes is given.
    """
    from ..discovery import Wanted

    if output_name == "":
        raise click.UsageError("--output: the name is empty")
    output = None if output_name is None else Path(output_name)
    if output is not None:
        _refuse_existing(output)
    given, wanted = dict(map(_pair, accelerators)), Wanted(adapters, switches)
    if update_name is None:
        if yes or complete or day:
            raise click.UsageError("--yes, --complete and --date are for --update INVENTORY")
        return _import(sources, given, wanted, output, as_json)
    from ..discovery.refresh import Options
    from . import update

    if output is not None:
        raise click.UsageError("--update edits one file, -o writes another: give one")
    today = day.date() if day else date.today()
    options = Options(today, given, complete, wanted)
    return update.run(Path(update_name), sources, options, yes=yes, as_json=as_json)


def _import(
    sources: tuple[str, ...],
    given: dict[str, str],
    wanted: Wanted,
    output: Path | None,
    as_json: bool,
) -> int:
    from ..data import write_atomically
    from ..discovery import import_sources
    from ..slurm import CliClient

    imported = import_sources(sources, given, lambda: CliClient(os.environ), wanted)
    for remark in imported.remarks:
        tell("warning", str(remark))
    if output is not None:
        _refuse_existing(output)
        write_atomically({output: imported.text})
    if as_json:
        common.print_json(_as_json(imported))
    elif output is not None:
        click.echo(_summary(output, imported))
    else:
        click.echo(imported.text, nl=False)
    return 0


def _refuse_existing(output: Path) -> None:
    from ..errors import ConfigError

    if output.exists() or output.is_symlink():
        todo = "an import never writes over a file: choose another name, then compare the two"
        raise ConfigError.one(str(output), "exists", todo)
    if not output.parent.is_dir():
        raise ConfigError.one(str(output), "its directory does not exist", "make it first")


def _pair(text: str) -> tuple[str, str]:
    key, equals, name = text.partition("=")
    if not (key and equals and name):
        raise click.UsageError(f"--accelerator {text}: expected TYPE=NAME, like gpu=h100-sxm")
    return key, name


def _summary(output: Path, imported: Imported) -> str:
    room = imported.inventory
    counts = {
        "supernodes": len(room.supernodes),
        "pools": len(room.pools),
        "nodes": sum(len(domain.hosts) for domain in room.domains),
        "partitions": len(room.partitions),
        "warnings": len(imported.remarks),
    }
    return f"{output}: {', '.join(f'{count} {what}' for what, count in counts.items())}"


def _as_json(imported: Imported) -> dict[str, Any]:
    return {
        "inventory": imported.text,
        "facts": [
            {
                "path": path,
                "value": leaf.value,
                "origin": list(map(common.place, leaf.origin)),
                "remark": leaf.remark,
            }
            for path, leaf in imported.facts
        ],
        "remarks": [
            {
                "kind": remark.kind,
                **common.place(remark.problem.where),
                "what": remark.problem.what,
                "todo": remark.problem.todo,
            }
            for remark in imported.remarks
        ],
    }
