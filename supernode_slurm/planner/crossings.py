"""What goes between the stages of a pipeline over unlike kinds of devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .mesh import MeshCost
from .workload import Offer, Workload

STAGED_BS = 1e9
"""Per device, between vendors whose libraries do not meet: through host memory and TCP.

An order of magnitude, not measured: gloo copies to the host, sends over one socket and
copies back, and a socket carries one to a few GB/s.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """One offer's mesh: its sizes, and its costs for one micro-batch."""

    offer: int
    pp: int
    dp: int
    cost: MeshCost
    virtual: int = 1
    """Virtual stages of each stage."""

    @property
    def shown(self) -> float:
        """Return how often what a micro-batch moves to a neighbour is waited for."""
        return self.virtual * self.cost.constants.transfer_interleaved if self.virtual > 1 else 1.0

    @property
    def start_s(self) -> float:
        """Return what a micro-batch's transfers to a neighbour take besides, as ``step.hop_s``."""
        if self.virtual > 1:
            return 2 * self.virtual * float(self.cost.cases.rates.collective_s)
        return self.cost.constants.transfer_s

    @property
    def layer_s(self) -> float:
        """Return the time of one layer in one micro-batch."""
        return self.cost.layer.time_s

    @property
    def ranks(self) -> int:
        """Return the devices of one stage."""
        return self.cost.shape.tp * self.dp


@dataclass(frozen=True, slots=True)
class Crossings:
    """The ways between the meshes of a pipeline, and between the stages of one."""

    workload: Workload
    offers: Sequence[Offer]

    def transfers(self, parts: Sequence[Part]) -> tuple[float, ...]:
        """Return each stage's transfers of one micro-batch: it waits for both neighbours.

        The neighbours of the first and of the last stage are each other where there are virtual
        ones: between its v chunks a micro-batch goes back v - 1 times, over the way that lies
        between the last mesh and the first. On one kind the equations count no way back.
        """
        hops: list[float] = []
        for part, following in zip(parts, (*parts[1:], None), strict=True):
            inner = self.inner_s(part)
            outer = inner if following is None else self.crossing_s(part, following)
            hops.extend([inner] * (part.pp - 1))
            hops.append(outer)
        back = self.back_s(parts)
        return tuple(map(sum, zip([back, *hops[:-1]], [*hops[:-1], back], strict=True)))

    def back_s(self, parts: Sequence[Part]) -> float:
        """Return the ways of one micro-batch from the last mesh to the first, and as often back."""
        virtual = parts[0].virtual
        if len(parts) == 1 or virtual == 1:
            return 0.0
        return self.crossing_s(parts[-1], parts[0]) * (virtual - 1) / virtual

    def inner_s(self, part: Part) -> float:
        """Return the way of one micro-batch between two stages of a part, both ways."""
        return self.moved_s(part) * part.shown + part.start_s

    def moved_s(self, part: Part) -> float:
        """Return the time on the links of one micro-batch between two stages of a part."""
        moved = 2 * part.cost.tokens * self.workload.model.hidden / part.cost.shape.tp
        return moved / part.cost.hop_bs

    def way_s(self, part: Part, staged: bool) -> float:
        """Return the same out of a part as its own network cards allow.

        ``staged`` says whether it goes through host memory.
        """
        nic_bs = min(self._nic_bs(part), STAGED_BS) if staged else self._nic_bs(part)
        moved = 2 * part.dp * part.cost.tokens * self.workload.model.hidden
        return moved / (part.ranks * nic_bs)

    def _nic_bs(self, part: Part) -> float:
        return float(part.cost.cases.rates.nic_bs)

    def crossing_s(self, part: Part, following: Part) -> float:
        """Return the way of one micro-batch from a mesh to the next, both ways."""
        staged = self.staged(part.offer, following.offer)
        slower_s = max(self.way_s(each, staged) * each.shown for each in (part, following))
        return slower_s + part.start_s

    def tied_s(self, parts: Sequence[Part]) -> float:
        """Return the sum of a tied table's gradients over the first and the last stage."""
        if not self.workload.model.tied or self.workload.training == "lora":
            return 0.0
        model, cost = self.workload.model, parts[0].cost
        moved = float(cost.case.software.wire_bytes) * model.vocab * model.hidden
        return moved / cost.shape.tp / min(map(self._nic_bs, (parts[0], parts[-1])))

    def staged(self, one: int, other: int) -> bool:
        """Return whether what goes between two offers goes through host memory."""
        vendors = {self.offers[index].accelerator.vendor for index in (one, other)}
        # FlagCX joins vendors directly, but HCCL only with itself.
        return len(vendors) > 1 and "huawei" in vendors
