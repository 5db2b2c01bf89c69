"""The layout of a recorded run, and which of its devices hold which stage."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ..catalogue import Model
from ..errors import PlanError
from ..planner import Layout
from ..planner.build import layers_of_stages
from .fields import count
from .hardware import mix_of
from .words import Recompute

PSEUDO_LAYERS = 3
"""Most items that a source counts as layers: embedding, head, multi-token prediction."""


def layout_of(
    parallel: dict[str, Any], model: Model, recompute: Recompute
) -> tuple[Layout, list[str]]:
    """Return the layout of a run, open sizes at their least, and what was assumed."""
    tp, ep = parallel["tp"], parallel.get("ep") or 1
    default = tp if model.mixture and ep == 1 else 1
    layers, notes = stages_of(parallel, model.layers)
    if parallel.get("sequence_parallel") is None and tp > 1:
        notes.append("sequence_parallel no: not printed")
    if parallel.get("zero_stage") is None and parallel["dp"] > 1:
        notes.append("zero_stage 1: not printed")
    chunks = len(layers) * (parallel.get("vpp") or 1)
    # As many layers as the largest stage holds, or more, are all of them.
    each = -(-max(layers) // (parallel.get("vpp") or 1))
    layout = Layout(
        tp=tp,
        dp=parallel["dp"],
        micro_batch=parallel.get("micro_batch") or 1,
        layers=layers,
        recompute=recompute.kind,
        recompute_layers=recompute.layers if recompute.layers < each else 0,
        zero=1 if parallel.get("zero_stage") is None else parallel["zero_stage"],
        sequence_parallel=bool(parallel.get("sequence_parallel")),
        virtual_stages=parallel.get("vpp") or 1,
        cp=parallel.get("cp") or 1,
        ep=ep,
        etp=parallel.get("etp") or default,
        flash=parallel.get("flash_attention") is not False,
        overlap=parallel.get("overlap_grad_reduce") is not False,
    )
    if chunks > model.layers + PSEUDO_LAYERS:
        raise PlanError(
            f"parallel.vpp {layout.virtual_stages} x pp {layout.pp} is more than the "
            f"{model.layers} layers"
        )
    if layout.virtual_stages > 1 and all(
        (model.layers + more) % chunks for more in range(PSEUDO_LAYERS + 1)
    ):
        notes.append(f"vpp {layout.virtual_stages}: chunks of unequal layers")
    return layout, notes


def stages_of(parallel: dict[str, Any], total: int) -> tuple[tuple[int, ...], list[str]]:
    """Return the layers of each stage, and what was assumed.

    Lists of some sources count embedding and head as a layer each, or as three items.
    """
    pp: int = parallel["pp"]
    listed, bounds = parallel.get("layers_per_stage"), parallel.get("partition")
    if listed is not None:
        layers = _numbers(listed, "layers_per_stage", pp)
        ends = sum(layers) - total
        if pp == 1 and ends not in (0, 2):
            return (total,), [f"layers_per_stage {layers}: one stage has all {total} layers"]
        if ends not in (0, 2):
            raise PlanError(
                f"parallel.layers_per_stage {layers} adds up to {sum(layers)}, not to {total} "
                "layers, nor to those with embedding and head"
            )
        if ends == 2:
            layers[0] -= 1
            layers[-1] -= 1
        if min(layers) < 1:
            raise PlanError(f"parallel.layers_per_stage {listed} leaves a stage without layers")
        return tuple(layers), []
    if bounds is not None:
        edges = _numbers(bounds, "partition", pp + 1)
        more = edges[-1] - edges[0] - total
        inside = [min(max(edge - edges[0] - more // 2, 0), total) for edge in edges]
        stages = tuple(end - start for start, end in pairwise(inside))
        # A stage may hold nothing but items that are no layers.
        if more < 0 or more % 2 or sorted(edges) != edges:
            raise PlanError(f"parallel.partition {edges} does not divide {total} layers")
        return stages, []
    return layers_of_stages(total, pp), []


def _numbers(value: object, name: str, size: int) -> list[int]:
    items = value if isinstance(value, list) else str(value).strip("[]() ").split(",")
    if len(items) != size:
        raise PlanError(f"parallel.{name} {value!r:.60} must have {size} numbers")
    return [count(item, f"parallel.{name}", 0) for item in items]


def kinds_of_stages(raw: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Return the kinds of each stage, by what is printed or by the order of the devices."""
    mix, parallel = mix_of(raw["hardware"]), raw["parallel"]
    names = list(mix)
    pp, listed = parallel["pp"], parallel.get("stage_devices")
    if listed is not None:
        if not isinstance(listed, list) or len(listed) != pp:
            raise PlanError(
                f"parallel.stage_devices {listed!r:.60} must name the devices of {pp} stages"
            )
        return tuple(
            tuple(sorted({_kind(text, names) for text in _list(stage)})) for stage in listed
        )
    order = [place for place, name in enumerate(names) for _ in range(mix[name])]
    if len(order) % pp:
        raise PlanError(f"parallel.pp {pp} does not divide {len(order)} devices")
    ranks = len(order) // pp
    return tuple(
        tuple(sorted(set(order[start : start + ranks]))) for start in range(0, len(order), ranks)
    )


def _kind(text: object, names: list[str]) -> int:
    name = str(text)
    name = name if name in names else name.rpartition("x")[0]
    if name not in names:
        raise PlanError(
            f"parallel.stage_devices has {text!r:.40}, which is none of {', '.join(names)}"
        )
    return names.index(name)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
