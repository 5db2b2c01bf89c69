"""Train as replicas on unequal shares: ``replicas.py FOLDER RUN...``.

A run is DDP or FSDP2, on sequences of one length or of unlike lengths. Rank 0 writes the
parameters of each as FOLDER/RUN.npz, each rank FOLDER/rankN.json with who it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from gpt import GPT, NO_TARGET, STEPS, TOKENS, Lines, count, loss_sum, optimizer, save
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from supernode_slurm.plan import loads
from supernode_slurm.runtime import Share, ShareSampler, loss_scale, over_torch, share

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


RUNS = {
    "ddp": Run(),
    "ddp-varied": Run(varied=True),
    "fsdp-varied": Run(sharded=True, varied=True),
    # Four micro-steps for three samples: one is empty.
    "fsdp-sum": Run(sharded=True, varied=True, summed=True, shares=(13, 3)),
    "unweighted": Run(weighted=False),
}


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


def unsynchronised(model: nn.Module, is_last: bool) -> contextlib.AbstractContextManager[None]:
    """Return what keeps gradients on this rank but for the last micro-step."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(is_last)
        return contextlib.nullcontext()
    return contextlib.nullcontext() if is_last else model.no_sync()


def train(run: Run, mine: Share, layers: int) -> nn.Module:
    """Train on this rank's samples of every global batch."""
    model, exchange = GPT(layers), over_torch(torch)
    # The small model would fit any micro-batch; the plan's would make one micro-step.
    sizes = (MICRO_BATCH,) * len(mine.shares)
    mine = replace(mine, micro_batch=MICRO_BATCH, micro_batches=sizes)
    if run.shares:
        mine = mine.with_shares(run.shares)
    outer, stepper = wrapped(model, run), optimizer(model.parameters())
    data = Lines(STEPS * mine.global_batch, run.varied)
    # FSDP2 gathers weights in every micro-step: all ranks need as many.
    sampler = ShareSampler(len(data), mine, equal_steps=run.sharded)
    loader = DataLoader(data, batch_sampler=sampler)
    nothing = data[0][0][None], torch.full((1, TOKENS), NO_TARGET)
    for parts in sampler.steps(loader):
        tokens = sum(count(part[1]) for part in parts if part is not None)
        scale = loss_scale(tokens, exchange, averages=not run.summed)
        if not run.weighted:
            scale = 1 / tokens
        for index, part in enumerate(parts):
            inputs, targets = nothing if part is None else part
            with unsynchronised(outer, index == len(parts) - 1):
                (loss_sum(outer(inputs), targets) * scale).backward()
        stepper.step()
        stepper.zero_grad()
        sampler.finish_step()
    return model


def main() -> int:
    """Train each run as this rank; return the exit code."""
    torch.set_num_threads(1)
    folder, mine = Path(sys.argv[1]), share()
    plan = loads(os.environ["SN_PLAN"])
    layers = sum(stage.layers for stage in plan.pipelines[0].stages)
    dist.init_process_group("gloo")
    for name in sys.argv[2:]:
        model = train(RUNS[name], mine, layers)
        whole = [
            (key, value.full_tensor() if isinstance(value, DTensor) else value)
            for key, value in model.named_parameters()
        ]
        if mine.rank == 0:
            save(folder / f"{name}.npz", whole)
    seen = {"rank": mine.rank, "group": mine.group, "samples": mine.samples, "offset": mine.offset}
    (folder / f"rank{mine.rank}.json").write_text(json.dumps(seen))
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
