"""Train as replicas on unequal shares: ``replicas.py FOLDER RUN...``.

A run is DDP or FSDP2, on sequences of one length or of unlike lengths. Rank 0 writes the
parameters of each as FOLDER/RUN.npz, each rank FOLDER/rankN.json with who it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from gpt import (
    BETAS,
    DECAY,
    EPSILON,
    GPT,
    NO_TARGET,
    RATE,
    STEPS,
    TOKENS,
    Lines,
    count,
    loss_sum,
    save,
)
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from supernode_slurm.plan import loads
from supernode_slurm.runtime import Balance, Share, ShareSampler, loss_scale, over_torch, share

MICRO_BATCH = 4


@dataclass(frozen=True)
class Run:
    """One way to train."""

    sharded: bool = False
    """By FSDP2, else by DDP."""
    varied: bool = False
    """Sequences of unlike lengths."""
    summed: bool = False
    """The framework sums gradients, where it would average them."""
    weighted: bool = True
    """By tokens; else the mean of the ranks' means, which is wrong."""
    shares: tuple[int, ...] = ()
    """Others than the plan's."""
    equal: bool = False
    """Equal shares, whatever the plan's."""
    follows: bool = False
    """Shares follow the time that a sample takes."""
    paced: bool = False
    """Sleeps for each sample, longer on slower cards; the seconds of each step are written."""


RUNS = {
    "ddp": Run(),
    "ddp-varied": Run(varied=True),
    "fsdp-varied": Run(sharded=True, varied=True),
    # Four micro-steps for three samples: one is empty.
    "fsdp-sum": Run(sharded=True, varied=True, summed=True, shares=(13, 3)),
    "unweighted": Run(weighted=False),
    "followed": Run(varied=True, equal=True, follows=True),
    "paced": Run(paced=True),
    "paced-equal": Run(equal=True, paced=True),
    "paced-followed": Run(equal=True, follows=True, paced=True),
}


SLOWER = {"h100": 1.0, "a100": 2.0}
"""How many times as long a sample takes on a card."""
PACE_S = 0.03
"""Sleep for a sample on the fastest card."""


class Pace:
    """The seconds that a rank works: told for the proof, slept and measured for the benchmark."""

    def __init__(self, run: Run, mine: Share) -> None:
        self._is_real, self._slower = run.paced, SLOWER[mine.group]
        self._begun = time.monotonic()
        self.steps: list[float] = []

    def work(self, samples: int) -> float:
        """Sleep for the samples of a step that were just computed; return its seconds so far."""
        if not self._is_real:
            return samples * self._slower
        time.sleep(samples * self._slower * PACE_S)
        return time.monotonic() - self._begun

    def end(self) -> None:
        """Note the end of a step."""
        now = time.monotonic()
        self.steps.append(now - self._begun)
        self._begun = now


def wrapped(model: GPT, run: Run) -> nn.Module:
    """Return a model as its framework wants it."""
    if not run.sharded:
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks.values():
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if run.summed:
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
    return model


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Return torch's own optimiser; one process has the same written out."""
    return torch.optim.AdamW(
        model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY
    )


def unsynchronised(model: nn.Module, is_last: bool) -> contextlib.AbstractContextManager[None]:
    """Return what keeps gradients on this rank but for the last micro-step."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(is_last)
        return contextlib.nullcontext()
    return contextlib.nullcontext() if is_last else model.no_sync()


def shared(run: Run, mine: Share) -> Share:
    """Return this rank's share in a run."""
    replicas = len(mine.shares)
    # The small model would fit any micro-batch; the plan's would make one micro-step.
    mine = replace(mine, micro_batch=MICRO_BATCH, micro_batches=(MICRO_BATCH,) * replicas)
    if run.equal:
        mine = mine.with_shares([mine.global_batch // replicas] * replicas)
    return mine.with_shares(run.shares) if run.shares else mine


def train(run: Run, mine: Share, layers: int) -> tuple[nn.Module, ShareSampler, Pace]:
    """Train on this rank's samples of every global batch."""
    model, exchange = GPT(layers), over_torch(torch)
    outer, stepper = wrapped(model, run), optimizer(model)
    data = Lines(STEPS * mine.global_batch, run.varied)
    # FSDP2 gathers weights in every micro-step: all ranks need as many.
    sampler = ShareSampler(len(data), mine, equal_steps=run.sharded)
    loader = DataLoader(data, batch_sampler=sampler)
    balance, pace = Balance(mine, exchange), Pace(run, mine)
    nothing = data[0][0][None], torch.full((1, TOKENS), NO_TARGET)
    for parts in sampler.steps(loader):
        held = [part for part in parts if part is not None]
        tokens, size = sum(count(part[1]) for part in held), sum(len(part[0]) for part in held)
        scale = loss_scale(tokens, exchange, averages=not run.summed)
        if not run.weighted:
            scale = 1 / tokens
        seconds = pace.work(size)
        for index, part in enumerate(parts):
            inputs, targets = nothing if part is None else part
            with unsynchronised(outer, index == len(parts) - 1):
                (loss_sum(outer(inputs), targets) * scale).backward()
        stepper.step()
        stepper.zero_grad()
        sampler.finish_step()
        shares = balance.rebalance(seconds, size) if run.follows else None
        if shares is not None:
            sampler.set_shares(shares, sampler.first_open_step(exchange))
        pace.end()
    return model, sampler, pace


def main() -> int:
    """Train each run as this rank; return the exit code."""
    torch.set_num_threads(1)
    folder, mine = Path(sys.argv[1]), share()
    plan = loads(os.environ["SN_PLAN"])
    layers = sum(stage.layers for stage in plan.pipelines[0].stages)
    dist.init_process_group("gloo")
    ended: dict[str, tuple[int, ...]] = {}
    for name in sys.argv[2:]:
        model, sampler, pace = train(RUNS[name], shared(RUNS[name], mine), layers)
        ended[name] = sampler.shares
        whole = [
            (key, value.full_tensor() if isinstance(value, DTensor) else value)
            for key, value in model.named_parameters()
        ]
        if mine.rank == 0:
            save(folder / f"{name}.npz", whole)
            (folder / f"{name}.seconds").write_text(json.dumps(pace.steps))
    seen = {
        "rank": mine.rank, "group": mine.group, "samples": mine.samples, "offset": mine.offset,
        "ended": ended,
    }  # fmt: skip
    (folder / f"rank{mine.rank}.json").write_text(json.dumps(seen))
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
