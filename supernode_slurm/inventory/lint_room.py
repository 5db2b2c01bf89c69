"""Rules about places and names: what hangs where, what is in which partition, what is gone."""

from __future__ import annotations

from collections.abc import Iterator

from .. import hostlist
from .lint import Fault, Rule, Subject
from .model import Supernode


def _unreachable(subject: Subject) -> Iterator[Fault]:
    inventory = subject.inventory
    for domain in inventory.domains if inventory.fabrics else ():
        if not any(host in fabric.hosts for fabric in inventory.fabrics for host in domain.hosts):
            yield Fault(domain.where, f"{domain.name} hangs under no switch", (domain.name,))


def _unused(subject: Subject) -> Iterator[Fault]:
    used = {name for partition in subject.inventory.partitions for name in partition.members}
    for domain in subject.inventory.domains:
        if domain.name not in used:
            yield Fault(domain.where, f"{domain.name} is in no partition", (domain.name,))


def _undirected(subject: Subject) -> Iterator[Fault]:
    partitions = subject.inventory.partitions
    if partitions and not any(partition.default for partition in partitions):
        names = tuple(partition.name for partition in partitions)
        yield Fault(partitions[0].where, "no partition is the default", names)


def _absent(subject: Subject) -> Iterator[Fault]:
    for item in subject.inventory.upkeep.absent:
        what = f"{hostlist.fold(item.hosts)}: no source showed it since {item.since}"
        yield Fault(item.where, what, (), item.hosts)


def _broken_blocks(subject: Subject) -> Iterator[Fault]:
    inventory = subject.inventory
    gone = {host: item for item in inventory.upkeep.absent for host in item.hosts}
    for domain in inventory.supernodes:
        lost = tuple(host for host in domain.hosts if host in gone)
        if len(domain.hosts) > 1 and len(lost) > domain.spares:
            left = len(domain.hosts) - len(lost)
            what = (
                f"{domain.name}: {hostlist.fold(lost)} of {len(domain.hosts)} hosts "
                f"{'are' if len(lost) > 1 else 'is'} absent: {left} are left of a planning block "
                f"of {domain.planning_nodes}"
            )
            yield Fault(gone[lost[0]].where, what, (domain.name,), lost)


def _unweighted(subject: Subject) -> Iterator[Fault]:
    inventory = subject.inventory
    foreign = {host for item in inventory.foreign for host in item.hosts}
    for partition in inventory.partitions:
        held = set(partition.hosts)
        if held.isdisjoint(foreign):
            continue
        light = [
            host
            for nodes in inventory.node_classes
            if nodes.device_count and "Weight" not in dict(nodes.options)
            for host in nodes.hosts
            if host in held
        ]
        if light:
            what = (
                f"partition {partition.name} holds nodes without cards beside "
                f"{hostlist.fold(light)}, all of one weight"
            )
            yield Fault(partition.where, what, (partition.name,))


def _unlike_weights(subject: Subject) -> Iterator[Fault]:
    for domain in subject.inventory.domains:
        weights = {dict(nodes.options).get("Weight", "1") for nodes in domain.nodes}
        if isinstance(domain, Supernode) and len(weights) > 1:
            shown = ", ".join(sorted(weights))
            yield Fault(
                domain.where, f"nodes of {domain.name} have weights {shown}", (domain.name,)
            )


ROOM_RULES = (
    Rule(
        "no-fabric",
        "warning",
        "no job can span nodes that no network joins",
        "no job can span it and other nodes; add it to a fabric's switches",
        _unreachable,
    ),
    Rule(
        "no-partition",
        "warning",
        "nobody can submit to nodes outside of all partitions",
        "nobody can submit to it; add it to one",
        _unused,
    ),
    Rule(
        "no-default",
        "warning",
        "without a default partition a job that names none is refused",
        "a job without --partition is refused; add default: true to one, unless a partition of the "
        "site's own is it",
        _undirected,
    ),
    Rule(
        "absent-hosts",
        "warning",
        "hosts that no source shows any more are still in Slurm's files",
        "bring it back, or take it out of the inventory",
        _absent,
    ),
    Rule(
        "absent-over-spares",
        "error",
        "Slurm takes jobs of a planning block and has no whole one to give",
        "bring them back, or declare more spares and generate again",
        _broken_blocks,
    ),
    Rule(
        "cpu-jobs-on-cards",
        "warning",
        "jobs without cards fill nodes with cards where all nodes weigh the same",
        "give the nodes with cards a Weight under 'options', above that of the others",
        _unweighted,
    ),
    Rule(
        "weight-over-topology",
        "warning",
        "Slurm takes light nodes first, whatever the topology says",
        "give all nodes of a supernode one Weight",
        _unlike_weights,
    ),
)
