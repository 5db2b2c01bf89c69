"""Step time and memory of a pipeline over several meshes, put together from its stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .case import numbers
from .memory import held_of
from .mesh import MeshCost
from .step import PARTS


@dataclass(frozen=True, slots=True)
class Held:
    """The layers of one stage that repeat, and whether it is the first and the last."""

    cost: MeshCost
    layers: int
    ends: tuple[bool, bool]

    @property
    def compute_s(self) -> float:
        """Return its computation of one micro-batch."""
        return self._sum("compute_s")

    @property
    def tp_s(self) -> float:
        """Return its tensor-parallel traffic of one micro-batch."""
        return self._sum("tp_s")

    @property
    def ep_s(self) -> float:
        """Return its expert-parallel traffic of one micro-batch."""
        return self._sum("ep_s")

    def _sum(self, name: str) -> float:
        cost, (first, last) = self.cost, self.ends
        found: float = self.layers * getattr(cost.layer, name)
        found += getattr(cost.embedding, name) if first else 0.0
        return found + (getattr(cost.head, name) if last else 0.0)


@dataclass(frozen=True, slots=True)
class Chain:
    """Stages in order, and each one's transfers per micro-batch."""

    stages: tuple[Held, ...]
    p2p_s: tuple[float, ...]
    micro_batches: float
    tied_s: float = 0.0
    """To sum the gradients of a tied table."""
    virtual: int = 1
    """Virtual stages of each stage."""

    def breakdown_s(self) -> dict[str, float]:
        """Return where the step goes; the sum is the step time.

        The slowest stage computes without a pause while the pipeline is full; what the
        others add when it fills and drains is the bubble, and interleaving divides it. A faster
        stage sums its gradients
        while the slowest still computes; the optimiser waits for the norm of all of them.
        """
        count = self.micro_batches
        times = [
            stage.compute_s + stage.tp_s + stage.ep_s + p2p
            for stage, p2p in zip(self.stages, self.p2p_s, strict=True)
        ]
        slow = max(range(len(times)), key=times.__getitem__)
        found: dict[tuple[int, int, tuple[bool, bool]], tuple[float, float]] = {}
        ends, updates = [], []
        for stage, time in zip(self.stages, times, strict=True):
            key = (id(stage.cost), stage.layers, stage.ends)
            if key not in found:
                found[key] = stage.cost.sync_s(stage.layers, stage.ends, time, count)
            sync, update = found[key]
            ends.append(count * time + sync)
            updates.append(update)
        constants = self.stages[0].cost.constants
        return dict.fromkeys(PARTS, 0.0) | {
            "compute": count * self.stages[slow].compute_s,
            "tp": count * self.stages[slow].tp_s,
            "ep": count * self.stages[slow].ep_s,
            "pp": count * self.p2p_s[slow],
            "bubble": (sum(times) - times[slow]) / self.virtual,
            "dp": max(ends) - count * times[slow] + self.tied_s,
            "optimizer": max(updates) + constants.step_s,
        }

    def memory_bytes(self) -> list[float]:
        """Return the peak memory of one device of each stage."""
        held = held_batches(len(self.stages), self.micro_batches, self.virtual)
        return [
            stage.cost.stage_bytes(stage.layers, stage.ends, batches)
            for stage, batches in zip(self.stages, held, strict=True)
        ]


def held_batches(stages: int, micro_batches: float, virtual: int) -> list[float]:
    """Return of how many micro-batches each stage holds the activations at its peak."""
    left = np.arange(stages, 0, -1.0)
    found = held_of(numbers(micro_batches), numbers(stages), left, numbers(virtual))
    return [float(batches) for batches in found]
