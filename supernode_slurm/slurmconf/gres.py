"""gres.conf: which device file is which card, in as few lines as say it.

Explicit files, never AutoDetect beside them: Slurm detects only NVIDIA, AMD, Intel and
AWS cards, both together give duplicate records, and on cloud nodes slurmctld dies of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from .. import hostlist
from ..catalogue import platform_of
from ..inventory import GresDevice, Inventory, NodeClass, OtherGres, gres_devices


def gres_conf(inventory: Inventory) -> tuple[str, list[str]]:
    """Return the text of gres.conf, and what the admin should know about it."""
    torn = cloud_vendors(inventory)
    text = "".join(
        f"NodeName={hostlist.fold(nodes.hosts)} {line}\n"
        for nodes in inventory.node_classes
        for line in _lines(nodes, with_flags=not (nodes.cloud and torn))
    )
    return text, list(_notes(inventory, torn))


def cloud_vendors(inventory: Inventory) -> tuple[str, ...]:
    """Return the vendors of cloud nodes whose environment flags differ, none if they agree.

    slurmctld reads the lines of all cloud nodes as if they were one node's, and dies of
    two kinds of flags (seen on 22.05 and 24.11); of other nodes it reads none.
    """
    vendors = {
        vendor.vendor: vendor.slurm_env_flag
        for nodes in inventory.node_classes
        for device in nodes.devices
        for vendor in [platform_of(device.accelerator)]
        if nodes.cloud and device.gres == "gpu"
    }
    if vendors and any(
        item.name == "gpu" and item.files
        for nodes in inventory.node_classes
        for item in nodes.other_gres
        if nodes.cloud
    ):
        vendors["others"] = ""
    return tuple(sorted(vendors)) if len(set(vendors.values())) > 1 else ()


def _lines(nodes: NodeClass, with_flags: bool) -> Iterator[str]:
    """Yield the lines of a class of nodes, without its hosts."""
    devices = gres_devices(nodes.devices)
    for (head, tail), group in groupby(devices, lambda device: _ends(device, with_flags)):
        cards = tuple(group)
        if len(cards[0].files) > 1:
            files = [f"MultipleFiles={','.join(card.files)}" for card in cards]
        else:
            files = [f"File={_files(cards)}"]
        yield from (" ".join([head, item, *tail]) for item in files)
    sharing = (device for device in devices if device.shards)
    for (_, shards), group in groupby(sharing, lambda device: (device.type, device.shards)):
        cards = tuple(group)
        yield f"Name=shard Count={shards * len(cards)} File={_files(cards)}"
    for item in nodes.other_gres:
        yield from _other(item, nodes if with_flags else None)


def _other(item: OtherGres, nodes: NodeClass | None) -> Iterator[str]:
    """Yield the line of another GRES; the flags of ``nodes`` are those of all its gpus."""
    head = " ".join(filter(None, (f"Name={item.name}", f"Type={item.type}" * bool(item.type))))
    files = f" File={hostlist.fold(item.files, sort=False)}" if item.files else ""
    if item.name != "gpu":
        yield f"{head} Count={item.count}{files}"
    elif files:  # slurmctld passes over a gpu without a file
        flags = {
            platform_of(devices.accelerator).slurm_env_flag
            for devices in (nodes.devices if nodes else ())
            if devices.gres == "gpu"
        }
        yield f"{head}{files}" + "".join(f" Flags={flag}" for flag in sorted(flags))


def _ends(device: GresDevice, with_flags: bool) -> tuple[str, tuple[str, ...]]:
    """Return what stands before and after the files; equal for devices that share a line."""
    fields = [f"Cores={device.cores}"] if device.cores else []
    if device.links:
        fields.append(f"Links={device.links}")
    # Only the gpu plugin sets a variable, and by default those of all vendors at once.
    if with_flags and device.gres == "gpu":
        fields.append(f"Flags={platform_of(device.accelerator).slurm_env_flag}")
    return f"Name={device.gres} Type={device.type}", tuple(fields)


def _files(devices: tuple[GresDevice, ...]) -> str:
    return hostlist.fold((device.files[0] for device in devices), sort=False)


def _notes(inventory: Inventory, torn: tuple[str, ...]) -> Iterator[str]:
    if torn:
        yield (
            f"cloud nodes with cards of {' and '.join(torn)}: slurmctld takes one vendor's Flags="
            " for all of them, so none are written and Slurm sets the variables of all vendors"
        )
    if any(device.mig for nodes in inventory.node_classes for device in nodes.devices):
        yield (
            "MIG instances are told apart by device files alone: cgroup.conf needs"
            " ConstrainDevices=yes, and the instances must exist before slurmd starts"
        )
