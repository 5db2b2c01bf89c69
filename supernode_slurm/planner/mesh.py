"""What one micro-batch costs on the devices of one mesh, for pipelines and replicas of many.

The equations are those of ``layer``, ``memory`` and ``step``; here their results are numbers for
one shape, which searches over several kinds of devices combine by the thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..catalogue import Model
from ..errors import PlanError
from .build import case_of, cuts_of
from .case import Case, Numbers, numbers, taken_cases
from .constants import Constants, constants_of
from .layer import Layer, layers_of
from .links import transfer_bs
from .memory import Stage, StageParts, params_of, stage_parts
from .stacks import stack_of
from .step import sync_s
from .workload import Layout, Offer, Workload


@dataclass(frozen=True, slots=True)
class Shape:
    """How a mesh cuts and runs a layer."""

    tp: int
    dp: int
    micro_batch: int
    recompute: str
    zero: int
    shard: int = 0
    """Replicas that share one copy of sharded weights; 0 for all."""
    ep: int = 1
    etp: int = 1
    interleaved: bool = False
    """With virtual stages, however many: experts' traffic hides more or less of itself."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one micro-batch, forward and backward."""

    compute_s: float
    tp_s: float
    ep_s: float = 0.0

    @property
    def time_s(self) -> float:
        """Return the sum."""
        return self.compute_s + self.tp_s + self.ep_s


@dataclass(frozen=True, eq=False)
class MeshCost:
    """Time and memory of a layer and of both ends of a model in one shape.

    Layers are those that repeat, with experts where the model has them. Those without experts
    before them belong to the first end, multi-token prediction to the last.
    """

    shape: Shape
    layer: Cost
    embedding: Cost
    """And what stands with it in the first stage."""
    head: Cost
    """And what stands with it in the last stage."""
    layers: int
    """Of the whole model, those that repeat."""
    front: int
    """Layers without experts before them."""
    tokens: float
    tied: bool
    memory: StageParts
    hop_bs: float
    """To the next stage on the same kind of devices."""
    cases: Case
    """Of all shapes that were costed with it; the rates are one offer's."""
    row: int | NDArray[np.intp]
    """Several for the costs of several shapes, whose memory has as many rows."""
    constants: Constants

    @cached_property
    def case(self) -> Case:
        """Return its own case."""
        return taken_cases(self.cases, np.array(self.row))

    def stage_bytes(self, layers: int, ends: tuple[bool, bool], held: float) -> float:
        """Return the peak memory; ``ends`` says whether it is the first and the last stage."""
        return float(self.memory.stage(layers, held, self._tables(ends), ends))

    def most_layers(self, ends: tuple[bool, bool], held: float, limit_bytes: float) -> int:
        """Return how many layers such a stage can hold."""
        return int(self.rooms(ends, np.asarray(held), limit_bytes))

    def rooms(self, ends: tuple[bool, bool], held: Numbers, limit_bytes: float) -> Numbers:
        """Return the same for several numbers of micro-batches that are held."""
        parts = self.memory
        free = limit_bytes - parts.stage(0, held, self._tables(ends), ends)
        return np.trunc(free / (parts.layer + held * parts.kept))

    def sync_s(
        self, layers: int, ends: tuple[bool, bool], time_s: float, count: float
    ) -> tuple[float, float]:
        """Return the exposed data-parallel traffic of a step, and the optimiser's time."""
        sync, update = self.syncs_s(numbers(layers), ends, numbers(time_s), numbers(count))
        return float(sync), float(update)

    def syncs_s(
        self, layers: Numbers, ends: tuple[bool, bool], time_s: Numbers, count: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Return the same for several numbers of layers."""
        stage = Stage(
            dense=numbers(self.front if ends[0] else 0) if self._mixture else layers,
            mixed=layers if self._mixture else np.zeros(()),
            first=numbers(ends[0]),
            last=numbers(ends[1]),
            held=np.ones(()),
        )
        of = (stage, time_s, count)
        return sync_s(self.case, self.constants, params_of(self.case), of)

    def least_syncs_s(self, layers: int, ends: tuple[bool, bool], count: Numbers) -> Numbers:
        """Return the exposed traffic of a stage that computes as long as it likes."""
        return self.syncs_s(numbers(layers), ends, numbers(np.inf), count)[0]

    @property
    def _mixture(self) -> bool:
        return bool(self.cases.dims.experts > 0)

    def _tables(self, ends: tuple[bool, bool]) -> int:
        return 1 if all(ends) and self.tied else sum(ends)


def meshes_of(
    workload: Workload,
    offer: Offer,
    shapes: Sequence[Shape],
    pp: Sequence[int],
) -> list[MeshCost]:
    """Return the costs of these shapes on an offer, each with its number of stages there.

    Raises ``PlanError`` as ``front_layers``.
    """
    if not shapes:
        return []
    stack, constants = stack_of(workload.framework), constants_of(offer)
    layouts = [_layout(shape, stages) for shape, stages in zip(shapes, pp, strict=True)]
    cut = cuts_of(layouts, stack)
    case = case_of(workload, offer, cut, stack, constants)
    layers, memory = layers_of(case, constants), stage_parts(case, constants)
    hops = transfer_bs(case)[0]
    model = workload.model
    front, size = front_layers(model), len(shapes)
    dense, experts = _columns(layers.dense, size), _columns(layers.experts, size)
    head = _columns(layers.head, size)
    held = np.stack([getattr(memory, name) for name in StageParts.__slots__])
    columns = zip(
        shapes,
        _costs(experts if model.mixture else dense),
        _costs(_columns(layers.embedding, size) + front * dense),
        _costs(head + model.mtp * head + model.mtp * experts),
        held.T,
        np.broadcast_to(hops, size).tolist(),
        strict=True,
    )
    return [
        MeshCost(
            shape=shape,
            layer=layer,
            embedding=embedding,
            head=last,
            layers=model.layers - front,
            front=front,
            tokens=float(shape.micro_batch * workload.sequence),
            tied=model.tied,
            memory=StageParts(*parts),
            hop_bs=hop_bs,
            cases=case,
            row=row,
            constants=constants,
        )
        for row, (shape, layer, embedding, last, parts, hop_bs) in enumerate(columns)
    ]


def front_layers(model: Model) -> int:
    """Return how many layers without experts stand before those with them.

    Raises ``PlanError`` where some stand between them.
    """
    if model.mixture is None:
        return 0
    layers = model.mixture.dense_layers
    if layers != tuple(range(len(layers))):
        raise PlanError(
            f"layers with and without experts take turns in {model.name}: not planned over "
            "several kinds of devices; take one kind"
        )
    return len(layers)


def _layout(shape: Shape, stages: int) -> Layout:
    return Layout(
        tp=shape.tp,
        dp=shape.dp,
        micro_batch=shape.micro_batch,
        layers=(1,) * stages,
        recompute=shape.recompute,
        zero=shape.zero,
        shard=shape.shard,
        ep=shape.ep,
        etp=shape.etp,
        sequence_parallel=shape.tp > 1,
        virtual_stages=2 if shape.interleaved else 1,
    )


def _columns(layer: Layer, size: int) -> Numbers:
    """Return the times of a layer in each of so many shapes, in the order of ``Cost``."""
    times = (layer.compute_s, layer.tp_s + layer.cp_s, layer.ep_s)
    return np.stack([np.broadcast_to(each, size) for each in times])


def _costs(columns: Numbers) -> list[Cost]:
    return [Cost(*row) for row in columns.T.tolist()]
