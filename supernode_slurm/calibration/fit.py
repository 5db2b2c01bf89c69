"""Constants fitted to runs, each drawn to its prior.

The objective is Huber's loss of the logarithm of predicted over measured time, plus the squared
distance of each constant's logarithm from its prior; Levenberg and Marquardt's steps find its
minimum, within the table's bounds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..planner.case import Numbers
from ..planner.constants import Constants
from ..planner.step import step_of
from ..planner.table import TABLE
from .mixed import predict_mixed
from .predictor import Predictor
from .runs import Run

NOISE = 0.05
"""Standard deviation that a run is taken to have: repeats of one recipe differ by 2 to 9 %."""

HUBER = 1.5
"""In deviations; beyond it a run pulls no harder."""

ROUNDS = 16
FOLDS = 5

Progress = Callable[[str], None]
Times = Callable[[Mapping[str, float]], Numbers]

_MEMORY = ("context_gib", "usable", "reading")
MIXED = ("network_tcp", "peerless_gbs")
"""Constants that only runs on several kinds of devices show; fitted to those, after the others."""

TIMES = tuple(item.name for item in TABLE if item.name not in (*_MEMORY, *MIXED))
"""Constants that decide on the time of runs on one kind."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Values by name, and the error with which unseen runs were predicted."""

    values: dict[str, float]
    trained: Numbers
    """Predicted step times of all runs by these values."""
    unseen: Numbers
    """Predicted step times, each by values that its configuration had no part in."""


class _Problem:
    """Runs, and the constants that may move."""

    def __init__(
        self,
        names: Sequence[str],
        base: Mapping[str, float],
        measured: Numbers,
        times: Times,
        priors: Mapping[str, float] | None = None,
    ) -> None:
        self.items = [item for item in TABLE if item.name in set(names)]
        self.base, self.measured, self.times = dict(base), measured, times
        known = priors or {}
        self.centre = np.log([known.get(item.name, item.prior) for item in self.items])
        self.spread = np.array([item.spread for item in self.items])
        self.low = np.log([item.bounds[0] for item in self.items])
        self.high = np.log([item.bounds[1] for item in self.items])

    def values(self, point: Numbers) -> dict[str, float]:
        """Return all constants at a point."""
        names = (item.name for item in self.items)
        return self.base | dict(zip(names, np.exp(point).tolist(), strict=True))

    def residuals(self, point: Numbers) -> Numbers:
        """Return the runs' errors in deviations."""
        return np.asarray(np.log(self.times(self.values(point)) / self.measured) / NOISE)

    def loss(self, point: Numbers) -> float:
        """Return the objective."""
        size = np.abs(self.residuals(point))
        huber = np.where(size < HUBER, size**2 / 2, HUBER * (size - HUBER / 2))
        return float(huber.sum() + (((point - self.centre) / self.spread) ** 2).sum() / 2)

    def solve(self) -> dict[str, float]:
        """Return all constants at the best point."""
        return self.values(self._best())

    def _best(self) -> Numbers:
        begin = [self.base.get(item.name, item.prior) for item in self.items]
        point = np.clip(np.log(begin), self.low, self.high)
        loss, damping = self.loss(point), 1e-2
        for _ in range(ROUNDS):
            system, slope = self._normal(point)
            for _ in range(8):
                damped = system + damping * np.diag(np.diag(system))
                moved = np.clip(point - np.linalg.solve(damped, slope), self.low, self.high)
                better = self.loss(moved)
                if better < loss:
                    break
                damping *= 4
            else:
                return point
            done = loss - better < 1e-4 * loss
            point, loss, damping = moved, better, max(damping / 4, 1e-6)
            if done:
                break
        return point

    def _normal(self, point: Numbers) -> tuple[Numbers, Numbers]:
        """Return the normal equations with Huber's weights, by finite differences."""
        now = self.residuals(point)
        weights = np.minimum(1.0, HUBER / np.maximum(np.abs(now), 1e-12))
        slopes = np.empty((now.size, point.size))
        for place in range(point.size):
            near = point.copy()
            near[place] += 1e-4
            slopes[:, place] = (self.residuals(near) - now) / 1e-4
        pull = 1 / self.spread**2
        system = slopes.T @ (weights[:, None] * slopes) + np.diag(pull)
        return system, slopes.T @ (weights * now) + (point - self.centre) * pull


def fit(
    predictor: Predictor,
    names: Sequence[str],
    base: Mapping[str, float] | None = None,
    index: NDArray[np.intp] | None = None,
    priors: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the values of the named constants that suit these runs best.

    ``base`` holds the others, and where the search for these begins; without it, at their priors.
    ``priors`` holds other ones than the table's.
    """
    chosen = np.arange(len(predictor.runs)) if index is None else index
    measured = np.array([predictor.runs[place].measured_s or np.nan for place in chosen])
    return _Problem(
        names, base or {}, measured, lambda values: times(predictor, values, chosen), priors
    ).solve()


def fit_mixed(runs: Sequence[Run], base: Mapping[str, float]) -> dict[str, float]:
    """Return the base with the constants that only these runs on several kinds show."""
    measured = np.array([run.measured_s or np.nan for run in runs])
    return _Problem(
        MIXED,
        base,
        measured,
        lambda values: np.array([predict_mixed(run, values).time_s for run in runs]),
    ).solve()


def validated(
    predictor: Predictor,
    names: Sequence[str],
    base: Mapping[str, float] | None = None,
    tell: Progress = lambda _: None,
) -> Fitted:
    """Return the fit to all runs, with each run predicted by a fit that did not see it.

    The runs are dealt into five parts by configuration, so that repeats stay together.
    """
    parts = folds(predictor.runs)
    unseen = np.empty(len(predictor.runs))
    for part in sorted(set(parts.tolist())):
        tell(f"fitting without part {part + 1} of {FOLDS}")
        inside, outside = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        values = fit(predictor, names, base, outside) if outside.size else dict(base or {})
        unseen[inside] = times(predictor, values, inside)
    tell("fitting to all runs")
    values = fit(predictor, names, base)
    return Fitted(values, times(predictor, values), unseen)


def times(
    predictor: Predictor, values: Mapping[str, float], index: NDArray[np.intp] | None = None
) -> Numbers:
    """Return predicted step times."""
    constants = Constants(values)
    return step_of(predictor.case(constants, index), constants).time_s


def folds(runs: Sequence[Run], deal: int = 0) -> NDArray[np.intp]:
    """Return the part of each run, 0 to 4, equal for runs of one configuration."""
    texts = (f"{deal or ''}{run.configuration!r}" for run in runs)
    return np.array([zlib.crc32(text.encode()) % FOLDS for text in texts], np.intp)
