"""``sn check --against``: how an inventory and what runs differ."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

from . import check_text, common

FOUND = 5
"""The exit code where something differs."""


def run(path: Path, source: str, today: date, *, as_json: bool, show_all: bool) -> int:
    """Print how an inventory and a source differ; return the exit code."""
    from ..discovery.drift import RULES, Against, drift
    from ..inventory import load
    from ..slurm import CliClient

    inventory = load(path)
    found = drift(inventory, Against(source, lambda: CliClient(os.environ)), today)
    if as_json:
        document = check_text.findings_json(inventory, found.release, found.findings)
        common.print_json({**document, "against": source})
    else:
        check_text.findings(inventory, found.findings, RULES, show_all)
    drifts = (item for item in found.findings if item.severity != "note")
    return FOUND if any(item.accepted is None for item in drifts) else 0


def rules(as_json: bool) -> int:
    """Print the rules: name and severity, why, and what to do."""
    from ..discovery.drift import RULES

    if as_json:
        common.print_json(check_text.rules_json(RULES))
    else:
        check_text.rules(RULES)
    return 0
