"""Comments in the generated files that hold what Slurm itself cannot: written and read here.

They tell an admin what each line stands for, and let ``sn import`` rebuild the inventory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .. import hostlist
from ..catalogue import UnknownName, find_accelerator
from ..inventory import Devices, Fabric, Foreign, Interconnect, Pool, Supernode, Switch

MARK = "# Written by 'sn generate'"
"""How each file of ours begins; a file that does not is a person's and is never replaced."""

AS_GIVEN = "as-given"
"""Where a twin keeps the files that it was made of: it runs changed ones."""
TWIN = f"# A twin of the files in {AS_GIVEN}/"
"""How the slurm.conf of a twin begins."""

_HEAD = re.compile(rf"{MARK} for cluster (\S+) and Slurm ([0-9.]+)\.\Z")
_DOMAIN = re.compile(r"# (supernode|pool) (\S+): (.*)\Z")
_FABRIC = re.compile(
    r"# fabric (\S+): (\S+)(?:, (\d+) rails of ([0-9.]+) GB/s)?, oversubscription ([0-9.]+)\Z"
)
_SWITCH = re.compile(r"# switch (\S+): (\S+)\Z")
_LINK = re.compile(r"(\S+?)(?: of ([0-9.e+]+) GB/s)?, ([0-9.e+]+) ns\Z")
_SPARES = re.compile(r"(\d+) of (\d+) nodes spare\Z")
_CARDS = re.compile(r"\d+ ([A-Za-z0-9._-]+)(?: as ([A-Za-z0-9._-]+))? per node\Z")
_FOREIGN = re.compile(r"# foreign (\S+): (\S+)\Z")


@dataclass(frozen=True, slots=True)
class DomainFacts:
    """What a comment says of a supernode or pool."""

    name: str
    interconnect: Interconnect | None
    """None for a pool."""
    spares: int
    types: tuple[tuple[str, str], ...]
    """GRES types that do not name their accelerator, and the accelerator of each."""


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """What a comment says of a fabric."""

    name: str
    kind: str
    rails: int | None
    rail_gbs: float | None
    oversubscription: float


def head_comment(cluster: str, release: str) -> str:
    """Return the first line of each file."""
    return f"{MARK} for cluster {cluster} and Slurm {release}."


def read_head_comment(line: str) -> tuple[str, str] | None:
    """Return the cluster and the release if a line is such a comment."""
    found = _HEAD.match(line)
    return (found[1], found[2]) if found else None


def domain_comment(domain: Supernode | Pool) -> str:
    """Return the comment over the node lines of a supernode or pool."""
    cards = dict.fromkeys(_card(item) for nodes in domain.nodes for item in nodes.devices)
    if isinstance(domain, Pool):
        return f"# pool {domain.name}: {'; '.join(cards) or 'no cards'}"
    link = domain.interconnect
    speed = "" if link.bandwidth_gbs is None else f" of {link.bandwidth_gbs:g} GB/s"
    parts = [f"{link.kind}{speed}, {link.latency_ns:g} ns"]
    if domain.spares:
        parts.append(f"{domain.spares} of {len(domain.hosts)} nodes spare")
    return f"# supernode {domain.name}: {'; '.join([*parts, *cards])}"


def read_domain_comment(line: str) -> DomainFacts | None:
    """Return what a line says if it is such a comment."""
    found = _DOMAIN.match(line)
    if found is None:
        return None
    link, spares, types = None, 0, []
    for part in found[3].split("; "):
        if kind := _LINK.match(part):
            speed = float(kind[2]) if kind[2] else None
            link = Interconnect(kind[1], speed, float(kind[3]))
        elif count := _SPARES.match(part):
            spares = int(count[1])
        elif (card := _CARDS.match(part)) and card[2]:
            types.append((card[2], card[1]))
    if (found[1] == "supernode") != (link is not None):
        return None
    return DomainFacts(found[2], link, spares, tuple(types))


def foreign_comment(foreign: Foreign) -> str:
    """Return the comment for nodes that stand in lines of the site's own."""
    return f"# foreign {foreign.name}: {hostlist.fold(foreign.hosts, sort=False)}"


def read_foreign_comment(line: str) -> tuple[str, str] | None:
    """Return the name and the folded hosts if a line is such a comment."""
    found = _FOREIGN.match(line)
    return (found[1], found[2]) if found else None


def fabric_comment(fabric: Fabric) -> str:
    """Return the comment over the switches of a fabric."""
    rails = ""
    if fabric.rails is not None:
        rails = f", {fabric.rails} rails of {fabric.rail_gbs:g} GB/s"
    return (
        f"# fabric {fabric.name}: {fabric.kind}{rails}, "
        f"oversubscription {fabric.oversubscription:g}"
    )


def read_fabric_comment(line: str) -> FabricFacts | None:
    """Return what a line says if it is such a comment."""
    found = _FABRIC.match(line)
    if found is None:
        return None
    rails = int(found[3]) if found[3] else None
    speed = float(found[4]) if found[4] else None
    return FabricFacts(found[1], found[2], rails, speed, float(found[5]))


def switch_comment(switch: Switch) -> str:
    """Return the comment for a switch, where the topology itself does not name it."""
    below = (*switch.switches, *switch.members, *switch.hosts)
    return f"# switch {switch.name}: {hostlist.fold(below, sort=False)}"


def read_switch_comment(line: str) -> tuple[str, str] | None:
    """Return the name and what hangs below if a line is such a comment."""
    found = _SWITCH.match(line)
    return (found[1], found[2]) if found else None


def _card(devices: Devices) -> str:
    """Return the cards of a node, with their GRES type where it does not name them."""
    usual = _names(devices.type, devices.accelerator)
    kind = devices.accelerator if usual else f"{devices.accelerator} as {devices.type}"
    return f"{devices.count} {kind} per node"


def _names(kind: str, accelerator: str) -> bool:
    try:
        return find_accelerator(kind).id == accelerator
    except UnknownName:
        return False
