"""How far the planner's predictions are from published training runs.

    python -m benchmarks.accuracy [RUNS.yaml] [--rows] [--plot FILE.svg] [--fit]

Every error is that of a fit which has not seen the run's configuration: the constants are fitted
five times, each time without a fifth of the configurations (``supernode_slurm.calibration.fit``).
How they are dealt into fifths moves the error of small groups by a point or more, so that it is
done for three deals and the mean is shown.
``--fit`` prints the values of all constants as fitted to all fair runs, those of
``supernode_slurm/planner/table.py``. The runs stand in ``benchmarks/published.yaml``, each with
its source. It takes about a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.readings import memory, parts
from benchmarks.scored import RUNS, fair, given, of, table
from supernode_slurm.calibration.document import read_runs
from supernode_slurm.calibration.fit import TIMES, fit, fit_mixed, folds, times
from supernode_slurm.calibration.judge import Order, judge, order
from supernode_slurm.calibration.predictor import Predictor
from supernode_slurm.calibration.runs import Run
from supernode_slurm.planner import trust
from supernode_slurm.planner.costs import model_operations
from supernode_slurm.planner.table import TABLE

DEALS = 3

LINES: tuple[tuple[str, Callable[[Run], bool], float, float], ...] = (
    ("all fair runs", lambda run: True, 8.5, 7),
    (
        "SC21, Korthikanti, MegaScale",
        lambda run: bool(of(run, "SC21", "Korthikanti", "MegaScale")),
        5,
        3.5,
    ),
    ("llm-foundry, A100", lambda run: bool(of(run, "foundry")) and _card(run, "a100"), 6, 5),
    ("llm-foundry, H100", lambda run: bool(of(run, "foundry")) and _card(run, "h100"), 5, 4),
    ("torchtitan", lambda run: bool(of(run, "torchtitan")), 12, 9),
    (
        "Megatron-Bridge, dense",
        lambda run: bool(of(run, "Megatron-Bridge")) and not run.workload.model.mixture,
        8,
        6,
    ),
    ("mixtures of experts", lambda run: bool(run.workload.model.mixture), 16, 13),
    ("Ascend 910B", lambda run: _card(run, "ascend"), 13, 11),
)
"""Name, runs, and the mean error that must and should be reached, in percent."""


@dataclass(frozen=True)
class Evaluated:
    """Fair runs, and their step times by fits that did not see them."""

    predictor: Predictor
    """Of those on one kind of device."""
    unseen: NDArray[np.float64]
    """A row for each deal."""
    trained: NDArray[np.float64]
    values: dict[str, float]
    mixed: list[Run]
    mixed_unseen: NDArray[np.float64]
    """Of those on several kinds, a row for each deal."""
    measured: NDArray[np.float64]
    mixed_measured: NDArray[np.float64]

    @property
    def off(self) -> NDArray[np.float64]:
        """Return predicted over measured time, less 1, in the mean of the deals."""
        return np.asarray((self.unseen / self.measured - 1).mean(axis=0))

    @property
    def mixed_off(self) -> NDArray[np.float64]:
        """Return the same of runs on several kinds of cards."""
        return np.asarray((self.mixed_unseen / self.mixed_measured - 1).mean(axis=0))

    @property
    def mixed_size(self) -> NDArray[np.float64]:
        """Return the size of that, in the mean of the deals."""
        return np.asarray(np.abs(self.mixed_unseen / self.mixed_measured - 1).mean(axis=0))

    @property
    def size(self) -> NDArray[np.float64]:
        """Return the size of that, in the mean of the deals."""
        return np.asarray(np.abs(self.unseen / self.measured - 1).mean(axis=0))


def main(argv: Sequence[str]) -> int:
    """Print the tables."""
    words = [word for word in argv[1:] if not word.startswith("-")]
    plot = words.pop() if "--plot" in argv else ""
    document = read_runs(Path(words[0]) if words else RUNS)
    runs = given(document)
    done = evaluate(runs)
    for text in (
        required(done),
        by_source(done),
        by_card(done),
        one_source_out(done),
        memory(runs),
        parts(document),
        largest(done, 400 if "--rows" in argv else 12),
        peers(done),
    ):
        print(text, end="\n\n")
    if "--fit" in argv:
        for name, value in done.values.items():
            print(f"{name}: {value:.4g}")
    if plot:
        from benchmarks.residuals import drawn

        Path(plot).write_text(drawn(points(done)), encoding="utf-8")
    return 0


def evaluate(runs: Sequence[Run]) -> Evaluated:
    """Fit without each part of the configurations, and once to all."""
    plain = [run for run in runs if fair(run) and not run.mixed]
    mixed = [run for run in runs if fair(run) and run.mixed]
    predictor, unseen = Predictor(plain), np.empty((DEALS, len(plain)))
    for deal in range(DEALS):
        for inside, outside in dealt(plain, deal):
            found = fit(predictor, TIMES, None, outside)
            unseen[deal, inside] = times(predictor, found, inside)
    values = fit(predictor, TIMES)
    measured = np.array([run.measured_s for run in plain], float)
    return Evaluated(
        predictor,
        unseen,
        trained=times(predictor, values),
        values=fit_mixed(mixed, values),
        mixed=mixed,
        mixed_unseen=unseen_mixed(mixed, values),
        measured=measured,
        mixed_measured=np.array([run.measured_s for run in mixed], float),
    )


def dealt(runs: Sequence[Run], deal: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return for each part the runs in it and the others."""
    parts = folds(runs, deal)
    return [(np.flatnonzero(parts == it), np.flatnonzero(parts != it)) for it in np.unique(parts)]


def unseen_mixed(runs: Sequence[Run], base: Mapping[str, float]) -> NDArray[np.float64]:
    """Return the step times of runs on several kinds of cards, a row for each deal."""
    found = np.empty((DEALS, len(runs)))
    for deal in range(DEALS):
        for inside, outside in dealt(runs, deal):
            values = fit_mixed([runs[place] for place in outside], base)
            judged = judge([runs[place] for place in inside], values)
            found[deal, inside] = [item.step_time_s for item in judged]
    return found


def required(done: Evaluated) -> str:
    """Return what was asked of the model, and what it reaches."""
    ranked = orders(done)
    regret = float(np.mean([item.regret for item in ranked]))
    worst = max(item.worst for item in ranked)
    right = float(np.mean([item.right for item in ranked]))
    size, deals = done.size, np.abs(done.unseen / done.measured - 1)
    rows = [
        ["regret, mean", "2 %", "1 %", f"{regret:.1%}", f"{ranked[0].groups} jobs"],
        ["regret, worst job of any deal", "10 %", "5 %", f"{worst:.1%}", ""],
        ["pairs in the right order", "90 %", "94 %", f"{right:.1%}", f"{ranked[0].pairs} pairs"],
    ]
    for name, belongs, must, goal in LINES:
        chosen = np.array([belongs(run) for run in done.predictor.runs])
        shown = f"{size[chosen].mean():.1%} ({np.median(size[chosen]):.1%})"
        each = deals[:, chosen].mean(axis=1)
        spread = f"{chosen.sum()} runs; by deal {each.min():.1%} to {each.max():.1%}"
        rows.append([name, f"{must} %", f"{goal} %", shown, spread])
    mixed = done.mixed_size
    shown = f"{mixed.mean():.1%} ({np.median(mixed):.1%})"
    rows.append(["several kinds of cards", "10 %", "8 %", shown, f"{mixed.size} runs"])
    trained = np.abs(done.trained / done.measured - 1)
    ratio = size.mean() / trained.mean()
    rows.append(
        ["unseen over seen error", "1.35", "", f"{ratio:.2f}", f"seen {trained.mean():.1%}"]
    )
    rows.append(["nobody says which software it was", "", "", f"{software_untold(done):.1%}", ""])
    near = neighbours(done).mean()
    times_worse = f"{near / size.mean():.1f} x"
    rows.append(["MFU of the nearest run instead", "", "", f"{near:.1%}", times_worse])
    return table(["", "must", "goal", "reached: mean (median)", ""], rows)


def orders(done: Evaluated) -> list[Order]:
    """Return for each deal how well layouts of one job are ranked, mixed cards among them."""
    runs = [*done.predictor.runs, *done.mixed]
    return [order(runs, unseen.tolist()) for unseen in np.hstack([done.unseen, done.mixed_unseen])]


def by_source(done: Evaluated) -> str:
    """Return the errors by source."""
    return _scored(done, lambda run: run.source)


def by_card(done: Evaluated) -> str:
    """Return the errors by kind of run: ``planner.trust.PUBLISHED``."""
    return _scored(done, lambda run: ", ".join(kindof(run)))


def kindof(run: Run) -> trust.Kind:
    """Return what ``planner.trust`` tells runs apart by."""
    work = run.workload
    return trust.kind_of(work.model, run.offers[0].accelerator, run.stack, work.precision)


def trusted(done: Evaluated) -> dict[trust.Kind, tuple[int, float]]:
    """Return by kind of run how many there are, and their mean error."""
    groups: dict[trust.Kind, list[float]] = {}
    for run, size in zip(done.predictor.runs, done.size.tolist(), strict=True):
        groups.setdefault(kindof(run), []).append(size)
    return {
        key: (len(found), round(float(np.mean(found)), 3)) for key, found in sorted(groups.items())
    }


def one_source_out(done: Evaluated) -> str:
    """Return the error of each source by a fit to all others.

    Some priors were found on runs of the table. In the last column they are what one would assume
    without them, so that nothing of the source is in the fit.
    """
    neutral = {item.name: item.neutral for item in TABLE if item.neutral is not None}
    start = done.values | {name: value for name, value in neutral.items() if name in TIMES}
    names = np.array([_system(run) for run in done.predictor.runs])
    rows, means = [], []
    for name in sorted(set(names.tolist())):
        inside, outside = np.flatnonzero(names == name), np.flatnonzero(names != name)
        fits = (
            fit(done.predictor, TIMES, done.values, outside),
            fit(done.predictor, TIMES, start, outside, neutral),
        )
        found = [times(done.predictor, values, inside) for values in fits]
        sizes = [float(np.abs(one / done.measured[inside] - 1).mean()) for one in found]
        means.append(sizes)
        rows.append([name, str(inside.size), *(f"{size:.1%}" for size in sizes)])
    both = (f"{mean:.1%}" for mean in np.mean(means, axis=0))
    rows.append(["mean over sources (must 18 %, goal 14 %)", "", *both])
    return table(["source left out of the fit", "runs", "its error", "neutral priors"], rows)


def software_untold(done: Evaluated) -> float:
    """Return the mean error where nobody says which software a run had."""
    blind = Predictor([replace(run, stack="") for run in done.predictor.runs])
    return float(np.abs(times(blind, done.values) / done.measured - 1).mean())


def largest(done: Evaluated, most: int) -> str:
    """Return the runs that are predicted worst."""
    runs = [*done.predictor.runs, *done.mixed]
    measured = np.concatenate([done.measured, done.mixed_measured])
    off = np.concatenate([done.off, done.mixed_off])
    rows = [
        [
            runs[place].id,
            f"{measured[place]:.3f}",
            f"{measured[place] * (1 + off[place]):.3f}",
            f"{off[place]:+.1%}",
        ]
        for place in np.argsort(-np.abs(off))[:most]
    ]
    return table(["run", "measured s", "predicted s", "error"], rows)


SEVERAL = "several kinds"
PEERS = (
    (
        "calculon caa4b11",
        "Korthikanti table 5, which its A100 file was tuned on: 9",
        "4.5 %",
        "Kort",
    ),
    ("calculon caa4b11", "SC21 table 1: 10", "10.3 %", "SC21) Table 1"),
    ("calculon caa4b11", "MegaScale's of Megatron-LM: 8", "7.5 %", "MegaScale"),
    ("llm-analysis d841e40, efficiency 0.5", "SC21 table 1: 10", "46.4 %", "SC21) Table 1"),
    ("llm-analysis d841e40, efficiency 0.5", "llm-foundry, H100: 6", "13.2 %", "H100 80GB BF16"),
    ("Sailor cf2c8e3, profiles of these very machines", "GH200: 25", "8.4 to 10.1 %", "Sailor"),
    ("Metis 4b24046 (Sailor's port), the same profiles", "GH200: 25", "11.0 to 12.0 %", "Sailor"),
    ("AMP 72eeea4", "its own trials on V100 and T4: 43", "49.4 %", SEVERAL),
)
"""Tool, its runs, its mean error on them, and what those runs' source is called here."""


def peers(done: Evaluated) -> str:
    """Return what other tools reached on such runs, beside this model on the same sources."""
    rows = []
    for tool, runs, error, source in PEERS:
        chosen = [source in run.source for run in done.predictor.runs]
        size = done.mixed_size if source == SEVERAL else done.size[chosen]
        rows.append([tool, runs, error, f"{size.mean():.1%} of {size.size}"])
    return table(["tool (revision)", "its runs", "its mean error", "here"], rows)


def neighbours(done: Evaluated) -> NDArray[np.float64]:
    """Return the errors of a plain rule: each run has the MFU of the one most like it.

    Alike are runs of other configurations on the same card: first by kind of model, then by
    the distance of sizes and layout in logarithms.
    """
    runs = done.predictor.runs
    work = np.array([model_operations(run.workload) for run in runs])
    peak = np.array(
        [
            run.offers[0].devices * 1e12 * (run.offers[0].accelerator.peak_tflops("fp16") or 1.0)
            for run in runs
        ]
    )
    rate = work / done.measured / peak
    marks = np.array([_marks(run) for run in runs])
    kinds = [(kindof(run)[:2], run.workload.precision) for run in runs]
    off = np.empty(len(runs))
    for place, run in enumerate(runs):
        away = np.abs(marks - marks[place]).sum(axis=1)
        for other, one in enumerate(runs):
            if one.configuration == run.configuration:
                away[other] = np.inf
            elif kinds[other] != kinds[place]:
                away[other] += 1e3 if kinds[other][0][1] == kinds[place][0][1] else 1e6
        off[place] = (
            work[place] / peak[place] / rate[int(np.argmin(away))] / done.measured[place] - 1
        )
    return np.abs(off)


def points(done: Evaluated) -> list[tuple[str, float, float]]:
    """Return for each run its system, its measured and its predicted seconds."""
    return [
        (_system(run), float(measured), float(measured * (1 + off)))
        for run, measured, off in zip(done.predictor.runs, done.measured, done.off, strict=True)
    ]


def _scored(done: Evaluated, name: Callable[[Run], str]) -> str:
    names = np.array([name(run) for run in done.predictor.runs])
    rows = []
    for one in (*sorted(set(names.tolist())), "all"):
        chosen = (names == one) | (one == "all")
        size, off = done.size[chosen], done.off[chosen]
        shares = (size.mean(), np.median(size), size.max())
        shown = (f"{share:.1%}" for share in shares)
        rows.append([one, str(size.size), *shown, f"{off.mean():+.1%}"])
    return table(["", "runs", "mean", "median", "largest", "bias"], rows)


def _marks(run: Run) -> list[float]:
    model, cut = run.workload.model, run.layout
    sizes = (model.layers, model.hidden, run.workload.sequence, cut.micro_batch)
    return [float(np.log(size)) for size in (*sizes, cut.tp, cut.pp, cut.dp, cut.cp, cut.ep)]


def _system(run: Run) -> str:
    found = of(run, "Megatron-Bridge", "MoE Model Zoo", "torchtitan", "ModelLink", "Sailor", "AMP")
    if found:
        return found
    if of(run, "foundry"):
        return "llm-foundry H100" if _card(run, "h100") else "llm-foundry A100"
    return of(run, "MegaScale", "FlagPerf") or "SC21, Korthikanti"


def _card(run: Run, name: str) -> bool:
    return name in run.offers[0].accelerator.id


if __name__ == "__main__":
    sys.exit(main(sys.argv))
