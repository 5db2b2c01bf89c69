"""Which layers each virtual stage of a pipeline holds."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import PlanError
from ..plan import Pipeline


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive layers: all of a stage, or those of one of its virtual stages."""

    first: int
    """Index of its first layer in the model."""
    layers: int
    embedding: bool
    head: bool


def chunks(pipeline: Pipeline) -> tuple[Chunk, ...]:
    """Return the chunks in the order in which a micro-batch meets them.

    That is the first of each stage, then the second of each, and so on. A stage's layers are
    spread evenly; what is left over stays clear of the embedding and of the head. Raises
    ``PlanError`` for a stage with fewer layers than chunks.
    """
    rounds, stages = pipeline.virtual_stages, len(pipeline.stages)
    for index, stage in enumerate(pipeline.stages):
        if stage.layers < rounds:
            raise PlanError(
                f"stage {index} has {stage.layers} layers for {rounds} virtual stages; "
                "plan with fewer"
            )
    found: list[Chunk] = []
    first = 0
    for number in range(rounds * stages):
        turn, index = divmod(number, stages)
        stage = pipeline.stages[index]
        # The first stage takes what is left over late, the others early.
        place = rounds - 1 - turn if index == 0 else turn
        layers = (stage.layers + rounds - 1 - place) // rounds
        found.append(Chunk(first, layers, number == 0, number == rounds * stages - 1))
        first += layers
    return tuple(found)
