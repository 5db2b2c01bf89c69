"""Rules about networks: are they thick enough for the jobs, do nodes find their ports."""

from __future__ import annotations

from collections.abc import Iterator

from .. import hostlist
from .lint import Fault, Rule, Subject
from .model import Inventory, Network, NodeClass, Partition, Pool, Supernode

TRAINING_OVERSUBSCRIPTION = 2.0
"""Beyond it the core of the network holds up the gradient traffic of training jobs."""
INFERENCE_OVERSUBSCRIPTION = 4.0
_FEW = 3
"""Nodes along a ring that are all neighbours."""


def trains(partition: Partition) -> bool:
    """Return whether jobs of a partition train: where nothing is said, they do."""
    return set(partition.workload) != {"inference"}


def _oversubscribed(subject: Subject) -> Iterator[Fault]:
    for fabric in subject.inventory.fabrics:
        users = [
            partition
            for partition in subject.inventory.partitions
            if not fabric.hosts.isdisjoint(partition.hosts)
        ]
        training = [partition.name for partition in users if trains(partition)]
        serving = bool(users) and not training
        limit = INFERENCE_OVERSUBSCRIPTION if serving else TRAINING_OVERSUBSCRIPTION
        if fabric.oversubscription > limit:
            names = training or [partition.name for partition in users]
            verb = "serves" if serving else "trains"
            over = f": partition {', '.join(names)} {verb} over it" if names else ""
            yield Fault(
                fabric.where,
                f"fabric {fabric.name} is oversubscribed {fabric.oversubscription:g}:1{over}",
                (fabric.name, *names),
                todo=f"{'inference' if serving else 'training'} wants at most {limit:g}:1",
            )


def _unfit(subject: Subject) -> Iterator[Fault]:
    inventory = subject.inventory
    for partition in inventory.partitions:
        if "moe" not in partition.workload:
            continue
        reasons: dict[str, list[str]] = {}
        for domain in map(inventory.domain, partition.members):
            reason = _unfit_inside(domain) or _unfit_between(inventory, domain)
            if reason:
                reasons.setdefault(reason, []).append(domain.name)
        for reason, names in reasons.items():
            what = (
                f"partition {partition.name} trains mixtures of experts on "
                f"{hostlist.fold(names)}: {reason}"
            )
            yield Fault(partition.where, what, (partition.name, *names))


def _unfit_inside(domain: Supernode | Pool) -> str:
    """Return why a scale-up fabric is no place for all-to-all traffic, empty if it is one."""
    if isinstance(domain, Pool):
        return ""
    link, count = domain.interconnect, len(domain.hosts)
    if link.kind == "ring" and count > _FEW:
        return f"a ring of {count} nodes"
    if link.kind == "torus" and max(link.dims, default=count) > _FEW:
        return f"a torus of {' x '.join(map(str, link.dims)) or count} nodes"
    return ""


def _unfit_between(inventory: Inventory, domain: Supernode | Pool) -> str:
    """Return why the network of single nodes is no place for all-to-all traffic."""
    fabric = inventory.fabric_of(domain.hosts[0])
    if fabric is None or (isinstance(domain, Supernode) and len(domain.hosts) > 1):
        return ""
    if fabric.kind == "torus":
        return f"their network, fabric {fabric.name}, is a torus"
    if fabric.oversubscription > 1:
        return (
            f"their network, fabric {fabric.name}, is oversubscribed {fabric.oversubscription:g}:1"
        )
    return ""


def _one_list_for_all(subject: Subject) -> Iterator[Fault]:
    """Yield each NCCL_IB_HCA that leaves out, or invents, cards of nodes that have it."""
    wrong: dict[str, list[NodeClass]] = {}
    for nodes in subject.inventory.node_classes:
        said = dict(nodes.network.environment).get("NCCL_IB_HCA")
        if said is not None and nodes.network.hcas and not _takes_all(said, nodes.network):
            wrong.setdefault(said, []).append(nodes)
    for said, classes in wrong.items():
        shown = "; ".join(
            f"{hostlist.fold(nodes.hosts)} has {','.join(nodes.network.hcas)}" for nodes in classes
        )
        what = f"NCCL_IB_HCA={said} for nodes with other cards: {shown}"
        hosts = tuple(host for nodes in classes for host in nodes.hosts)
        yield Fault(classes[0].where, what, ("NCCL_IB_HCA",), hosts)


def _takes_all(said: str, network: Network) -> bool:
    """Return whether a value of NCCL_IB_HCA takes all network cards of a node and no others."""
    excludes = said.startswith("^")
    exact = said.removeprefix("^").startswith("=")
    words = [word.partition(":")[0] for word in said.lstrip("^=").split(",") if word]

    def taken(card: str) -> bool:
        met = any(card == word if exact else card.startswith(word) for word in words)
        return met != excludes

    invented = exact and not excludes and not set(words) <= set(network.hcas)
    return all(map(taken, network.hcas)) and not invented


def _uneven_rails(subject: Subject) -> Iterator[Fault]:
    for nodes in subject.inventory.node_classes:
        fabric, count = subject.inventory.fabric_of(nodes.hosts[0]), len(nodes.network.hcas)
        if fabric is not None and fabric.rails and count and count != fabric.rails:
            what = (
                f"{hostlist.fold(nodes.hosts)}: {count} network cards under 'hcas', and fabric "
                f"{fabric.name} has {fabric.rails} rails"
            )
            yield Fault(nodes.where, what, (fabric.name,), nodes.hosts)


NETWORK_RULES = (
    Rule(
        "oversubscription",
        "error",
        "a thin core holds up the sums of training over 2:1, inference over 4:1",
        "add links to the core, or declare what the partitions do under 'workload'",
        _oversubscribed,
    ),
    Rule(
        "interconnect-workload",
        "error",
        "experts talk all to all, which rings, toruses and thin trees slow down",
        "keep experts inside full meshes and switches: move the partition, or take 'moe' out of "
        "its workload",
        _unfit,
    ),
    Rule(
        "global-hca",
        "error",
        "one NCCL_IB_HCA for nodes whose network cards have other names hangs jobs",
        "leave NCCL_IB_HCA out: 'hcas' of each class of nodes sets it as those nodes need it",
        _one_list_for_all,
    ),
    Rule(
        "uneven-rails",
        "warning",
        "a node with fewer ports than rails slows every job that it is part of",
        "list one network card for each rail, and none of other networks",
        _uneven_rails,
    ),
)
