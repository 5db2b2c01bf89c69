"""The demonstration: from an inventory to jobs that really run, checked step by step.

Run inside a live twin of topology_conf/inventories/mixed.yaml, as scripts/quickstart does:

    sn twin --live -i topology_conf/inventories/mixed.yaml -- python scripts/demo.py

Each step prints what was planned and what Slurm did. The exit code is 1 as soon as the
two differ.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from supernode_slurm import hostlist
from supernode_slurm.data import data_dir
from supernode_slurm.inventory import load
from supernode_slurm.slurm import CliClient, JobId, LiveJob

TEMPLATES = Path(str(data_dir("job_templates")))
WAIT_S = 90.0


class Differs(Exception):
    """What was planned and what happened are not the same."""


def show(title: str, *argv: str, quiet: bool = False) -> str:
    """Run a command as a user would, show it, and return what it printed."""
    if not quiet:
        print(f"\n== {title}\n$ {shlex.join(argv)}", flush=True)
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if quiet else None,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    if done.returncode != 0:
        said = done.stderr or ""
        raise Differs(f"{argv[0]} ended with exit code {done.returncode}\n{said}".rstrip())
    if not quiet:
        print(done.stdout, end="", flush=True)
    return done.stdout


def expect(claim: str, true: bool) -> None:
    """Print a claim that holds; end the demonstration at one that does not."""
    if not true:
        raise Differs(f"does not hold: {claim}")
    print(f"ok: {claim}", flush=True)


def same(what: str, planned: object, real: object) -> None:
    """Compare what was planned with what Slurm did."""
    expect(f"{what}: planned {planned}, real {real}", planned == real)


def listed(counts: Mapping[str, int]) -> str:
    """Return counts on one line, in the order of their names."""
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def wait(client: CliClient, job: JobId, states: set[str]) -> LiveJob:
    """Return the job once it is in one of these states."""
    deadline = time.monotonic() + WAIT_S
    while True:
        found = client.job(job)
        if found.states & states:
            return found
        if time.monotonic() > deadline:
            raise Differs(f"job {job} is {sorted(found.states)} after {WAIT_S:g} s: {found.reason}")
        time.sleep(0.2)


def one_supernode(client: CliClient, folder: Path) -> None:
    """Step 1: a 70B model on 64 cards waits for a whole H100 supernode, and gets one."""
    script = folder / "pretrain.sh"
    # In place of: sn-launch python3 pretrain_gpt.py {plan}
    training = "echo pretrain_gpt.py {plan}\nsleep 3600\n"
    script.write_text(f"#!/bin/bash\n#SBATCH --time=1:00:00 --output=/dev/null\n{training}")
    words = ("--model", "llama-3-70b", "--cards", "h100:64", str(script))
    show("1. Llama-3-70B on 64 H100: the plan", "sn", "plan", *words[:4], "-n", "3")
    planned = json.loads(show("", "sn-submit", "--dry-run", "--json", *words, quiet=True))
    room = load(Path(os.environ["SN_INVENTORY"]))
    first, second = (set(item.hosts) for item in room.supernodes[:2])
    small = ["--partition=train", "--output=/dev/null", "--wrap=sleep 3600"]
    busy = [client.submit([f"--nodelist={min(hosts)}", *small]) for hosts in (first, second)]
    for job in busy:
        wait(client, job, {"RUNNING"})
    said = show("   submitted, with one node of each supernode busy", "sn-submit", *words)
    job = JobId.parse(said.split()[3])
    time.sleep(3)
    live = client.job(job)
    print(f"job {job}: {', '.join(live.states)} ({live.reason})")
    expect(
        "14 free nodes in two supernodes are no place for it: it waits", "PENDING" in live.states
    )
    client.cancel(busy[1])
    live = wait(client, job, {"RUNNING"})
    print(f"job {job}: {', '.join(live.states)} on {live.nodes}")
    group = planned["plan"]["groups"][0]
    same("nodes", group["nodes"], len(live.hosts))
    cards = f"{group['gres']}:{group['name']}:{group['devices_per_node']}"
    same("cards on each", cards, ",".join(map(str, live.gres)))
    same("supernode", hostlist.fold(second), live.nodes)
    client.cancel(job)
    client.cancel(busy[0])


def mixed_job(client: CliClient, folder: Path) -> None:
    """Step 2: A100 and H100 in one job, uneven shares, the parameters of one process."""
    output = folder / "mixed.out"
    words = [
        "--model", "llama-3-8b", "--cards", "h100:8,a100:8", "--global-batch", "96",
        "--framework", "torch", "--strategy", "mixed", f"--output={output}", "--time=10",
        str(TEMPLATES / "pytorch-loop.sh"), str(TEMPLATES / "uneven_numpy.py"),
    ]  # fmt: skip
    show("2. Llama-3-8B over 8 H100 and 8 A100: the plan", "sn", "plan", *words[:10], "-n", "3")
    planned = json.loads(show("", "sn-submit", "--dry-run", "--json", *words, quiet=True))["plan"]
    said = show("   submitted", "sn-submit", *words)
    job = JobId.parse(said.split()[3])
    live = wait(client, job, {"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"})
    text = output.read_text() if output.exists() else "no output\n"
    lines = sorted(text.splitlines(), key=lambda line: (not line.startswith("rank"), line))
    print("\n".join([f"job {job}: {', '.join(live.states)} on {live.nodes}", *lines]))
    expect("the job ended well", "COMPLETED" in live.states)
    ranks = re.findall(r"rank +(\d+) of \d+ on (\S+): (\S+), (.*), samples (\d+)\.\.(\d+)", text)
    groups = {group["accelerator"]: group for group in planned["groups"]}
    wanted = {name: g["nodes"] * g["devices_per_node"] for name, g in groups.items()}
    same("ranks on each kind of card", listed(wanted), listed(Counter(rank[2] for rank in ranks)))
    for name, group in sorted(groups.items()):
        every = ",".join(map(str, range(group["devices_per_node"])))
        seen = {rank[3] for rank in ranks if rank[2] == name}
        wish = " ".join(f"{variable}={every}" for variable in group["visible_env"])
        same(f"devices that each {name} rank sees", wish, " or ".join(sorted(seen)))
    samples: Counter[str] = Counter()
    for rank in ranks:
        samples[rank[2]] += int(rank[5]) - int(rank[4]) + 1
    shares = {
        planned["groups"][line["meshes"][0]["group"]]["accelerator"]: line["samples"]
        for line in planned["pipelines"]
    }
    same("samples of each kind", listed(shares), listed(samples))
    expect("the parameters are those of one process", ": the same" in text)


def across_vendors(_client: CliClient, _folder: Path) -> None:
    """Step 3: H100 and Ascend, the vendor boundary between two pipeline stages."""
    words = ("--model", "llama-3-70b", "--cards", "h100:64,ascend910c:32")
    show(
        "3. Llama-3-70B across H100 and Ascend: the plan (not run)", "sn", "plan", *words, "-n", "3"
    )
    show("   for FlagScale", "sn", "plan", *words, "--emit", "flagscale")
    plan = json.loads(show("", "sn", "plan", *words, "-n", "1", "--json", quiet=True))["plans"][0][
        "plan"
    ]
    vendors = [
        plan["groups"][plan["pipelines"][0]["meshes"][stage["mesh"]]["group"]]["vendor"]
        for stage in plan["pipelines"][0]["stages"]
    ]
    changes = sum(a != b for a, b in pairwise(vendors))
    expect("one boundary between the vendors, between stages", changes == 1)


def main() -> int:
    """Run the steps; return the exit code."""
    client = CliClient(os.environ)
    started = time.monotonic()
    print(f"Slurm {client.release()}, {len(client.nodes())} nodes", flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="sn-demo.") as name:
            folder = Path(name)
            folder.chmod(0o755)
            for step in (one_supernode, mixed_job, across_vendors):
                step(client, folder)
    except Differs as error:
        print(f"demo: error: {error}", file=sys.stderr)
        return 1
    print(f"\nAll three steps did what was planned ({time.monotonic() - started:.0f} s).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
