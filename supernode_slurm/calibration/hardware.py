"""The devices of a recorded run, and how they were joined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..catalogue import Accelerator, UnknownName, find_accelerator
from ..errors import PlanError
from ..plan import DeviceGroup
from ..planner import Offer
from ..planner.rates import through_host

NETWORK_GBITS = {"h100": 400, "h800": 400, "h200": 400}
"""Per card, where a run does not print it: what nodes of that kind were sold with."""
NETWORK_GBITS_ELSEWHERE = 200

LATENCY_NS = 500.0

GBITS = re.compile(r"([\d.]+) Gb/s")


def offers_of(raw: dict[str, Any]) -> tuple[Offer, ...]:
    """Return the devices of a run; links that are not printed are the catalogue's."""
    mix: dict[str, int] | None = raw.get("mix")
    if not mix:
        return (_offer(raw, _card(raw["accelerator"]), raw["count"], raw["count"]),)
    total = sum(mix.values())
    return tuple(
        _shared(_offer(raw, _card(name), count, total), raw, (place, len(mix)))
        for place, (name, count) in enumerate(mix.items())
    )


def _card(name: str) -> Accelerator:
    """Return the card that a source's words mean; ``PlanError`` if it is not in the catalogue."""
    for word in _spellings(name):
        with suppress(UnknownName):
            return find_accelerator(word)
    raise PlanError(f"the card {name!r:.60} is not in the catalogue")


def _spellings(name: str) -> Iterator[str]:
    """Yield what a card may be called: the words, without the first ones, without their ends."""
    if "Ascend 910B" in name:
        # Sources do not say which of the four; the 910B2 is in Atlas 900 A2 PODc.
        yield "ascend-910b2"
    yield name
    words = name.partition("(")[0].split() + name.partition("(")[2].rstrip(")").split()
    for start in range(1, len(words)):
        yield " ".join(words[start:])
    for word in words:
        parts = word.split("-")
        # Memory of the usual card of that name: the sources' 80GB is the catalogue's 80g.
        yield from ("-".join(parts[:end]) for end in range(len(parts), 0, -1))


def _offer(raw: dict[str, Any], card: Accelerator, count: int, total: int) -> Offer:
    card = _printed(raw, card)
    per_node = min(raw.get("cards_per_node") or card.devices_per_node, total)
    per_node = min(per_node, count)
    domain = raw.get("supernode") or per_node
    # A job's groups lie in whole parts of a supernode: 64 of 72 where that divides the job.
    if total > domain and total % domain and total % 64 == 0 and domain > 64:
        domain = 64
    shown = NETWORK_GBITS.get(card.gres_type, NETWORK_GBITS_ELSEWHERE)
    network = (raw.get("inter_bw_Gbps_per_card") or shown) / 8
    nodes = max(count // per_node, 1)
    group = DeviceGroup(card.gres_type, card.id, card.vendor, (), "gpu", "", nodes, per_node)
    return Offer(
        group=group,
        accelerator=card,
        domain_nodes=max(domain // per_node, 1),
        scale_up_gbs=raw.get("intra_bw_GBs_per_dir") or card.scale_up_gbs or 32.0,
        scale_up_latency_ns=LATENCY_NS,
        network_gbs=network * per_node,
        node_devices=per_node,
    )


def _shared(offer: Offer, raw: dict[str, Any], place: tuple[int, int]) -> Offer:
    """Return the offer with what a mix prints in words: one network card for a node, its links."""
    network, link = _spoken(raw.get("inter"), place), _spoken(raw.get("intra"), place)
    if network:
        offer = replace(offer, network_gbs=network / 8, rail_gbs=network / 8)
    # Over PCIe the catalogue's rate holds: what was measured of it is the constants' part.
    if link and not through_host(offer.accelerator):
        offer = replace(offer, scale_up_gbs=link / 8)
    return offer


def _spoken(text: object, place: tuple[int, int]) -> float:
    """Return the Gb/s that words give for a kind of device, 0 for none."""
    found = [float(number) for number in GBITS.findall(str(text or ""))]
    index, kinds = place
    return found[index if len(found) == kinds else 0] if found else 0.0


def _printed(raw: dict[str, Any], card: Accelerator) -> Accelerator:
    """Return the card with the memory that the run prints of it."""
    memory, rate = raw.get("mem_gib"), raw.get("hbm_bw_TBs")
    if memory:
        card = replace(card, card_memory_gib=float(memory) * card.devices_per_card)
    if rate:
        card = replace(card, card_memory_gbs=float(rate) * 1000 * card.devices_per_card)
    return card
