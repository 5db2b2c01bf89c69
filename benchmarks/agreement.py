"""How often what the planner finds over several kinds of cards is what trying everything finds.

    python -m benchmarks.agreement

Small random cases, the same in each run; tests/brute.py tries everything. Two results agree where
they differ by 1e-9 of their value at most, or where neither is there. Jobs of which trying
everything would take long are passed over. How far the worst missed is printed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.planner import chain, plan_mixed
from supernode_slurm.planner.hybrid import _best_deal
from supernode_slurm.planner.split import StageLoad, split_layers, split_samples
from supernode_slurm.planner.whole import better_split
from tests import brute

CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Case:
    """Seconds that the search found, and the least there are; infinite where there are none."""

    found: float
    least: float

    @property
    def miss(self) -> float:
        """Return the share by which the found is longer, negative where it cannot be true."""
        if self.found == self.least:
            return 0.0
        return self.found / self.least - 1

    @property
    def agrees(self) -> bool:
        """Return whether both are the same."""
        return abs(self.miss) <= CLOSE


def layers(draw: random.Random) -> Case:
    """Deal layers to two to four stages."""
    stages = [
        StageLoad(
            draw.choice([0.0, 0.5, 1.0, 3.0]), draw.choice([0.25, 1.0, 1.5, 2.0, 7.0]),
            draw.randint(0, 9),
        )
        for _ in range(draw.randint(2, 4))
    ]  # fmt: skip
    total, micro_batches = draw.randint(2, 10), draw.choice([1, 2, 3, 8, 50])
    legal = {
        split: brute.pipeline_s(split, stages, micro_batches)
        for split in brute.layers_over(stages, total)
    }
    return _case(split_layers(total, stages, micro_batches), legal)


def wholes(draw: random.Random) -> Case:
    """Deal layers such that the step is shortest, beginning with any split."""
    legal: dict[brute.Split, float] = {}
    while not legal:
        stages = brute.drawn_wholes(draw, draw.choice([2, 3, 4]))
        total = draw.choice([5, 8, 10])
        legal = brute.wholes_over(stages, total)
    return _case(better_split(total, stages, draw.choice(list(legal)), math.inf), legal)


def samples(draw: random.Random) -> Case:
    """Deal samples to one to three kinds of replicas."""
    kinds = [
        (draw.randint(1, 3), brute.rising([draw.randint(0, 4) for _ in range(draw.randint(1, 3))]))
        for _ in range(draw.randint(1, 3))
    ]
    total = draw.randint(1, 14)
    legal = {split: brute.slowest_s(split, kinds) for split in brute.samples_over(kinds, total)}
    return _case(split_samples(total, *zip(*kinds, strict=True)), legal)


def _case(split: Sequence[int] | None, legal: dict[brute.Split, float]) -> Case:
    found = math.inf if split is None else legal.get(tuple(split), math.nan)
    return Case(found, min(legal.values(), default=math.inf))


def sharded(draw: random.Random) -> Case:
    """Deal samples and micro-steps to replicas with sharded weights."""
    counts, batch = (draw.randint(1, 3), draw.randint(1, 3)), draw.randint(5, 24)
    kinds = brute.sharded_kinds(batch, counts)
    deal = _best_deal(kinds, batch, sum(counts))
    return Case(deal.end_s if deal else math.inf, brute.sharded_deal_s(kinds, batch))


def replicas(draw: random.Random) -> Case:
    """Plan a job as replicas; computation alone decides."""
    counts, batch = (draw.randint(1, 3), draw.randint(1, 3)), draw.randint(6, 24)
    asked, offers = brute.replicas_job(batch, counts)
    found = plan_mixed(asked, offers, capabilities("torch"))[0].predicted
    least = brute.replicas_compute_s(batch, counts)
    return Case(found.breakdown_s["compute"] if found else math.inf, least)


def jobs(kinds: int, experts: bool, chunked: bool = False) -> Iterator[Case]:
    """Plan jobs as stages, of meshes and splits in any order.

    ``chunked``: of frameworks with virtual stages.
    """
    for seed in count():
        job = brute.drawn_job(seed, kinds, experts, chunked)
        if not brute.is_small(*job):
            continue
        try:
            found = chain.chain_plans(*job, keep=1)[0].predicted
        except PlanError:
            found = None
        yield Case(found.step_time_s if found else math.inf, brute.fastest_s(*job))


def _drawn(case: Callable[[random.Random], Case]) -> Iterator[Case]:
    draw = random.Random(1)
    while True:
        yield case(draw)


ROWS: tuple[tuple[str, int, Callable[[], Iterator[Case]]], ...] = (
    ("layers over stages, the shortest pipeline", 3000, partial(_drawn, layers)),
    ("layers over stages, the shortest step", 1000, partial(_drawn, wholes)),
    ("samples over replicas", 3000, partial(_drawn, samples)),
    ("samples and micro-steps over sharded replicas", 100, partial(_drawn, sharded)),
    ("plans as replicas, two kinds", 100, partial(_drawn, replicas)),
    ("plans as stages, two kinds", 150, partial(jobs, 2, False)),
    ("the same, of mixtures of experts", 60, partial(jobs, 2, True)),
    ("plans with virtual stages, two kinds", 150, partial(jobs, 2, False, True)),
    ("the same, of mixtures of experts", 100, partial(jobs, 2, True, True)),
    ("plans as stages, three kinds", 60, partial(jobs, 3, False)),
    ("the same, with virtual stages", 100, partial(jobs, 3, False, True)),
    ("plans as stages, four kinds", 30, partial(jobs, 4, False)),
    ("the same, with virtual stages", 30, partial(jobs, 4, False, True)),
)


def row(name: str, cases: Sequence[Case]) -> str:
    """Return how many cases agree, in how many nothing is possible, and the worst miss."""
    agree = sum(case.agrees for case in cases)
    none = sum(case.least == math.inf for case in cases)
    worst = max((abs(case.miss) for case in cases if not case.agrees), default=0.0)
    return f"| {name} | {agree} of {len(cases)} | {none} | {worst:.1%} |"


def main() -> None:
    """Print one row for each kind of case."""
    print("| random cases | agree | of these impossible | worst miss |")
    print("|---|---|---|---|")
    for name, most, cases in ROWS:
        print(row(name, list(islice(cases(), most))), flush=True)


if __name__ == "__main__":
    main()
