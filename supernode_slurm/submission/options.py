"""The options of ``sn-submit`` that are ours, as data: cheap to import, for ``--help``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """One option of ours; none may ever equal one of sbatch's."""

    name: str
    metavar: str
    """Empty for a flag."""
    help: str


PLANNING = (
    Option("model", "NAME|FILE", "What is trained: a catalogue name, or a config.json."),
    Option("cards", "N|KIND:N,...", "How many cards, or so many of each kind: h100:8,a100:8."),
    Option("sequence", "TOKENS", "Length of a sequence [default: 4096]."),
    Option("global-batch", "N", "Sequences per step [default: 1024]."),
    Option("framework", "NAME", "megatron, torch, flagscale ... [default: by the cards]."),
)
"""What may stand on a ``#SN`` line and in SN_* variables."""

OWN = (
    *PLANNING,
    Option("inventory", "FILE", "The inventory [default: $SN_INVENTORY, then /etc]."),
    Option("dry-run", "", "Show what would be submitted; contact nobody."),
    Option("json", "", "Print the result as JSON."),
)
