"""Train as replicas through mishaps: ``recover.py FOLDER``.

Every few steps rank 0 writes a checkpoint of parameters, optimiser and consumed samples, and
each start goes on from it, whatever its ranks and shares. MISHAP in the environment is
KIND:RANK:STEP, and happens once:

    slow     the rank tells that it takes long, from that step on
    dead     it is killed
    hung     it never ends the step
    missing  it never begins
    waits    it waits in the step for the file FOLDER/go

Rank 0 appends a line to FOLDER/starts at each start, and writes FOLDER/recovered.npz.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from gpt import GPT, STEPS, AdamW, Lines, count, loss_sum, save
from torch.utils.data import DataLoader

from supernode_slurm.plan import loads
from supernode_slurm.runtime import Balance, Share, ShareSampler, loss_scale, over_torch, share

EVERY = 5
"""Steps from one checkpoint to the next."""


@dataclass(frozen=True)
class Mishap:
    """What goes wrong in this process."""

    kind: str
    rank: int
    step: int
    folder: Path

    def happens(self, rank: int, step: int) -> bool:
        """Return whether it happens here and now, and make sure that it does not again."""
        mark = self.folder / f"{self.kind}.happened"
        if not self.kind or (rank, step) != (self.rank, self.step) or mark.exists():
            return False
        mark.touch()
        return True

    def strike(self) -> None:
        """Let it happen."""
        if self.kind == "dead":
            os.kill(os.getpid(), signal.SIGKILL)
        while self.kind in ("hung", "missing"):
            time.sleep(1)
        while self.kind == "waits" and not (self.folder / "go").exists():
            time.sleep(0.1)


def start(path: Path, mine: Share) -> tuple[GPT, AdamW, ShareSampler]:
    """Return what is trained, as the checkpoint has it where there is one."""
    plan = loads(os.environ["SN_PLAN"])
    model = GPT(sum(stage.layers for stage in plan.pipelines[0].stages))
    stepper = AdamW(model.parameters())
    sampler = ShareSampler(STEPS * mine.global_batch, mine)
    if path.exists():
        held = torch.load(path)
        model.load_state_dict(held["model"])
        stepper.load_state_dict(held["optimizer"])
        sampler.load_state_dict(held["sampler"])
    return model, stepper, sampler


def train(folder: Path, mine: Share, mishap: Mishap) -> GPT:
    """Train to the end from where the last start was."""
    path = folder / "checkpoint"
    model, stepper, sampler = start(path, mine)
    if mine.rank == 0:
        with (folder / "starts").open("a") as stream:
            seen = {"consumed": sampler.consumed, "shares": mine.shares}
            stream.write(json.dumps(seen) + "\n")
    exchange, slower = over_torch(torch), 1.0
    balance = Balance(mine, exchange, every=2)
    loader = DataLoader(Lines(STEPS * mine.global_batch, varied=True), batch_sampler=sampler)
    for parts in sampler.steps(loader):
        if mishap.happens(mine.rank, sampler.step):
            mishap.strike()
            slower = 3.0 if mishap.kind == "slow" else 1.0
        held = [part for part in parts if part is not None]
        tokens = sum(count(targets) for _, targets in held)
        scale = loss_scale(tokens, exchange, averages=False)
        for inputs, targets in held:
            (loss_sum(model(inputs), targets) * scale).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        stepper.step()
        stepper.zero_grad()
        sampler.finish_step()
        # Told, not measured: as long on each rank as its share has it.
        balance.rebalance(slower / mine.samples, 1.0)
        if mine.rank == 0 and sampler.step % EVERY == 0:
            new = path.with_suffix(".new")
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": stepper.state_dict(),
                    "sampler": sampler.state_dict(),
                },
                new,
            )
            new.replace(path)
    return model


def main() -> int:
    """Train as this rank; return the exit code."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    kind, rank, step = (os.environ.get("MISHAP") or ":0:0").split(":")
    mishap = Mishap(kind, int(rank), int(step), folder)
    if kind == "missing" and mishap.happens(int(os.environ["RANK"]), mishap.step):
        mishap.strike()
    mine = share()
    dist.init_process_group("gloo")
    model = train(folder, mine, mishap)
    if mine.rank == 0:
        save(folder / "recovered.npz", model.named_parameters())
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
