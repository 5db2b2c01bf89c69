"""Ranks as threads of one process, with a sum over them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
SumOverRanks = Callable[[list[float]], list[float]]


class Ranks:
    """A sum over the ranks that adds in another order on each of them, as networks may."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count, timeout=30)
        self._sent: list[list[float]] = [[] for _ in range(count)]
        self.exchanges = 0

    def sum_of(self, rank: int) -> SumOverRanks:
        """Return the sum as this rank calls it."""

        def sum_over_ranks(values: list[float]) -> list[float]:
            self._sent[rank] = list(values)
            self._barrier.wait()
            rows = [*self._sent[rank:], *self._sent[:rank]]
            found = [0.0] * len(values)
            for row in rows:
                assert len(row) == len(found)
                found = [one + other for one, other in zip(found, row, strict=True)]
            self.exchanges += rank == 0
            self._barrier.wait()
            return found

        return sum_over_ranks


def run(
    count: int, work: Callable[[int, SumOverRanks], Result], order: Sequence[int] | None = None
) -> list[Result]:
    """Return what each rank's work returned, started in this order."""
    ranks = Ranks(count)
    with ThreadPoolExecutor(count) as pool:
        jobs = {rank: pool.submit(work, rank, ranks.sum_of(rank)) for rank in order or range(count)}
        return [jobs[rank].result(timeout=60) for rank in range(count)]
