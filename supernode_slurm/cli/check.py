"""``sn check``."""

from __future__ import annotations

from pathlib import Path

import click

from . import common, room


@click.command()
@common.inventory_option
@common.json_option
def command(inventory_path: Path | None, as_json: bool) -> int:
    """Say what is wrong with an inventory.

    Exit code 4 if the file is invalid, 5 if a rule finds an error.
    """
    from ..inventory import lint, load
    from ..slurmconf import assumed_release

    inventory = load(room.inventory_path(inventory_path))
    assumed_release(inventory.release)
    findings = lint(inventory)
    if as_json:
        common.print_json(
            [
                {
                    "rule": item.rule,
                    "severity": item.severity,
                    "file": item.where.file,
                    "line": item.where.line,
                    "column": item.where.column,
                    "what": item.what,
                    "todo": item.todo,
                }
                for item in findings
            ]
        )
    else:
        for finding in findings:
            click.echo(str(finding))
        nodes = sum(len(domain.hosts) for domain in inventory.domains)
        count = f"{len(findings)} finding{'' if len(findings) == 1 else 's'}"
        click.echo(f"{inventory.source}: {nodes} nodes, {count}")
    return 5 if any(finding.severity == "error" for finding in findings) else 0
