"""Train as replicas through mishaps: ``recover.py FOLDER``.

Every few steps rank 0 writes a checkpoint of parameters, optimiser and consumed samples, and
each start goes on from it, whatever its ranks and shares. MISHAP in the environment is
KIND:RANK:STEP, and happens once:

    slow     the rank takes long for the step
    dead     it is killed
    hung     it never ends the step
    missing  it never comes to the meeting
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
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from gpt import GPT, STEPS, AdamW, Lines, count, loss_sum, save
from torch.utils.data import DataLoader

from supernode_slurm.plan import loads
from supernode_slurm.runtime import Share, ShareSampler, loss_scale, over_torch, share

EVERY = 5
"""Steps from one checkpoint to the next."""
PATIENCE = timedelta(seconds=float(os.environ.get("PATIENCE_S", "6")))


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
        elif self.kind == "slow":
            time.sleep(PATIENCE.total_seconds() / 2)
        while self.kind in ("hung", "missing"):
            time.sleep(1)
        while self.kind == "waits" and not (self.folder / "go").exists():
            time.sleep(0.1)


def meet(mine: Share) -> None:
    """Meet the other ranks; rank 0 names those that do not come."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(
        host, port, mine.world_size, mine.rank == 0, timeout=PATIENCE * 3, wait_for_workers=False
    )
    store.set(f"here {mine.rank}", "")
    if mine.rank == 0:
        missing, deadline = (
            list(range(mine.world_size)),
            time.monotonic() + 2 * PATIENCE.total_seconds(),
        )
        while missing and time.monotonic() < deadline:
            time.sleep(0.05)
            missing = [rank for rank in missing if not store.check([f"here {rank}"])]
        if missing:
            raise SystemExit(f"no word from rank {', '.join(map(str, missing))}")
    dist.init_process_group("gloo", store=store, rank=mine.rank, world_size=mine.world_size)


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
    exchange = over_torch(torch)
    loader = DataLoader(Lines(STEPS * mine.global_batch, varied=True), batch_sampler=sampler)
    for parts in sampler.steps(loader):
        if mishap.happens(mine.rank, sampler.step):
            mishap.strike()
        # Names the ranks that do not come, where a collective would only wait.
        dist.monitored_barrier(timeout=PATIENCE, wait_all_ranks=True)
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
    folder, mine = Path(sys.argv[1]), share()
    kind, rank, step = (os.environ.get("MISHAP") or ":0:0").split(":")
    mishap = Mishap(kind, int(rank), int(step), folder)
    if kind == "missing" and mishap.happens(mine.rank, mishap.step):
        mishap.strike()
    meet(mine)
    model = train(folder, mine, mishap)
    if mine.rank == 0:
        save(folder / "recovered.npz", model.named_parameters())
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
