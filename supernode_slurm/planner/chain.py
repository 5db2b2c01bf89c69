"""Different kinds of devices as consecutive stages of one pipeline."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

from ..errors import PlanError
from ..plan import Mesh, Pipeline, Plan, Predicted, Stage
from . import constants as k
from .bounds import PartLoad, bound_s, bounds_s, rising
from .device import device_of
from .mesh import MeshCost, Shape
from .predict import Chain, fits, gradient_bytes, model_operations, plan_of
from .split import StageLoad, split_layers
from .stage import Sharing, in_flight, stage_cost
from .uniform import divisors, stage_load, tensor_sizes
from .workload import RECOMPUTE, Capabilities, Offer, Workload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEEP = 10
"""Plans that are returned; the search ends when no other can be among them."""

KINDS = 3
"""Most kinds in one pipeline: with each more the combinations grow fiftyfold."""


def chain_plans(
    workload: Workload, offers: Sequence[Offer], capabilities: Capabilities
) -> list[Plan]:
    """Return the best plans in which every offer is one mesh of the pipeline.

    Every mesh passes on the same number of samples per micro-batch (dp x micro-batch is
    equal). The layers are split so that the pipeline is as fast as memory allows.
    Without the capability of meshes, TP and DP are equal as well. Raises ``PlanError``.
    """
    if not (capabilities.pipeline and capabilities.uneven_stages):
        raise PlanError(f"{capabilities.name} has no pipeline with uneven stages")
    if len(offers) > KINDS:
        raise PlanError(
            f"stages of {len(offers)} kinds of devices are not planned, {KINDS} at most; "
            "leave out the slowest or the smallest group"
        )
    search = _Search(workload, offers, capabilities)
    best: list[_Found] = []
    for number, candidate in enumerate(search.candidates()):
        limit = best[KEEP - 1].step_s if len(best) >= KEEP else math.inf
        if candidate.bound_s >= limit:
            break
        for order in search.orders:
            plan = search.plan(search.ordered(candidate, order), limit)
            if plan is not None and plan.predicted is not None:
                found = _Found(plan.predicted.step_time_s, number, plan)
                bisect.insort(best, found, key=lambda item: (item.step_s, item.number))
    if not best:
        raise search.error()
    return [found.plan for found in best[:KEEP]]


@dataclass(frozen=True, slots=True)
class _Found:
    step_s: float
    number: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class _Part:
    """One offer's mesh: its sizes, and its costs for one micro-batch."""

    offer: int
    pp: int
    dp: int
    cost: MeshCost

    @property
    def layer_s(self) -> float:
        return self.cost.layer.compute_s + self.cost.layer.tp_s

    @property
    def ranks(self) -> int:
        """Return the devices of one stage."""
        return self.cost.shape.tp * self.dp


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Meshes in order, and a step time that they cannot beat."""

    parts: tuple[_Part, ...]
    micro_batches: int
    bound_s: float


class _Search:
    def __init__(
        self, workload: Workload, offers: Sequence[Offer], capabilities: Capabilities
    ) -> None:
        self.workload = workload
        self.offers = offers
        self.capabilities = capabilities
        self.devices = [device_of(offer, workload.precision) for offer in offers]
        # ZeRO-1 moves less, updates less and keeps less than no ZeRO. Sharded weights would
        # be gathered for every micro-batch of every stage.
        self.zero = max(stage for stage in (0, *capabilities.zero) if stage < 3)
        self.cramped = False
        """Memory stood in the way of a layout."""
        self._costs: dict[tuple[int, Shape], MeshCost] = {}
        self._stages: dict[tuple[_Part, bool, bool, float], StageLoad] = {}
        self.orders = [
            order for order in permutations(range(len(offers))) if self._vendors_meet_once(order)
        ]

    def candidates(self) -> Iterator[_Candidate]:
        """Yield the legal sets of meshes, the lowest bound first."""
        import numpy as np

        found = []
        for width in divisors(self.workload.global_batch):
            for recompute in RECOMPUTE:
                options = [
                    self._options(index, width, recompute) for index in range(len(self.offers))
                ]
                if all(options):
                    found.append((width, options, self._bounds(options, width)))
        if not found:
            return
        flat = np.concatenate([bounds.ravel() for _, _, bounds in found])
        starts = np.cumsum([0] + [bounds.size for _, _, bounds in found])
        legal = np.flatnonzero(flat < math.inf)
        for item in rising(flat[legal]):
            index = int(legal[item])
            block = int(np.searchsorted(starts, index, side="right")) - 1
            width, options, bounds = found[block]
            chosen = np.unravel_index(index - starts[block], bounds.shape)
            parts = tuple(kind[int(place)] for kind, place in zip(options, chosen, strict=True))
            micro_batches = self.workload.global_batch // width
            yield _Candidate(parts, micro_batches, float(flat[index]))

    def ordered(self, candidate: _Candidate, order: Sequence[int]) -> _Candidate:
        """Return the candidate with its meshes in this order, and a closer bound."""
        parts = tuple(candidate.parts[index] for index in order)
        return replace(candidate, parts=parts, bound_s=self._bound(parts, candidate))

    def plan(self, candidate: _Candidate, limit_s: float) -> Plan | None:
        """Return the candidate's plan, None if it does not fit or cannot beat the limit."""
        if candidate.bound_s >= limit_s:
            return None
        places = [part for part in candidate.parts for _ in range(part.pp)]
        transfers = self._transfers(candidate.parts)
        loads = []
        for index, (part, transfer) in enumerate(zip(places, transfers, strict=True)):
            held = in_flight(index, len(places), candidate.micro_batches)
            alone = self._stage(part, index == 0, index == len(places) - 1, held)
            loads.append(StageLoad(alone.fixed_s + transfer, alone.layer_s, alone.most))
        total = self.workload.model.layers
        layers = split_layers(total, loads, candidate.micro_batches, limit_s)
        if layers is None:
            return None
        chain = Chain(
            stages=tuple(
                stage_cost(part.cost, count, index == 0, index == len(places) - 1)
                for index, (part, count) in enumerate(zip(places, layers, strict=True))
            ),
            sharing=tuple(self._sharing(part) for part in places),
            p2p_s=transfers,
            micro_batches=candidate.micro_batches,
        )
        predicted = self._predicted(candidate, chain)
        peaks = zip(candidate.parts, predicted.memory_gib, strict=True)
        if not all(fits(self.devices[part.offer], [needed]) for part, needed in peaks):
            return None
        return self._written(candidate, layers, predicted)

    def error(self) -> PlanError:
        """Return why there is no plan."""
        names = " + ".join(f"{offer.devices} x {offer.accelerator.id}" for offer in self.offers)
        if self.cramped or any(self.candidates()):
            return PlanError(
                f"{self.workload.model.name} does not fit on {names} in any split over stages; "
                "take more devices, or shorter sequences"
            )
        return PlanError(
            f"{self.capabilities.name} has no layout for {names} as stages with a global batch of "
            f"{self.workload.global_batch}; take a multiple of both groups' devices"
        )

    def _vendors_meet_once(self, order: Sequence[int]) -> bool:
        vendors = [self.offers[index].accelerator.vendor for index in order]
        return sum(one != other for one, other in pairwise(vendors)) == len(set(vendors)) - 1

    def _options(self, index: int, width: int, recompute: str) -> list[_Part]:
        device = self.devices[index]
        found = []
        for tp in tensor_sizes(self.workload, device, self.capabilities):
            for pp in divisors(device.total // tp):
                dp = device.total // tp // pp
                if width % dp == 0 and pp < self.workload.model.layers:
                    shape = Shape(tp, width // dp, recompute, tp > 1)
                    found.append(_Part(index, pp, dp, self._cost(index, shape)))
        return found

    def _cost(self, index: int, shape: Shape) -> MeshCost:
        key = (index, shape)
        if key not in self._costs:
            self._costs[key] = MeshCost(self.workload, self.devices[index], shape)
        return self._costs[key]

    def _bounds(self, options: Sequence[Sequence[_Part]], width: int) -> NDArray[np.float64]:
        """Return a step time that no order of each combination beats; inf where illegal."""
        import numpy as np

        layers = self.workload.model.layers
        loads = [[self._load(part, self._least_hops_s(part)) for part in kind] for kind in options]
        count = self.workload.global_batch // width
        bounds = bounds_s(loads, layers, count)

        def column(read: Callable[[_Part], float]) -> list[NDArray[np.float64]]:
            return list(np.ix_(*([read(part) for part in kind] for kind in options)))

        legal = np.asarray(sum(column(lambda part: part.pp)) <= layers)
        # Tied tables are summed over the first and the last stage: equal cuts only.
        if self.workload.model.tied or not self.capabilities.meshes:
            for sizes in (column(lambda part: part.cost.shape.tp), column(lambda part: part.dp)):
                for other in sizes[1:]:
                    legal = legal & (sizes[0] == other)
        roomy = np.asarray(sum(column(lambda part: self._room(part, count))) >= layers)
        self.cramped |= bool((legal & ~roomy).any())
        return np.where(legal & roomy, bounds, math.inf)

    def _room(self, part: _Part, micro_batches: int) -> float:
        """Return the most layers of a part's stages, were they the last of the pipeline."""
        held = range(1, part.pp + 1)
        most = [self._stage(part, False, False, min(micro_batches, n)).most for n in held]
        return sum(most) if min(most) > 0 else -math.inf

    def _bound(self, parts: Sequence[_Part], candidate: _Candidate) -> float:
        crossings = [self._crossing_s(one, other) for one, other in pairwise(parts)]
        around = zip(parts, [0.0, *crossings], [*crossings, 0.0], strict=True)
        loads = [
            self._load(part, self._hops_s(part, before, after)) for part, before, after in around
        ]
        return bound_s(loads, self.workload.model.layers, candidate.micro_batches)

    def _load(self, part: _Part, hops_s: float) -> PartLoad:
        embedding, head = part.cost.embedding, part.cost.head
        return PartLoad(
            stages=part.pp,
            layer_s=part.layer_s,
            fixed_s=hops_s,
            embedding_s=embedding.compute_s + embedding.tp_s,
            head_s=head.compute_s + head.tp_s,
        )

    def _least_hops_s(self, part: _Part) -> float:
        """Return the least transfers of a part's stages, whatever stands beside it."""
        if part.pp > 1:
            return 2 * part.pp * self._inner_s(part)
        # It has a neighbour in another mesh, which its own network cards limit.
        return 2 * self._hop_s(part, self.devices[part.offer].nic_bs)

    def _hops_s(self, part: _Part, before: float, after: float) -> float:
        """Return the transfers of a part's stages between these two crossings."""
        if part.pp == 1:
            return 2 * max(before, after)
        inner = self._inner_s(part)
        return 2 * (max(before, inner) + (part.pp - 2) * inner + max(inner, after))

    def _stage(self, part: _Part, first: bool, last: bool, held: float) -> StageLoad:
        """Return a stage of this part without its transfers."""
        key = (part, first, last, held)
        if key not in self._stages:
            sharing = self._sharing(part)
            self._stages[key] = stage_load(part.cost, sharing, (first, last), held, 0.0)
        return self._stages[key]

    def _sharing(self, part: _Part) -> Sharing:
        tp = part.cost.shape.tp
        bandwidth = self.devices[part.offer].reach_bs(part.ranks, part.dp, tp)
        return Sharing(part.dp, self.zero, bandwidth, gradient_bytes(self.workload.precision))

    def _transfers(self, parts: Sequence[_Part]) -> tuple[float, ...]:
        """Return each stage's transfers of one micro-batch, both ways."""
        hops: list[float] = []
        for part, following in zip(parts, (*parts[1:], None), strict=True):
            inner = self._inner_s(part)
            outer = inner if following is None else self._crossing_s(part, following)
            hops.extend([inner] * (part.pp - 1))
            hops.append(outer)
        # A stage waits for the slower of the transfers before and behind it.
        around = zip([0.0, *hops[:-1]], [*hops[:-1], 0.0], strict=True)
        return tuple(2 * max(pair) for pair in around)

    def _inner_s(self, part: _Part) -> float:
        device = self.devices[part.offer]
        inside = device.domain == device.total
        return self._hop_s(part, device.group_bs(2) if inside else device.nic_bs)

    def _hop_s(self, part: _Part, bandwidth: float) -> float:
        moved = 2 * part.cost.tokens * self.workload.model.hidden / part.cost.shape.tp
        return moved / bandwidth + k.COLLECTIVE_S

    def _crossing_s(self, part: _Part, following: _Part) -> float:
        ends = [(item, self.devices[item.offer].nic_bs) for item in (part, following)]
        if self._staged(part, following):
            ends = [(item, min(nic, k.STAGED_GBS * 1e9)) for item, nic in ends]
        moved = 2 * part.dp * part.cost.tokens * self.workload.model.hidden
        return moved / min(item.ranks * nic for item, nic in ends) + k.COLLECTIVE_S

    def _staged(self, part: _Part, following: _Part) -> bool:
        vendors = {self.offers[item.offer].accelerator.vendor for item in (part, following)}
        # FlagCX joins vendors directly, but HCCL only with itself.
        return len(vendors) > 1 and "huawei" in vendors

    def _predicted(self, candidate: _Candidate, chain: Chain) -> Predicted:
        breakdown = chain.breakdown_s()
        step = sum(breakdown.values())
        memory = iter(chain.memory_bytes())
        peak = sum(device.peak * device.total for device in self.devices)
        return Predicted(
            step_time_s=step,
            breakdown_s=breakdown,
            memory_gib=tuple(
                max(next(memory) for _ in range(part.pp)) / 2**30 for part in candidate.parts
            ),
            mfu=model_operations(self.workload) / step / peak,
        )

    def _written(self, candidate: _Candidate, layers: Sequence[int], predicted: Predicted) -> Plan:
        parts, last = candidate.parts, len(layers) - 1
        meshes = tuple(
            Mesh(
                group=index,
                tp=part.cost.shape.tp,
                pp=part.pp,
                dp=part.dp,
                micro_batch=part.cost.shape.micro_batch,
                sequence_parallel=part.cost.shape.sequence_parallel,
                recompute=part.cost.shape.recompute,
                zero=self.zero if part.dp > 1 else 0,
            )
            for index, part in enumerate(parts)
        )
        places = [index for index, part in enumerate(parts) for _ in range(part.pp)]
        stages = tuple(
            Stage(mesh, count, embedding=index == 0, head=index == last)
            for index, (mesh, count) in enumerate(zip(places, layers, strict=True))
        )
        groups = tuple(self.offers[part.offer].group for part in parts)
        pipeline = Pipeline(self.workload.global_batch, meshes, stages)
        return plan_of(self.workload, groups, (pipeline,), predicted)
