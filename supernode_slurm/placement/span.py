"""How a group lies over several supernodes, when none can hold it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Parts of a group, each within one domain."""

    together: int
    """Nodes in a row that are sure to share a domain: the segment of topology/block."""
    counts: Mapping[str, int]
    """Nodes from each domain, multiples of ``together``; only where Slurm is told them."""


def span(
    nodes: int, planning_nodes: int, usable: Mapping[str, int], free: Mapping[str, int]
) -> Span:
    """Return the span with the largest equal parts.

    A part divides the number of nodes, fits a planning block, and so many parts fit the
    usable nodes. The domains with most free nodes are filled first. The usable nodes
    together must suffice.
    """
    together = next(
        size
        for size in range(min(nodes, planning_nodes), 0, -1)
        if nodes % size == 0 and sum(n // size for n in usable.values()) >= nodes // size
    )
    counts: dict[str, int] = {}
    left = nodes
    for name in sorted(usable, key=lambda item: (-free[item], item)):
        taken = min(usable[name] // together * together, left)
        if taken:
            counts[name] = taken
            left -= taken
    return Span(together, dict(sorted(counts.items())))
