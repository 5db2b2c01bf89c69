"""A site's own constants: those that its runs can tell, fitted and written beside the inventory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError
from ..inventory.calibration import FILE, Compared
from ..planner import kind_of
from ..planner.constants import SITE, Constants
from ..planner.table import TABLE
from .fit import Progress, times, validated
from .predictor import Predictor
from .runs import Run

LEAST_RUNS = 4
"""Fewer runs than these say nothing of runs that were not seen."""

TELLS = 0.005
"""A constant is fitted if changing it by a tenth changes a run's time by as much."""


@dataclass(frozen=True, slots=True)
class SiteFit:
    """Constants fitted to a site's runs, and whether they help."""

    constants: dict[str, float]
    before: dict[str, float]
    runs: int
    compared: tuple[Compared, ...]
    """The runs by kind of model, card and precision."""
    error_before: float
    """Mean of |predicted / measured - 1| with the constants as they are."""
    error_after: float
    """The same, each run predicted by a fit that its configuration had no part in."""

    doubt: float
    """Standard error of the difference between the two."""

    @property
    def helps(self) -> bool:
        """Tell whether unseen runs are predicted better than before, beyond chance."""
        return self.error_before - self.error_after > self.doubt


def fit_site(runs: Sequence[Run], tell: Progress = lambda _: None) -> SiteFit:
    """Return the constants that suit a site's runs; raises ``PlanError`` for too few of them."""
    usable = [run for run in runs if run.measured_s and not run.failed and not run.mixed]
    configurations = {repr(run.configuration) for run in usable}
    if len(configurations) < LEAST_RUNS:
        raise PlanError(
            f"{len(configurations)} different timed runs on one kind of device: too few to fit; "
            f"{LEAST_RUNS} at least, of several sizes and layouts"
        )
    predictor = Predictor(usable)
    measured = np.array([run.measured_s for run in predictor.runs], float)
    names = _told(predictor)
    before = times(predictor, {})
    fitted = validated(predictor, names, None, tell)
    off = np.abs(fitted.unseen / measured - 1)
    gained = np.abs(before / measured - 1) - off
    return SiteFit(
        constants={name: fitted.values[name] for name in names},
        before={name: Constants().named(name) for name in names},
        runs=len(usable),
        compared=_compared(predictor.runs, off),
        error_before=float(np.abs(before / measured - 1).mean()),
        error_after=float(off.mean()),
        doubt=float(gained.std(ddof=1) / np.sqrt(gained.size)),
    )


def text_of(fit: SiteFit, runs: str) -> str:
    """Return ``calibration.yaml``."""
    sources = {item.name: item for item in TABLE}
    lines = [
        f"# Written by sn calibrate --fit from {runs}: what this site's runs made of the cost",
        "# model's constants. The planner reads it beside the inventory; remove it to go back.",
        f"runs: {fit.runs}",
        f"error: {fit.error_after:.4f}  # of unseen runs; {fit.error_before:.4f} before",
        "# By kind of model, card and precision; for other cards the catalogue's constants hold.",
        "compared:",
    ]
    for item in fit.compared:
        lines.append(
            f"- {{model: {item.model}, accelerator: {item.accelerator}, bits: {item.bits}, "
            f"runs: {item.runs}, error: {item.error:.4f}}}"
        )
    lines.append("constants:")
    for name, value in fit.constants.items():
        unit = sources[name].unit
        shown = "" if unit == "1" else f" {unit},"
        lines.append(f"  {name}: {value:.5g}  #{shown} was {fit.before[name]:.4g}")
    return "\n".join(lines) + "\n"


def _compared(runs: Sequence[Run], off: NDArray[np.float64]) -> tuple[Compared, ...]:
    kinds: dict[tuple[str, str, str], list[float]] = {}
    for run, error in zip(runs, off.tolist(), strict=True):
        card, work = run.offers[0].accelerator, run.workload
        model, accelerator, _, bits = kind_of(work.model, card, run.stack, work.precision)
        kinds.setdefault((model, accelerator, bits), []).append(error)
    return tuple(
        Compared(*kind, len(errors), sum(errors) / len(errors))
        for kind, errors in sorted(kinds.items())
    )


def place_of(inventory: Path) -> Path:
    """Return where an inventory's calibration stands."""
    return inventory.parent / FILE


def _told(predictor: Predictor) -> list[str]:
    """Return the site's constants that these runs can tell."""
    now = times(predictor, {})
    found = []
    for name in SITE:
        moved = times(predictor, {name: Constants().named(name) * 1.1})
        if float(np.max(np.abs(moved / now - 1))) > TELLS:
            found.append(name)
    return found
