"""The time of a device's own work, without waiting for other ranks.

Python 3.8, standard library only; torch where it is passed in.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any, Iterable


class Stopwatch:
    """Sums the time of the forward passes of some modules of torch.

    A forward pass takes a fixed part of a step's work and, unlike the backward pass, can be
    timed apart from the collectives: the time of a module begins when its weights are
    gathered (FSDP), and no gradient is reduced under it. On a device the time is that
    between two events in its queue, read when the step is over: nothing waits for them
    meanwhile. Devices whose module of torch has no timed events, and CPUs, are timed by the
    clock.
    """

    def __init__(self, torch: ModuleType, device: object = "cpu") -> None:
        """Time on a device of torch, or what names one."""
        kind = str(device).partition(":")[0]
        self._event = None if kind == "cpu" else getattr(getattr(torch, kind), "Event", None)
        self._begun: Any = None
        self._spans: list[tuple[Any, Any]] = []

    def around(self, modules: Iterable[Any]) -> None:
        """Time these modules from now on: a model's blocks, after ``fully_shard``.

        One must not contain another.
        """
        for module in modules:
            # FSDP gathers in a hook that comes before, and frees in one that comes after.
            module.register_forward_pre_hook(self._start)
            module.register_forward_hook(self._stop, prepend=True)

    def seconds(self) -> float:
        """Return the time since the last call, and begin anew."""
        spans, self._spans = self._spans, []
        if self._event is None:
            return float(sum(last - first for first, last in spans))
        if spans:
            spans[-1][1].synchronize()
        return float(sum(first.elapsed_time(last) for first, last in spans)) / 1e3

    def _now(self) -> Any:
        if self._event is None:
            return time.perf_counter()
        event = self._event(enable_timing=True)
        event.record()
        return event

    def _start(self, *_: object) -> None:
        self._begun = self._now()

    def _stop(self, *_: object) -> None:
        self._spans.append((self._begun, self._now()))
