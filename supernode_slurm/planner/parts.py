"""The meshes that one kind of device can be in a pipeline over several."""

from __future__ import annotations

from dataclasses import replace

from ..catalogue import Model
from . import rules
from .crossings import Part
from .mesh import Shape, front_layers, meshes_of
from .space import divisors, expert_sizes, kept, tensor_sizes
from .workload import Capabilities, Offer, Workload

Kind = tuple[int, str, int]
"""Samples of a micro-batch, recomputation and virtual stages: equal in all meshes, but for the
recomputation where the framework has it by stage."""


def parts_of(
    workload: Workload, offer: Offer, index: int, able: Capabilities, zero: int
) -> dict[Kind, list[Part]]:
    """Return an offer's meshes by what goes together.

    ``index`` is the offer's among all; ``zero`` the stage of meshes with replicas.
    """
    model, fixed = workload.model, workload.fixed
    layers, virtual = model.layers - front_layers(model), virtual_sizes(workload, able)
    sizes = [
        (pp, Shape(tp, dp, 1, "none", zero if dp > 1 else 0, ep=ep, etp=etp))
        for tp in kept(tensor_sizes(workload, offer, able), fixed.tp)
        for pp in divisors(offer.devices // tp)
        if pp < layers
        for dp in kept([offer.devices // tp // pp], fixed.dp)
        for ep, etp in _experts(workload, able, tp, dp, zero)
    ]
    # Dense layers cost the same in any schedule.
    schedules = sorted({model.mixture is not None and size > 1 for size in virtual})
    found = [
        (
            *(width, pp),
            replace(shape, micro_batch=width // shape.dp, recompute=again, interleaved=interleaved),
        )
        for width in divisors(workload.global_batch)
        for again in kept(able.recompute, fixed.recompute)
        for interleaved in schedules
        for pp, shape in sizes
        if width % shape.dp == 0 and fixed.micro_batch in (None, width // shape.dp)
    ]
    shapes = [shape for _, _, shape in found]
    costs = meshes_of(workload, offer, shapes, [pp for _, pp, _ in found])
    parts: dict[Kind, list[Part]] = {}
    first = [least_layers(model, size, True) for size in virtual]
    for (width, pp, shape), cost in zip(found, costs, strict=True):
        # Beside it there is a stage of another mesh; chunks want a micro-batch for each stage.
        filled = workload.global_batch // width > pp
        for size, least in zip(virtual, first, strict=True):
            mine = shape.interleaved == (size > 1) or model.mixture is None
            if mine and (filled or size == 1) and pp * size + least <= layers:
                part = Part(index, pp, shape.dp, cost, size)
                parts.setdefault((width, shape.recompute, size), []).append(part)
    return parts


def virtual_sizes(workload: Workload, able: Capabilities) -> list[int]:
    """Return the numbers of virtual stages that a pipeline over several kinds may have.

    All chunks of a stage hold as many layers: run pass by pass, others wait for each other, up to a
    tenth of a step. Between meshes no framework has any.
    """
    fixed = workload.fixed.virtual_stages
    if able.meshes or not (able.virtual_stages and able.uneven_virtual):
        return kept([1], fixed)
    layers = workload.model.layers
    if fixed is not None:
        return [fixed] if layers % fixed == 0 else []
    return [size for size in divisors(layers) if size <= layers // 2]


def least_layers(model: Model, virtual: int, first: bool) -> int:
    """Return how many of the layers that repeat a stage must hold: one in each of its chunks.

    The first chunk holds all layers without experts, so that these are in the first stage.
    """
    front = front_layers(model) if first else 0
    return max(1, virtual * max(1, front) - front)


def cut_of(part: Part) -> int:
    """Return one number for how a mesh cuts a layer."""
    shape = part.cost.shape
    return (shape.tp << 32) | (shape.ep << 16) | shape.etp


def _experts(
    workload: Workload, able: Capabilities, tp: int, dp: int, zero: int
) -> list[tuple[int, int]]:
    """Return the (EP, ETP) of a mesh."""
    sizes = expert_sizes(workload, able, tp)
    if able.meshes and workload.model.mixture:
        return [size for size in sizes if size == (1, tp)]
    spread = tp * rules.spread(able, dp, zero, 0)
    return [(ep, etp) for ep, etp in sizes if not rules.groups(able, spread, ep, etp)]
