"""Recorded runs as workload, devices and layout: the format is described in docs/calibrate.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ..catalogue import (
    LatentAttention,
    Mixture,
    Model,
    models,
)
from ..errors import PlanError
from ..planner import Layout, Offer, Workload
from ..planner.build import layers_of_stages
from ..planner.figures import figures_of
from .hardware import offers_of
from .stacks import stack_name

VOCAB = 64_000
"""Where a run does not print its vocabulary: between Llama-2's 32,000 and Llama-3's 128,256."""

MOST = 10**9
COUNTS = (
    *("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab", "seq"),
    *("experts", "topk", "moe_ffn_hidden", "count", "cards_per_node", "supernode"),
    *("tp", "pp", "dp", "cp", "ep", "etp", "vpp", "micro_batch", "global_batch"),
)
"""Fields of a run that are whole positive numbers."""

MLA = re.compile(r"(q_lora|kv_lora|qk_nope|rope|v)=(\d+)")
DEEPSEEK = {"q_lora": 1536, "kv_lora": 512, "qk_nope": 128, "rope": 64, "v": 128}
"""Ranks of latent attention where a run says no more than MLA (DeepSeek-V3, Kimi K2)."""

WINDOW = re.compile(r"sliding window (\d+)")

PRECISIONS = ("nvfp4", "mxfp8", "fp8", "bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded run; sizes that it does not print are open."""

    id: str
    source: str
    workload: Workload
    offers: tuple[Offer, ...]
    """One per kind of device, in the order of their ranks."""
    layout: Layout
    stack: str
    measured_s: float | None
    memory_gib: float | None
    failed: str = ""
    """``oom`` or ``oom or failed`` if it did not run."""
    suspect: bool = False
    open_micro_batch: bool = False
    open_recompute: bool = False
    stages: tuple[tuple[int, ...], ...] = ()
    """Of a mixed run, the kinds of devices of each stage, as indexes into ``offers``."""
    configuration: tuple[object, ...] = ()
    """What repeats of one run share, its software left out."""

    @property
    def mixed(self) -> bool:
        """Tell whether it ran on several kinds of devices."""
        return len(self.offers) > 1


@dataclass(frozen=True, slots=True)
class Skipped:
    """A run that cannot be predicted, and why."""

    id: str
    why: str


def runs_of(document: Mapping[str, Any]) -> tuple[list[Run], list[Skipped]]:
    """Return the runs of a table, and those that say too little."""
    runs: list[Run] = []
    skipped: list[Skipped] = []
    for section in ("measurements", "heterogeneous"):
        for number, raw in enumerate(document.get(section) or ()):
            name = str(raw.get("id") or f"{section}[{number}]") if isinstance(raw, dict) else "?"
            try:
                runs.append(run_of(raw))
            except PlanError as error:
                skipped.append(Skipped(name, str(error)))
            except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
                skipped.append(Skipped(name, f"not in the format of docs/calibrate.md: {error!r}"))
    return runs, skipped


def run_of(raw: dict[str, Any]) -> Run:
    """Return one run; raises ``PlanError`` if it says too little to be predicted."""
    model, parallel, measured = raw["model"], raw["parallel"], raw.get("measured") or {}
    _bounded(raw)
    missing = [key for key in ("tp", "pp", "dp", "global_batch") if not parallel.get(key)]
    missing += [key for key in ("layers", "hidden", "heads", "seq") if not model.get(key)]
    if missing:
        raise PlanError(f"does not print {', '.join(missing)}")
    source = str((raw.get("source") or {}).get("ref") or raw.get("stack") or "")
    stack = str(raw.get("stack") or stack_name(source, str(raw["id"]), parallel))
    workload = Workload(
        model=model_of(model),
        sequence=model["seq"],
        global_batch=parallel["global_batch"],
        precision=precision_of(str(parallel.get("precision") or "bf16")),
    )
    offers = offers_of(raw["hardware"])
    if workload.precision == "bf16" and not all(
        offer.accelerator.peak_tflops("bf16") for offer in offers
    ):
        workload = replace(workload, precision="fp16")
    for offer in offers:
        figures_of(offer.accelerator, workload.precision)
    failed = next((key for key in ("oom", "oom_or_failed") if measured.get(key)), "")
    return Run(
        id=str(raw["id"]),
        source=source,
        workload=workload,
        offers=offers,
        layout=layout_of(parallel, workload.model),
        stack=stack,
        measured_s=measured_s(raw),
        memory_gib=measured.get("peak_mem_gib"),
        failed=failed.replace("_", " "),
        suspect=bool(raw.get("suspect")),
        open_micro_batch=not parallel.get("micro_batch"),
        open_recompute=parallel.get("recompute") is None,
        stages=_kinds_of_stages(raw) if len(offers) > 1 else (),
        configuration=_configuration(raw),
    )


def _bounded(raw: dict[str, Any]) -> None:
    """Refuse sizes that no run has: text, fractions, numbers below one or beyond all machines."""
    for part in ("model", "hardware", "parallel"):
        for key, value in raw[part].items():
            if key not in COUNTS or value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < MOST:
                raise PlanError(f"{part}.{key} must be a number from 1 on, got {value!r:.40}")


def measured_s(raw: dict[str, Any]) -> float | None:
    """Return the step time, from tokens per second if need be, never from FLOPS."""
    measured = raw.get("measured") or {}
    found = measured.get("step_time_s") or raw.get("derived_step_time_s")
    rate, batch = measured.get("tokens_per_s_per_gpu"), raw["parallel"].get("global_batch")
    if found:
        return float(found)
    if not rate or not batch:
        return None
    return float(batch * raw["model"]["seq"] / rate / raw["hardware"]["count"])


def precision_of(text: str) -> str:
    """Return the precision that a source's words mean."""
    folded = text.casefold()
    if " or " in folded:
        return "bf16"
    return next((name for name in PRECISIONS if name in folded), "bf16")


def model_of(raw: dict[str, Any]) -> Model:
    """Return the model of a run from the dimensions it prints."""
    heads, hidden = raw["heads"], raw["hidden"]
    gated = bool(raw.get("gated_mlp"))
    ffn = raw.get("ffn_hidden") or 4 * hidden
    attention = str(raw.get("attention") or "")
    latent = _latent(attention) if "MLA" in attention else None
    window = WINDOW.search(attention)
    model = Model(
        name=str(raw.get("name") or "model"),
        layers=raw["layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=raw.get("kv_heads") or heads,
        head_dim=latent.plain_dim + latent.rotary_dim
        if latent
        else raw.get("head_dim") or hidden // heads,
        ffn=ffn,
        vocab=raw.get("vocab") or VOCAB,
        gated=gated,
        tied=not gated,
        params=0,
        latent=latent,
        mixture=_mixture(raw, ffn),
        mtp=int(raw.get("mtp") or 0),
        window=int(window[1]) if window else 0,
        window_layers=raw["layers"] // 2 if window and "alternating" in attention else 0,
    )
    model = _completed(model, raw)
    return replace(model, params=model.parts_params)


def _completed(model: Model, raw: dict[str, Any]) -> Model:
    """Return the catalogue's model where exactly one kind has all printed sizes, else this one.

    Its facts were checked against its number of parameters; a row of a table rarely prints
    windows, shared experts or the size of a head.
    """
    found = [item for item in models() if _size(item) == _size(model)]
    kinds = {
        (item.window, item.latent, item.mixture, item.gated, item.tied, item.head_dim)
        for item in found
    }
    if len(kinds) != 1 or not raw.get("vocab") or raw.get("attention"):
        return model
    mtp = int(raw.get("mtp") or 0)
    return replace(found[0], name=model.name, mtp=mtp)


def _size(model: Model) -> tuple[int, ...]:
    experts = model.mixture.experts if model.mixture else 0
    sizes = (model.layers, model.hidden, model.heads, model.kv_heads, model.ffn, model.vocab)
    return (*sizes, experts)


def layout_of(parallel: dict[str, Any], model: Model) -> Layout:
    """Return the layout of a run, open sizes at their least."""
    tp = parallel["tp"]
    recompute = str(parallel.get("recompute") or "none").split()[0].split("(")[0].rstrip(":")
    ep = parallel.get("ep") or 1
    default = tp if model.mixture and ep == 1 else 1
    return Layout(
        tp=tp,
        dp=parallel["dp"],
        micro_batch=parallel.get("micro_batch") or 1,
        layers=stages_of(parallel, model.layers),
        recompute=recompute if recompute in ("selective", "full") else "none",
        zero=1 if parallel.get("zero_stage") is None else int(parallel["zero_stage"]),
        sequence_parallel=bool(parallel.get("sequence_parallel")),
        virtual_stages=parallel.get("vpp") or 1,
        cp=parallel.get("cp") or 1,
        ep=ep,
        etp=parallel.get("etp") or default,
        flash=parallel.get("flash_attention") is not False,
        overlap=parallel.get("overlap_grad_reduce") is not False,
    )


def stages_of(parallel: dict[str, Any], total: int) -> tuple[int, ...]:
    """Return the layers of each stage.

    Lists of some sources count embedding and head as a layer each, or as three items.
    """
    pp: int = parallel["pp"]
    listed, bounds = parallel.get("layers_per_stage"), parallel.get("partition")
    if listed and len(listed) == pp:
        layers = [int(count) for count in listed]
        ends = sum(layers) - total
        if ends == 2:
            layers[0] -= 1
            layers[-1] -= 1
        return tuple(layers)
    if bounds and len(bounds) == pp + 1:
        before = (int(bounds[-1]) - total) // 2
        inside = [min(max(int(edge) - before, 0), total) for edge in bounds]
        return tuple(end - start for start, end in pairwise(inside))
    return layers_of_stages(total, pp)


def _latent(text: str) -> LatentAttention:
    said = DEEPSEEK | {key: int(value) for key, value in MLA.findall(text)}
    return LatentAttention(
        said["q_lora"], said["kv_lora"], said["qk_nope"], said["rope"], said["v"]
    )


def _mixture(raw: dict[str, Any], ffn: int) -> Mixture | None:
    if not raw.get("experts"):
        return None
    width = raw.get("moe_ffn_hidden") or ffn
    return Mixture(
        experts=raw["experts"],
        per_token=raw.get("topk") or 1,
        ffn=width,
        shared_ffn=(raw.get("shared_experts") or 0) * width,
        dense_layers=tuple(range(raw.get("dense_first_layers") or 0)),
    )


def _kinds_of_stages(raw: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Return the kinds of each stage, by what is printed or by the order of the devices."""
    names, parallel = list(raw["hardware"]["mix"]), raw["parallel"]
    listed = parallel.get("stage_devices")
    if listed:
        return tuple(
            tuple(sorted({names.index(text.rsplit("x", 1)[0]) for text in stage}))
            for stage in listed
        )
    order = [place for place, name in enumerate(names) for _ in range(raw["hardware"]["mix"][name])]
    ranks = len(order) // parallel["pp"]
    return tuple(
        tuple(sorted(set(order[start : start + ranks])))
        for start in range(0, ranks * parallel["pp"], ranks)
    )


def _configuration(raw: dict[str, Any]) -> tuple[object, ...]:
    model, hardware, parallel = raw["model"], raw["hardware"], raw["parallel"]
    keys = ("tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "global_batch")
    sizes = [model.get(key) for key in ("layers", "hidden", "seq", "experts")]
    card = hardware.get("accelerator") or str(hardware.get("mix"))
    precision = precision_of(str(parallel.get("precision") or ""))
    return (*sizes, card, hardware.get("count"), *(parallel.get(k) for k in keys), precision)
