"""The inventory that a command works on, without what only commands of click need."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .guard import tell

if TYPE_CHECKING:
    from ..inventory import Inventory
    from ..slurm import CliClient

SITE_INVENTORY = Path("/etc/supernode/inventory.yaml")


def inventory_path(given: Path | None) -> Path:
    """Return the file that holds the inventory."""
    if given is not None:
        return given
    return Path(os.environ.get("SN_INVENTORY") or SITE_INVENTORY)


def site_inventory(given: Path | None, client: CliClient | None) -> Inventory:
    """Return the inventory; where the site has published none, the room that Slurm shows.

    ``client`` is None where nobody may be asked. Raises ``ConfigError`` then.
    """
    from ..inventory import load

    path = inventory_path(given)
    named = given is not None or bool(os.environ.get("SN_INVENTORY"))
    if named or client is None or path.exists():
        return load(path)
    from ..discovery import import_sources

    imported = import_sources(["slurm:"], {}, lambda: client)
    tell("note", f"{path}: no inventory; the room is as Slurm shows it")
    for remark in imported.remarks:
        if remark.kind == "unsaid":
            tell("note", remark.problem.what)
    return replace(imported.inventory, rebuilt=True)
