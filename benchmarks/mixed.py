"""How long the choice among several kinds of cards takes.

    python -m benchmarks.mixed

Four kinds of 512 cards each, 2,048 in all: every strategy's search within one framework, and what
``auto`` tries of them. Each runs in a process of its own; seconds are of its CPU from the question
to the answer, numpy's loading aside, and the peak memory is that of the process. What ``sn plan``
adds, where it plans each change again, has seconds of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Sequence

from supernode_slurm.catalogue import find_model
from supernode_slurm.frameworks import capabilities
from supernode_slurm.inventory import Inventory, loads
from supernode_slurm.placement import Ask, Room, choose, inventory_view
from supernode_slurm.placement.strategy import strategy_words
from supernode_slurm.plan import Plan
from supernode_slurm.sizing import study

CARDS = 512
"""Of each kind."""
KINDS = {"h100-sxm": "h100", "a100-sxm-80g": "a100", "h20": "h20", "a800-sxm-80g": "a800"}
RUNS = (
    ("torch", "llama-3-8b", "auto"),
    ("torch", "llama-3-8b", "hierarchical"),
    ("megatron", "llama-3-70b", "auto"),
    ("flagscale", "llama-3-70b", "auto"),
    ("flagscale", "llama-3-70b", "mixed"),
)
BATCH = 4096


def room() -> Room:
    """Return a room of four pools on one network."""
    pools = "\n".join(
        f"  - name: p{index}\n"
        f"    nodes: {{hosts: 'n{index}-[01-{CARDS // 8}]', devices: {{{card}: 8}}, sockets: 2, "
        "cores: 64, memory: 1000 GiB}"
        for index, card in enumerate(KINDS)
    )
    names = ", ".join(f"p{index}" for index in range(len(KINDS)))
    text = (
        "version: 1\ncluster: c\nslurm: {release: '24.11'}\nfabrics:\n  - name: ib\n"
        "    kind: fat-tree\n    rails: {count: 8, bandwidth: 200 Gb/s}\n"
        f"    switches: {{spine: [leaf], leaf: [{names}]}}\npools:\n{pools}\n"
        f"partitions:\n  main: {{pools: [{names}], default: true}}\n"
    )
    inventory: Inventory = loads(text)
    return Room(inventory, inventory_view(inventory))


def run(framework: str, model: str, strategy: str) -> str:
    """Return one row."""
    place = room()
    ask = Ask(
        cards=tuple((kind, CARDS) for kind in KINDS.values()),
        able=capabilities(framework),
        model=find_model(model),
        global_batch=BATCH,
        strategy=strategy,
    )
    import numpy  # noqa: F401  (its loading is no planning)

    start = time.process_time()
    best = choose(place, ask)[0]
    took = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    study(place, ask, 5)
    whole = time.process_time() - start
    said = strategy_words(best.compared)[0] if best.compared else ""
    cells = (
        framework,
        model,
        strategy,
        f"{took:.2f}",
        f"{whole:.1f}",
        f"{peak:.0f}",
        _step(best.plan),
        said,
    )
    return f"| {' | '.join(cells)} |"


def _step(plan: Plan) -> str:
    return f"{plan.predicted.step_time_s:.2f}" if plan.predicted else "-"


def main(words: Sequence[str]) -> None:
    """Print one row for each run."""
    if words:
        print(run(*words))
        return
    print(f"{len(KINDS)} kinds x {CARDS} cards, a batch of {BATCH}")
    print("| framework | model | strategy | CPU s | sn plan, CPU s | peak MB | step s |")
    for row in RUNS:
        subprocess.run([sys.executable, "-m", "benchmarks.mixed", *row], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
