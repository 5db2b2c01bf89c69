"""``sn plan``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..plan import Predicted
from . import common, room
from .guard import tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..placement import Choice


@click.command()
@common.inventory_option
@click.option("--model", help="Catalogue name, a config.json, or layers=32,hidden=4096,...")
@click.option("--cards", help="How many, or of which kinds: 64, h100:8,a100:8.")
@click.option("--sequence", type=click.IntRange(1), help="Tokens per sequence [default: 4096].")
@click.option("--global-batch", type=click.IntRange(1), help="Sequences per step [default: 1024].")
@click.option("--train", type=click.Choice(["full", "lora"]), help="[default: full]")
@click.option("--lora-rank", type=click.IntRange(1), help="Rank of the adapters [default: 16].")
@click.option("--framework", help="megatron, torch, flagscale ... [default: by the cards].")
@click.option("--partition", help="Plan within this partition.")
@click.option("-n", "--top", type=click.IntRange(1), default=5, help="Show so many [default: 5].")
@click.option(
    "--emit", metavar="NAME", help="Print what the framework is told: its flags and files."
)
@click.option("--here", is_flag=True, help="Inside a job: print the plan for its nodes, as JSON.")
@common.json_option
def command(
    inventory_path: Path | None,
    partition: str | None,
    top: int,
    emit: str | None,
    here: bool,
    as_json: bool,
    **asked: str | int | None,
) -> int:
    """Show the fastest ways to train a model on this site, and where the time goes.

    Nothing is submitted and no Slurm is asked. docs/accuracy.md says how far the
    predictions are from measured runs.
    """
    if here:
        return _print_here(inventory_path)
    if not asked["model"] or not asked["cards"]:
        raise click.UsageError("--model and --cards are needed: what is trained, on what")
    from ..inventory import load
    from ..placement import Room, choose, remarks
    from ..submission.ask import ask_at
    from ..submission.settings import Settings
    from ..submission.site import look

    inventory = load(room.inventory_path(inventory_path))
    said, given = Settings(), Settings()
    if partition:
        given.add("partition", partition, "command line")
    for name, value in asked.items():
        if value:
            said.add(name.replace("_", "-"), str(value), "command line")
    if emit:
        said.add("framework", emit, "--emit")
    site = look(inventory, None, [given])
    ask = ask_at(site, said, [given])
    for note in ask.notes:
        tell("note", note)
    choices = choose(Room(inventory, site.view, site.blocks), ask)[:top]
    if emit:
        _print_emitted(emit, choices[0])
    elif as_json:
        from ..plan import dumps

        common.print_json(
            [
                {"where": _where(choice), "plan": json.loads(dumps(choice.plan))}
                for choice in choices
            ]
        )
    else:
        common.print_table(*_table(choices))
        click.echo(f"layers of the first: {_layers(choices[0])}")
        for line in remarks(inventory, ask, choices[0]):
            click.echo(line)
        tell("note", _error(choices[0]))
    return 0


def _print_here(path: Path | None) -> int:
    import os

    from ..plan import dumps
    from ..slurm import CliClient
    from ..submission.here import plan_here

    client = CliClient(os.environ)
    plan, notes = plan_here(lambda: room.site_inventory(path, client), client, os.environ)
    for note in notes:
        tell("note", note)
    click.echo(dumps(plan))
    return 0


def _print_emitted(framework: str, choice: Choice) -> None:
    from ..frameworks import emit

    if choice.plan.framework != framework:
        raise click.UsageError(
            f"--emit {framework}: the plan is for {choice.plan.framework}; leave one of them out"
        )
    found = emit(choice.plan)
    for note in found.notes:
        tell("note", note)
    for name, text in found.files.items():
        click.echo(f"# {name}")
        click.echo(text, nl=not text.endswith("\n"))
    if found.arguments:
        click.echo("# arguments" if found.files else "", nl=bool(found.files))
        click.echo(shlex.join(found.arguments))


def _where(choice: Choice) -> str:
    return " + ".join(slot.shown for slot in choice.slots)


def _table(choices: list[Choice]) -> tuple[list[str], list[list[str]]]:
    columns = ["where", "TP", "PP", "DP", "mbs", "recompute", "ZeRO", "samples"]
    columns += ["step s", "MFU", "GiB", "where the time goes"]
    rows = []
    for choice in choices:
        meshes = [mesh for pipeline in choice.plan.pipelines for mesh in pipeline.meshes]
        found = _predicted(choice)
        rows.append(
            [
                _where(choice),
                *(
                    _joined(getattr(mesh, name) for mesh in meshes)
                    for name in ("tp", "pp", "dp", "micro_batch", "recompute", "zero")
                ),
                _joined(pipeline.samples for pipeline in choice.plan.pipelines),
                f"{found.step_time_s:.2f}",
                f"{found.mfu:.1%}",
                _joined(f"{gib:.0f}" for gib in found.memory_gib),
                _time(found),
            ]
        )
    return columns, rows


def _time(found: Predicted) -> str:
    """Return the parts of a step that take a hundredth of it or more, the largest first."""
    parts = sorted(found.breakdown_s.items(), key=lambda item: -item[1])
    shares = [(name, seconds / found.step_time_s) for name, seconds in parts if seconds > 0]
    return ", ".join(f"{name} {part:.0%}" for name, part in shares if part >= 0.005)


def _error(choice: Choice) -> str:
    """Say how far such predictions were from measured runs on the cards of a plan."""
    from ..planner import PUBLISHED_ERROR

    parts = []
    for card in sorted({group.accelerator for group in choice.plan.groups}):
        runs, error = PUBLISHED_ERROR.get(card, (0, 0.0))
        parts.append(
            f"{card} {error:.1%} off over {runs} runs" if runs else f"{card} never compared"
        )
    return f"predicted; against published runs (docs/accuracy.md): {', '.join(parts)}"


def _layers(choice: Choice) -> str:
    """Return the layers of each stage of a plan, one group per pipeline."""
    stages = [[stage.layers for stage in line.stages] for line in choice.plan.pipelines]
    return " + ".join(",".join(map(str, layers)) for layers in stages)


def _joined(values: Iterable[object]) -> str:
    return "+".join(map(str, values))


def _predicted(choice: Choice) -> Predicted:
    return choice.plan.predicted or Predicted(0.0)
