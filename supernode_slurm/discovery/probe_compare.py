"""What Slurm says of nodes against what their probes found: gaps are filled, differences told."""

from __future__ import annotations

from dataclasses import replace

from ..catalogue import find_accelerator
from ..errors import Problem
from ..inventory import Devices
from ..slurmconf.grammar import Said
from .probe_cards import Measured
from .room import Keys, NodeFacts, Room

_KEYS = {
    "sockets": ("sockets", "socketsperboard", "cpus", "procs", "boards"),
    "cores": ("corespersocket", "cpus", "procs"),
    "threads": ("threadspercore", "cpus", "procs"),
    "memory_mib": ("realmemory",),
}
"""What a probe measures, and the keys of a node's line that say it: the first is filled in."""


_CPUS = frozenset({"cpus", "procs"})


def completed(
    node: NodeFacts, hosts: tuple[str, ...], measured: Measured | None, room: Room
) -> NodeFacts:
    """Return what a line says of hosts, with what only their probe says."""
    if measured is None:
        return node
    _, place = room.measured[hosts[0]]
    given = node.keys.keys() - (_CPUS if _counts_the_same(node.keys, measured) else frozenset())
    filled = {}
    for name, keys in _KEYS.items():
        value = getattr(measured, name)
        if value and given.isdisjoint(keys):
            filled[keys[0]] = Said(str(value), place, keys[0])
    return replace(node, keys={**node.keys, **filled}) if filled else node


def _counts_the_same(keys: Keys, measured: Measured) -> bool:
    """Return whether a line gives CPUs alone, as many as the node has of cores or threads."""
    said = keys.get("cpus", keys.get("procs"))
    others = {key for names in _KEYS.values() for key in names} - _CPUS - {"realmemory"}
    if said is None or not others.isdisjoint(keys) or not said.text.isdecimal():
        return False
    cores = measured.sockets * measured.cores
    return len(said.text) < 9 and int(said.text) in (cores, cores * measured.threads)


def tell_shape(
    node: NodeFacts, hosts: tuple[str, ...], shape: dict[str, int], measured: Measured, room: Room
) -> None:
    """Tell where sockets, cores, threads or memory are not what the probe found.

    A line may give less memory than there is: a site keeps some back.
    """
    found = {
        "sockets": measured.sockets,
        "cores": measured.cores,
        "threads": measured.threads,
        "memory": measured.memory_mib,
    }
    for name, value in found.items():
        said = shape[name]
        is_less = name == "memory" and said <= value
        if value and said != value and not is_less:
            unit = " MiB" if name == "memory" else ""
            what = f"{name} of {{hosts}}: {said}{unit} in slurm.conf, {value}{unit} by the probe"
            todo = "slurmd drains a node that has less: correct slurm.conf"
            room.of_hosts("disagreement", Problem(node.where, what, todo), hosts)


def is_bare(keys: Keys, measured: Measured | None) -> bool:
    """Return whether no line names the cards of a node, and its probe does."""
    return measured is not None and "gres" not in keys and bool(measured.devices or measured.others)


def by_probe(measured: Measured, base: str, found: str) -> str:
    """Return the accelerator that a GRES type stands for on a probed node.

    ``found`` is what its spelling means, empty if nothing. The probe tells variants apart:
    ``a100`` is one on SXM, or PCIe, or with 40 GB. Empty where the probe names no such card.
    """
    kinds = [item.accelerator for item in measured.devices]
    if found in kinds:
        return found
    if base and found:
        usual = find_accelerator(found).gres_type
        kinds = [kind for kind in kinds if find_accelerator(kind).gres_type == usual]
    return kinds[0] if len(kinds) == 1 else ""


def count_in(measured: Measured, accelerator: str) -> int:
    """Return how many devices of a kind a probe found."""
    counts: list[Devices] = [item for item in measured.devices if item.accelerator == accelerator]
    return sum(item.count for item in counts)
