"""``sn``: describe a machine room, configure Slurm for it, plan jobs."""

from __future__ import annotations

import importlib
import keyword
import sys
from collections.abc import Sequence

import click

from .. import __version__
from .guard import guarded

COMMANDS = {
    "apply": "Install an inventory's configuration, and prove that Slurm runs it.",
    "calibrate": "Predict recorded runs, show the error, and fit the site's constants to them.",
    "check": "Say what is wrong with an inventory.",
    "generate": "Write Slurm's configuration files for an inventory.",
    "import": "Make an inventory from Slurm's files, a running Slurm, probes or other tools' "
    "models.",
    "plan": "Show the fastest ways to train a model on this site, and where the time goes.",
    "power": "Show what racks and feeds draw, and what they may; or plan for lost cooling.",
    "show": "Show the room, the catalogue, Slurm's releases, templates or the schema.",
    "twin": "Run a command against a private Slurm of this inventory.",
}
"""Name and short help of each command, so that --help imports none of them."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        module = importlib.import_module(f"{__package__}.{name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a command line; an unknown one is told with the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from ..errors import nearest

            ctx.fail(f"no command '{args[0]}'; {nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands from ``COMMANDS``."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sn")
def cli() -> None:
    """Make supernodes of mixed accelerators usable through Slurm."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run ``sn`` and leave with its exit code."""

    def run() -> int:
        code = cli.main(args=argv, prog_name="sn", standalone_mode=False)
        return code if isinstance(code, int) else 0

    sys.exit(guarded(run))
