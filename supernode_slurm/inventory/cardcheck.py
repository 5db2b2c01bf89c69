"""What Slurm would die of, or count wrong, in what an inventory says of a node's cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .. import hostlist
from ..catalogue import platform_of
from ..errors import Problem, Where
from . import schema
from .cards import DEVICE_LIMIT, LAST_INSTANCE, device_files, expand_files, gres_devices
from .model import Devices, OtherGres


def check_devices(item: schema.DeviceSection, raw: schema.NodesSection) -> Iterator[Problem]:
    """Yield what is wrong with the cards of one kind."""
    count, at = item.count, item.at
    if item.files and len(expand_files(item.files)) != count:
        yield Problem(at["files"], f"files do not name {count} devices", "name each once")
    if item.files and item.missing:
        yield Problem(at["missing"], "files and missing say the same", "leave one out")
    if item.cores and count % len(item.cores):
        what = f"{count} cards are no equal shares for {len(item.cores)} ranges of cores"
        yield Problem(at["cores"], what, "repeat a range for a card of its own")
    for text in item.cores:
        yield from _check_cores(text, at["cores"], raw)
    if item.links and len(item.links) != count:
        what = f"{len(item.links)} lists of links for {count} cards"
        yield Problem(at["links"], what, "give one list for each card")
    name = item.gres or raw.gres
    if item.shards and name != "gpu":
        what = f"shards of GRES '{name}': Slurm shares 'gpu' only"
        yield Problem(at["shards"], what, "leave the GRES name at gpu, or give no shards")
    if item.mig:
        yield from _check_mig(item)


def check_node(place: Where, devices: Sequence[Devices]) -> Iterator[Problem]:
    """Yield what the cards of one node cannot be together."""
    vendors = [platform_of(item.accelerator) for item in devices]
    for item, vendor in zip(devices, vendors, strict=True):
        if item.mig and vendor.vendor != "nvidia":
            yield Problem(place, f"{item.accelerator} has no MIG", "leave 'mig' out")
    kinds = Counter(kind for item in devices for kind in _types(item))
    if any(times > 1 for times in kinds.values()):
        what = "two entries are of the same GRES type"
        yield Problem(place, what, "name each kind of card once, without 'type'")
    makers: dict[str, set[str]] = {}
    for item, vendor in zip(devices, vendors, strict=True):
        makers.setdefault(item.gres, set()).add(vendor.vendor)
    if any(len(names) > 1 for names in makers.values()):
        yield Problem(
            place,
            "cards of two vendors in one node: slurmd takes one vendor's environment only",
            "give one of them another GRES name: ascend910c: {count: 8, gres: npu}",
        )
    files = Counter(file for names in device_files(devices) for file in names)
    for file in [file for file, times in files.items() if times > 1][:1]:
        yield Problem(place, f"{file} is the file of two cards", "name each file once")
    for name, count in Counter(device.gres for device in gres_devices(devices)).items():
        if count > DEVICE_LIMIT:
            what = f"{count} devices of GRES '{name}' in a node"
            yield Problem(place, what, f"Slurm counts up to {DEVICE_LIMIT}")
    yield from _check_links(place, devices)


def check_other(
    place: Where, others: Sequence[OtherGres], devices: Sequence[Devices]
) -> Iterator[Problem]:
    """Yield what other GRES cannot be beside the cards of a node."""
    used = {file for names in device_files(devices) for file in names}
    kinds = {(item.gres, item.type) for item in devices}
    names = {item.gres for item in devices}
    for item in others:
        label = ":".join(filter(None, (item.name, item.type)))
        if (item.name, item.type) in kinds:
            yield Problem(place, f"{label} is among the devices too", "name it once")
        typed = {other.type != "" for other in others if other.name == item.name}
        if len(typed) > 1 or (item.name in names and not item.type):
            what = f"{label}: some {item.name} have a type, others none: slurmctld refuses that"
            yield Problem(place, what, "give all of them a type")
        if item.name == "gpu" and item.files and len(item.files) != item.count:
            yield Problem(place, f"{label}: files do not name {item.count}", "name each once")
        if item.name != "mps" and not used.isdisjoint(item.files):
            file = next(file for file in item.files if file in used)
            yield Problem(place, f"{file} is the file of two cards", "name each file once")
        used |= set(item.files) if item.name != "mps" else set()


def _check_cores(text: str, where: Where, raw: schema.NodesSection) -> Iterator[Problem]:
    last = raw.sockets * raw.cores - 1
    ranges = [part.partition("-")[::2] for part in text.split(",")]
    spans = [(int(low), int(high or low)) for low, high in ranges]
    if any(high > last for _, high in spans):
        what = f"cores {text} of a node with cores 0-{last}"
        yield Problem(where, what, "count physical cores as slurmd does, without hyper-threads")
    elif any(low > high for low, high in spans):
        yield Problem(where, f"cores {text} run backwards", "write the lower core first")
    elif any(low % raw.cores or (high + 1) % raw.cores for low, high in _joined(spans)):
        # _check_core_range_matches_sock of Slurm's gres.c, seen on 24.11: Gres becomes "gpu:1".
        yield Problem(
            where,
            f"cores {text} end inside a socket of {raw.cores}: Slurm refuses the node",
            "widen them to whole sockets, or let slurmd take NUMA nodes for sockets"
            " (SlurmdParameters=numa_node_as_socket) and describe the node with those",
        )


def _check_mig(item: schema.DeviceSection) -> Iterator[Problem]:
    at = item.at
    if item.shards:
        yield Problem(at["mig"], "a card is split by MIG or into shards", "leave one out")
    if item.links:
        yield Problem(at["links"], "links of MIG instances, which have none", "leave them out")
    ids = Counter(number for numbers in item.mig.values() for number in numbers)
    todo = "'nvidia-smi mig -lgi' shows the ids of a card"
    for number in sorted(number for number, times in ids.items() if times > 1):
        yield Problem(at["mig"], f"GPU instance {number} is listed twice", todo)
    if max(ids, default=0) > LAST_INSTANCE:
        what = f"GPU instance {max(ids)}: ids go up to {LAST_INSTANCE}"
        yield Problem(at["mig"], what, todo)
    if item.files and not all(map(hostlist.digit_tail, expand_files(item.files))):
        what = "files without a number: that of a MIG instance follows from its card's"
        yield Problem(at["files"], what, "name them like /dev/nvidia[0-7]")


def _check_links(place: Where, devices: Sequence[Devices]) -> Iterator[Problem]:
    for item in devices:
        same = [other for other in devices if other.gres == item.gres]
        first = sum(other.count for other in same[: same.index(item)])
        total = sum(other.count for other in same)
        for index, text in enumerate(item.links):
            counts = text.split(",")
            if len(counts) != total or counts[first + index] != "-1":
                what = f"links {text} of device {first + index} of {total}"
                yield Problem(place, what, "give a number for each device, -1 for itself")


def _types(item: Devices) -> set[tuple[str, str]]:
    """Return the GRES types of one kind of card, several under MIG."""
    return {(device.gres, device.type) for device in gres_devices([item])}


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of cores with neighbours made one."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined
