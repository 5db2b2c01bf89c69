"""Each job template, submitted to real slurmds, with a stand-in for its framework."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from supernode_slurm.inventory import load
from supernode_slurm.plan import loads
from supernode_slurm.slurm import JobId, LiveJob
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests.templates import ALL, STANDINS, TEMPLATES, Template, edited, room

pytestmark = [pytest.mark.slurm, pytest.mark.live]

MEGATRON = next(item for item in ALL if item.name == "megatron-lm")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"}


@dataclass(frozen=True)
class Site:
    """A live twin, and the inventory that it was made of."""

    twin: Twin
    inventory: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    inventory = room(tmp_path_factory.mktemp("site"))
    files = generate(load(inventory), find_release(installed_release())).files
    with Twin(TwinSpec(files=files, live=True)) as twin:
        yield Site(twin, inventory)


@dataclass(frozen=True)
class Ran:
    """A job that ended, and what its ranks wrote."""

    job: LiveJob
    output: str
    ranks: list[dict[str, Any]]


def submit(site: Site, folder: Path, *argv: str) -> str:
    """Submit a script as a user would, in a folder for its output; return what was printed."""
    folder.chmod(0o755)
    seen = folder / "seen"
    seen.mkdir()
    env = {
        **site.twin.environment(os.environ),
        "PATH": f"{STANDINS}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SN_INVENTORY": str(site.inventory),
        "STANDINS": str(seen),
    }
    program, *words = argv
    done = subprocess.run(
        [program, f"--output={folder / 'out'}", *words], env=env, cwd=folder,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def end(site: Site, folder: Path, job: str) -> Ran:
    """Wait for a job's end."""
    client = site.twin.client()
    for _ in range(900):
        found = client.job(JobId.parse(job))
        if found.states & ENDED:
            break
        time.sleep(0.1)
    lines = [json.loads(path.read_text()) for path in (folder / "seen").iterdir()]
    output = (folder / "out").read_text() if (folder / "out").exists() else ""
    return Ran(found, output, sorted(lines, key=lambda line: int(line["rank"])))


@pytest.mark.parametrize("template", ALL, ids=lambda template: template.name)
def test_a_template_runs_as_planned(template: Template, site: Site, tmp_path: Path) -> None:
    script = edited(template, tmp_path)
    said = json.loads(submit(site, tmp_path, "sn-submit", "--json", script.name))
    plan, ran = loads(json.dumps(said["plan"])), end(site, tmp_path, said["job"])
    assert ran.job.states == {"COMPLETED"}, ran.output
    assert [line["rank"] for line in ran.ranks] == list(range(template.ranks))
    assert {line["world"] for line in ran.ranks} == {template.ranks}
    assert len({line["master"] for line in ran.ranks}) == 1
    assert {line["framework"] for line in ran.ranks} == {template.framework or "nccl"}
    assert bool(plan.pipelines) == (template.framework is not None)
    for group in plan.groups:
        assert bool(group.environment) == (group.name != "a100")
        mine = [line for line in ran.ranks if line["group"] == group.name]
        assert len(mine) == group.devices
        for node in (nodes := {line["node"] for line in mine}):
            local = sorted(line["local"] for line in mine if line["node"] == node)
            assert local == list(range(group.devices_per_node))
        assert len(nodes) == group.nodes


def test_a_loop_of_ones_own_takes_unequal_samples(site: Site, tmp_path: Path) -> None:
    argv = ["--model=llama-3-8b", "--cards=h100:8,a100:8", "--global-batch=96", "--json"]
    script = [str(TEMPLATES / "pytorch-loop.sh"), str(STANDINS / "loop.py")]
    said = json.loads(submit(site, tmp_path, "sn-submit", *argv, *script))
    plan, ran = loads(json.dumps(said["plan"])), end(site, tmp_path, said["job"])
    assert ran.job.states == {"COMPLETED"}, ran.output
    assert [line["rank"] for line in ran.ranks] == list(range(plan.devices))
    first = {line["offset"]: line["samples"] for line in ran.ranks}
    taken = [n for offset, count in first.items() for n in range(offset, offset + count)]
    assert sorted(taken) == list(range(96))


def test_a_template_runs_by_plain_sbatch(site: Site, tmp_path: Path) -> None:
    script = edited(MEGATRON, tmp_path)
    job = submit(
        site, tmp_path, "sbatch", "--parsable", "--partition=train", "--constraint=sn1",
        "--nodes=2", "--ntasks-per-node=8", "--gres=gpu:h100:8", script.name,
    )  # fmt: skip
    ran = end(site, tmp_path, job.strip())
    assert ran.job.states == {"COMPLETED"}, ran.output
    assert [line["rank"] for line in ran.ranks] == list(range(MEGATRON.ranks))
    assert len({line["master"] for line in ran.ranks}) == 1


def test_a_stand_in_ends_the_job_if_something_does_not_hold(site: Site, tmp_path: Path) -> None:
    script = edited(MEGATRON, tmp_path)
    text = script.read_text()
    # sn-submit itself refuses such a batch where it can read it.
    hidden = "MORE=$(echo --micro-batch-size 3)\n\nsn-launch"
    script.write_text(text.replace("sn-launch", hidden).replace("{plan}", "{plan} $MORE"))
    said = json.loads(submit(site, tmp_path, "sn-submit", "--json", script.name))
    ran = end(site, tmp_path, said["job"])
    assert ran.job.states == {"FAILED"}
    assert ran.ranks == []
    assert re.search(r"rank \d+ on h\d-\d\d \(h100-sxm\) died first: exit code 3", ran.output)
    assert "stand-in pretrain_gpt.py: global batch over micro-batch x DP leaves" in ran.output
