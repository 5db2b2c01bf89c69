"""``sn plan``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..plan import Predicted
from . import common
from .guard import tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..placement import Choice


@click.command()
@common.inventory_option
@click.option("--model", required=True, help="Catalogue name, or a config.json.")
@click.option("--cards", required=True, help="How many, or of which kinds: 64, h100:8,a100:8.")
@click.option("--sequence", type=click.IntRange(1), help="Tokens per sequence [default: 4096].")
@click.option("--global-batch", type=click.IntRange(1), help="Sequences per step [default: 1024].")
@click.option("--framework", help="megatron, torch, flagscale ... [default: by the cards].")
@click.option("--partition", help="Plan within this partition.")
@click.option("-n", "--top", type=click.IntRange(1), default=5, help="Show so many [default: 5].")
@click.option("--emit", type=click.Choice(["flagscale", "megatron"]), help="Print the best for it.")
@common.json_option
def command(
    inventory_path: Path | None,
    partition: str | None,
    top: int,
    emit: str | None,
    as_json: bool,
    **asked: str | int | None,
) -> int:
    """Show the fastest ways to train a model on this site, and where the time goes.

    Nothing is submitted and no Slurm is asked. docs/accuracy.md says how far the
    predictions are from measured runs.
    """
    from ..inventory import load
    from ..placement import Room, choose, inventory_view, remarks
    from ..slurmconf import assumed_release, block_partitions
    from ..submission.ask import make_ask
    from ..submission.settings import Settings

    inventory = load(common.inventory_path(inventory_path))
    given = Settings()
    if partition:
        given.add("partition", partition, "command line")
    said = {name.replace("_", "-"): str(value) for name, value in asked.items() if value}
    ask = make_ask(inventory, said, given)
    for note in ask.notes:
        tell("note", note)
    blocks = block_partitions(inventory, assumed_release(inventory.release))
    room = Room(inventory, inventory_view(inventory), blocks)
    choices = choose(room, ask)[:top]
    if emit:
        click.echo(_emitted(emit, choices[0]), nl=False)
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
        for line in remarks(ask, choices[0]):
            click.echo(line)
        tell("note", _error(choices[0]))
    return 0


def _emitted(framework: str, choice: Choice) -> str:
    from ..frameworks import flagscale, megatron

    runs = {"flagscale": ("flagscale",), "megatron": ("megatron", "mindspeed")}[framework]
    if choice.plan.framework not in runs:
        raise click.UsageError(
            f"the plan is for {choice.plan.framework}, not for {framework}: "
            f"add --framework {runs[0]}"
        )
    if framework == "flagscale":
        return flagscale.layout(choice.plan)
    return "\n".join(megatron.arguments(choice.plan)) + "\n"


def _where(choice: Choice) -> str:
    return " + ".join(("|" if s.span is None else "&").join(s.domains) for s in choice.slots)


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
