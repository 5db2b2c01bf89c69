"""Three doors, one plan: sn-submit, plain sbatch with sn-launch, and job_submit.lua, for real."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from supernode_slurm import hostlist
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.plan import Plan, dumps, loads
from supernode_slurm.slurm import JobId
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests.test_real_submission import MIXED, await_job, job_environment, shared

pytestmark = [pytest.mark.slurm, pytest.mark.live]

SIZED = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --gres=gpu:h100:8 --cpus-per-task=2 --time=5
#SBATCH --partition=train --output={output}
#SN --model llama-3-8b --global-batch 64
sn-launch sh -c 'test $RANK != 0 || echo "$SN_PLAN" >{output}.plan
    echo "rank $RANK of $WORLD_SIZE: $SN_SAMPLES"'
"""
ASKED = SIZED.replace(
    "--nodes=2 --ntasks-per-node=8 --gres=gpu:h100:8 --cpus-per-task=2 --time=5", "--time=5"
).replace(" --partition=train", "")
ASKED = ASKED.replace("#SN --model", "#SN --cards h100:16 --model")


@dataclass(frozen=True)
class Ran:
    """A job that ended well: its plan, its nodes and what its ranks said."""

    plan: Plan
    hosts: tuple[str, ...]
    ranks: list[str]


@pytest.fixture(scope="module")
def room() -> Inventory:
    return load(MIXED)


def live(room: Inventory, plugin: bool) -> Twin:
    settings = replace(room.slurm, job_submit=plugin)
    files = generate(replace(room, slurm=settings), find_release(installed_release())).files
    return Twin(TwinSpec(files=files, live=True))


@pytest.fixture(scope="module")
def plain(room: Inventory) -> Iterator[Twin]:
    with live(room, plugin=False) as found:
        yield found


@pytest.fixture(scope="module")
def with_plugin(room: Inventory) -> Iterator[Twin]:
    with live(room, plugin=True) as found:
        yield found


def run(twin: Twin, command: str, text: str, folder: Path) -> Ran:
    """Submit a script through a door, wait for its end, and read what it said."""
    output = shared(folder) / "out"
    script = folder / "train.sh"
    script.write_text(text.format(output=output))
    done = subprocess.run(
        [command, "--parsable", str(script)],
        env=job_environment(twin), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    job = await_job(twin, JobId.parse(done.stdout), {"COMPLETED", "FAILED"})
    said = output.read_text() if output.exists() else "no output"
    assert "COMPLETED" in job.states, said
    # In a file of its own: srun passes on a long line in parts, between those of other ranks.
    plan = loads((folder / "out.plan").read_text())
    ranks = sorted(line for line in said.splitlines() if line.startswith("rank "))
    return Ran(plan, job.hosts, ranks)


def layout(plan: Plan) -> object:
    """Return what must be equal of two plans: all but the hosts that may hold them."""
    groups = [
        (item.name, item.nodes, item.devices_per_node, item.environment) for item in plan.groups
    ]
    return (
        plan.model, plan.global_batch, plan.sequence, plan.framework, groups, plan.pipelines,
        plan.predicted, plan.arguments, plan.files,
    )  # fmt: skip


def home(room: Inventory, hosts: tuple[str, ...]) -> str:
    """Return the supernode that holds all of some hosts."""
    homes = [item.name for item in room.supernodes if set(hosts) <= set(item.hosts)]
    assert len(homes) == 1, hostlist.fold(hosts)
    return homes[0]


def test_a_sized_script_gets_the_same_plan_through_each_door(
    plain: Twin, with_plugin: Twin, room: Inventory, tmp_path: Path
) -> None:
    doors = {
        "sn-submit": (plain, "sn-submit"),
        "sbatch": (plain, "sbatch"),
        "job_submit.lua": (with_plugin, "sbatch"),
        "both": (with_plugin, "sn-submit"),
    }
    found = {}
    for name, (twin, command) in doors.items():
        folder = tmp_path / name
        folder.mkdir()
        found[name] = run(twin, command, SIZED, folder)
    first = found["sn-submit"]
    assert len(first.ranks) == 16
    for name, ran in found.items():
        assert layout(ran.plan) == layout(first.plan), name
        assert ran.ranks == first.ranks, name
        assert home(room, ran.hosts), name


def test_a_script_that_only_names_its_cards_gets_the_same_plan_by_sn_submit_and_the_plugin(
    with_plugin: Twin, room: Inventory, tmp_path: Path
) -> None:
    found = []
    for command in ("sn-submit", "sbatch"):
        folder = tmp_path / command
        folder.mkdir()
        found.append(run(with_plugin, command, ASKED, folder))
    assert layout(found[0].plan) == layout(found[1].plan)
    assert found[0].ranks == found[1].ranks
    assert home(room, found[0].hosts) == home(room, found[1].hosts)


def test_a_job_on_other_nodes_than_its_plan_is_planned_anew(plain: Twin, tmp_path: Path) -> None:
    """As after a requeue on fewer nodes: the plan that the script carries is for others."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    carried = run(plain, "sn-submit", SIZED, first).plan
    text = dumps(carried).replace("{", "{{").replace("}", "}}")
    fewer = SIZED.replace("--nodes=2", "--nodes=1")
    fewer = fewer.replace("\nsn-launch", f"\nexport SN_PLAN={shlex.quote(text)}\nsn-launch")
    ran = run(plain, "sbatch", fewer, second)
    assert (carried.devices, ran.plan.devices) == (16, 8)
    assert len(ran.ranks) == 8
