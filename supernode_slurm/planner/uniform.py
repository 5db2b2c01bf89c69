"""All legal plans of a workload on devices of one kind, in one pipeline on one mesh."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from ..errors import PlanError
from ..plan import Mesh, Pipeline, Plan, Predicted, Stage
from .device import Device, device_of
from .mesh import MeshCost, Shape
from .predict import fits, p2p_s, plan_of, predict_mesh, sharing_of
from .shortage import Shortage
from .split import StageLoad, split_layers
from .stage import Sharing, end_bytes, in_flight, layer_bytes, stage_cost
from .workload import Capabilities, Fixed, Layout, Offer, Workload, agree_precision

T = TypeVar("T")


def plan_uniform(workload: Workload, offer: Offer, capabilities: Capabilities) -> tuple[Plan, ...]:
    """Return every plan that uses all devices of the offer, best first.

    For each (TP, PP, DP, micro-batch, ZeRO) the least recomputation that fits is taken:
    more of it would only be slower. Sizes that the workload fixes are kept. Raises
    ``PlanError`` with the least memory that any layout needs if none fits, and names fixed
    sizes that stand in the way.
    """
    workload = agree_precision(workload, [offer])
    device = device_of(offer, workload.precision)
    search = _Search(workload, device, capabilities)
    found = list(search.layouts())
    if not found and workload.fixed != Fixed():
        raise _impossible(search, offer)
    if not found:
        raise search.shortage.error(workload, offer, device)
    found.sort(key=lambda item: item[1].step_time_s)
    return tuple(_plan(workload, offer, layout, predicted) for layout, predicted in found)


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive number in rising order."""
    small = [item for item in range(1, math.isqrt(number) + 1) if number % item == 0]
    return sorted({*small, *(number // item for item in small)})


def tensor_sizes(workload: Workload, device: Device, capabilities: Capabilities) -> list[int]:
    """Return the legal TP sizes: inside one fabric; heads and the sequence must divide.

    Sequence parallelism goes with TP and cuts the sequence. Fewer key heads than ranks are
    legal where the framework copies them.
    """
    if not capabilities.tensor:
        return [1]
    model = workload.model
    return [
        size
        for size in divisors(math.gcd(device.domain, device.total))
        if model.heads % size == 0
        and (
            model.kv_heads % size == 0
            or (capabilities.copies_kv_heads and size % model.kv_heads == 0)
        )
        and model.ffn % size == 0
        and workload.sequence % size == 0
    ]


def pipeline_sizes(workload: Workload, devices: int, capabilities: Capabilities) -> list[int]:
    """Return the legal PP sizes for devices of one TP rank."""
    layers = workload.model.layers
    return [
        size
        for size in (divisors(devices) if capabilities.pipeline else [1])
        if size <= layers and (capabilities.uneven_stages or layers % size == 0)
    ]


def kept(legal: Sequence[T], fixed: T | None) -> list[T]:
    """Return the legal values, or of them only the one that is fixed."""
    return [value for value in legal if fixed is None or value == fixed]


def stage_load(
    mesh: MeshCost, sharing: Sharing, ends: tuple[bool, bool], held: float, p2p_s: float
) -> StageLoad:
    """Return a stage's time per micro-batch as a function of its layers, and their limit.

    ``ends`` says whether it is the first and whether it is the last.
    """
    empty = stage_cost(mesh, 0, *ends)
    free = mesh.device.memory_bytes - end_bytes(mesh, empty.params, empty.last, sharing)
    return StageLoad(
        fixed_s=empty.compute_s + empty.tp_s + p2p_s,
        layer_s=mesh.layer.compute_s + mesh.layer.tp_s,
        most=min(mesh.model.layers, int(free / layer_bytes(mesh, held, sharing))),
    )


class _Search:
    """Walks over the layouts and keeps what did not fit."""

    def __init__(self, workload: Workload, device: Device, capabilities: Capabilities) -> None:
        self.workload = workload
        self.device = device
        self.capabilities = capabilities
        self.fixed = workload.fixed
        self.shortage = Shortage()
        self._meshes: dict[Shape, MeshCost] = {}

    def layouts(self) -> Iterator[tuple[Layout, Predicted]]:
        """Yield the layouts that fit, each with its prediction."""
        for tp, pp, dp in self.sizes():
            if self.workload.global_batch % dp:
                self.shortage.indivisible = True
                continue
            # A single replica shares nothing, whatever its optimiser is told.
            stages = self.capabilities.zero if dp > 1 or self.fixed.zero is not None else (0,)
            for zero in kept(stages, self.fixed.zero):
                yield from self._batches(Layout(tp, dp, 1, (1,) * pp, "none", zero, tp > 1))

    def sizes(self) -> Iterator[tuple[int, int, int]]:
        """Yield the legal (TP, PP, DP), those that the workload fixes alone."""
        legal = tensor_sizes(self.workload, self.device, self.capabilities)
        for tp in kept(legal, self.fixed.tp):
            rest = self.device.total // tp
            legal = pipeline_sizes(self.workload, rest, self.capabilities)
            for pp in kept(legal, self.fixed.pp):
                for dp in kept([rest // pp], self.fixed.dp):
                    yield tp, pp, dp

    def _batches(self, whole: Layout) -> Iterator[tuple[Layout, Predicted]]:
        sizes = divisors(self.workload.global_batch // whole.dp)
        for micro_batch in kept(sizes, self.fixed.micro_batch):
            fitting = self._best_recompute(replace(whole, micro_batch=micro_batch))
            # A larger micro-batch needs more memory: none after this one can fit.
            if fitting is None:
                return
            yield fitting

    def _best_recompute(self, whole: Layout) -> tuple[Layout, Predicted] | None:
        best: tuple[Layout, Predicted] | None = None
        for recompute in kept(self.capabilities.recompute, self.fixed.recompute):
            layout = replace(whole, recompute=recompute)
            for layers, free in self._splits(layout):
                split = replace(layout, layers=layers)
                predicted = predict_mesh(self._mesh(split), self.workload, split)
                if not fits(self.device, predicted.memory_gib):
                    self.shortage.note(predicted.memory_gib[0])
                elif best is None or predicted.step_time_s < best[1].step_time_s:
                    best = (split, predicted)
                if free and best is not None:
                    return best
        return best

    def _splits(self, layout: Layout) -> Iterator[tuple[tuple[int, ...], bool]]:
        """Yield splits of the layers; true with one that memory does not restrict."""
        total, pp = self.workload.model.layers, layout.pp
        uneven = self.capabilities.uneven_stages and pp > 1
        if total % pp == 0:
            yield (total // pp,) * pp, not uneven
        if uneven:
            loads = self._loads(self._mesh(layout), layout)
            layers, free = self._fastest(loads, self._micro_batches(layout))
            # Without a split that fits, the memory check notes how much is missing.
            yield layers or tuple((total + stage) // pp for stage in range(pp)), free

    def _fastest(
        self, loads: Sequence[StageLoad], micro_batches: int
    ) -> tuple[tuple[int, ...] | None, bool]:
        """Return the fastest split that fits; true if no memory could make it faster."""
        total = self.workload.model.layers
        boundless = [replace(load, most=total) for load in loads]
        layers = split_layers(total, boundless, micro_batches)
        if layers and all(map(lambda count, load: count <= load.most, layers, loads)):
            return layers, True
        return split_layers(total, loads, micro_batches), False

    def _loads(self, mesh: MeshCost, layout: Layout) -> list[StageLoad]:
        pp = layout.pp
        batches = self._micro_batches(layout)
        sharing = sharing_of(self.device, layout, self.workload.precision)
        transfer = p2p_s(mesh, layout)
        return [
            stage_load(
                mesh,
                sharing,
                (stage == 0, stage == pp - 1),
                in_flight(stage, pp, batches),
                transfer,
            )
            for stage in range(pp)
        ]

    def _micro_batches(self, layout: Layout) -> int:
        return self.workload.global_batch // (layout.dp * layout.micro_batch)

    def _mesh(self, layout: Layout) -> MeshCost:
        shape = Shape(layout.tp, layout.micro_batch, layout.recompute, layout.sequence_parallel)
        if shape not in self._meshes:
            self._meshes[shape] = MeshCost(self.workload, self.device, shape)
        return self._meshes[shape]


def _impossible(search: _Search, offer: Offer) -> PlanError:
    """Return the error for fixed sizes that no layout keeps, with a layout where they are open."""
    workload, name = search.workload, f"{offer.devices} x {offer.accelerator.id}"
    free = replace(workload, fixed=Fixed())
    best = plan_uniform(free, offer, search.capabilities)[0].pipelines[0].meshes[0]
    reason = _broken(search)
    if search.shortage.least_gib is not None:
        reason = (
            f"they need {search.shortage.least_gib:.1f} GiB per device, a training process gets "
            f"{search.device.memory_bytes / 2**30:.1f}"
        )
    return PlanError(
        f"{workload.model.name} on {name} with {workload.fixed.words()} fixed: {reason}; "
        f"left open, the fastest is tp {best.tp}, pp {best.pp}, dp {best.dp}, micro-batch "
        f"{best.micro_batch}, recompute {best.recompute}, zero {best.zero}"
    )


def _broken(search: _Search) -> str:
    """Return which fixed size is none that the framework can run, and the legal ones."""
    fixed, able = search.fixed, search.capabilities
    free = _Search(replace(search.workload, fixed=Fixed()), search.device, able)
    sizes = list(free.sizes())
    legal: dict[str, Sequence[int | str]] = {
        "tp": sorted({tp for tp, _, _ in sizes}),
        "pp": sorted({pp for _, pp, _ in sizes}),
        "dp": sorted({dp for _, _, dp in sizes}),
        "recompute": able.recompute,
        "zero": able.zero,
    }
    for size, values in legal.items():
        if getattr(fixed, size) not in (None, *values):
            return f"{able.name} can have {size} {', '.join(map(str, values))} here"
    if not list(search.sizes()):
        return f"tp x pp x dp must be its {search.device.total} devices"
    return f"the global batch of {search.workload.global_batch} is no multiple of dp x micro-batch"


def _plan(workload: Workload, offer: Offer, layout: Layout, predicted: Predicted) -> Plan:
    mesh = Mesh(
        group=0,
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        micro_batch=layout.micro_batch,
        sequence_parallel=layout.sequence_parallel,
        recompute=layout.recompute,
        zero=layout.zero,
    )
    last = layout.pp - 1
    stages = tuple(
        Stage(mesh=0, layers=layers, embedding=index == 0, head=index == last)
        for index, layers in enumerate(layout.layers)
    )
    pipeline = Pipeline(workload.global_batch, (mesh,), stages)
    return plan_of(workload, (offer.group,), (pipeline,), predicted)
