"""How fast the planner is, beside what other planners need.

    python -m benchmarks.planner [RUNS]

Writes the first table of docs/planning.md on speed: the best plan of two large models on 16,384
cards, H100 in nodes of 8 and GB200 in supernodes of 64. Each search has a process of its own; the
fastest of several runs is shown. Then it prints layouts per second, of the equations alone (time
and memory of layouts from all of the space, evenly split) and of the search, which leaves out what
cannot win. The peers' figures are ours: their programs, run on 2 cores without a GPU.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from supernode_slurm.catalogue import find_accelerator, find_model, platform
from supernode_slurm.frameworks import capabilities
from supernode_slurm.plan import DeviceGroup
from supernode_slurm.planner import Offer, Workload, folds, plan_uniform
from supernode_slurm.planner.answers import KEEP
from supernode_slurm.planner.costs import costs_of
from supernode_slurm.planner.search import CHUNK, Search
from supernode_slurm.sizing import words
from supernode_slurm.sizing.layouts import layout_of

CARDS = 16384
MODELS = {"llama-3.1-405b": (2048, 8192), "deepseek-v3": (15360, 4096)}
"""Sequences per step and tokens per sequence, as their makers trained them."""
NAMES = {
    "llama-3.1-405b": "Llama-3.1-405B",
    "deepseek-v3": "DeepSeek-V3",
    "h100-sxm": "H100",
    "gb200": "GB200",
}
PAGE = Path(__file__).parents[1] / "docs/planning.md"
HEAD = (
    f"| {CARDS:,} cards | plan s | process, CPU s | peak MB | layouts | costed |",
    "|---|---|---|---|---|---|",
)
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


def counted(model: str, card: str) -> tuple[Search, str, str]:
    """Return a search that is done, its number of layouts and how many of them it costed."""
    asked, offer = question(model, card)
    able = capabilities(asked.framework)
    search = Search(asked, offer, able)
    search.best(KEEP)
    return search, f"{folds.size(search.space, asked, able):,}", f"{search.costed:,}"


def equations_s(search: Search, layouts: int) -> float:
    """Return the seconds that time and memory of so many layouts of the space take."""
    cases = search.cases(layouts)
    start = time.perf_counter()
    for case in cases:
        costs_of(case, search.constants)
    return time.perf_counter() - start


def main() -> None:
    """Write the first table, and print it and the others."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(asdict(planned(*sys.argv[2:4]))))
        return
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    table, best, rates = list(HEAD), [], []
    for model, card in product(MODELS, MACHINES):
        found = fresh(model, card, runs)
        search, layouts, costed = counted(model, card)
        name = f"{NAMES[model]}, {NAMES[card]}"
        table.append(
            f"| {name} | {found.plan_s:.2f} | {found.process_s:.2f} | {found.peak_mb:.0f} "
            f"| {layouts} | {costed} |"
        )
        best.append(f"| {name} | {found.best} |")
        some = min(search.space.size, 4 * CHUNK)
        alone = min(equations_s(search, some) for _ in range(runs))
        decided = int(layouts.replace(",", "")) / found.plan_s
        rates.append(f"| {name} | {some / alone:,.0f} | {decided:,.0f} |")
    write(table)
    print(*table, "", "| best plan | |", "|---|---|", *best, sep="\n")
    print("\n| layouts per second | equations alone | decided by the search |\n|---|---|---|")
    print(*rates, sep="\n")
    print("\n| others | |\n|---|---|")
    for other, text in PEERS:
        print(f"| {other} | {text} |")


def write(table: Sequence[str]) -> None:
    """Put the table in its place in docs/planning.md."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEAD[0])
    lines[start : start + len(table)] = table
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
