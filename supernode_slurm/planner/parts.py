"""The meshes that one kind of device can be in a pipeline over several."""

from __future__ import annotations

from dataclasses import replace

from . import rules
from .crossings import Part
from .mesh import Shape, front_layers, meshes_of
from .space import divisors, expert_sizes, kept, tensor_sizes
from .workload import Capabilities, Offer, Workload


def parts_of(
    workload: Workload, offer: Offer, index: int, able: Capabilities, zero: int
) -> dict[tuple[int, str], list[Part]]:
    """Return an offer's meshes by samples per micro-batch and recomputation.

    ``index`` is the offer's among all; ``zero`` the stage of meshes with replicas.
    """
    layers, fixed = workload.model.layers - front_layers(workload.model), workload.fixed
    sizes = [
        (pp, Shape(tp, dp, 1, "none", zero if dp > 1 else 0, ep=ep, etp=etp))
        for tp in kept(tensor_sizes(workload, offer, able), fixed.tp)
        for pp in divisors(offer.devices // tp)
        if pp < layers
        for dp in kept([offer.devices // tp // pp], fixed.dp)
        for ep, etp in _experts(workload, able, tp, dp, zero)
    ]
    found = [
        (width, pp, replace(shape, micro_batch=width // shape.dp, recompute=again))
        for width in divisors(workload.global_batch)
        for again in kept(able.recompute, fixed.recompute)
        for pp, shape in sizes
        if width % shape.dp == 0 and fixed.micro_batch in (None, width // shape.dp)
    ]
    shapes = [shape for _, _, shape in found]
    costs = meshes_of(workload, offer, shapes, [pp for _, pp, _ in found])
    parts: dict[tuple[int, str], list[Part]] = {}
    for (width, pp, shape), cost in zip(found, costs, strict=True):
        parts.setdefault((width, shape.recompute), []).append(Part(index, pp, shape.dp, cost))
    return parts


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
