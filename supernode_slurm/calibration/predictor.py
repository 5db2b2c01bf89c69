"""Predictions of many runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..planner.build import cut_of, dims_of, software_of
from ..planner.case import Case, Cut, Numbers, numbers, stacked, taken
from ..planner.constants import DEFAULT, Constants
from ..planner.memory import Memory, memory_of
from ..planner.rates import rates_of
from ..planner.stacks import Stack, stack_of
from ..planner.step import Step, step_of
from .runs import Run

T = TypeVar("T")

MICRO_BATCHES = (1, 2, 4, 8)
"""Tried for a run that does not print its own."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Of each run: its step, its memory, and the share of layers taken to compute all again."""

    step: Step
    memory: Memory
    reading: Numbers
    limit: Numbers


class Predictor:
    """Runs on one kind of device, ready to be predicted with any constants."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(_closed(run) for run in runs)
        stacks = [stack_of(run.stack) for run in self.runs]
        self.dims = stacked([dims_of(run.workload) for run in self.runs])
        self.cut = stacked([_cut(run, stack) for run, stack in zip(self.runs, stacks, strict=True)])
        keys = [
            (run.offers[0], run.workload.precision, stack)
            for run, stack in zip(self.runs, stacks, strict=True)
        ]
        self._rates, self._rates_of = _unique(keys)
        kinds = [
            (stack, run.workload.precision, bool(run.workload.model.mixture))
            for run, stack in zip(self.runs, stacks, strict=True)
        ]
        self._kinds, self._kind_of = _unique(kinds)
        self._samples = [self.runs[kinds.index(kind)].workload for kind in self._kinds]
        self.cut = self._filled(DEFAULT)

    def case(self, constants: Constants, index: NDArray[np.intp] | None = None) -> Case:
        """Return the case of these runs, or of some of them."""
        rates = stacked(
            [rates_of(offer, text, stack, constants) for offer, text, stack in self._rates]
        )
        software = stacked(
            [
                software_of(work, kind[0], constants)
                for work, kind in zip(self._samples, self._kinds, strict=True)
            ]
        )
        case = Case(
            self.dims, self.cut, taken(rates, self._rates_of), taken(software, self._kind_of)
        )
        if index is None:
            return case
        return Case(
            taken(case.dims, index),
            taken(case.cut, index),
            taken(case.rates, index),
            taken(case.software, index),
        )

    def predict(self, constants: Constants = DEFAULT) -> Predicted:
        """Return what the model says of each run."""
        case = self.case(constants)
        memory = memory_of(case, constants)
        return Predicted(
            step=step_of(case, constants),
            memory=memory,
            reading=memory.reading(case, constants),
            limit=constants.usable * case.rates.memory_bytes,
        )

    def _filled(self, constants: Constants) -> Cut:
        """Return the cuts with the least recomputation that fits, where a run prints none."""
        case = self.case(constants)
        # What a run that failed had computed again nobody can tell.
        opened = np.array([run.open_recompute and not run.failed for run in self.runs])
        limit = constants.usable * case.rates.memory_bytes

        def fits(share: Numbers) -> NDArray[np.bool_]:
            return memory_of(self._with_full(case, share), constants).peak <= limit

        low, high = np.zeros(len(self.runs)), np.ones(len(self.runs))
        enough = fits(low)
        for _ in range(12):
            middle = (low + high) / 2
            there = fits(middle)
            low, high = np.where(there, low, middle), np.where(there, middle, high)
        share = np.where(enough, 0.0, high)
        return replace(self.cut, full=np.where(opened, share, self.cut.full))

    def _with_full(self, case: Case, share: Numbers) -> Case:
        return replace(case, cut=replace(case.cut, full=share))


def _cut(run: Run, stack: Stack) -> Cut:
    cut = cut_of(run.layout, stack)
    share = run.recompute_share
    return cut if share is None else replace(cut, full=numbers(share))


def _closed(run: Run) -> Run:
    """Return the run with the fastest micro-batch that fits, where it prints none."""
    if not run.open_micro_batch:
        return run
    batch = run.workload.global_batch // run.layout.dp
    tried = [size for size in MICRO_BATCHES if batch % size == 0] or [1]
    runs = [
        replace(run, layout=replace(run.layout, micro_batch=size), open_micro_batch=False)
        for size in tried
    ]
    found = Predictor(runs).predict()
    time = np.where(found.memory.peak <= found.limit, found.step.time_s, np.inf)
    return runs[int(np.argmin(time))]


def _unique(keys: Sequence[T]) -> tuple[list[T], NDArray[np.intp]]:
    """Return the keys that differ, and which of them each one is."""
    found: dict[str, int] = {}
    index = [found.setdefault(repr(key), len(found)) for key in keys]
    first = [index.index(number) for number in range(len(found))]
    return [keys[place] for place in first], np.array(index, np.intp)
