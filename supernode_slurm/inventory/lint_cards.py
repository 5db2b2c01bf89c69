"""Rules about cards that share a partition: their speeds, numbers and makers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import hostlist
from ..catalogue import platform_of
from .lint import Fault, Rule, Subject
from .model import Devices, Inventory, Partition

ALIKE = 1.05
"""Rates of a matrix multiplication that differ by less are of equal cards."""
_DIRECT = "FlagCX joins them there"
_STAGED = "through host memory by gloo"


@dataclass(frozen=True, slots=True)
class _Held:
    """Cards of one kind in equal nodes of a partition."""

    devices: Devices
    hosts: tuple[str, ...]


def _held(inventory: Inventory, partition: Partition) -> list[_Held]:
    wanted = set(partition.hosts)
    found = []
    for domain in map(inventory.domain, partition.members):
        for nodes in domain.nodes:
            hosts = tuple(host for host in nodes.hosts if host in wanted)
            found += [_Held(item, hosts) for item in nodes.devices if hosts]
    return found


def _unlike(subject: Subject) -> Iterator[Fault]:
    """Yield partitions with cards of unlike speed."""
    for partition in subject.inventory.partitions:
        if partition.mixed:
            continue
        rates = _rates(subject.inventory, partition)
        if len(rates) < 2:
            continue
        known = {kind: rate for kind, rate in rates.items() if rate}
        unknown = [kind for kind in rates if kind not in known]
        ratio = max(known.values(), default=1.0) / min(known.values(), default=1.0)
        if not unknown and ratio <= ALIKE:
            continue
        ranked = sorted(known, key=lambda kind: known[kind], reverse=True)
        shown = [f"{kind} ({known[kind]:.0f} TFLOPS)" for kind in ranked]
        shown += [f"{kind} (of unknown speed)" for kind in unknown]
        than = (
            f": {ranked[0]} is {ratio:.1f} times as fast as {ranked[-1]}" if ratio > ALIKE else ""
        )
        what = f"partition {partition.name} holds {', '.join(shown)}{than}"
        yield Fault(partition.where, what, (partition.name,))


def _rates(inventory: Inventory, partition: Partition) -> dict[str, float | None]:
    """Return what each kind of card delivers in bf16, or in fp16 where one has no bf16.

    TFLOPS of a device in large matrix multiplications; None where nobody has said.
    """
    cards = {
        item.devices.type: inventory.accelerator(item.devices.accelerator)
        for item in _held(inventory, partition)
    }
    rates = {kind: card.matmul_tflops("bf16") for kind, card in cards.items()}
    if all(rates.values()):
        return rates
    return {kind: card.matmul_tflops("fp16") for kind, card in cards.items()}


def _uneven(subject: Subject) -> Iterator[Fault]:
    """Yield partitions where nodes have unlike numbers of the same cards."""
    for partition in subject.inventory.partitions:
        counts: dict[str, dict[int, list[str]]] = {}
        for item in _held(subject.inventory, partition):
            if item.devices.is_whole:
                by_count = counts.setdefault(item.devices.type, {})
                by_count.setdefault(item.devices.count, []).extend(item.hosts)
        for kind, by_count in counts.items():
            if len(by_count) < 2:
                continue
            usual = max(by_count, key=lambda count: (len(by_count[count]), count))
            others = {count: hosts for count, hosts in by_count.items() if count != usual}
            shown = ", ".join(
                f"{count} {kind} in {hostlist.fold(hosts)}" for count, hosts in others.items()
            )
            what = f"partition {partition.name}: {shown}, and {usual} in its other nodes"
            hosts = tuple(host for some in others.values() for host in some)
            yield Fault(partition.where, what, (partition.name,), hosts)


def _one_gres(subject: Subject) -> Iterator[Fault]:
    for partition in subject.inventory.partitions:
        makers: dict[str, list[str]] = {}
        for item in _held(subject.inventory, partition):
            vendor = platform_of(item.devices.accelerator).vendor
            named = makers.setdefault(item.devices.gres, [])
            if vendor not in named:
                named.append(vendor)
        for gres, vendors in makers.items():
            if len(vendors) > 1:
                what = (
                    f"partition {partition.name}: --gres={gres}:N takes cards of "
                    f"{' and '.join(vendors)} alike"
                )
                yield Fault(partition.where, what, (partition.name,))


def _strangers(subject: Subject) -> Iterator[Fault]:
    for partition in subject.inventory.partitions:
        vendors = {
            vendor.vendor: vendor
            for item in _held(subject.inventory, partition)
            for vendor in [platform_of(item.devices.accelerator)]
        }
        if len(vendors) < 2:
            continue
        libraries = [f"{item.ccl} of {item.vendor}" for item in vendors.values()]
        way = _STAGED if "huawei" in vendors else _DIRECT
        yield Fault(
            partition.where,
            f"partition {partition.name}: {' and '.join(libraries)} do not join in one group",
            (partition.name,),
            todo=f"a job over both can only be a pipeline that crosses once, {way} (framework "
            "flagscale); else give each vendor a partition",
        )


def _unseen(subject: Subject) -> Iterator[Fault]:
    """Yield the first nodes of each vendor whose variable Slurm does not set."""
    inventory = subject.inventory
    seen: set[str] = set()
    for nodes in inventory.node_classes if inventory.slurm.task_prolog is None else ():
        for item in nodes.devices:
            vendor = platform_of(item.accelerator)
            unset = vendor.slurm_env_flag == "no_gpu_env" or item.gres != "gpu"
            if unset and vendor.vendor not in seen:
                seen.add(vendor.vendor)
                what = f"Slurm sets no {', '.join(vendor.visible_env)} for {item.type}"
                yield Fault(nodes.where, what, (vendor.vendor, item.type))


CARD_RULES = (
    Rule(
        "mixed-cards",
        "warning",
        "a job over cards of unlike speed runs as fast as the slowest",
        "give each kind a partition, or declare 'mixed: true' where jobs are planned over them",
        _unlike,
    ),
    Rule(
        "uneven-nodes",
        "warning",
        "frameworks want as many cards in every node, and a job may get 8 here and 7 there",
        "put the nodes with fewer cards into a pool and partition of their own",
        _uneven,
    ),
    Rule(
        "vendors-one-gres",
        "error",
        "a job that names no type of card gets cards of several vendors, and hangs",
        "give one vendor's cards another GRES name ('gres: npu'), or a partition of their own",
        _one_gres,
    ),
    Rule(
        "vendor-collectives",
        "warning",
        "collective libraries of different vendors cannot be one communicator",
        "give each vendor a partition",
        _strangers,
    ),
    Rule(
        "vendor-variable",
        "warning",
        "a task that is not told its cards by the vendor's variable takes those of others",
        "sn-launch does; for tasks without it add task_prolog under slurm",
        _unseen,
    ),
)
