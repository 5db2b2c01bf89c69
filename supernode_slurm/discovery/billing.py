"""Billing weights that ``sn generate`` would write: said as a wish, not as numbers."""

from __future__ import annotations

from dataclasses import replace

from ..errors import ConfigError
from ..inventory import Inventory
from ..slurmconf.billing import billing_weights
from .document import Leaf, Tree

_KEY = "TRESBillingWeights"


def bills_as_asked(inventory: Inventory) -> bool:
    """Return whether all partitions bill just what the cards of each deliver."""
    asked = replace(inventory, slurm=replace(inventory.slurm, billing=True))
    written = [dict(partition.options).get(_KEY, "") for partition in inventory.partitions]
    if not inventory.slurm.slurmdbd or not any(written):
        return False
    try:
        return written == [billing_weights(asked, item) for item in inventory.partitions]
    except ConfigError:
        return False


def ask_for_billing(document: dict[str, Tree]) -> None:
    """Replace the weights of the partitions by ``billing: true``."""
    slurm, partitions = document.get("slurm"), document.get("partitions")
    if not isinstance(slurm, dict) or not isinstance(partitions, dict):
        return
    origin = slurm["slurmdbd"].origin if isinstance(slurm["slurmdbd"], Leaf) else ()
    slurm["billing"] = Leaf(True, origin)
    for section in partitions.values():
        options = section.get("options") if isinstance(section, dict) else None
        if isinstance(section, dict) and isinstance(options, dict):
            options.pop(_KEY, None)
            if not options:
                del section["options"]
