"""``sn plan``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import common

if TYPE_CHECKING:
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
    from ..placement import choose, inventory_view
    from ..submission import make_ask

    inventory = load(common.inventory_path(inventory_path))
    ask = make_ask(inventory, {name: str(value) for name, value in asked.items() if value})
    choices = choose(inventory, ask, inventory_view(inventory))[:top]
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
    return 0


def _emitted(framework: str, choice: Choice) -> str:
    from ..frameworks import flagscale, megatron

    if framework == "flagscale":
        return flagscale.layout(choice.plan)
    return "\n".join(megatron.arguments(choice.plan)) + "\n"


def _where(choice: Choice) -> str:
    return " + ".join(("&" if s.spans else "|").join(s.domains) for s in choice.slots)


def _table(choices: list[Choice]) -> tuple[list[str], list[list[str]]]:
    parts = list(dict.fromkeys(key for c in choices for key in _predicted(c).breakdown_s))
    columns = ["where", "TP", "PP", "DP", "mbs", "recompute", "ZeRO", "samples", "layers"]
    columns += ["step s", "MFU", "GiB", *(f"{part} s" for part in parts)]
    rows = []
    for choice in choices:
        meshes = [mesh for pipeline in choice.plan.pipelines for mesh in pipeline.meshes]
        found = _predicted(choice)
        layers = " ".join(
            ",".join(str(stage.layers) for stage in pipeline.stages)
            for pipeline in choice.plan.pipelines
        )
        rows.append(
            [
                _where(choice),
                *(
                    _joined(getattr(mesh, name) for mesh in meshes)
                    for name in ("tp", "pp", "dp", "micro_batch", "recompute", "zero")
                ),
                _joined(pipeline.samples for pipeline in choice.plan.pipelines),
                layers if len(layers) < 40 else f"{len(layers.split(','))} stages",
                f"{found.step_time_s:.2f}",
                f"{found.mfu * 100:.1f}%",
                _joined(f"{gib:.0f}" for gib in found.memory_gib),
                *(f"{found.breakdown_s.get(part, 0):.2f}" for part in parts),
            ]
        )
    return columns, rows


def _joined(values: object) -> str:
    return "+".join(map(str, values))  # type: ignore[call-overload]


def _predicted(choice: Choice):  # type: ignore[no-untyped-def]
    return choice.plan.predicted
