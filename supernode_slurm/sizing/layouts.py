"""A layout in words, as a user gives one and as it is shown: ``tp=8,pp=4,dp=2``."""

from __future__ import annotations

from dataclasses import fields, replace

from ..errors import UsageError, nearest
from ..plan import Mesh, Pipeline, Plan
from ..planner import Capabilities, Fixed, Layout, Workload
from ..planner.workload import RECOMPUTE

KEYS = {
    "tp": "tp",
    "pp": "pp",
    "dp": "dp",
    "cp": "cp",
    "ep": "ep",
    "etp": "etp",
    "vpp": "virtual_stages",
    "micro-batch": "micro_batch",
    "recompute": "recompute",
    "recompute-layers": "recompute_layers",
    "zero": "zero",
}
"""Each word of a layout, and the field of ``Fixed`` that it sets."""
_USUAL = {
    **dict.fromkeys(("cp", "ep", "etp", "virtual_stages", "zero"), 1),
    **{"recompute": "none", "recompute_layers": 0},
}


def parse_layout(
    text: str, option: str, more: tuple[str, ...] = ()
) -> tuple[Fixed, dict[str, int]]:
    """Return the sizes of ``tp=8,pp=4``, and those of ``more`` words that it may hold.

    Raises ``UsageError`` that names the option.
    """
    found: dict[str, int | str] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if name not in (*KEYS, *more):
            hint = nearest(name, (*KEYS, *more))
            raise UsageError(f"{option}: no size '{name}' in {text!r:.80}; {hint}")
        if name in found:
            raise UsageError(f"{option}: '{name}' stands twice in {text!r:.80}")
        found[name] = _value(name, value if equals else "", option)
    fixed = {KEYS[name]: value for name, value in found.items() if name in KEYS}
    rest = {name: int(value) for name, value in found.items() if name not in KEYS}
    return Fixed(**fixed), rest  # type: ignore[arg-type]


def _value(name: str, text: str, option: str) -> int | str:
    if name == "recompute":
        if text not in RECOMPUTE:
            raise UsageError(f"{option}: recompute is {', '.join(RECOMPUTE)}; got {text!r:.40}")
        return text
    low, high = {"zero": (0, 3), "recompute-layers": (0, 10**7)}.get(name, (1, 10**7))
    if not text.isascii() or not text.isdecimal() or not low <= int(text[:9]) <= high:
        raise UsageError(f"{option}: {name} is a number from {low} on, like {name}={low + 1}")
    return int(text[:9])


def filled(fixed: Fixed, workload: Workload, devices: int, able: Capabilities) -> Layout:
    """Return the layout of some sizes; those left open need the least memory, DP takes the rest."""
    tp, pp, cp = fixed.tp or 1, fixed.pp or 1, fixed.cp or 1
    dp = fixed.dp or max(devices // (tp * pp * cp), 1)
    layers = workload.model.layers
    lean = max(stage for stage in (0, *able.zero) if stage < 2 or pp == 1)
    ep, etp = _experts(fixed, workload, tp, tp * cp * dp, able)
    return Layout(
        tp=tp,
        dp=dp,
        micro_batch=fixed.micro_batch or 1,
        layers=tuple((layers + stage) // pp for stage in range(pp)),
        recompute=fixed.recompute or able.recompute[-1],
        recompute_layers=fixed.recompute_layers or 0,
        zero=lean if fixed.zero is None else fixed.zero,
        sequence_parallel=tp > 1,
        virtual_stages=fixed.virtual_stages or 1,
        cp=cp,
        ep=ep,
        etp=etp,
    )


def _experts(
    fixed: Fixed, workload: Workload, tp: int, around: int, able: Capabilities
) -> tuple[int, int]:
    """Return EP and ETP among the ``around`` devices of a stage: the smallest parts of experts."""
    from ..planner.space import expert_sizes

    legal: list[tuple[int, int]] = []
    if workload.model.mixture is not None:
        found = expert_sizes(replace(workload, fixed=fixed), able, tp)
        legal = [(ep, etp) for ep, etp in found if around % (ep * etp) == 0]
    none = (fixed.ep or 1, fixed.etp or 1)
    return max(legal, key=lambda sizes: (sizes[0] * sizes[1], sizes[0]), default=none)


def layout_of(pipeline: Pipeline) -> Layout:
    """Return the layout of a pipeline on one mesh."""
    (mesh,) = pipeline.meshes
    return Layout(
        tp=mesh.tp,
        dp=mesh.dp,
        micro_batch=mesh.micro_batch,
        layers=tuple(stage.layers for stage in pipeline.stages),
        recompute=mesh.recompute,
        recompute_layers=mesh.recompute_layers,
        zero=mesh.zero,
        sequence_parallel=mesh.sequence_parallel,
        virtual_stages=pipeline.virtual_stages,
        cp=mesh.cp,
        ep=mesh.ep,
        etp=mesh.etp,
        shard=mesh.shard,
    )


def keeps(layout: Layout, fixed: Fixed) -> bool:
    """Tell whether a layout has the sizes that are fixed."""
    wanted = {spec.name: getattr(fixed, spec.name) for spec in fields(Fixed)}
    return all(
        getattr(layout, name) == value for name, value in wanted.items() if value is not None
    )


def words(sizes: Layout | Fixed) -> str:
    """Return sizes as ``--explain`` takes them, usual ones left out of a whole layout."""
    found = []
    for word, name in KEYS.items():
        value = getattr(sizes, name)
        if value is None or (isinstance(sizes, Layout) and value == _USUAL.get(name)):
            continue
        found.append(f"{word}={value}")
    return ",".join(found)


def plan_words(plan: Plan) -> str:
    """Return the layout of a plan, one group of sizes for each mesh."""
    shown = [
        words(_of_mesh(mesh, pipeline)) for pipeline in plan.pipelines for mesh in pipeline.meshes
    ]
    return " + ".join(shown)


def _of_mesh(mesh: Mesh, pipeline: Pipeline) -> Layout:
    layout = Layout(mesh.tp, mesh.dp, mesh.micro_batch, (1,) * mesh.pp, mesh.recompute, mesh.zero)
    return replace(
        layout,
        recompute_layers=mesh.recompute_layers,
        virtual_stages=pipeline.virtual_stages,
        cp=mesh.cp,
        ep=mesh.ep,
        etp=mesh.etp,
    )
