"""Reads a table of recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..inventory.yamltree import MAX_BYTES, Node, parse

SECTIONS = ("measurements", "heterogeneous", "layer_timing", "memory")


def read_runs(path: Path) -> dict[str, Any]:
    """Return the tables of a file; raises ``ConfigError`` with its place for what is none."""
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"not UTF-8: {error.reason} at byte {error.start}"
        raise ConfigError.one(str(path), what) from error
    except OSError as error:
        reason = error.strerror or str(error)
        todo = "name a table of runs; docs/calibrate.md shows its format"
        raise ConfigError.one(str(path), f"cannot read the runs: {reason}", todo) from error
    tree, problems = parse(text, str(path))
    if problems:
        raise ConfigError(problems)
    document = _plain(tree)
    if not isinstance(document, dict) or not any(document.get(name) for name in SECTIONS):
        todo = "put the runs under 'measurements:'; docs/calibrate.md shows the format"
        raise ConfigError.one(str(path), "holds no runs", todo)
    for name in SECTIONS:
        if not isinstance(document.get(name) or [], list):
            raise ConfigError.one(str(path), f"{name} must be a list of runs")
    return document


def _plain(node: Node) -> Any:
    value = node.value
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
