"""Read an inventory: every problem of the file in one error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..errors import ConfigError
from . import schema, yamltree
from .build import Build
from .calibration import load_calibration
from .model import Inventory
from .resolve import Resolver


def load(path: Path) -> Inventory:
    """Return the machine room that a YAML or JSON file describes.

    Raises ``ConfigError`` with all problems, each with its place in the file.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(yamltree.MAX_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError.one(
            str(path), f"not UTF-8: {error.reason} at byte {error.start}"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        todo = "name the inventory with --inventory FILE or SN_INVENTORY"
        raise ConfigError.one(str(path), f"cannot read the inventory: {reason}", todo) from error
    return replace(loads(text, str(path)), calibration=load_calibration(path))


def loads(text: str, source: str = "inventory") -> Inventory:
    """Return the machine room that a text describes."""
    tree, problems = yamltree.parse(text, source)
    build = Build()
    raw = build.section(schema.InventoryFile, tree)
    problems = [*problems, *build.problems]
    if not isinstance(raw, schema.InventoryFile):
        raise ConfigError(problems)
    resolver = Resolver(raw, source, build.lost)
    inventory = resolver.run()
    problems += resolver.problems
    if problems:
        raise ConfigError(problems)
    return inventory
