"""Comments in the generated files that hold what Slurm itself cannot: written and read here.

They tell an admin what each line stands for, and let ``sn import`` rebuild the inventory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .. import hostlist
from ..catalogue import UnknownName, find_accelerator
from ..inventory import (
    Devices,
    Fabric,
    Foreign,
    Interconnect,
    Policy,
    Pool,
    Supernode,
    Switch,
)

MARK = "# Written by 'sn generate'"
"""How each file of ours begins; a file that does not is a person's and is never replaced."""

SHELL = "#!/bin/sh\n"
"""What stands before our first line in a script."""

AS_GIVEN = "as-given"
"""Where a twin keeps the files that it was made of: it runs changed ones."""
TWIN = f"# A twin of the files in {AS_GIVEN}/"
"""How the slurm.conf of a twin begins."""

_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?(?:e[+-][0-9]{2})?"
"""What the format ``g`` writes."""
_HEAD = re.compile(rf"{MARK} for cluster (\S+) and Slurm ([0-9.]+)\.\Z")
_DOMAIN = re.compile(r"# (supernode|pool) (\S+): (.*)\Z")
_FABRIC = re.compile(
    rf"# fabric (\S+): (\S+)(?:, ([0-9]{{1,9}}) rails of ({_NUMBER}) GB/s)?"
    rf", oversubscription ({_NUMBER})\Z"
)
_SWITCH = re.compile(r"# switch (\S+): (\S+)\Z")
_LINK = re.compile(rf"(\S+?)(?: of ({_NUMBER}) GB/s)?, ({_NUMBER}) ns\Z")
_SPARES = re.compile(r"([0-9]{1,9}) of [0-9]{1,9} nodes spare\Z")
_NO_CARDS = "no cards"
_CARDS = re.compile(r"[0-9]+ ([A-Za-z0-9._-]+)(?: as ([A-Za-z0-9._-]+))? per node\Z")
_FOREIGN = re.compile(r"# foreign (\S+): (\S+)\Z")
_POLICY = re.compile(
    r"# policy:(?: whole_supernode_from ([0-9]{1,9}))?(?: small_jobs_to ([A-Za-z0-9_.-]+))?\Z"
)
_LIKE_OURS = re.compile(r"# (?:supernode|pool|foreign|fabric|switch) \S+: ")


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


def is_ours(text: str) -> bool:
    """Say whether a file of any kind was written by ``sn generate``."""
    return text.startswith((MARK, SHELL + MARK, as_lua(MARK)))


def as_lua(comment: str) -> str:
    """Return lines of comment as Lua writes them."""
    return re.sub("^#", "--", comment, flags=re.MULTILINE)


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
        return f"# pool {domain.name}: {'; '.join(cards) or _NO_CARDS}"
    link = domain.interconnect
    speed = "" if link.bandwidth_gbs is None else f" of {link.bandwidth_gbs:.12g} GB/s"
    parts = [f"{link.kind}{speed}, {link.latency_ns:.12g} ns"]
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
        elif (card := _CARDS.match(part)) and (not card[2] or _is_known(card[1])):
            types += [(card[2], card[1])] if card[2] else []
        elif part != _NO_CARDS:
            return None
    if (found[1] == "supernode") != (link is not None):
        return None
    return DomainFacts(found[2], link, spares, tuple(types))


def foreign_comment(foreign: Foreign) -> str:
    """Return the comment for nodes that stand in lines of the site's own."""
    return f"# foreign {foreign.name}: {hostlist.fold(foreign.hosts, sort=False)}"


def read_foreign_comment(line: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the name and the hosts if a line is such a comment."""
    found = _FOREIGN.match(line)
    hosts = _hosts(found[2]) if found else ()
    return (found[1], hosts) if found and hosts else None


def fabric_comment(fabric: Fabric) -> str:
    """Return the comment over the switches of a fabric."""
    rails = ""
    if fabric.rails is not None:
        rails = f", {fabric.rails} rails of {fabric.rail_gbs:.12g} GB/s"
    return (
        f"# fabric {fabric.name}: {fabric.kind}{rails}, "
        f"oversubscription {fabric.oversubscription:.12g}"
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
    return (found[1], found[2]) if found and _hosts(found[2]) else None


def policy_comment(policy: Policy) -> str:
    """Return the comment over the line that loads job_submit.lua, which holds the policy."""
    said = {
        "whole_supernode_from": policy.whole_supernode_from,
        "small_jobs_to": policy.small_jobs_to,
    }
    pairs = "".join(f" {key} {value}" for key, value in said.items() if value is not None)
    return f"# policy:{pairs}"


def read_policy_comment(line: str) -> dict[str, str] | None:
    """Return the policy's keys and values if a line is such a comment."""
    found = _POLICY.match(line)
    if found is None:
        return None
    pairs = zip(("whole_supernode_from", "small_jobs_to"), found.groups(), strict=True)
    return {key: value for key, value in pairs if value is not None}


def spoilt(line: str) -> tuple[str, str] | None:
    """Return what to say of a comment that begins as one of ours and cannot be read."""
    readers = (
        read_domain_comment,
        read_foreign_comment,
        read_fabric_comment,
        read_switch_comment,
    )
    if not _LIKE_OURS.match(line) or any(read(line) for read in readers):
        return None
    what = f"the comment above, '{line[:60]}', is none that 'sn generate' writes: passed over"
    return what, "generate the file again, or give in the inventory what it said"


def _card(devices: Devices) -> str:
    """Return the cards of a node, with their GRES type where it does not name them."""
    usual = _names(devices.type, devices.accelerator)
    kind = devices.accelerator if usual else f"{devices.accelerator} as {devices.type}"
    return f"{devices.count} {kind} per node"


def _hosts(text: str) -> tuple[str, ...]:
    """Return the hosts of a list, none if it is no list."""
    try:
        return tuple(hostlist.expand(text))
    except ValueError:
        return ()


def _is_known(accelerator: str) -> bool:
    try:
        return find_accelerator(accelerator).id == accelerator
    except UnknownName:
        return False


def _names(kind: str, accelerator: str) -> bool:
    try:
        return find_accelerator(kind).id == accelerator
    except UnknownName:
        return False
