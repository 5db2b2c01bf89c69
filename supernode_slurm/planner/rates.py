"""The rates of a kind of device and of its links, as the equations take them."""

from __future__ import annotations

import math

from ..catalogue import Accelerator, find_accelerator, rate_share
from .case import Rates, numbers
from .constants import Constants
from .figures import figures_of
from .links import KINDS, WIRINGS
from .stacks import Stack
from .workload import Offer

FAMILIES = {
    "ampere": ("a100", "a800", "a30", "a40", "a10", "a10g", "rtx3080", "rtx3080ti", "rtx3090"),
    "hopper": ("h100", "h800", "h200", "h20", "gh200"),
    "blackwell": ("b200", "gb200", "b300", "gb300"),
    "turing": ("t4", "v100", "titanv", "titanrtx", "rtx2080", "rtx2080ti"),
    "ascend": ("ascend910b1", "ascend910b2", "ascend910b2c", "ascend910b3", "ascend910b4"),
}
"""GRES types of cards that share their tensor cores and kernels."""

MEASURED = {"gb300": "gb200", "h100-sxm-96g": "h100-sxm", "gh200": "gh200"}
"""Cards whose clock follows their power: the one of that kind whose products were measured.

How a rate follows a power limit: ``catalogue.rate_share``.
"""

POWER_W = {"gh200": 600.0}
"""Limits that differ from the catalogue's: a Grace Hopper's figure is for both chips together."""

PEERLESS = ("rtx", "titan", "gtx")
"""GRES types of cards for screens, whose driver keeps them from each other's memory."""

NVFP4_OVER_FP8 = 2.0
"""Most that NVFP4 gains in rate. GB300's sheet says three; runs reach no more than on GB200."""


def family_of(card: Accelerator) -> str:
    """Return the family of a card, ``other`` if it is in none."""
    names = (name for name, types in FAMILIES.items() if card.gres_type in types)
    return next(names, "other")


def rates_of(offer: Offer, precision: str, stack: Stack, constants: Constants) -> Rates:
    """Return the rates of an offer's devices; ``PlanError`` for what nobody has published."""
    card = offer.accelerator
    family = family_of(card)
    base = "fp16" if precision == "fp16" else "bf16"
    known = figures_of(card, base)
    reached = (
        constants.named(f"matmul_{family if family != 'other' else 'hopper'}")
        * best_tflops(card, base)
        * 1e12
    )
    if card.gres_type == "gb300":
        reached *= constants.matmul_gb300
    low, casts = _low(card, precision, constants)
    # Hopper's 8-bit products take operands in one order only: each expert's are padded and turned.
    turned = family == "hopper" and precision == "fp8"
    elementwise = known.memory_gbs * constants.elementwise * 1e9
    scale_up = offer.scale_up_gbs * _scale_up(card, constants) * 1e9
    neighbour = scale_up
    if card.p2p_gbs:
        # One ring uses the whole of one link, on HCCS too.
        neighbour = card.p2p_gbs * constants.scale_up * 1e9
    wiring = "full-mesh" if card.p2p_gbs else KINDS.get(offer.interconnect, "switch")
    network = constants.named(stack.network)
    # Over TCP the host's own copies end what a node can move.
    most = constants.tcp_gbs if stack.network == "network_tcp" else math.inf
    nic = min(offer.network_gbs * network, most) / offer.node_devices * 1e9
    rail = min((offer.rail_gbs or offer.nic_gbs) * network, most) * 1e9
    return Rates(
        peak=numbers(known.peak_tflops * 1e12),
        matmul=numbers(reached),
        matmul_low=numbers(reached * low),
        casts=numbers(casts),
        expert_casts=numbers(casts + (constants.grouped_cast if turned else 0.0)),
        attention=numbers(known.peak_tflops * 1e12 * _attention(family, stack, constants)),
        attention_ramp=numbers(constants.attention_ascend_ramp if family == "ascend" else 0.0),
        memory_bs=numbers(known.memory_gbs * 1e9),
        elementwise_bs=numbers(elementwise),
        memory_bytes=numbers(known.memory_gib * 2**30),
        scale_up_bs=numbers(max(scale_up, 1.0)),
        neighbour_bs=numbers(max(neighbour, 1.0)),
        nic_bs=numbers(max(nic, 1.0)),
        nic_experts_bs=numbers(max(nic * constants.network_experts / constants.network, 1.0)),
        rail_bs=numbers(max(rail, 1.0)),
        hop_s=numbers(offer.scale_up_latency_ns * 1e-9),
        collective_s=numbers(
            constants.collective_pcie_s if through_host(card) else constants.collective_s
        ),
        wiring=numbers(WIRINGS.index(wiring)),
        domain=numbers(offer.domain_devices),
        node=numbers(min(offer.node_devices, offer.devices)),
        total=numbers(offer.devices),
    )


def best_tflops(card: Accelerator, precision: str) -> float:
    """Return the highest product rate of a device, measured or by its power."""
    twin = MEASURED.get(card.id)
    if twin is None:
        return card.matmul_tflops(precision) or 0.0
    other = find_accelerator(twin)
    mine = min(POWER_W.get(card.id, math.inf), card.card_tdp_w or 0.0)
    theirs = other.card_tdp_w or mine
    return (other.matmul_tflops(precision) or 0.0) * rate_share(mine / theirs)


def _low(card: Accelerator, precision: str, constants: Constants) -> tuple[float, float]:
    """Return the rate of a precision over that of 16 bit, and its passes of casting."""
    if precision in ("bf16", "fp16"):
        return 1.0, 0.0
    peak, whole = card.peak_tflops(precision) or 0.0, card.peak_tflops("bf16") or 1.0
    if precision == "nvfp4":
        peak = min(peak, NVFP4_OVER_FP8 * (card.peak_tflops("fp8") or 0.0))
    # Bytes per element of casting an operand. Per tensor: its largest value is found (2), then it
    # is read (2) and written (1), on Hopper once more for products along columns. In blocks: read
    # (2), written with its scales along rows and along columns (1 + 1).
    cast = 4.0
    if precision == "fp8":
        cast = 6.0 if family_of(card) == "hopper" else 5.0
    return peak / whole * constants.named(precision), constants.quantise * cast


def _attention(family: str, stack: Stack, constants: Constants) -> float:
    if family == "hopper":
        return constants.named(stack.hopper)
    # FlashAttention-2 and its like; no run shows it on other cards.
    name = "ampere" if family in ("turing", "other") else family
    return constants.named(f"attention_{name}")


def through_host(card: Accelerator) -> bool:
    """Tell whether cards of a node meet over PCIe only, so through host memory."""
    return "pcie" in card.link.casefold()


def _scale_up(card: Accelerator, constants: Constants) -> float:
    """Return the reached share of the vendor's rate."""
    if card.gres_type.startswith(PEERLESS):
        return constants.peerless_gbs / (card.scale_up_gbs or constants.peerless_gbs)
    if through_host(card):
        return constants.scale_up_pcie
    return constants.scale_up_hccs if card.vendor == "huawei" else constants.scale_up
