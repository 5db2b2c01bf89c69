"""Different kinds of devices as consecutive stages of one pipeline."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations, product

import numpy as np

from ..errors import PlanError
from ..plan import Mesh, Pipeline, Plan, Predicted, Stage
from . import rules
from .answers import KEEP as ALL
from .case import numbers
from .combine import Block, Combinations
from .costs import GIB, limit_gib, model_operations, plan_of
from .crossings import Crossings, Part
from .fixed import unplanned
from .mesh import front_layers
from .parts import least_layers, parts_of, virtual_sizes
from .pipeline import Chain, Held, held_batches
from .screen import Screen
from .space import divisors, kept
from .split import StageLoad, split_layers
from .tables import table_of
from .whole import WholeLoad, better_split
from .workload import Capabilities, Offer, Workload

KEEP = 10
"""Most plans that are returned; the search ends when no other can be among them."""

KINDS = 4
"""Most kinds in one pipeline: with each more the combinations grow fiftyfold."""


def chain_plans(
    workload: Workload,
    offers: Sequence[Offer],
    capabilities: Capabilities,
    keep: int = ALL,
    below_s: float = math.inf,
) -> list[Plan]:
    """Return the best plans in which every offer is one mesh of the pipeline.

    Every mesh passes on the same number of samples per micro-batch (dp x micro-batch is
    equal). The layers are split so that the pipeline is as fast as memory allows.
    Without the capability of meshes, TP, EP and DP are equal as well. All have as many virtual
    stages, and a stage's chunks equal layers. A model's layers without experts are in the first
    stage, in its first chunk. Of plans that differ in their virtual stages alone it is the
    fastest. Plans that take ``below_s`` or longer are not looked for. Raises ``PlanError``.
    """
    for reason in filter(None, _refusals(workload, len(offers), capabilities)):
        raise PlanError(reason)
    search = _Search(workload, offers, capabilities)
    best: list[_Found] = []
    alike: dict[tuple[Hashable, ...], _Found] = {}
    most = min(keep, KEEP)

    def limit() -> float:
        return best[most - 1].step_s if len(best) >= most else below_s

    for number, candidate in enumerate(search.candidates(limit)):
        plan = search.plan(candidate, limit())
        if plan is None or plan.predicted is None:
            continue
        found = _Found(plan.predicted.worked_s, number, plan)
        slower = alike.get(candidate.sizes)
        if slower is not None and slower.step_s <= found.step_s:
            continue
        best = [one for one in best if one is not slower]
        alike[candidate.sizes] = found
        bisect.insort(best, found, key=lambda item: (item.step_s, item.number))
    if not best and below_s < math.inf:
        raise PlanError(f"no plan below {below_s:.2f} s a step")
    if not best:
        raise search.error()
    return [found.plan for found in best[:most]]


@dataclass(frozen=True, slots=True)
class _Found:
    step_s: float
    number: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Meshes in order, and a step time that they cannot beat."""

    parts: tuple[Part, ...]
    micro_batches: int
    bound_s: float

    @property
    def virtual(self) -> int:
        """Return the virtual stages of each stage."""
        return self.parts[0].virtual

    @property
    def sizes(self) -> tuple[Hashable, ...]:
        """Return what tells it from those that differ in more than their virtual stages."""
        return tuple(
            (part.offer, part.pp, replace(part.cost.shape, interleaved=False))
            for part in self.parts
        )


class _Search:
    def __init__(
        self, workload: Workload, offers: Sequence[Offer], capabilities: Capabilities
    ) -> None:
        self.workload = workload
        self.given = offers
        # Up to ten times as fast with the strong ones first, whatever is found.
        self.offers = offers = sorted(offers, key=_tflops, reverse=True)
        self.capabilities = capabilities
        self.front = front_layers(workload.model)
        self.layers = workload.model.layers - self.front
        """Those that are split over stages; those before them are in the first."""
        self.links = Crossings(workload, offers)
        # ZeRO-1 moves less, updates less and keeps less than no ZeRO. Sharded weights would
        # be gathered for every micro-batch of every stage.
        self.zero = max(kept(_zeros(capabilities), workload.fixed.zero))
        self.cramped = False
        """Memory stood in the way of a layout."""
        self._parts = [
            parts_of(workload, offer, index, capabilities, self.zero)
            for index, offer in enumerate(offers)
        ]
        self._limits = [limit_gib(workload, offer) * GIB for offer in offers]
        self._virtual = virtual_sizes(workload, capabilities)
        self._stages: dict[tuple[Part, bool, bool, float], StageLoad] = {}
        self.orders = [
            order for order in permutations(range(len(offers))) if self._vendors_meet_once(order)
        ]

    def candidates(self, limit: Callable[[], float]) -> Iterator[_Candidate]:
        """Yield the legal meshes in order that could be below the limit, as it is by then."""
        parts, blocks = self._blocks()
        if not blocks:
            return
        combinations, screen = self._screen(parts, blocks)
        for rows, order, bound in screen.pipelines(combinations, limit):
            chosen = tuple(parts[kind][rows[kind]] for kind in self.orders[order])
            count = self.workload.global_batch // (chosen[0].dp * chosen[0].cost.shape.micro_batch)
            yield _Candidate(chosen, count, bound)
        self.cramped |= combinations.cramped

    def _screen(
        self, parts: Sequence[Sequence[Part]], blocks: Sequence[Block]
    ) -> tuple[Combinations, Screen]:
        """Return the combinations of these meshes, and what tells which could be fast enough."""
        tables = [
            table_of(mine, self.links, most, self.layers)
            for mine, most in zip(parts, self._limits, strict=True)
        ]
        self.cramped |= any((table.room < 1).any() for table in tables)
        # Tied tables are summed over the first and the last stage, and MTP embeds in the last what
        # the first does: equal cuts only.
        model, kinds = self.workload.model, range(len(parts))
        alike = model.tied or model.mtp > 0 or not self.capabilities.meshes
        staged = np.array([[self.links.staged(one, other) for other in kinds] for one in kinds])
        once_s = min(mine[0].cost.constants.step_s for mine in parts)
        combinations = Combinations(tables, blocks, self.layers, alike)
        return combinations, Screen(tables, self.orders, staged, self.layers, once_s, self.front)

    def _blocks(self) -> tuple[list[list[Part]], list[Block]]:
        """Return the meshes of each kind, and which of them pass on equal micro-batches."""
        found: list[list[Part]] = [[] for _ in self.offers]
        blocks: list[Block] = []
        for width in divisors(self.workload.global_batch):
            count = self.workload.global_batch // width
            for again, virtual in product(self._recomputations(), self._virtual):
                options = [
                    [part for kind in again for part in parts.get((width, kind, virtual), [])]
                    for parts in self._parts
                ]
                legal = self._lengths(count, virtual) if all(options) else frozenset()
                if not legal:
                    continue
                starts, sizes = tuple(map(len, found)), tuple(map(len, options))
                blocks.append(Block(starts, sizes, count, virtual, legal))
                for mine, more in zip(found, options, strict=True):
                    mine.extend(more)
        return found, blocks

    def _lengths(self, count: int, virtual: int) -> frozenset[int]:
        """Return the numbers of stages with which so many micro-batches and chunks are legal."""
        able, model = self.capabilities, self.workload.model
        first, each = (least_layers(model, virtual, first) for first in (True, False))
        most = 1 + (self.layers - first) // each
        stages = kept(range(len(self.offers), most + 1), self.workload.fixed.pp)
        return frozenset(n for n in stages if not rules.micro_batches(able, n, virtual, count))

    def _recomputations(self) -> list[tuple[str, ...]]:
        """Return which recomputations may stand beside each other."""
        kinds = kept(self.capabilities.recompute, self.workload.fixed.recompute)
        if not self.capabilities.recompute_by_stage:
            return [(kind,) for kind in kinds]
        apart = tuple(kind for kind in kinds if kind != "selective")
        return [apart, *((kind,) for kind in kinds if kind not in apart)]

    def plan(self, candidate: _Candidate, limit_s: float) -> Plan | None:
        """Return the candidate's plan, None if it does not fit or cannot beat the limit."""
        if candidate.bound_s >= limit_s:
            return None
        places = [part for part in candidate.parts for _ in range(part.pp)]
        transfers = self.links.transfers(candidate.parts)
        tied_s = self.links.tied_s(candidate.parts)
        once_s = tied_s + places[0].cost.constants.step_s
        layers = self._split(candidate, places, transfers, limit_s - once_s)
        if layers is None:
            return None
        stages = [
            Held(part.cost, count, (index == 0, index == len(places) - 1))
            for index, (part, count) in enumerate(zip(places, layers, strict=True))
        ]
        chain = Chain(tuple(stages), transfers, candidate.micro_batches, tied_s, candidate.virtual)
        predicted = self._predicted(candidate, chain)
        peaks = zip(candidate.parts, predicted.memory_gib, strict=True)
        if any(needed * GIB > self._limits[part.offer] for part, needed in peaks):
            return None
        return self._written(candidate, layers, predicted)

    def _split(
        self,
        candidate: _Candidate,
        places: Sequence[Part],
        transfers: Sequence[float],
        limit_s: float,
    ) -> list[int] | None:
        """Return the layers of each stage, None if they do not fit or take as long as the limit.

        With v virtual stages and n micro-batches a step is as long as the v-th part of one with
        v x n micro-batches, sums of gradients and updates counted v times. Layers are dealt v at
        once, one to each chunk; those that a stage must hold before count as fixed.
        """
        count, virtual = candidate.micro_batches, candidate.virtual
        before = [
            least_layers(self.workload.model, virtual, index == 0) - virtual
            for index in range(len(places))
        ]
        held = held_batches(len(places), count, virtual)
        loads = []
        for index, (part, transfer) in enumerate(zip(places, transfers, strict=True)):
            alone = self._stage(part, index == 0, index == len(places) - 1, held[index])
            fixed_s = alone.fixed_s + transfer + before[index] * alone.layer_s
            most = (alone.most - before[index]) // virtual
            loads.append(StageLoad(fixed_s, virtual * alone.layer_s, most))
        total, limit_s = (self.layers - sum(before)) // virtual, limit_s * virtual
        known = split_layers(total, loads, count * virtual, limit_s)
        if known is None:
            return None
        wholes = self._wholes(places, loads, before, count)
        split = better_split(total, wholes, known, limit_s)
        return [virtual * each + held for each, held in zip(split, before, strict=True)]

    def error(self) -> PlanError:
        """Return why there is no plan."""
        names = " + ".join(f"{offer.devices} x {offer.accelerator.id}" for offer in self.given)
        if self.cramped or any(self.candidates(lambda: math.inf)):
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

    def _stage(self, part: Part, first: bool, last: bool, held: float) -> StageLoad:
        """Return a stage of this part without its transfers."""
        key = (part, first, last, held)
        if key not in self._stages:
            cost = part.cost
            fixed = (cost.embedding.time_s if first else 0) + (cost.head.time_s if last else 0)
            most = cost.most_layers((first, last), held, self._limits[part.offer])
            most = min(self.layers, most)
            self._stages[key] = StageLoad(fixed, part.layer_s, most)
        return self._stages[key]

    def _wholes(
        self, places: Sequence[Part], loads: Sequence[StageLoad], before: Sequence[int], count: int
    ) -> list[WholeLoad]:
        """Return what each stage costs of a whole step, equal stages as one."""
        found: dict[tuple[Part, StageLoad, bool, bool], WholeLoad] = {}
        for index, (part, load) in enumerate(zip(places, loads, strict=True)):
            ends = (index == 0, index == len(places) - 1)
            each = np.arange(1.0, load.most + 1)
            key = (part, load, *ends)
            if key not in found:
                time = load.fixed_s + each * load.layer_s
                held = part.virtual * each + before[index]
                sync, update = part.cost.syncs_s(held, ends, time, numbers(count))
                end = part.virtual * (count * time + sync)
                update = part.virtual * update
                found[key] = WholeLoad(time, end, update, load.fixed_s, load.layer_s)
        return [
            found[part, load, index == 0, index == len(places) - 1]
            for index, (part, load) in enumerate(zip(places, loads, strict=True))
        ]

    def _predicted(self, candidate: _Candidate, chain: Chain) -> Predicted:
        breakdown = chain.breakdown_s()
        step = sum(breakdown.values())
        memory = iter(chain.memory_bytes())
        breakdown["data"] = max(self.workload.data_s - step, 0.0)
        step += breakdown["data"]
        peak = sum(
            float(part.cost.case.rates.peak) * self.offers[part.offer].devices
            for part in candidate.parts
        )
        return Predicted(
            step_time_s=step,
            breakdown_s=breakdown,
            memory_gib=tuple(
                max(next(memory) for _ in range(part.pp)) / GIB for part in candidate.parts
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
                sequence_parallel=part.cost.shape.tp > 1,
                recompute=part.cost.shape.recompute,
                zero=part.cost.shape.zero,
                ep=part.cost.shape.ep,
                etp=part.cost.shape.etp,
            )
            for index, part in enumerate(parts)
        )
        places = [index for index, part in enumerate(parts) for _ in range(part.pp)]
        stages = tuple(
            Stage(mesh, count + self.front * (index == 0), embedding=index == 0, head=index == last)
            for index, (mesh, count) in enumerate(zip(places, layers, strict=True))
        )
        groups = tuple(self.offers[part.offer].group for part in parts)
        virtual = candidate.virtual
        schedule = "interleaved" if virtual > 1 else "1f1b"
        pipeline = Pipeline(self.workload.global_batch, meshes, stages, schedule, virtual)
        return plan_of(self.workload, groups, (pipeline,), predicted)


def _refusals(workload: Workload, kinds: int, able: Capabilities) -> Iterator[str]:
    """Yield what stands in the way of any pipeline over so many kinds, or nothing."""
    if not (able.pipeline and able.uneven_stages):
        yield f"{able.name} has no pipeline with uneven stages"
    if kinds > KINDS:
        yield (
            f"stages of {kinds} kinds of devices are not planned, {KINDS} at most; "
            "leave out the slowest or the smallest group"
        )
    yield rules.predicted_tokens(workload.model, able, kinds)
    fixed, what = workload.fixed, "a pipeline over several kinds"
    yield unplanned(fixed, what, cp=1, recompute_layers=0)
    if not virtual_sizes(workload, able):
        virtual, layers = fixed.virtual_stages or 1, workload.model.layers
        yield f"virtual-stages {virtual} is not planned of {what}: " + (
            f"its chunks are equal, and {virtual} does not divide {layers} layers"
            if layers % virtual
            else f"{able.name} has none there"
        )
    if fixed.zero not in (None, *_zeros(able)):
        yield f"zero {fixed.zero} is not planned of {what}, only {_zeros(able)[-1]} or less"


def _zeros(able: Capabilities) -> list[int]:
    """Return the stages of ZeRO beside a pipeline."""
    return [stage for stage in (0, *able.zero) if stage < 2]


def _tflops(offer: Offer) -> float:
    card = offer.accelerator
    return card.matmul_tflops("bf16") or card.matmul_tflops("fp16") or 0.0
