"""How fast the planner is, beside what other planners need.

    python -m benchmarks.planner [RUNS]

The best plan of two large models on 16,384 cards: H100 in nodes of 8, and GB200 in supernodes of
64. Each search has a process of its own; the fastest of several runs is shown. Then layouts per
second, of the equations alone (time and memory of every layout of the space, evenly split) and of
the search, which leaves out what cannot win. The peers' figures are ours: their programs, run on
2 cores without a GPU.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np

from supernode_slurm.catalogue import find_accelerator, find_model, platform
from supernode_slurm.frameworks import capabilities
from supernode_slurm.plan import DeviceGroup
from supernode_slurm.planner import Offer, Workload, plan_uniform
from supernode_slurm.planner.costs import costs_of
from supernode_slurm.planner.search import CHUNK, Search
from supernode_slurm.planner.uniform import KEEP
from supernode_slurm.sizing import words
from supernode_slurm.sizing.layouts import layout_of

CARDS = 16384
MODELS = {"llama-3.1-405b": (2048, 8192), "deepseek-v3": (15360, 4096)}
"""Sequences per step and tokens per sequence, as their makers trained them."""
MACHINES = {"h100-sxm": (8, 1), "gb200": (4, 16)}
"""Devices per node, and nodes per scale-up fabric."""

PEERS = (
    ("calculon caa4b11", "505 layouts/s: 1.98 ms each; 290,624 of them for 22B on 8 cards"),
    ("the same", "175B on 384 cards: not finished after 500 s"),
    ("Metis 4b24046", "500 plans for 16 cards in 0.6 s: 833 plans/s"),
    ("AMP 72eeea4", "17 of its 53 layouts in 560 s"),
    ("Galvatron cea12ff", "7B on 8 cards, one batch: not finished after 120 s"),
)


@dataclass(frozen=True)
class Measured:
    """One process: what it planned, and what that took."""

    best: str
    plan_s: float
    """From the question to the plans, numpy's loading aside."""
    process_s: float
    """CPU of the process until then: Python, catalogue, numpy."""
    peak_mb: float


def question(model: str, card: str) -> tuple[Workload, Offer]:
    """Return a training on all cards of a machine."""
    batch, sequence = MODELS[model]
    per_node, domain = MACHINES[card]
    found = find_accelerator(card)
    variables = platform(found.vendor).visible_env
    nodes = CARDS // per_node
    group = DeviceGroup(
        card, found.id, found.vendor, variables, "gpu", f"n[1-{nodes}]", nodes, per_node
    )
    offer = Offer(group, found, domain, found.scale_up_gbs or 0.0, 500, 50.0 * per_node, per_node)
    return Workload(find_model(model), sequence, batch), offer


def planned(model: str, card: str) -> Measured:
    """Plan in this process."""
    asked, offer = question(model, card)
    start = time.perf_counter()
    best = plan_uniform(asked, offer, capabilities(asked.framework))[0]
    taken = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Measured(
        words(layout_of(best.pipelines[0])),
        taken,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss * 1024 / 1e6,
    )


def fresh(model: str, card: str, runs: int) -> Measured:
    """Plan in processes of their own; return the fastest."""
    argv = [sys.executable, "-m", "benchmarks.planner", "--one", model, card]
    found = [
        Measured(**json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout))
        for _ in range(runs)
    ]
    return min(found, key=lambda item: item.plan_s)


def equations_s(search: Search, layouts: int) -> float:
    """Return the seconds that time and memory of so many layouts of the space take."""
    places = np.linspace(0, search.space.size - 1, layouts).astype(np.intp)
    spaces = [search.space.taken(places[at : at + CHUNK]) for at in range(0, layouts, CHUNK)]
    cases = [search._case(space, search._even(space)) for space in spaces]
    start = time.perf_counter()
    for case in cases:
        costs_of(case, search.constants)
    return time.perf_counter() - start


def main() -> None:
    """Print the tables."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(asdict(planned(*sys.argv[2:4]))))
        return
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"| {CARDS:,} cards | plan s | process, CPU s | peak MB | layouts | costed | best |")
    print("|---|---|---|---|---|---|---|")
    rates = []
    for model in MODELS:
        for card in MACHINES:
            found = fresh(model, card, runs)
            asked, offer = question(model, card)
            search = Search(asked, offer, capabilities(asked.framework))
            size = search.space.size
            search.best(KEEP)
            print(
                f"| {model}, {card} | {found.plan_s:.2f} | {found.process_s:.2f} "
                f"| {found.peak_mb:.0f} | {size:,} | {search.costed:,} | {found.best} |"
            )
            alone = min(equations_s(search, min(size, 4 * CHUNK)) for _ in range(runs))
            rates.append((f"{model}, {card}", min(size, 4 * CHUNK) / alone, size / found.plan_s))
    print("\n| layouts per second | equations alone | decided by the search |\n|---|---|---|")
    for name, alone, decided in rates:
        print(f"| {name} | {alone:,.0f} | {decided:,.0f} |")
    print("\n| others | |\n|---|---|")
    for name, text in PEERS:
        print(f"| {name} | {text} |")


if __name__ == "__main__":
    main()
