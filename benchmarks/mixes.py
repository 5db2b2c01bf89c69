"""What several kinds of cards bring to one job: plans on the mixed example room.

    python -m benchmarks.mixes

Each row is ``sn plan --strategy auto`` for a model, a framework and cards of
topology_conf/inventories/mixed.yaml. The gain is over the fastest single kind under the same
framework; shares are of what all kinds would reach with a job each, and of the bound
(docs/planning.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from supernode_slurm.placement import Choice, Compared, choose
from supernode_slurm.plan import Mesh, Pipeline, Plan
from tests.test_sizing import ask_of, room_of


@dataclass(frozen=True, slots=True)
class Row:
    """What is asked."""

    model: str
    framework: str
    cards: str
    global_batch: int
    train: str = "full"

    def taken(self) -> tuple[Choice, Compared]:
        """Return the best plan, and how it compares."""
        room = room_of("mixed")
        said = {name: getattr(self, name) for name in self.__slots__}
        best = choose(room, ask_of(room.inventory, **said))[0]
        if best.compared is None:
            raise ValueError(f"{self.cards}: one kind of cards")
        return best, best.compared


TWO, THREE = "h100:8,a100:8", "h100:8,a100:8,ascend-910c:8"
ROWS = (
    Row("llama-2-7b", "torch", TWO, 96),
    Row("llama-2-7b", "torch", "h100:16,a100:8", 256),
    Row("llama-2-7b", "torch", "h100:16,a100:8", 32),
    Row("llama-2-7b", "megatron", TWO, 96),
    Row("llama-2-7b", "flagscale", THREE, 96),
    Row("llama-2-13b", "torch", TWO, 96, "lora"),
    Row("llama-2-13b", "megatron", TWO, 96, "lora"),
    Row("llama-2-13b", "flagscale", THREE, 96, "lora"),
    Row("llama-2-13b", "hf", TWO, 96, "lora"),
    Row("llama-2-70b", "megatron", "h100:32,a100:32", 256),
    Row("llama-2-70b", "torchtitan", "h100:32,a100:32", 256),
    Row("llama-2-70b", "megatron", "h100:64,a100:8", 512),
    Row("llama-2-70b", "flagscale", "h100:64,a100:32,ascend-910c:32", 512),
    Row("mixtral-8x7b", "megatron", "h100:32,a100:16", 256),
    Row("mixtral-8x7b", "megatron", "h100:32,a100:8", 256),
    Row("qwen3-30b-a3b", "megatron", "h100:16,a100:16", 256),
    Row("qwen3-30b-a3b", "flagscale", "h100:16,a100:16,ascend-910c:16", 256),
)
HEAD = (
    "| model | framework | cards | batch | strategy | plan | step s | GiB | gain | of the sum "
    "| of the bound |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)


def row(asked: Row) -> str:
    """Return one row of the table."""
    best, compared = asked.taken()
    predicted = best.plan.predicted
    memory = predicted.memory_gib if predicted else ()
    lora = " LoRA" if asked.train == "lora" else ""
    alone = compared.best_alone_samples_s
    cells = (
        asked.model + lora,
        asked.framework,
        asked.cards.replace(",", ", "),
        str(asked.global_batch),
        compared.taken,
        "; ".join([plan_words(best.plan), *_dropped(compared)]),
        f"{compared.step_s:.2f}",
        " + ".join(f"{gib:.0f}" for gib in memory),
        f"{compared.samples_s / alone - 1:+.0%}" if alone and len(best.plan.groups) > 1 else "-",
        f"{compared.samples_s / compared.sum_alone_samples_s:.0%}",
        f"{compared.samples_s / compared.bound_samples_s:.0%}" if compared.bound_samples_s else "-",
    )
    return f"| {' | '.join(cells)} |"


def plan_words(plan: Plan) -> str:
    """Return the samples or the layers of each kind, in the order of the ranks."""
    if len(plan.groups) == 1:
        return f"{plan.groups[0].name} alone"
    if len(plan.pipelines) > 1:
        kinds = (f"{_name(plan, item.meshes[0])} {item.samples}" for item in plan.pipelines)
        return f"samples: {', '.join(kinds)}"
    return f"layers: {', '.join(_stages(plan, plan.pipelines[0]))}"


def _stages(plan: Plan, pipeline: Pipeline) -> Iterator[str]:
    for index, mesh in enumerate(pipeline.meshes):
        held = [str(stage.layers) for stage in pipeline.stages if stage.mesh == index]
        cut = f"TP {mesh.tp}, EP {mesh.ep}" if mesh.ep > 1 else f"TP {mesh.tp}"
        yield f"{_name(plan, mesh)} {'+'.join(held)} ({cut})"


def _name(plan: Plan, mesh: Mesh) -> str:
    return plan.groups[mesh.group].name


def _dropped(compared: Compared) -> Iterator[str]:
    for item in compared.dropped:
        name = item.group.partition(" ")[0]
        yield (
            f"{name} dropped: {item.with_s:.2f} s with it"
            if item.with_s
            else f"no plan with {name}"
        )


def main() -> None:
    """Print the table."""
    print(*HEAD, sep="\n")
    for asked in ROWS:
        print(row(asked), flush=True)


if __name__ == "__main__":
    main()
