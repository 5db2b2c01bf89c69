"""Record what a real controller prints, for ``test_slurm_recorded.py``.

Run for each release: ``scripts/slurm-lab exec 24.11 -- .venv/bin/python -m tests.record_slurm``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from supernode_slurm.slurm import parse
from supernode_slurm.slurm.environment import query_environment
from supernode_slurm.slurm.formats import node_json
from supernode_slurm.slurm.run import check
from supernode_slurm.twin import Twin, TwinSpec
from tests import twin_samples

FOLDER = Path(__file__).parent / "recorded"
MARK = "<0123456789abcdef>"
NAME = "two\nJobId=2 JobName=x JobState=FAILED UserId=z"
REASON = "fan\nNodeName=a002 State=DOWN x"
PARTITIONS = """\
PartitionName=few Nodes=h1-[01-08] State=UP MinNodes=2 MaxNodes=4 MaxTime=60 \
AllowGroups=daemon,users AllowAccounts=alice,bob
PartitionName=shut Nodes=h1-[01-08] State=DRAIN DenyAccounts=eve ReqResv=YES RootOnly=YES
"""
GRES = "NodeName=b[1-2] Name=npu Type=910c Count=4\n"


class Recorder:
    """Ask a twin, and keep what it prints."""

    def __init__(self, twin: Twin) -> None:
        self.env = query_environment(twin.environment(os.environ))
        self.folder = FOLDER / twin.release
        self.folder.mkdir(parents=True, exist_ok=True)

    def ask(self, *argv: str, script: str | None = None) -> str:
        root = Path("/")
        return check(argv, timeout_s=60, env=self.env, stdin_text=script, cwd=root).stdout

    def keep(self, name: str, *argv: str) -> None:
        (self.folder / name).write_text(self.ask(*argv), encoding="utf-8")

    def submit(self, *options: str) -> str:
        return self.ask("sbatch", "--parsable", *options, script="#!/bin/sh\n").strip()


def files() -> dict[str, str]:
    """Return two kinds of nodes, one of them with GPUs and counted NPUs."""
    found = twin_samples.files()
    found["supernode.conf"] = found["supernode.conf"].replace("GresTypes=gpu", "GresTypes=gpu,npu")
    nodes, last = found["supernode-nodes.conf"].replace(",b[1-2]", ""), "NodeName=b[1-2] "
    last += "CPUs=4 RealMemory=1000 Gres=gpu:a100:2,npu:910c:4 State=UNKNOWN\n"
    found["supernode-nodes.conf"] = nodes + last
    found["supernode-partitions.conf"] += PARTITIONS
    found["gres.conf"] = found["gres.conf"].replace(",b[1-2]", "") + GRES
    found["gres.conf"] += "NodeName=b[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"
    return found


def record(twin: Twin) -> None:
    """Record nodes, partitions, reservations, topology and jobs of all kinds."""
    slurm = Recorder(twin)
    reserve = ["scontrol", "create", "reservation"]
    slurm.ask(*reserve, "ReservationName=now", "StartTime=now", "Duration=60", "Nodes=h1-08",
              "Users=root,daemon")  # fmt: skip
    slurm.ask(*reserve, "ReservationName=later", "StartTime=now+2hours", "Duration=60",
              "Nodes=a[001-002]", "Users=root", "Flags=MAINT")  # fmt: skip
    slurm.ask("scontrol", "update", "NodeName=a001", "State=DRAIN", f"Reason={REASON}")
    slurm.ask("scontrol", "update", "NodeName=a003", "State=DOWN", "Reason=dead")
    jobs = {
        "job.txt": slurm.submit("-N2", "--gres=gpu:h100:4", "-J", NAME, "--comment", NAME),
        "job_het.txt": slurm.submit("-pa", "-wb1", "--gres=gpu:a100:1,npu:910c:3", ":", "-wh1-03"),
        "job_array.txt": slurm.submit("-a", "1-6%2", "-pa"),
    }
    shape = slurm.submit("-N1", "--gres=gpu:h100:2", "-wh1-01")
    slurm.submit("-H", "-C", "[h100*1&h1*1]", "-N2")
    slurm.ask("scancel", slurm.submit("-H", "-J", "gone"))
    time.sleep(3)
    jobs["job_rest.txt"] = shape
    for name, job in jobs.items():
        slurm.keep(name, "scontrol", "-d", "-o", "show", "job", job)
    fields = ",".join(f"{field}:0{MARK}" for field in parse.JOB_FIELDS)
    slurm.keep("jobs.txt", "squeue", "-h", "-a", "--states=all", "-O", fields)
    slurm.keep("nodes.txt", "scontrol", "-a", "-d", "-o", "show", "node")
    version = node_json(twin.release)
    if version:
        slurm.keep("nodes.json", "scontrol", "-a", "show", "nodes", f"--json={version}")
    slurm.keep("partitions.txt", "scontrol", "-a", "-o", "show", "partition")
    slurm.keep("reservations.txt", "scontrol", "-a", "-o", "show", "reservation")
    slurm.keep("topology.txt", "scontrol", "-o", "show", "topology")


if __name__ == "__main__":
    with Twin(TwinSpec(files())) as running:
        record(running)
        print(f"recorded {running.release}", file=sys.stderr)
