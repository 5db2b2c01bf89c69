"""The rates of one device and its links, as the cost model uses them."""

from __future__ import annotations

from dataclasses import dataclass

from . import constants as k
from .figures import figures_of
from .workload import Offer


@dataclass(frozen=True, slots=True)
class Device:
    """Rates in operations, bytes and seconds, per device."""

    peak: float
    matmul: float
    attention: float
    memory_bs: float
    elementwise_bs: float
    memory_bytes: float
    """What a training process gets."""
    scale_up_bs: float
    """Over all links of the scale-up fabric."""
    neighbour_bs: float
    """Over the links to one other device: less in a full mesh, all behind a switch."""
    nic_bs: float
    hop_s: float
    """Latency of the scale-up fabric."""
    domain: int
    """Devices of one scale-up fabric."""
    total: int
    """Devices of the mesh's offer."""

    def reach_bs(self, span: int, ranks: int, stride: int) -> float:
        """Return the bandwidth of one rank in a group that spans ``span`` devices.

        ``ranks`` of the job's devices at a distance of ``stride`` form the group. Where the
        group leaves the fabric, its members inside one fabric share their network cards.
        """
        if self.inside(span):
            return self.group_bs(ranks)
        return self.joined_bs(max(1, min(ranks, self.domain // stride)))

    def group_bs(self, ranks: int) -> float:
        """Return the bandwidth of each of ``ranks`` > 1 devices inside one fabric.

        In a full mesh a device reaches only the links to the others of its group.
        """
        return min(self.scale_up_bs, self.neighbour_bs * (ranks - 1))

    def joined_bs(self, together: int) -> float:
        """Return the bandwidth of each device where groups of several fabrics join."""
        inner = self.group_bs(together) if together > 1 else self.scale_up_bs
        return min(inner, self.nic_bs * together)

    def inside(self, span: int) -> bool:
        """Tell whether aligned groups of ``span`` devices stay inside one fabric."""
        return self.domain == self.total or self.domain % span == 0


def device_of(offer: Offer, precision: str) -> Device:
    """Return the rates of an offer's devices; ``PlanError`` for what nobody has published."""
    card = offer.accelerator
    known = figures_of(card, precision)
    share = k.ATTENTION_SHARE.get(card.gres_type, k.ATTENTION_SHARE_ELSEWHERE)
    link = k.HCCS_SHARE if card.vendor == "huawei" else k.SCALE_UP_SHARE
    scale_up_bs = offer.scale_up_gbs * link * 1e9
    return Device(
        peak=known.peak_tflops * 1e12,
        matmul=known.matmul_tflops * k.MATMUL_REACHED * 1e12,
        attention=known.peak_tflops * share * 1e12,
        memory_bs=known.memory_gbs * 1e9,
        elementwise_bs=known.memory_gbs * k.MEMORY_SHARE * 1e9,
        memory_bytes=known.memory_gib * k.USABLE_MEMORY * 2**30,
        scale_up_bs=scale_up_bs,
        # One ring uses the whole of one link, on HCCS too.
        neighbour_bs=card.p2p_gbs * k.SCALE_UP_SHARE * 1e9 if card.p2p_gbs else scale_up_bs,
        nic_bs=offer.nic_gbs * k.NETWORK_SHARE * 1e9,
        hop_s=offer.scale_up_latency_ns * 1e-9,
        domain=offer.domain_devices,
        total=offer.devices,
    )
