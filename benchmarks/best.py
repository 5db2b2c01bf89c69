"""The fastest of several runs: the others waited for the machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def best(work: Callable[[], object], runs: int = 5) -> float:
    """Return the seconds of the fastest of several runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
