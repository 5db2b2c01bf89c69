"""The nodes of a rack as a plan for lost cooling sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..inventory import Inventory, NodeClass, Rack, Supernode
from ..inventory.power_nodes import Places, in_rack, is_unsure, node_draw
from ..slurm import JobId, LiveJob, LiveNode, SlurmClient
from .model import JobShare, Kind, Node

HOST_SHARE = 0.82
"""Power of a node's host over that of its cards where nobody has said it: DGX H100's, 10.2 kW with
8 cards of 700 W; GB200's tray has 0.39, so that most hosts draw less than this takes for them."""

IDLE_SHARE = 0.15
"""Idle power over the most, where nobody has said it: GB200's tray, 1.0 of 6.667 kW (NVIDIA DPS
guide, device specifications)."""

LEAST_SHARE = 0.5
"""Lowest cap over the TDP, where nobody has said it; those that were seen go lower, from 0.17 of
GB200 to 0.29 of H100, but for 0.86 of T4."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What runs where, as Slurm says."""

    out: frozenset[str]
    """Hosts that Slurm gives to no job."""
    jobs: Mapping[str, tuple[JobShare, ...]]
    """By host."""


def usage_of(client: SlurmClient) -> Usage:
    """Ask Slurm what runs where; raises ``SlurmError``."""
    nodes, jobs = client.nodes(), client.jobs()
    held: dict[str, list[JobShare]] = {}
    sizes = _sizes(jobs)
    for job in jobs:
        for host in job.hosts if not job.has_ended else ():
            share = JobShare(job.id.local, job.name, sizes[job.id])
            held.setdefault(host, []).append(share)
    out = frozenset(node.name for node in nodes if not _gives(node))
    return Usage(out, {host: tuple(shares) for host, shares in held.items()})


def _gives(node: LiveNode) -> bool:
    return node.is_usable or "RESERVED" in node.states


def _sizes(jobs: Collection[LiveJob]) -> dict[JobId, int]:
    """Return how many nodes each job holds, the components of one together."""
    together: dict[tuple[int, str], set[str]] = {}
    for job in jobs:
        together.setdefault((job.id.number, job.id.task), set()).update(job.hosts)
    return {job.id: len(together[job.id.number, job.id.task]) for job in jobs}


def nodes_of(
    inventory: Inventory, known: Places, rack: Rack, usage: Usage | None, is_off: bool
) -> tuple[list[Node], list[str], list[str]]:
    """Return the nodes of a rack, the hosts of which nothing is known, and what was assumed.

    ``is_off``: a drained node is switched off too.
    """
    found: list[Node] = []
    unknown = [host for host in rack.hosts if host not in known]
    assumed: list[str] = []
    for domain, nodes, hosts in in_rack(known, rack):
        model = _model(inventory, domain, nodes, is_off, assumed)
        if model is None:
            unknown += hosts
            continue
        spares = _spares(inventory, domain)
        found += [
            Node(
                host=host,
                domain=domain,
                kinds=model.kinds,
                host_w=model.host_w,
                off_w=model.off_w,
                is_spare=host in spares,
                is_out=usage is not None and host in usage.out,
                jobs=usage.jobs.get(host, ()) if usage else (),
            )
            for host in hosts
        ]
    place = {host: index for index, host in enumerate(rack.hosts)}
    return sorted(found, key=lambda node: place[node.host]), unknown, assumed


@dataclass(frozen=True, slots=True)
class _Model:
    kinds: tuple[Kind, ...]
    host_w: float
    off_w: float


def _model(
    inventory: Inventory, domain: str, nodes: NodeClass, is_off: bool, assumed: list[str]
) -> _Model | None:
    """Return the power of the nodes of a class, None where nothing is known of it."""
    kinds = _kinds(inventory, domain, nodes, assumed)
    draw = node_draw(inventory, nodes, nodes.hosts)
    cards_w = sum(kind.count * kind.tdp_w for kind in kinds)
    if draw.cards_w is None:
        # Without the TDP of a card there is no telling what a cap takes off.
        if draw.most.w is None or draw.most.missing:
            return None
        kinds, host_w = (), draw.most.w
        assumed.append(f"{domain}: nobody has said the power of its cards, so none is capped")
    elif draw.host_w is not None:
        host_w = draw.host_w
    elif nodes.power.most_w is not None:
        host_w = 0.0
        assumed.append(
            f"{domain}: a node draws no more than its cards' TDP, so its host is counted in that"
        )
    else:
        host_w = HOST_SHARE * cards_w
        assumed.append(
            f"{domain}: host power of a node taken as {HOST_SHARE:g} of its cards' TDP, "
            f"{host_w:.0f} W: write 'power: {{host: ...}}' under its nodes"
        )
    if is_off:
        return _Model(kinds, host_w, 0.0)
    off_w = nodes.power.idle_w
    if off_w is None:
        off_w = IDLE_SHARE * (host_w + cards_w)
    return _Model(kinds, host_w, off_w)


def _kinds(
    inventory: Inventory, domain: str, nodes: NodeClass, assumed: list[str]
) -> tuple[Kind, ...]:
    found = []
    before: dict[str, int] = {}
    for item in nodes.devices:
        card = inventory.accelerator(item.accelerator)
        first = before.get(card.vendor, 0)
        before[card.vendor] = first + item.count
        if card.card_tdp_w is None:
            continue
        if is_unsure(inventory, card.id):
            assumed.append(
                f"{card.id}: its TDP, {card.card_tdp_w:g} W, is from no maker and no press"
            )
        least_w = card.card_least_w
        if least_w is None:
            least_w = LEAST_SHARE * card.card_tdp_w
            assumed.append(
                f"{card.id}: lowest cap taken as {LEAST_SHARE:.0%} of its TDP, {least_w:.0f} W: "
                f"write 'accelerators: {{{card.id}: {{least_power: ...}}}}'"
            )
        most_w = min(card.card_tdp_w, inventory.upkeep.cap_w(domain) or card.card_tdp_w)
        found.append(
            Kind(
                accelerator=card.id,
                vendor=card.vendor,
                count=item.count // card.devices_per_card,
                first=first,
                devices=item.count,
                tdp_w=card.card_tdp_w,
                most_w=most_w,
                least_w=min(least_w, most_w),
                peak_tflops=card.card_bf16_tflops or card.card_fp16_tflops,
            )
        )
    return tuple(found)


def _spares(inventory: Inventory, domain: str) -> frozenset[str]:
    found = inventory.domain(domain)
    if not isinstance(found, Supernode) or not found.spares:
        return frozenset()
    return frozenset(found.hosts[-found.spares :])
