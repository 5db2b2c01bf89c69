"""gres.conf: which device file is which card, one line per kind and class of nodes.

Explicit ``File=`` lines, never AutoDetect beside them: Slurm detects only NVIDIA, AMD,
Intel and AWS cards, and both together give duplicate records.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import hostlist
from ..catalogue import find_accelerator, platform
from ..inventory import Inventory, NodeClass
from .release import Release


def gres_conf(inventory: Inventory, release: Release) -> tuple[str, list[str]]:
    """Return the lines of gres.conf, and notes."""
    lines = [line for nodes in inventory.node_classes for line in _node_lines(nodes)]
    return "".join(f"{line}\n" for line in lines), []


def _node_lines(nodes: NodeClass) -> Iterator[str]:
    hosts = hostlist.fold(nodes.hosts)
    first: dict[str, int] = {}
    for devices in nodes.devices:
        vendor = platform(find_accelerator(devices.accelerator).vendor)
        start = first.get(vendor.vendor, 0)
        first[vendor.vendor] = start + devices.count
        fields = [f"NodeName={hosts}", f"Name={devices.gres}", f"Type={devices.type}"]
        files = [vendor.files(start + index)[0] for index in range(devices.count)]
        fields.append(f"File={hostlist.fold(files)}")
        # Only the gpu plugin sets a variable, and by default those of all vendors at once.
        if devices.gres == "gpu":
            fields.append(f"Flags={vendor.slurm_env_flag}")
        yield " ".join(fields)
