"""gres.conf: which device file is which card, one line per kind and class of nodes.

Explicit ``File=`` lines, never AutoDetect beside them: Slurm detects only NVIDIA, AMD,
Intel and AWS cards, and both together give duplicate records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .. import hostlist
from ..catalogue import Platform, find_accelerator, platform
from ..inventory import Inventory, NodeClass


def gres_conf(inventory: Inventory) -> str:
    """Return the lines of gres.conf."""
    lines = [line for nodes in inventory.node_classes for line in _node_lines(nodes)]
    return "".join(f"{line}\n" for line in lines)


def _node_lines(nodes: NodeClass) -> Iterator[str]:
    hosts = hostlist.fold(nodes.hosts)
    first: dict[str, int] = {}
    for devices in nodes.devices:
        vendor = platform(find_accelerator(devices.accelerator).vendor)
        start = first.get(vendor.vendor, 0)
        first[vendor.vendor] = start + devices.count
        fields = [f"NodeName={hosts}", f"Name={devices.gres}", f"Type={devices.type}"]
        fields.append(f"File={device_files(vendor, start, devices.count)}")
        # Only the gpu plugin sets a variable, and by default those of all vendors at once.
        if devices.gres == "gpu":
            fields.append(f"Flags={vendor.slurm_env_flag}")
        yield " ".join(fields)


def device_files(vendor: Platform, start: int, count: int) -> str:
    """Return the device files of ``count`` cards from index ``start`` on, folded."""
    pattern = vendor.device_files[0]
    found = re.search(r"\{(?:([0-9]+)\+)?i\}", pattern)
    if found is None:
        return pattern
    low = int(found.group(1) or 0) + start
    numbers = f"[{low}-{low + count - 1}]" if count > 1 else str(low)
    return pattern[: found.start()] + numbers + pattern[found.end() :]
