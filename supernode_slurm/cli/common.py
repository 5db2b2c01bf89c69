"""What several commands share: the inventory they work on, and how results are printed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ..errors import ConfigError, SlurmError, Where

Command = TypeVar("Command", bound=Callable[..., Any])


def inventory_option(command: Command) -> Command:
    """Add ``-i/--inventory``."""
    return click.option(
        "-i",
        "--inventory",
        "inventory_path",
        type=click.Path(path_type=Path),
        help="The inventory [default: $SN_INVENTORY, else /etc/supernode/inventory.yaml].",
    )(command)


def json_option(command: Command) -> Command:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def release_option(command: Command) -> Command:
    """Add ``--release``."""
    return click.option("--release", help="Slurm's release [default: the inventory's].")(command)


def release_name(given: str | None, declared: str) -> str:
    """Return the release to write for: asked, declared, or that of the Slurm on PATH."""
    from ..slurm import CliClient

    name = given or declared
    if name != "auto":
        return name
    try:
        return CliClient(os.environ).release()
    except SlurmError as error:
        raise ConfigError.one(
            "slurm.release", f"auto, but no Slurm answers ({error})", "give --release"
        ) from error


def place(where: Where) -> dict[str, Any]:
    """Return a place for JSON."""
    return {"file": where.file, "line": where.line, "column": where.column}


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their columns, numbers to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    listed = [[str(cell) for cell in row] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, name in enumerate(columns):
        cells = [row[index] for row in listed]
        right = bool(cells) and all(cell[:1].isdigit() or cell in ("", "-") for cell in cells)
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in listed:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=200)
    console.print(table)
