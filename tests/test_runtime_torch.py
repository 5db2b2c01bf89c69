"""The loops of docs/training.md run with torch as they stand there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supernode_slurm.runtime import Stopwatch, over_torch

ROOT = Path(__file__).resolve().parents[1]
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed here"
)

YOURS = """
import os, torch
STEPS, device = int(os.environ["STEPS"]), "cpu"
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

class Data(torch.utils.data.Dataset):
    # The last targets of a sample do not count.
    def __len__(self):
        return 60
    def __getitem__(self, index):
        inputs = torch.arange(12.0).reshape(4, 3).add(index).sin()
        return inputs, inputs.cumsum(0), torch.arange(4) <= index % 4

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(3))
    def forward(self, x):
        for block in self.blocks:
            x = block(x).tanh() + x
        return x

def tokens_of(batch):
    return int(batch[2].sum())

def loss_sum(model, batch):
    inputs, targets, counts = batch
    return ((model(inputs) - targets).square().sum(-1) * counts).sum()
"""
BEGIN = """
import os
from types import SimpleNamespace
from supernode_slurm.runtime import stopwatch

# A clock that ticks when it is read, three times as fast on rank 1.
ticks = iter(range(0, 10**9, 1 + 2 * int(os.environ["RANK"])))
stopwatch.time = SimpleNamespace(perf_counter=lambda: next(ticks))
"""
END = """
import json
whole = lambda p: p.full_tensor() if hasattr(p, "full_tensor") else p
numbers = [n for p in model.parameters() for n in whole(p).detach().flatten().tolist()]
print(json.dumps([numbers, sampler.state_dict(), balance.shares]))
torch.distributed.destroy_process_group()
"""


def loop(name: str) -> str:
    """Return a loop of the document."""
    text = (ROOT / "docs" / "training.md").read_text("utf-8")
    found = re.search(rf"<!-- loop {name} -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert found is not None
    return "\n".join(line[4:] for line in found[1].splitlines())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def train(folder: Path, name: str, shares: list[int], steps: int = 12) -> list[Any]:
    """Return parameters, sampler's state and last shares of each rank."""
    (folder / "yours.py").write_text(YOURS)
    (folder / f"{name}.py").write_text(BEGIN + loop(name) + END)
    port = free_port()
    ranks = []
    for rank, samples in enumerate(shares):
        given = {
            "RANK": rank, "WORLD_SIZE": len(shares), "LOCAL_RANK": rank, "MASTER_PORT": port,
            "MASTER_ADDR": "127.0.0.1", "SN_GROUP": "h100", "SN_ACCELERATOR": "h100-sxm",
            "SN_SAMPLES": samples, "SN_SAMPLE_OFFSET": sum(shares[:rank]), "SN_REPLICA": rank,
            "SN_GLOBAL_BATCH": sum(shares), "SN_MICRO_BATCH": 2, "SN_REBALANCE": 1,
            "SN_SHARES": ",".join(f"{share}x1" for share in shares),
            "SN_MICRO_BATCHES": f"2x{len(shares)}", "PYTHONPATH": ROOT, "STEPS": steps,
            "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        ranks.append(
            subprocess.Popen(
                [sys.executable, f"{name}.py"], cwd=folder, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
                env={**os.environ, **{key: str(value) for key, value in given.items()}},
            )
        )  # fmt: skip
    try:
        ended = [process.communicate(timeout=120) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0] * len(shares), ended[0][1]
    return [json.loads(stdout) for stdout, _ in ended]


@needs_torch
@pytest.mark.parametrize(("name", "shares"), [("ddp", [5, 3]), ("fsdp", [3, 5])])
def test_a_loop_of_the_document_trains_as_one_process_does(
    tmp_path: Path, name: str, shares: list[int]
) -> None:
    (tmp_path / "one").mkdir()
    ((alone, state, _),) = train(tmp_path / "one", "ddp", [8])
    assert (state["step"], state["epoch"]) == (12, 1)
    found = train(tmp_path, name, shares)
    for numbers, other, _ in found:
        # Double precision: 12 steps of sums in another order, parameters below 2.
        assert numbers == pytest.approx(alone, abs=1e-11)
        assert other == state
    # They changed on the way, to the same on both ranks.
    assert found[0][2] == found[1][2] != shares


@needs_torch
def test_a_loop_goes_on_from_its_checkpoint_with_other_shares(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    ((alone, state, _),) = train(tmp_path / "one", "ddp", [8], 15)
    train(tmp_path / "two", "ddp", [5, 3], 13)
    ((numbers, other, _), _) = train(tmp_path / "two", "ddp", [2, 6], 15)
    assert other == state
    assert numbers == pytest.approx(alone, abs=1e-11)


@pytest.mark.parametrize(
    ("backends", "device"),
    [
        ("cpu:gloo,cuda:nccl", "cpu"),
        ("cpu:gloo", "cpu"),
        ("cuda:nccl", "cuda"),
        ("cpu:nccl,cuda:nccl", "cuda"),
        ("npu:hccl", "npu"),
    ],
)
def test_sums_travel_on_the_cpu_where_the_group_can(backends: str, device: str) -> None:
    made: list[tuple[list[float], str, str]] = []

    def tensor(values: list[float], dtype: str, device: str) -> SimpleNamespace:
        made.append((values, dtype, device))
        return SimpleNamespace(tolist=lambda: [2 * value for value in values])

    torch: Any = SimpleNamespace(
        tensor=tensor,
        float64="float64",
        distributed=SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            get_backend_config=lambda group: backends,
            all_reduce=lambda sums, group: None,
        ),
    )
    assert over_torch(torch)([1.0, 2.0]) == [2.0, 4.0]
    assert made == [([1.0, 2.0], "float64", device)]
    over_torch(torch, device="mlu:1", dtype="float32")([1.0])
    assert made[1:] == [([1.0], "float32", "mlu:1")]


def test_one_process_is_its_own_sum() -> None:
    distributed = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
    torch: Any = SimpleNamespace(distributed=distributed)
    assert over_torch(torch)([1.0, 2.0]) == [1.0, 2.0]


class Block:
    """A module of torch as far as hooks go; it takes some milliseconds of a device's queue."""

    def __init__(self, device: dict[str, float], milliseconds: float) -> None:
        self._device, self._milliseconds = device, milliseconds
        self._before: list[Any] = []
        self._after: list[Any] = []

    def register_forward_pre_hook(self, hook: Any) -> None:
        self._before.append(hook)

    def register_forward_hook(self, hook: Any, prepend: bool) -> None:
        assert prepend
        self._after.append(hook)

    def __call__(self) -> None:
        for hook in self._before:
            hook(self, ())
        self._device["now"] += self._milliseconds
        for hook in self._after:
            hook(self, (), None)
        self._device["now"] += 1000.0  # waits for others


def test_a_stopwatch_reads_the_events_of_a_device() -> None:
    device = {"now": 0.0, "waited": 0.0}

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = device["now"]

        def synchronize(self) -> None:
            device["waited"] += 1

        def elapsed_time(self, other: Event) -> float:
            return other.at - self.at

    torch: Any = SimpleNamespace(npu=SimpleNamespace(Event=Event))
    watch = Stopwatch(torch, "npu:3")
    blocks = [Block(device, 20.0), Block(device, 30.0)]
    watch.around(blocks)
    for block in blocks * 2:
        block()
    assert watch.seconds() == pytest.approx(0.1)
    assert device["waited"] == 1
    assert watch.seconds() == 0.0


def test_a_stopwatch_goes_by_the_clock_elsewhere() -> None:
    torch: Any = SimpleNamespace(odd=SimpleNamespace())
    for device in ("cpu", "odd"):
        watch = Stopwatch(torch, device)
        block = Block({"now": 0.0}, 1.0)
        watch.around([block])
        block()
        assert watch.seconds() > 0
        assert watch.seconds() == 0
