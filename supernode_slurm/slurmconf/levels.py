"""The levels at which blocks aggregate, such that ordinary sizes of jobs find a place.

Rules from Slurm's source (topology/block, eval_nodes_block.c), the same from 24.05 to 26.05:
a job is placed within one aggregate of the lowest level that could hold it if all blocks were
there, over as few aggregates of the next lower level as whole ones would need. So a level that
no aggregate fills refuses jobs that the site could run, and without a level that covers all
blocks the last ones are forgotten. Seen on 24.11 and 26.05: with three blocks of 8 nodes and
BlockSizes=7,14 sbatch refuses every job of more than 16 nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

MAX_LEVEL = 15
"""Largest exponent of two between a level and the base."""
ORDINARY = 0.75
"""Of all nodes: larger jobs are rare, and --segment places them whatever the levels."""

Held = Sequence[int]
"""Nodes that a kind of job can have in each block, in the order of the file."""


def top_level(blocks: int) -> int:
    """Return the lowest level at which all of so many blocks are one aggregate."""
    return min((blocks - 1).bit_length(), MAX_LEVEL)


def choose_levels(base: int, kinds: Sequence[Held], highest: int) -> list[int]:
    """Return the levels to write: the lowest, the top, and between those that refuse no job.

    ``highest`` is the highest level below the top that may be used at all.
    """
    top = top_level(max(map(len, kinds)))
    levels = sorted({0, top})
    for level in range(1, min(highest + 1, top)):
        tried = sorted({*levels, level})
        refused = [(first_refused(base, held, tried), sum(held)) for held in kinds]
        if all(size is None or size > ORDINARY * total for size, total in refused):
            levels = tried
    return levels


def first_refused(base: int, held: Held, levels: Sequence[int]) -> int | None:
    """Return the smallest job that finds no place although there are nodes, None if all do."""
    total = sum(held)
    if max(held) < min(base, total):
        return max(held) + 1
    for below, level in pairwise(levels):
        first, last = (base << below) + 1, min(total, base << level)
        size = _first_refused(base, held, (below, level), range(first, last + 1))
        if size is not None:
            return size
    return None


def refuses(base: int, held: Held, levels: Sequence[int], size: int) -> bool:
    """Tell whether a job of so many nodes finds no place in blocks with these levels."""
    level = (-(-size // base) - 1).bit_length()
    above = next((known for known in levels if known >= level), None)
    below = max((known for known in levels if known < level), default=None)
    if above is None:
        # Seen on 26.05: three blocks of two nodes, sizes 1, 2 and 4, and no place for six nodes.
        return bool(len(held) & (len(held) - 1)) and size > base << levels[-1]
    if below is None:
        return size > max(held)
    return _first_refused(base, held, (below, above), range(size, size + 1)) is not None


def _first_refused(base: int, held: Held, levels: tuple[int, int], sizes: range) -> int | None:
    """Return the first of some sizes that fits into no aggregate of a level."""
    below, level = levels
    lower = [sum(held[start : start + (1 << below)]) for start in range(0, len(held), 1 << below)]
    width = 1 << (level - below)
    fits = (
        accumulate(sorted(lower[start : start + width], reverse=True), initial=0)
        for start in range(0, len(lower), width)
    )
    # Nodes of the best aggregate, by how many of its parts a job may use.
    best = [0] * (min(width, len(lower)) + 1)
    for sums in fits:
        most = 0
        for count in range(len(best)):
            most = next(sums, most)
            best[count] = max(best[count], most)
    unit = base << below
    for count in range(-(-sizes.start // unit), -(-(sizes.stop - 1) // unit) + 1):
        most = best[min(count, len(best) - 1)]
        if most < min(sizes.stop - 1, count * unit):
            return max(most + 1, sizes.start, (count - 1) * unit + 1)
    return None
