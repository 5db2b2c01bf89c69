"""``sn show``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import common, room
from .guard import tell

if TYPE_CHECKING:
    from ..catalogue import Accelerator

WHAT = ("room", "accelerators", "models", "releases", "templates", "schema")

Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]

ABOUT_ACCELERATORS = (
    "figures are per card: '-' nobody has said, 0 no such units; the confidence is that of the "
    "least sure one; tested: whether names and memory were compared with what the vendor's tool "
    "printed on real machines; --json has each figure's confidence and sources"
)

TABLE_COLUMNS = {"accelerators": 10, "models": 7, "templates": 4}
"""The first so many are shown; JSON has them all."""


@click.command()
@click.argument("what", type=click.Choice(WHAT), default="room")
@click.argument("name", required=False)
@common.inventory_option
@common.json_option
def command(what: str, name: str | None, inventory_path: Path | None, as_json: bool) -> int:
    """Show the room, the catalogue, Slurm's releases, templates or the schema.

    The schema is the inventory's JSON Schema, for editors that check while one types. With a
    NAME, the job template of that name is printed: 'sn show templates deepspeed > job.sh'.
    """
    if name is not None:
        return _print_template(what, name)
    if what == "schema":
        from ..inventory.build import json_schema
        from ..inventory.schema import InventoryFile

        common.print_json(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "supernode_slurm inventory",
                **json_schema(InventoryFile),
            }
        )
        return 0
    if what == "room":
        columns, rows = _room(room.inventory_path(inventory_path))
    else:
        columns, rows = {
            "accelerators": _accelerators,
            "models": _models,
            "releases": _releases,
            "templates": _templates,
        }[what]()
    if as_json:
        common.print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        shown = TABLE_COLUMNS.get(what)
        headings = [name.replace(" ", "\n") if shown else name for name in columns[:shown]]
        common.print_table(headings, [[_word(cell) for cell in row[:shown]] for row in rows])
        if what == "accelerators":
            tell("note", ABOUT_ACCELERATORS)
        if what == "templates":
            tell("note", "'sn show templates NAME' prints one, to copy and edit")
    return 0


def _print_template(what: str, name: str) -> int:
    from ..submission.templates import template

    if what != "templates":
        raise click.UsageError(f"only templates are shown by name, not {what}")
    click.echo(template(name).text, nl=False)
    return 0


def _word(cell: Any) -> Any:
    """Return what a table shows of a value."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.0f}" if cell >= 10 else f"{cell:g}"
    return "-" if cell is None else cell


def _room(path: Path) -> Rows:
    from .. import hostlist
    from ..inventory import Supernode, load

    inventory = load(path)
    columns = ("name", "kind", "nodes", "spares", "devices", "GB/s", "partitions", "hosts")
    rows = []
    for domain in inventory.domains:
        link = domain.interconnect if isinstance(domain, Supernode) else None
        kinds: dict[str, int] = {}
        for nodes in domain.nodes:
            for item in nodes.devices:
                kinds[item.type] = kinds.get(item.type, 0) + item.count * len(nodes.hosts)
        rows.append(
            (
                domain.name,
                link.kind if link else "pool",
                len(domain.hosts),
                domain.spares if isinstance(domain, Supernode) else 0,
                ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
                round(link.bandwidth_gbs) if link and link.bandwidth_gbs else None,
                ", ".join(p.name for p in inventory.partitions if domain.name in p.members),
                hostlist.fold(domain.hosts),
            )
        )
    for other in inventory.foreign:
        hosts = hostlist.fold(other.hosts)
        rows.append((other.name, "foreign", len(other.hosts), 0, "", None, "", hosts))
    return columns, rows


def _accelerators() -> Rows:
    from ..catalogue import accelerators

    rows = [_accelerator(card) for card in accelerators()]
    return tuple(rows[0]), [tuple(row.values()) for row in rows]


def _accelerator(card: Accelerator) -> dict[str, Any]:
    """Return what is known of a card; its confidence is that of the least sure figure shown."""
    from ..catalogue import CONFIDENCE, FIGURES, platform

    home = platform(card.vendor)
    shown = {
        "tflops": card.card_bf16_tflops or card.card_fp16_tflops,
        "memory": card.card_memory_gib,
        "memory_bw": card.card_memory_gbs,
        "link": card.card_scale_up_gbs,
    }
    sure = [card.confidence_in(figure) for figure, value in shown.items() if value is not None]
    return {
        "id": card.id,
        "vendor": card.vendor,
        "devices per card": card.devices_per_card,
        "bf16 TFLOPS": card.card_bf16_tflops,
        "fp16 TFLOPS": card.card_fp16_tflops,
        "GiB": card.card_memory_gib,
        "GB/s": card.card_memory_gbs,
        "link GB/s": card.card_scale_up_gbs,
        "confidence": max(sure, key=CONFIDENCE.index, default=None),
        "tested": home.tested,
        "fp8 TFLOPS": card.card_fp8_tflops,
        "measured bf16 TFLOPS": card.card_matmul_bf16_tflops,
        "measured fp8 TFLOPS": card.card_matmul_fp8_tflops,
        "p2p GB/s": card.card_p2p_gbs,
        "link": card.link,
        "cards per node": card.cards_per_node,
        "cards per domain": card.domain_cards,
        "W": card.card_tdp_w,
        "aliases": card.aliases,
        "confidence of each": {figure: card.confidence_in(figure) for figure in FIGURES},
        "note": card.note,
        "sources": card.sources,
        "tools": home.tools,
        "seen": home.seen,
        "confidence of the platform": dict(home.confidence),
        "sources of the platform": home.sources,
    }


def _models() -> Rows:
    from ..catalogue import models

    columns = ("name", "parameters", "active", "kind", "attention", "layers", "hidden")
    more = ("heads", "kv heads", "feed-forward", "vocabulary", "experts", "experts per token")
    rows = []
    for m in models():
        kind = "MoE" if m.mixture else "dense"
        experts = (m.mixture.experts, m.mixture.per_token) if m.mixture else (None, None)
        shape = (m.layers, m.hidden, m.heads, m.kv_heads, m.ffn, m.vocab)
        rows.append((m.name, m.params, m.params_active, kind, m.attention, *shape, *experts))
    return (*columns, *more), rows


def _releases() -> Rows:
    from ..slurmconf import RELEASES

    columns = ("release", "proven on", "topologies", "several at once", "segment")
    rows = [
        (
            item.name,
            f"Debian {item.proven}" if item.proven else None,
            ", ".join(item.topologies),
            item.yaml,
            item.segment,
        )
        for item in RELEASES.values()
    ]
    return columns, rows


def _templates() -> Rows:
    from ..submission.templates import templates

    rows = [(item.name, item.framework, item.trains, item.asks, item.path) for item in templates()]
    return ("name", "framework", "trains", "asks", "path"), rows
