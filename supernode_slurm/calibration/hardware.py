"""The devices of a recorded run, and how they were joined."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from ..catalogue import Accelerator
from ..errors import PlanError
from ..plan import DeviceGroup
from ..planner import Offer
from ..planner.rates import through_host
from .cards import card_of
from .fields import count

NETWORK_GBITS = {"h100": 400, "h800": 400, "h200": 400}
"""Per card, where a run does not print it: what nodes of that kind were sold with."""
NETWORK_GBITS_ELSEWHERE = 200

LATENCY_NS = 500.0

SCALE_UP_GBS = 32.0
"""PCIe 4 with 16 lanes, for a card of whose links nobody has published a figure."""

RATE = re.compile(r"([\d.]+)\s*G(b/s|bps|bit/s|B/s)")

Noted = tuple[tuple[Offer, ...], list[str]]


def offers_of(raw: dict[str, Any]) -> Noted:
    """Return the devices of a run and what was assumed; links not printed are the catalogue's."""
    mix = mix_of(raw)
    if not mix:
        card, note = card_of(raw["accelerator"], raw.get("mem_gib"))
        offer, notes = _offer(raw, card, raw["count"], raw["count"])
        return (offer,), [note, *notes] if note else notes
    total = sum(mix.values())
    if raw.get("count") not in (None, total):
        raise PlanError(f"hardware.count {raw['count']} is not the {total} of hardware.mix")
    offers, said = [], []
    for place, (name, devices) in enumerate(mix.items()):
        card, note = card_of(name, raw.get("mem_gib") if len(mix) == 1 else None)
        offer, notes = _offer(raw, card, devices, total)
        offers.append(_shared(offer, raw, (place, len(mix))))
        told = _spoken(raw.get("inter"), (place, len(mix)))
        said += [note, *(text for text in notes if not (told and text.startswith("inter_bw")))]
    return tuple(offers), list(dict.fromkeys(note for note in said if note))


def mix_of(raw: dict[str, Any]) -> dict[str, int]:
    """Return the number of each kind in the order of their ranks, empty for one kind."""
    mix = raw.get("mix")
    if mix is None:
        return {}
    if not isinstance(mix, dict) or not mix:
        raise PlanError(f"hardware.mix must give the number of each card, got {mix!r:.40}")
    return {str(name): count(value, f"hardware.mix.{name}") for name, value in mix.items()}


def _offer(
    raw: dict[str, Any], card: Accelerator, devices: int, total: int
) -> tuple[Offer, list[str]]:
    card, notes = _printed(raw, card), []
    per_node = min(raw.get("cards_per_node") or math.gcd(card.devices_per_node, devices), total)
    if not raw.get("cards_per_node"):
        notes.append(f"cards_per_node {per_node}: not printed")
    per_node = min(per_node, devices)
    if devices % per_node:
        raise PlanError(
            f"hardware.count {devices} is not whole nodes of {per_node} cards: give in "
            "cards_per_node those of a node that the job used"
        )
    domain = raw.get("supernode") or per_node
    # A job's groups lie in whole parts of a supernode: 64 of 72 where that divides the job.
    if total > domain and total % domain and total % 64 == 0 and domain > 64:
        domain = 64
    shown = NETWORK_GBITS.get(card.gres_type, NETWORK_GBITS_ELSEWHERE)
    network = (raw.get("inter_bw_Gbps_per_card") or shown) / 8
    if not raw.get("inter_bw_Gbps_per_card") and total > domain:
        notes.append(f"inter_bw_Gbps_per_card {shown}: not printed")
    if not raw.get("intra_bw_GBs_per_dir") and not card.scale_up_gbs:
        notes.append(f"intra_bw_GBs_per_dir {SCALE_UP_GBS:.0f}: not printed")
    nodes = max(devices // per_node, 1)
    group = DeviceGroup(card.gres_type, card.id, card.vendor, (), "gpu", "", nodes, per_node)
    offer = Offer(
        group=group,
        accelerator=card,
        domain_nodes=max(domain // per_node, 1),
        scale_up_gbs=raw.get("intra_bw_GBs_per_dir") or card.scale_up_gbs or SCALE_UP_GBS,
        scale_up_latency_ns=LATENCY_NS,
        network_gbs=network * per_node,
        node_devices=per_node,
    )
    return offer, notes


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
    found = [
        float(number) * (8 if unit == "B/s" else 1)
        for number, unit in RATE.findall(str(text or ""))
        if re.fullmatch(r"\d+\.?\d*", number)
    ]
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
