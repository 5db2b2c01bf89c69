"""Recorded runs as workload, devices and layout: the format is described in docs/calibrate.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..catalogue import Model
from ..errors import PlanError
from ..planner import Layout, Offer, Workload
from ..planner.figures import figures_of
from .fields import count, fields_of, folded, unread
from .hardware import mix_of, offers_of
from .layouts import kinds_of_stages, layout_of
from .sizes import model_of
from .stacks import profile_of
from .words import Recompute, precision_of, recompute_in, recompute_of

FULL_TRAINING = ("", "full", "pretrain", "pretraining", "sft", "finetune", "fulltraining", "cpt")


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
    """A software profile of the planner."""
    measured_s: float | None
    memory_gib: float | None
    failed: str = ""
    """``oom`` or ``oom or failed`` if it did not run."""
    suspect: bool = False
    open_micro_batch: bool = False
    open_recompute: bool = False
    recompute_share: float | None = None
    """Of the layers, where the layout cannot say it."""
    stages: tuple[tuple[int, ...], ...] = ()
    """Of a mixed run, the kinds of devices of each stage, as indexes into ``offers``."""
    configuration: tuple[object, ...] = ()
    """What repeats of one run share, its software left out."""
    modules: tuple[str, ...] = ()
    """Parts of a layer that it recomputed, if it names them."""
    assumed: tuple[str, ...] = ()
    """What is not printed or not clear, and what it was taken for."""

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
    seen: set[str] = set()
    for name, raw in rows_of(document, ("measurements", "heterogeneous")):
        if name in seen:
            skipped.append(Skipped(name, "another run has this id: give each its own"))
            continue
        seen.add(name)
        try:
            runs.append(run_of(raw, name))
        except PlanError as error:
            skipped.append(Skipped(name, str(error)))
    return runs, skipped


def rows_of(document: Mapping[str, Any], sections: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """Yield each row with its id, or with its place where it has none."""
    for section in sections:
        for number, raw in enumerate(document.get(section) or ()):
            given = raw.get("id") if isinstance(raw, dict) else None
            place = f"{section}[{number}]"
            yield (str(given) if given not in (None, "") else place), raw


def run_of(row: object, name: str = "run") -> Run:
    """Return one run; raises ``PlanError`` if it says too little to be predicted, or is wrong."""
    raw = fields_of(row)
    model, parallel, measured = raw["model"], raw["parallel"], raw["measured"]
    _complete(raw)
    sizes, notes = model_of(model)
    offers, wired = offers_of(raw["hardware"])
    stack, software = profile_of(raw, offers[0].accelerator.vendor)
    workload, precision = _workload(raw, sizes, offers)
    recompute = _recompute(parallel, sizes)
    layout, laid = layout_of(parallel, sizes, recompute)
    run = Run(
        id=str(raw["id"]) if raw.get("id") not in (None, "") else name,
        source=_source(raw),
        workload=workload,
        offers=offers,
        layout=layout,
        stack=stack,
        measured_s=measured_s(raw),
        memory_gib=measured.get("peak_mem_gib"),
        failed=next((key for key in ("oom", "oom_or_failed") if measured.get(key)), "").replace(
            "_", " "
        ),
        suspect=bool(raw.get("suspect")),
        open_micro_batch=not parallel.get("micro_batch"),
        open_recompute=parallel.get("recompute") is None,
        recompute_share=recompute.share,
        stages=kinds_of_stages(raw) if len(offers) > 1 else (),
        configuration=_configuration(raw),
        modules=recompute.modules,
    )
    notes += [*wired, *precision, *laid, recompute.assumed, software, *_consistent(run, parallel)]
    notes += [f"{field} is not read" for field in unread(raw)]
    return replace(run, assumed=tuple(note for note in notes if note))


def _complete(raw: dict[str, Any]) -> None:
    """Refuse a row that leaves out what nothing can stand for."""
    parallel, model, hardware = raw["parallel"], raw["model"], raw["hardware"]
    missing = [key for key in ("tp", "pp", "dp", "global_batch") if not parallel.get(key)]
    missing += [key for key in ("layers", "hidden", "heads", "seq") if not model.get(key)]
    if not hardware.get("mix"):
        missing += [key for key in ("accelerator", "count") if not hardware.get(key)]
    if missing:
        raise PlanError(f"does not print {', '.join(missing)}")


def _source(raw: dict[str, Any]) -> str:
    source = raw.get("source")
    named = source.get("ref") or source.get("title") if isinstance(source, dict) else source
    return str(named or raw.get("stack") or "")


def _workload(
    raw: dict[str, Any], model: Model, offers: tuple[Offer, ...]
) -> tuple[Workload, list[str]]:
    """Return what was trained, in a precision that all its cards have, and what was assumed."""
    parallel = raw["parallel"]
    precision, note = precision_of(parallel.get("precision"))
    notes = [note]
    if precision == "bf16" and not all(item.accelerator.peak_tflops("bf16") for item in offers):
        precision = "fp16"
        notes.append("precision fp16: the card has no units for bf16")
    for card in (offer.accelerator for offer in offers):
        if card.peak_tflops(precision) == 0:
            raise PlanError(
                f"{card.id} has no units for {precision}, which parallel.precision asks"
            )
        figures_of(card, precision)
    training = raw.get("training") or parallel.get("training") or ""
    lora = folded(training) == "lora"
    if not lora and folded(training) not in FULL_TRAINING:
        raise PlanError(f"training {training!r:.40} is not planned; use full or lora")
    rank = parallel.get("lora_rank") or raw.get("lora_rank")
    if lora and rank is None:
        notes.append("lora_rank 16: not printed")
    workload = Workload(
        model=model,
        sequence=raw["model"]["seq"],
        global_batch=parallel["global_batch"],
        precision=precision,
        training="lora" if lora else "full",
        lora_rank=16 if rank is None else count(rank, "lora_rank"),
    )
    return workload, notes


def _recompute(parallel: dict[str, Any], model: Model) -> Recompute:
    said = parallel.get("recompute")
    if said is None:
        return Recompute()
    found = recompute_of(said, parallel["pp"], model.layers)
    return recompute_in(found, model.mixture is not None)


def measured_s(raw: dict[str, Any]) -> float | None:
    """Return the step time, from tokens per second if need be, never from FLOPS."""
    measured, hardware = raw["measured"], raw["hardware"]
    found = measured.get("step_time_s") or raw.get("derived_step_time_s")
    if found:
        return float(found)
    rate, batch = measured.get("tokens_per_s_per_gpu"), raw["parallel"].get("global_batch")
    if not rate or not batch:
        return None
    devices = hardware.get("count") or sum(mix_of(hardware).values())
    return float(batch * raw["model"]["seq"] / rate / devices)


def _consistent(run: Run, parallel: dict[str, Any]) -> list[str]:
    """Refuse a layout that cannot be, and return what was assumed of one that may."""
    layout, model, batch = run.layout, run.workload.model, run.workload.global_batch
    devices = sum(offer.devices for offer in run.offers)
    product = layout.tp * layout.cp * layout.pp * layout.dp
    notes = []
    if product != devices:
        told = f"tp {layout.tp} x cp {layout.cp} x pp {layout.pp} x dp {layout.dp} is {product}"
        if devices % product or run.measured_s:
            raise PlanError(f"parallel.{told}, not hardware.count {devices}")
        notes.append(f"{told} of {devices} devices: predicted as printed")
    if model.layers < layout.pp:
        raise PlanError(f"parallel.pp {layout.pp} is more than the {model.layers} layers")
    if model.heads % layout.tp:
        raise PlanError(f"parallel.tp {layout.tp} does not divide model.heads {model.heads}")
    step = layout.dp * layout.micro_batch
    if batch % step:
        raise PlanError(
            f"parallel.global_batch {batch} is no multiple of dp {layout.dp} x micro_batch "
            f"{layout.micro_batch}"
        )
    if layout.ep > 1 and not model.mixture:
        raise PlanError(f"parallel.ep is {layout.ep}, but model.experts is not printed")
    if model.mixture and model.mixture.experts % layout.ep:
        raise PlanError(f"parallel.ep {layout.ep} does not divide {model.mixture.experts} experts")
    if layout.tp * layout.cp * layout.dp % (layout.ep * layout.etp):
        raise PlanError(
            f"parallel.ep {layout.ep} x etp {layout.etp} does not divide tp x cp x dp "
            f"{layout.tp * layout.cp * layout.dp}"
        )
    return [*notes, *(_mixed_only(run, parallel) if run.mixed else ())]


def _mixed_only(run: Run, parallel: dict[str, Any]) -> list[str]:
    """Refuse what is not planned over several kinds of devices."""
    layout, model = run.layout, run.workload.model
    several = "is not predicted over several kinds of devices"
    for name, size in (("vpp", layout.virtual_stages), ("cp", layout.cp)):
        if size > 1:
            raise PlanError(f"parallel.{name} {size} {several}")
    if model.mixture:
        raise PlanError(f"model.experts {model.mixture.experts} {several}")
    if layout.recompute_layers or run.recompute_share is not None:
        raise PlanError(
            f"parallel.recompute {parallel['recompute']!r:.40}, of some layers, {several}"
        )
    notes = ["micro_batch 1: not printed"] if run.open_micro_batch else []
    return [*notes, "recompute none: not printed"] if run.open_recompute else notes


def _configuration(raw: dict[str, Any]) -> tuple[object, ...]:
    model, hardware, parallel = raw["model"], raw["hardware"], raw["parallel"]
    keys = ("tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "global_batch")
    sizes = [model.get(key) for key in ("layers", "hidden", "seq", "experts")]
    card = hardware.get("accelerator") or str(hardware.get("mix"))
    precision, _ = precision_of(parallel.get("precision"))
    return (*sizes, card, hardware.get("count"), *(parallel.get(k) for k in keys), precision)
