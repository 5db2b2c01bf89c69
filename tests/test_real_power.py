"""A plan for lost cooling made, run and undone on a real controller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supernode_slurm.inventory import Inventory, load
from supernode_slurm.slurm import JobId
from supernode_slurm.slurm.run import run
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests.test_real_submission import await_job

pytestmark = pytest.mark.slurm

ROOM = """\
version: 1
cluster: hot
racks:
  - {name: r1, hosts: "t[01-18]", cooling: {kind: cold-plate, liquid: 115 kW, air: 33 kW}}
supernodes:
  - name: sn1
    interconnect: {kind: switch, bandwidth: 900 GB/s}
    spares: 2
    nodes: {hosts: "t[01-18]", devices: {gb200: 4}, sockets: 2, cores: 4, memory: 90 GiB,
      power: {most: 6.667 kW, idle: 1 kW}}
partitions:
  main: {supernodes: [sn1], default: true}
"""
REASON = "sn power: cooling of sn1"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("hot") / "room.yaml"
    found.write_text(ROOM)
    return found


@pytest.fixture(scope="module")
def room(path: Path) -> Inventory:
    return load(path)


@pytest.fixture(scope="module")
def twin(room: Inventory) -> Iterator[Twin]:
    files = generate(room, find_release(installed_release())).files
    with Twin(TwinSpec(files=files)) as found:
        yield found


def sn_power(twin: Twin, path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    outer = {name: value for name, value in os.environ.items() if not name.startswith("SN_")}
    code = "from supernode_slurm.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "power", "-i", str(path), "--derate", "sn1", *words],
        env=twin.environment(outer), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def act(twin: Twin, script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a script with a carrier that reaches no node."""
    carry = tmp_path / "carry"
    carry.write_text(f'#!/bin/sh\necho "$1: $2" >>{tmp_path}/carried\n')
    carry.chmod(0o755)
    return subprocess.run(
        ["sh", "-s", "--", "--run"], input=script, capture_output=True, text=True, timeout=120,
        env={**twin.environment(dict(os.environ)), "SN_CARRY": str(carry)}, check=False,
    )  # fmt: skip


def reasons(twin: Twin) -> dict[str, str]:
    return {node.name: node.reason for node in twin.client().nodes() if node.reason}


def update(twin: Twin, *words: str) -> None:
    done = run(["scontrol", "update", *words], timeout_s=60, env=twin.environment({}))
    assert done.returncode == 0, done.stderr


def test_a_plan_spares_jobs_is_run_twice_and_undone(twin: Twin, path: Path, tmp_path: Path) -> None:
    client = twin.client()
    update(twin, "NodeName=t05", "State=DRAIN", "Reason=bad DIMM")
    large = client.submit(["-N8", "-w", "t[06-13]", "--exclusive", "-J", "large", "--wrap=true"])
    small = client.submit(["-N2", "-w", "t[14,17]", "--exclusive", "-J", "small", "--wrap=true"])
    for job in (large, small):
        await_job(twin, JobId.parse(str(job)), {"CONFIGURING", "RUNNING"})
    plan = json.loads(sn_power(twin, path, "--json").stdout)
    assert plan["live"]
    # 33 kW: ten trays go. Out: t05; a spare that idles: t18; idle: t16 ... ; then the small job.
    assert plan["racks"][0]["drain"] == [
        "t05", "t18", "t16", "t15", "t04", "t03", "t02", "t01", "t17", "t14",
    ]  # fmt: skip
    assert [job["name"] for job in plan["jobs_ended"]] == ["small"]
    assert [job["name"] for job in plan["jobs_slowed"]] == ["large"]
    script = sn_power(twin, path, "--emit", "sh").stdout
    for _ in range(2):
        done = act(twin, script, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    found = reasons(twin)
    assert found.pop("t05") == "bad DIMM"
    assert found == dict.fromkeys(plan["racks"][0]["drain"][1:], REASON)
    capped = (tmp_path / "carried").read_text().splitlines()
    assert capped[0] == "t[06-13]: nvidia-smi -pm 1 && nvidia-smi -pl 252"
    undo = act(twin, sn_power(twin, path, "--emit", "undo").stdout, tmp_path)
    assert (undo.returncode, undo.stderr) == (0, "")
    drained = [node.name for node in client.nodes() if "DRAIN" in node.states]
    assert drained == ["t05"]
    for job in (large, small):
        client.cancel(job)
