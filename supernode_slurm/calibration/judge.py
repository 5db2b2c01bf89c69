"""Predictions against measurements: by source, by card, and in the order of layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import PlanError
from ..planner.case import Numbers
from ..planner.constants import Constants
from .mixed import predict_mixed
from .predictor import Predictor
from .runs import Run, Skipped

GIB = 2**30

APART = 0.03
"""Runs whose times differ by less are not told apart by their order."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One run, and what the model says of it."""

    run: Run
    step_time_s: float
    memory_gib: float
    """As a tool would show it."""
    breakdown: dict[str, float]
    taken: float
    """Of the memory that training gets."""
    recompute: float
    """Share of the layers taken to compute all again, where the run does not print it."""
    micro_batch: int

    @property
    def assumed(self) -> tuple[str, ...]:
        """Return what the run does not tell, and what it was taken for."""
        notes = list(self.run.assumed)
        if self.run.open_micro_batch and not self.run.mixed:
            notes.append(f"micro_batch {self.micro_batch}: the fastest that fits")
        if self.run.open_recompute and not self.run.mixed:
            share = f"{self.recompute:.0%} of the layers" if self.recompute else "none"
            notes.append(f"recompute {share}: the least that fits")
        return tuple(notes)

    @property
    def fits(self) -> bool:
        """Tell whether the memory is there."""
        return self.taken <= 1 + 1e-9

    @property
    def off(self) -> float | None:
        """Return predicted over measured time, less 1."""
        measured = self.run.measured_s
        return None if not measured else self.step_time_s / measured - 1

    @property
    def memory_off(self) -> float | None:
        """Return predicted over read memory, less 1."""
        read = self.run.memory_gib
        return None if not read else self.memory_gib / read - 1


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of some runs: of the step time, and of readings of memory."""

    name: str
    runs: int
    mean: float
    median: float
    largest: float
    bias: float
    memory: float | None
    refused: int
    """Called out of memory although they ran."""


@dataclass(frozen=True, slots=True)
class Order:
    """How well layouts of one job are ranked."""

    groups: int
    """Of one model, machine, batch and software, with two layouts at least."""
    regret: float
    """Mean of the measured time of the layout that the model puts first over the best, less 1."""
    worst: float
    pairs: int
    right: float
    """Share of pairs more than 3 % apart that the model orders rightly."""


def judge(runs: Sequence[Run], values: Mapping[str, float] | None = None) -> list[Judged]:
    """Return what the model says of each run, in their order."""
    plain = [run for run in runs if not run.mixed]
    found: dict[int, Judged] = {}
    if plain:
        predictor = Predictor(plain)
        for judged, run in zip(_uniform(predictor, plain, Constants(values)), plain, strict=True):
            found[id(run)] = judged
    return [found.get(id(run)) or _mixed(run, values) for run in runs]


def judge_all(
    runs: Sequence[Run], values: Mapping[str, float] | None = None
) -> tuple[list[Judged], list[Skipped]]:
    """Return what the model says of the runs, and those of which it cannot say anything."""
    if not runs:
        return [], []
    try:
        with np.errstate(all="ignore"):
            found = judge(runs, values)
    except (PlanError, ValueError, ArithmeticError, LookupError, TypeError) as error:
        if len(runs) == 1:
            return [], [Skipped(runs[0].id, f"cannot be predicted: {error}")]
        half = len(runs) // 2
        parts = judge_all(runs[:half], values), judge_all(runs[half:], values)
        return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    strange = "cannot be predicted: the step time is no number"
    return (
        [item for item in found if np.isfinite(item.step_time_s)],
        [Skipped(item.run.id, strange) for item in found if not np.isfinite(item.step_time_s)],
    )


def scores(judged: Iterable[Judged], by: Mapping[int, str]) -> list[Score]:
    """Return the scores of all runs that were timed, by name and in all; ``by`` is by run."""
    groups: dict[str, list[Judged]] = {}
    for item in judged:
        if item.off is not None and not item.run.failed:
            groups.setdefault(by[id(item.run)], []).append(item)
    every = [item for group in groups.values() for item in group]
    listed = [score(name, group) for name, group in sorted(groups.items())]
    return [*listed, score("all", every)] if every else []


def score(name: str, judged: Sequence[Judged]) -> Score:
    """Return the errors of these runs."""
    off = np.array([item.off for item in judged], float)
    memory = [abs(item.memory_off) for item in judged if item.memory_off is not None]
    return Score(
        name=name,
        runs=len(judged),
        mean=float(np.abs(off).mean()),
        median=float(np.median(np.abs(off))),
        largest=float(np.abs(off).max()),
        bias=float(off.mean()),
        memory=float(np.mean(memory)) if memory else None,
        refused=sum(not item.fits for item in judged),
    )


def order(runs: Sequence[Run], predicted: Sequence[float]) -> Order:
    """Return the regret and the order of layouts of one job."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, run in enumerate(runs):
        if run.measured_s:
            groups.setdefault(_job(run), []).append(place)
    regrets, right, pairs = [], 0, 0
    for places in groups.values():
        if len(places) < 2:
            continue
        measured = np.array([runs[place].measured_s for place in places], float)
        said = np.array([predicted[place] for place in places], float)
        regrets.append(float(measured[np.argmin(said)] / measured.min() - 1))
        one, other = np.triu_indices(len(places), 1)
        apart = np.abs(np.log(measured[one] / measured[other])) > np.log(1 + APART)
        agree = (measured[one] - measured[other]) * (said[one] - said[other]) > 0
        pairs += int(apart.sum())
        right += int((apart & agree).sum())
    return Order(
        groups=len(regrets),
        regret=float(np.mean(regrets)) if regrets else 0.0,
        worst=max(regrets, default=0.0),
        pairs=pairs,
        right=right / pairs if pairs else 1.0,
    )


def _job(run: Run) -> tuple[object, ...]:
    """Return what runs share whose layouts can be compared: model, machine, batch and software."""
    model, work = run.workload.model, run.workload
    machine = tuple(
        (offer.accelerator.id, offer.devices, offer.node_devices, offer.network_gbs)
        for offer in run.offers
    )
    sizes = (model.layers, model.hidden, model.ffn, model.mixture)
    return (sizes, machine, work.sequence, work.global_batch, work.precision, run.stack)


def _uniform(predictor: Predictor, runs: Sequence[Run], constants: Constants) -> list[Judged]:
    predicted = predictor.predict(constants)
    parts = {name: _row(getattr(predicted.step, name)) for name in predicted.step.__slots__}
    size = len(predictor.runs)
    return [
        Judged(
            run=runs[row],
            step_time_s=float(np.broadcast_to(predicted.step.time_s, size)[row]),
            memory_gib=float(np.broadcast_to(predicted.reading, size)[row]) / GIB,
            breakdown={
                name: float(np.broadcast_to(part, size)[row]) for name, part in parts.items()
            },
            taken=float(predicted.memory.peak[row] / predicted.limit[row]),
            recompute=float(predictor.cut.full[row]) if closed.open_recompute else 0.0,
            micro_batch=closed.layout.micro_batch,
        )
        for row, closed in enumerate(predictor.runs)
    ]


def _mixed(run: Run, values: Mapping[str, float] | None) -> Judged:
    found = predict_mixed(run, values)
    return Judged(
        run=run,
        step_time_s=found.time_s,
        memory_gib=found.reading_bytes / GIB,
        breakdown=found.breakdown_s,
        taken=found.memory_bytes / found.limit_bytes,
        recompute=0.0,
        micro_batch=run.layout.micro_batch,
    )


def _row(values: object) -> Numbers:
    return np.asarray(values, float)
