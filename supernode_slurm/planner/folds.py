"""Layouts of which the space has one for many: virtual stages, and layers that are recomputed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .case import Numbers
from .space import Sizes, Space
from .workload import RECOMPUTE, Capabilities, Workload

PARTS = 4
"""Of a stage's layers; any number of these parts may be recomputed."""

SOME = 1 << 14
"""Rows that are unfolded at once where they are only counted."""

FULL = RECOMPUTE.index("full")


def unfolded(
    space: Space, workload: Workload, able: Capabilities
) -> tuple[Space, NDArray[np.intp]]:
    """Return all layouts that these rows stand for, and the rows that they come from.

    The further column ``recompute_layers`` counts those of a virtual stage, 0 for all of them.
    """
    columns = space.columns
    counts = most_chunks(space, workload, able) - columns["virtual"] + 1
    rows = np.repeat(np.arange(space.size), counts)
    more = np.arange(rows.size) - np.searchsorted(rows, rows)
    virtual = (columns["virtual"][rows] + more).astype(np.int32)
    chunked = Space({**space.taken(rows).columns, "virtual": virtual})
    found, again = _recomputed(chunked, workload, able)
    return found, rows[again]


def most_chunks(space: Space, workload: Workload, able: Capabilities) -> Sizes:
    """Return the largest number of virtual stages that each row stands for."""
    columns = space.columns
    open_ = workload.fixed.virtual_stages is None and able.uneven_virtual
    if not open_ or "recompute_layers" in columns:
        return columns["virtual"]
    return np.where(columns["virtual"] > 1, workload.model.layers // columns["pp"], 1)


def size(space: Space, workload: Workload, able: Capabilities) -> int:
    """Return the number of layouts that the rows stand for."""
    parts = [np.arange(at, min(at + SOME, space.size)) for at in range(0, space.size, SOME)]
    return sum(unfolded(space.taken(part), workload, able)[0].size for part in parts)


def _recomputed(
    space: Space, workload: Workload, able: Capabilities
) -> tuple[Space, NDArray[np.intp]]:
    """Return the layouts with each number of recomputed layers, and the rows they come from."""
    columns, rows = space.columns, np.arange(space.size)
    full = columns["recompute"] == FULL
    held = -(-workload.model.layers // (columns["pp"] * columns["virtual"]))
    fixed = workload.fixed.recompute_layers
    if fixed is not None or not able.recompute_some:
        layers = np.full(rows.size, fixed or 0, np.int32)
        legal = layers <= held
    else:
        rows = np.repeat(rows, np.where(full, PARTS, 1))
        # The first of each row's copies recomputes all.
        part, held = np.arange(rows.size) - np.searchsorted(rows, rows), held[rows]
        layers = _ceil(part * held).astype(np.int32)
        legal = (part == 0) | ((layers > _ceil((part - 1) * held)) & (layers < held))
    found = Space({**space.taken(rows).columns, "recompute_layers": layers})
    return found.taken(legal), rows[legal]


def share(space: Space, workload: Workload, able: Capabilities) -> Numbers:
    """Return the share of the layers that are recomputed in full, as ``Layout`` has it.

    Where the number of them is open it is less than that of any number.
    """
    columns = space.columns
    full = columns["recompute"] == FULL
    some: Sizes | None = columns.get("recompute_layers")
    if some is None:
        fixed = workload.fixed.recompute_layers
        all_of_them = fixed == 0 or not able.recompute_some
        return np.where(full, 1.0 if all_of_them else 0.0 if fixed else 1 / PARTS, 0.0)
    counted = some * columns["virtual"] * columns["pp"]
    part = np.minimum(counted / workload.model.layers, 1.0)
    return np.where(full, np.where(some > 0, part, 1.0), 0.0)


def _ceil(parts: NDArray[np.integer]) -> NDArray[np.integer]:
    return -(-parts // PARTS)
