"""Train as a pipeline over the plan's meshes: ``stages.py FOLDER``.

Each rank holds the layers that its plan gives it and passes activations by send and receive,
one forward and one backward in turn (1F1B). A mesh passes on as many samples per micro-batch
as its neighbours, whatever their numbers of replicas. Each rank writes FOLDER/rankN.npz with
its parameters and FOLDER/rankN.json with who it is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from gpt import GPT, STEPS, TOKENS, WIDTH, AdamW, Lines, count, loss_sum, order, save
from torch import Tensor

from supernode_slurm.plan import Pipeline, loads
from supernode_slurm.runtime.rank import part_of


@dataclass(frozen=True)
class Place:
    """A stage: its ranks in the order of their replicas, and its layers."""

    ranks: range
    micro_batch: int
    layers: range


def places_of(pipeline: Pipeline) -> list[Place]:
    """Return the stages of a pipeline whose meshes have no tensor parallelism."""
    found, start, layer = [], 0, 0
    for stage in pipeline.stages:
        mesh = pipeline.meshes[stage.mesh]
        if mesh.devices != mesh.pp * mesh.dp:
            raise SystemExit(f"this loop has no TP or CP: {mesh}")
        ranks = range(start, start + mesh.dp)
        found.append(Place(ranks, mesh.micro_batch, range(layer, layer + stage.layers)))
        start, layer = ranks.stop, layer + stage.layers
    return found


class Link:
    """Passes samples between the replicas of two stages."""

    def __init__(self, one: Place, other: Place, replica: int) -> None:
        mine = range(replica * one.micro_batch, (replica + 1) * one.micro_batch)
        self.parts: list[tuple[int, slice]] = []
        for index, rank in enumerate(other.ranks):
            start = max(mine.start, index * other.micro_batch)
            stop = min(mine.stop, (index + 1) * other.micro_batch)
            if start < stop:
                self.parts.append((rank, slice(start - mine.start, stop - mine.start)))
        self._size = one.micro_batch
        self._sent: list[tuple[dist.Work | None, Tensor]] = []

    def send(self, whole: Tensor, tag: int) -> None:
        """Send each neighbour its samples, and do not wait."""
        for rank, part in self.parts:
            piece = whole[part].contiguous()
            self._sent.append((dist.isend(piece, rank, tag=tag), piece))

    def receive(self, tag: int) -> Tensor:
        """Return the samples of all neighbours."""
        whole = torch.empty(self._size, TOKENS, WIDTH, dtype=torch.float64)
        for rank, part in self.parts:
            piece = torch.empty_like(whole[part])
            dist.recv(piece, rank, tag=tag)
            whole[part] = piece
        return whole

    def finish(self) -> None:
        """Wait for what was sent."""
        for work, _ in self._sent:
            if work is not None:
                work.wait()
        self._sent.clear()


class Stage:
    """This rank's layers, and its links to the stages beside it."""

    def __init__(self, pipeline: Pipeline, data: Lines, number: int, replica: int) -> None:
        self._data = data
        places = places_of(pipeline)
        self.place, self.replica = places[number], replica
        self.width = self.place.micro_batch * len(self.place.ranks)
        self.behind = len(places) - number - 1
        layers = sum(stage.layers for stage in pipeline.stages)
        self.model = GPT(layers).keep(self.place.layers, number == 0, self.behind == 0)
        self.before = Link(self.place, places[number - 1], replica) if number else None
        self.after = Link(self.place, places[number + 1], replica) if self.behind else None
        self._held: dict[int, tuple[Tensor, Tensor]] = {}

    def forward(self, batch: Sequence[int], index: int, tokens: int) -> None:
        """Compute a micro-batch and pass it on; the last stage keeps its loss."""
        start = index * self.width + self.replica * self.place.micro_batch
        mine = batch[start : start + self.place.micro_batch]
        inputs, targets = self._data.batch(mine)
        x = inputs if self.before is None else self.before.receive(2 * index)
        if self.before is not None:
            x.requires_grad_()
        out = self.model(x)
        if self.after is None:
            out = loss_sum(out, targets) / tokens
        else:
            self.after.send(out.detach(), 2 * index)
        self._held[index] = x, out

    def backward(self, index: int) -> None:
        """Compute the gradients of a micro-batch and pass them back."""
        x, out = self._held.pop(index)
        out.backward(None if self.after is None else self.after.receive(2 * index + 1))
        if self.before is not None:
            if x.grad is None:
                raise RuntimeError("no gradient for the stage before")
            self.before.send(x.grad, 2 * index + 1)

    def step(self, batch: Sequence[int], tokens: int) -> int:
        """Run the micro-batches of a global batch; return how many were held at most."""
        total = len(batch) // self.width
        ahead, most = min(self.behind + 1, total), 0
        for index in range(total + ahead - 1):
            if index < total:
                self.forward(batch, index, tokens)
                most = max(most, len(self._held))
            if index >= ahead - 1:
                self.backward(index - ahead + 1)
        for link in (self.before, self.after):
            if link is not None:
                link.finish()
        return most


def main() -> int:
    """Train as this rank; return the exit code."""
    torch.set_num_threads(1)
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    plan = loads(os.environ["SN_PLAN"])
    part = part_of(plan, rank)
    if part is None or len(plan.pipelines) != 1:
        raise SystemExit("the job has no plan of one pipeline")
    pipeline = plan.pipelines[0]
    dist.init_process_group("gloo")
    data = Lines(STEPS * plan.global_batch, varied=True)
    first = places_of(pipeline)[part.stage].ranks.start
    stage = Stage(pipeline, data, part.stage, rank - first)
    replicas = [dist.new_group(list(place.ranks)) for place in places_of(pipeline)][part.stage]
    stepper, held = AdamW(stage.model.parameters()), 0
    for batch in order(plan.global_batch):
        held = stage.step(batch, count(data.batch(batch)[1]))
        for parameter in stage.model.parameters():
            dist.all_reduce(parameter.grad, group=replicas)
        stepper.step()
        stepper.zero_grad()
    save(folder / f"rank{rank}.npz", stage.model.named_parameters())
    seen = {
        "rank": rank, "group": os.environ["SN_GROUP"], "stage": part.stage,
        "layers": len(stage.place.layers), "held": held,
    }  # fmt: skip
    (folder / f"rank{rank}.json").write_text(json.dumps(seen))
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
