"""Splits of layers that pay after the pipeline what they lose in it.

The split of the fastest slowest stage is not always the fastest: one with a slower stage may sum
fewer gradients at the end, or update fewer parameters on its fullest device. All splits that can
win by this are costed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .case import Case, Numbers, numbers, taken_cases
from .constants import Constants
from .costs import costs_of
from .layer import Layers
from .memory import Stage, params_of
from .stages import Loads, Split, splits_below
from .step import sync_s

AT_ONCE = 1 << 15
"""Splits that are costed together."""


@dataclass(frozen=True, slots=True)
class Pipelines:
    """Pipelines with the split found for each, and their step times."""

    case: Case
    layers: Layers
    loads: Loads
    split: Split
    time_s: Numbers


def refined(
    found: Pipelines, constants: Constants, limit_s: float, memory_bytes: float
) -> tuple[Numbers, Split]:
    """Return the step time and the split of each, the fastest of all that fit.

    Pipelines that cannot become faster than the limit keep what they have.
    """
    case, split = found.case, found.split
    ends = _limits(found, constants, np.minimum(found.time_s, limit_s))
    rows, others = splits_below(*ends)
    time = found.time_s.copy()
    held = [split.first.copy(), split.second.copy(), split.last.copy()]
    for start in range(0, rows.size, AT_ONCE):
        some = slice(start, start + AT_ONCE)
        row = rows[some]
        new = (others.first[some], others.second[some], others.last[some])
        cut = taken_cases(case, row).cut
        cut = replace(cut, first=new[0], second=new[1], last=new[2])
        costs = costs_of(
            replace(case, cut=cut), constants, found.layers.taken(row, found.time_s.size)
        )
        spent = np.where(costs.memory.peak <= memory_bytes, costs.step.time_s, np.inf)
        for place in _fastest(row, spent):
            if spent[place] < time[row[place]]:
                time[row[place]] = spent[place]
                for layers, values in zip(held, new, strict=True):
                    layers[row[place]] = values[place]
    return time, Split(held[0], held[1], held[2], split.legal)


def _limits(found: Pipelines, constants: Constants, best_s: Numbers) -> tuple[Loads, Numbers]:
    """Return what each part of a stage adds to the step at least, and the most that wins."""
    case, loads = found.case, found.loads
    cut = case.cut
    count = case.dims.global_batch / (cut.dp * cut.micro_batch)
    full = count - 1 / cut.virtual
    added = replace(
        loads,
        dense_s=full * loads.dense_s + _update_s(case, constants, 1.0),
        layer_s=full * loads.layer_s + _update_s(case, constants, 0.0),
        first_s=full * loads.first_s,
        last_s=full * loads.last_s,
        middle_s=full * loads.middle_s,
    )
    limit = best_s - loads.whole_s / cut.virtual - constants.step_s
    return added, limit


def _update_s(case: Case, constants: Constants, dense: float) -> Numbers:
    """Return the optimiser's time for one layer."""
    mixed = np.where(case.dims.experts > 0, 1 - dense, 0.0)
    none = np.zeros(())
    stage = Stage(1 - mixed, mixed, none, none, np.ones(()))
    return sync_s(case, constants, params_of(case), (stage, none, numbers(1)))[1]


def _fastest(row: NDArray[np.intp], time_s: Numbers) -> NDArray[np.intp]:
    """Return the place of the fastest of each row's."""
    order = np.lexsort((time_s, row))
    first = np.ones(order.size, np.bool_)
    first[1:] = row[order][1:] != row[order][:-1]
    return order[first]
