"""A room of few cards with slurmds, and jobs in it that train for real."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from supernode_slurm.inventory import load
from supernode_slurm.plan import Plan, loads
from supernode_slurm.slurm import JobId, LiveJob
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release

NEEDS_TORCH = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="no torch here: docs/dependencies.md says how to have it",
)
EQUAL = 1e-10
"""Parameters are of order 1 in float64. Sums in another order differ by some 1e-15, which 30
steps of AdamW amplify to 4e-13 as measured; a wrong weight shows as 1e-2."""
PROGRAMS = Path(__file__).with_name("training")
ROOM = """\
version: 1
cluster: proof
fabrics:
  - name: eth
    kind: ethernet
    rails: {count: 1, bandwidth: 100 Gb/s}
    switches: {core: [ph, pa, pn]}
pools:
  - name: ph
    nodes: {hosts: "h[1-2]", devices: {h100-pcie: 1}, sockets: 1, cores: 16, memory: 100 GiB}
  - name: pa
    nodes: {hosts: "a[1-2]", devices: {a100-pcie-80g: 1}, sockets: 1, cores: 16, memory: 100 GiB}
  - name: pn
    nodes:
      hosts: "n1"
      devices: {ascend-910c: 2}
      gres: npu
      sockets: 1
      cores: 16
      memory: 100 GiB
partitions:
  all: {pools: [ph, pa], default: true}
  urgent: {pools: [ph], options: {PriorityTier: 10}}
  npu: {pools: [pn]}
"""
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"}

Parameters = dict[str, NDArray[numpy.float64]]


@dataclass(frozen=True)
class Size:
    """Of the model and the global batch."""

    layers: int
    batch: int

    def dimensions(self) -> str:
        """Return the model that is planned; the one that is trained is narrow.

        No tensor parallelism cuts 15 heads: the loops have none.
        """
        return f"layers={self.layers},hidden=1920,heads=15,kv-heads=15,ffn=7680,vocab=32000"


@dataclass(frozen=True)
class Ran:
    """A job that ended."""

    job: LiveJob
    output: str
    folder: Path
    plan: Plan | None

    def parameters(self, name: str) -> Parameters:
        """Return what a rank wrote."""
        return read(self.folder / f"{name}.npz")

    def ranks(self) -> list[dict[str, Any]]:
        """Return what the ranks said of themselves, in their order."""
        found = [json.loads(path.read_text()) for path in self.folder.glob("rank*.json")]
        return sorted(found, key=lambda item: int(item["rank"]))


def read(path: Path) -> Parameters:
    """Return the parameters in a file."""
    with numpy.load(path) as held:
        return dict(held)


def furthest(found: Parameters, wanted: Parameters) -> float:
    """Return the largest difference of any parameter that is found; all must be wanted."""
    return max(float(abs(value - wanted[name]).max()) for name, value in found.items())


@dataclass(frozen=True)
class Site:
    """A live twin, and the inventory that it was made of."""

    twin: Twin
    inventory: Path

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return a user's environment: one thread for each rank, and this site's inventory."""
        return {
            **self.twin.environment(os.environ),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SN_INVENTORY": str(self.inventory),
            "OMP_NUM_THREADS": "1",
            **more,
        }

    def start(self, folder: Path, submit: str, body: str, **more: str) -> tuple[str, Plan | None]:
        """Hand in a script; return the job's id, and the plan where sn-submit made one."""
        folder.chmod(0o755)
        (folder / "job.sh").write_text(f"#!/bin/bash\n{body}\n")
        done = subprocess.run(
            [*shlex.split(submit), f"--output={folder / 'out'}", "job.sh"],
            env=self.environment(more), cwd=folder, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        if not submit.startswith("sn-submit"):
            return done.stdout.strip(), None
        said = json.loads(done.stdout)
        return str(said["job"]), loads(json.dumps(said["plan"]))

    def end(self, folder: Path, job: str, plan: Plan | None = None) -> Ran:
        """Wait for a job's end."""
        client = self.twin.client()
        for _ in range(1200):
            found = client.job(JobId.parse(job))
            if found.states & ENDED:
                break
            time.sleep(0.1)
        output = (folder / "out").read_text() if (folder / "out").exists() else ""
        return Ran(found, output, folder, plan)

    def run(self, folder: Path, submit: str, body: str, **more: str) -> Ran:
        """Hand in a script and wait for its end, which must be a good one."""
        job, plan = self.start(folder, submit, body, **more)
        ran = self.end(folder, job, plan)
        assert ran.job.states == {"COMPLETED"}, ran.output
        return ran


@contextmanager
def site(folder: Path, more: str = "") -> Iterator[Site]:
    """Yield the room with slurmds; ``more`` ends its inventory."""
    inventory = folder / "room.yaml"
    inventory.write_text(ROOM + more)
    files = generate(load(inventory), find_release(installed_release())).files
    # Jobs of the partition urgent take the place of others, which begin again.
    preempt = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
    with Twin(TwinSpec(files=files, live=True, site_conf=preempt)) as twin:
        yield Site(twin, inventory)


def program(name: str, *words: object) -> str:
    """Return the command that runs a program of a rank."""
    return shlex.join([sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, words)])


def planned(cards: str, framework: str, size: Size) -> str:
    """Return sn-submit's words for a job on these cards."""
    return shlex.join([
        "sn-submit", "--json", "--strategy=mixed", f"--cards={cards}", f"--framework={framework}",
        f"--model={size.dimensions()}", f"--global-batch={size.batch}", "--sequence=2048",
        "--time=5",
    ])  # fmt: skip


class Alone:
    """What one process trains on whole batches, by model, batch and lengths of sequences."""

    def __init__(self, folder: Path, *wanted: tuple[Size, str]) -> None:
        self._folder = folder
        names = [self._name(size, lengths) for size, lengths in wanted]
        argv = shlex.split(program("one", folder, *names))
        subprocess.run(argv, check=True, timeout=120)

    def __call__(self, size: Size, lengths: str) -> Parameters:
        """Return the parameters."""
        return read(self._folder / f"{self._name(size, lengths)}.npz")

    @staticmethod
    def _name(size: Size, lengths: str) -> str:
        return f"{size.layers}:{size.batch}:{lengths}"
