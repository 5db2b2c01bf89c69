"""``sn plan``."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import common, room
from .guard import tell

if TYPE_CHECKING:
    from ..placement import Ask, Room
    from ..sizing import Explained, Range

EXAMPLES = """\b
Examples:
  sn plan --model llama-3-70b --cards h100:64
  sn plan --model llama-3-70b --cards h100:64 --explain tp=8,pp=2
  sn plan --model llama-3-70b --cards h100:64:1024 --tokens 1T
  sn plan --model llama-3-70b --cards h100:64 --interconnect torus,ring
  sn plan --model llama-3-70b --cards h100:64 --from tp=8,pp=4,dp=2
"""
SILENT_S = 2.0
"""Work that takes longer says how far it is."""


@click.command(epilog=EXAMPLES)
@common.inventory_option
@click.option("--model", help="Catalogue name, a config.json, or layers=32,hidden=4096,...")
@click.option(
    "--cards", metavar="N|KIND:N,...", help="How many, or of which kinds: 64, h100:8,a100:8. "
    "A range draws the curve: 8:1024, h100:8:1024.",
)  # fmt: skip
@click.option("--free", is_flag=True, help="Only on nodes that are free now; Slurm is asked.")
@click.option("--sequence", type=click.IntRange(1), help="Tokens per sequence [default: 4096].")
@click.option("--global-batch", type=click.IntRange(1), help="Sequences per step [default: 1024].")
@click.option("--train", type=click.Choice(["full", "lora"]), help="[default: full]")
@click.option("--lora-rank", type=click.IntRange(1), help="Rank of the adapters [default: 16].")
@click.option("--precision", help="bf16, fp16, fp8, mxfp8 or nvfp4 [default: bf16].")
@click.option("--framework", help="megatron, torch, flagscale ... [default: by the cards].")
@click.option(
    "--strategy", help="Of several kinds of cards: auto, grouped, mixed, dynamic or hierarchical "
    "[default: auto].",
)  # fmt: skip
@click.option("--partition", help="Plan within this partition.")
@click.option("-n", "--top", type=click.IntRange(1), default=5, help="Show so many [default: 5].")
@click.option(
    "--explain", metavar="LAYOUT", help="Cost your own layout beside the best: tp=8,pp=4,..., "
    "of tp, pp, dp, cp, ep, etp, vpp, micro-batch, recompute, recompute-layers, zero.",
)  # fmt: skip
@click.option(
    "--from", "come_from", metavar="LAYOUT", help="What changes from this layout on ordinary "
    "nodes, and how to get there; global-batch=N in it is the present batch.",
)  # fmt: skip
@click.option("--interconnect", metavar="KIND,...", help="Try other fabrics: switch, torus, ...")
@click.option("--oversubscription", metavar="N,...", help="Try other networks: 1,2,4.")
@click.option("--data-time", metavar="SECONDS", help="Measured time to load a step's data.")
@click.option("--reduce-gradients", metavar="NAME", help="fp32, bf16, int8: sums of gradients.")
@click.option("--allow-lossy", metavar="yes|no", help="Try int8 for gradients [default: no].")
@click.option("--spare-memory", metavar="PERCENT", help="What plans leave free [default: 5].")
@click.option("--tokens", help="Cost a whole training of so many: 300B, 1T.")
@click.option(
    "--emit", metavar="NAME", help="Print what the framework is told: its flags and files."
)
@click.option("--here", is_flag=True, help="Inside a job: print the plan for its nodes, as JSON.")
@common.json_option
def command(inventory_path: Path | None, here: bool, as_json: bool, **said: object) -> int:
    """Show the fastest ways to train a model on this site, and where the time goes.

    Nothing is submitted. docs/planning.md explains each answer, docs/accuracy.md how far the
    predictions are from measured runs.
    """
    if here:
        return _print_here(inventory_path)
    words = {
        name.replace("_", "-"): value for name, value in said.items() if value not in (None, False)
    }
    for name, value in words.items():
        if isinstance(value, str) and not value.strip():
            raise click.UsageError(f"--{name.removeprefix('come-')} is empty")
    return _answer(inventory_path, words, as_json)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is planned, and where."""

    room: Room
    ask: Ask
    words: Mapping[str, object]

    def text(self, name: str) -> str | None:
        """Return the value of an option, None where it was not given."""
        value = self.words.get(name)
        return None if value is None else str(value)

    def print_json(self, answer: Mapping[str, object]) -> None:
        """Print an answer with what is to be known of how the words were read."""
        common.print_json({**answer, "notes": list(self.ask.notes)})


MODES = ("explain", "come-from", "interconnect", "oversubscription", "emit")


def _answer(path: Path | None, words: dict[str, object], as_json: bool) -> int:
    from ..sizing import parse_range, parse_tokens

    if "model" not in words or not ("cards" in words or "free" in words):
        raise click.UsageError("--model and --cards are needed: what is trained, on what")
    numbers = parse_range(str(words.get("cards", "")))
    modes = ["cards FIRST:LAST"] if numbers else []
    modes += [name for name in MODES if name in words]
    if len(modes) > 1 and set(modes) != {"interconnect", "oversubscription"}:
        shown = " and ".join(f"--{name.removeprefix('come-')}" for name in modes)
        raise click.UsageError(f"{shown}: one question at a time")
    if "tokens" in words and {"come-from", "emit"}.intersection(modes):
        raise click.UsageError("--tokens costs a training: with plans, a curve or variants")
    tokens = parse_tokens(str(words["tokens"])) if "tokens" in words else None
    if numbers:
        words["cards"] = numbers.words
    asked = _asked(path, words)
    for note in asked.ask.notes:
        tell("note", note)
    if numbers:
        return _curve(asked, numbers, tokens, as_json)
    if "come-from" in words:
        return _move(asked, as_json)
    if "interconnect" in words or "oversubscription" in words:
        return _wiring(asked, tokens, as_json)
    if "emit" in words:
        return _emitted(asked)
    return _study(asked, tokens, as_json)


def _asked(path: Path | None, words: Mapping[str, object]) -> _Asked:
    """Return the ask in the words of sn-submit, and the room as the site or Slurm has it."""
    from ..placement import Room, settled
    from ..sizing import fastest_free, free_room
    from ..slurm import CliClient
    from ..submission.ask import ask_at
    from ..submission.options import PLANNING
    from ..submission.settings import Settings
    from ..submission.site import look

    client = CliClient(os.environ) if "free" in words else None
    inventory = room.site_inventory(path, client)
    given = Settings()
    if "partition" in words:
        given.add("partition", str(words["partition"]), "command line")
    site = look(inventory, client, [given])
    whole = Room(inventory, site.view, site.blocks)

    def ask_for(cards: object) -> Ask:
        said = Settings()
        for name in (option.name for option in PLANNING):
            value = cards if name == "cards" else words.get(name)
            if value is not None:
                said.add(name, str(value), "command line")
        if "emit" in words:
            said.add("framework", str(words["emit"]), "--emit")
        return ask_at(site, said, [given])

    if client is None:
        return _Asked(whole, settled(whole, ask_for(words["cards"])), words)
    free = free_room(whole)
    if "cards" in words:
        return _Asked(free, settled(free, ask_for(words["cards"])), words)
    return _Asked(free, fastest_free(free, ask_for), words)


def _study(asked: _Asked, tokens: float | None, as_json: bool) -> int:
    from ..errors import PlanError
    from ..sizing import explain_alone, parse_layout, study

    text = asked.text("explain")
    own = parse_layout(text, "--explain")[0] if text else None
    top = int(str(asked.words["top"]))
    try:
        found = study(asked.room, asked.ask, top, own, _progress())
    except PlanError:
        if own is None:
            raise
        _print_alone(asked, explain_alone(asked.room, asked.ask, own), as_json)
        raise
    if as_json:
        from .plan_json import study_json

        asked.print_json(study_json(found, tokens))
    else:
        from .plan_views import print_study

        print_study(found, tokens)
    return 0


def _print_alone(asked: _Asked, own: Explained, as_json: bool) -> None:
    if as_json:
        from .plan_json import explained_json

        asked.print_json(explained_json(own))
    else:
        from .plan_views import print_explained

        print_explained(own)


def _curve(asked: _Asked, numbers: Range, tokens: float | None, as_json: bool) -> int:
    from ..sizing import curve

    found = curve(asked.room, asked.ask, numbers, _progress())
    if as_json:
        from .plan_json import curve_json

        asked.print_json(curve_json(found, tokens))
    else:
        from .plan_sizing import print_curve

        print_curve(found, tokens)
    return 0


def _progress() -> Callable[[str], None]:
    """Return what tells how far a long work is, once it takes long."""
    start = time.monotonic()

    def told(text: str) -> None:
        if time.monotonic() - start > SILENT_S:
            tell("note", f"planning {text}")

    return told


def _wiring(asked: _Asked, tokens: float | None, as_json: bool) -> int:
    from ..sizing import parse_kinds, parse_ratios, wiring

    kinds, ratios = asked.text("interconnect"), asked.text("oversubscription")
    found = wiring(
        asked.room,
        asked.ask,
        parse_kinds(kinds) if kinds else (),
        parse_ratios(ratios) if ratios else (),
        _progress(),
    )
    if as_json:
        from .plan_json import wiring_json

        asked.print_json(wiring_json(found, tokens))
    else:
        from .plan_sizing import print_wiring

        print_wiring(found, tokens)
    return 0


def _move(asked: _Asked, as_json: bool) -> int:
    from ..sizing import move, parse_layout

    fixed, more = parse_layout(asked.text("come-from") or "", "--from", ("global-batch",))
    found = move(asked.room, asked.ask, fixed, more.get("global-batch"))
    if found.batch.warning:
        tell("warning", found.batch.warning)
    if as_json:
        from .plan_json import move_json

        asked.print_json(move_json(found))
    else:
        from .plan_sizing import print_move

        print_move(found)
    return 0


def _print_here(path: Path | None) -> int:
    from ..plan import dumps
    from ..slurm import CliClient
    from ..submission.here import plan_here

    client = CliClient(os.environ)
    plan, notes = plan_here(lambda: room.site_inventory(path, client), client, os.environ)
    for note in notes:
        tell("note", note)
    click.echo(dumps(plan))
    return 0


def _emitted(asked: _Asked) -> int:
    from ..frameworks import emit, ranks
    from ..placement import choose, doubts, strategy_words

    best = choose(asked.room, asked.ask)[0]
    plan = best.plan
    framework = asked.text("emit")
    if plan.framework != framework:
        raise click.UsageError(
            f"--emit {framework}: the plan is for {plan.framework}; leave one of them out"
        )
    found = emit(plan)
    notes = [*doubts(asked.ask, best), *found.notes]
    if best.compared:
        notes += strategy_words(best.compared)
    if len(plan.groups) > 1:
        order = (f"{name} {first}-{last}" for name, (first, last) in ranks(plan).items())
        notes.append(f"ranks: {', '.join(order)}; sn-launch starts them so")
    for note in notes:
        tell("note", note)
    for name, text in found.files.items():
        click.echo(f"# {name}")
        click.echo(text, nl=not text.endswith("\n"))
    if found.arguments:
        click.echo("# arguments" if found.files else "", nl=bool(found.files))
        click.echo(shlex.join(found.arguments))
    for whose, values in found.variables.items():
        click.echo(f"# environment of {whose}")
        for name, text in values.items():
            click.echo(f"{name}={text}")
    return 0
