"""Training goes on through mishaps with the samples that it consumed, on other shares too."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from supernode_slurm.slurm import JobId
from supernode_slurm.twin import installed_release
from tests.conftest import missing_programs
from tests.training_site import (
    EQUAL,
    NEEDS_TORCH,
    Alone,
    Site,
    Size,
    furthest,
    planned,
    program,
    site,
)

pytestmark = [pytest.mark.slurm, pytest.mark.live, NEEDS_TORCH]

SIZE = Size(layers=2, batch=16)
MISHAPS = ("dead:1:7", "hung:1:12", "missing:1:0", "slow:1:16")
NAME = "rank 1 on a1 (a100-pcie-80g)"
SCRIPT = """\
#SBATCH --time=5 --exclude=a2 --gres=gpu:1 --ntasks-per-node=1 --cpus-per-task=1
#SN --model {model} --framework torch --global-batch {batch} --sequence 2048
export MISHAP=waits:0:12
{body}
"""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    return Alone(tmp_path_factory.mktemp("alone"), (SIZE, "varied"))


def starts(folder: Path) -> list[dict[str, Any]]:
    """Return what was consumed, and the shares, at each start."""
    return [json.loads(line) for line in (folder / "starts").read_text().splitlines()]


def test_dead_hung_missing_and_slow_ranks_are_named_and_the_training_goes_on(
    room: Site, tmp_path: Path, alone: Alone
) -> None:
    run = program("recover", tmp_path)
    body = "export SN_PATIENCE=4 SN_END_HUNG=1\n"
    body += f"for MISHAP in {' '.join(MISHAPS)}; do\nexport MISHAP\nsn-launch {run}"
    body += "\necho $MISHAP ended with $?\ndone"
    ran = room.run(tmp_path, planned("h100:1,a100:1", "torch", SIZE), body)
    dead, hung, missing, slow = ran.output.split(" ended with ")[:4]
    assert "rank 1 on a1 (a100-pcie-80g) died first: signal 9 (SIGKILL)" in dead, dead
    still = rf"warning: {re.escape(NAME)} stands still in step 12 for \d+ s \(process \d+\); (.*)"
    assert re.findall(still, hung) == ["1 rank waits for it"], hung
    assert f"ended because of {NAME}" in hung, hung
    assert f"{NAME} did not begin: no share() there 4 s after the first of 1 rank" in missing, (
        missing
    )
    assert f"{NAME} takes 3.0 times as long for its share" in slow, slow
    assert "slow:1:16 ended with 0" in ran.output, slow
    assert [start["consumed"] // SIZE.batch for start in starts(tmp_path)] == [0, 5, 10]
    assert furthest(ran.parameters("recovered"), alone(SIZE, "varied")) < EQUAL


RANGE = """\
#SBATCH --time=5 --exclude=a2 --gres=gpu:1 --cpus-per-task=1 --nodes=2-3
#SN --model {model} --framework torch --global-batch {batch} --sequence 2048 --cards h100:2,a100:1
export JOB=$SLURM_JOB_NUM_NODES
sn-launch sh -c 'echo "share $SN_SAMPLES of $SN_GLOBAL_BATCH on $JOB nodes"'
"""


@pytest.mark.parametrize("busy", [False, True])
def test_a_job_of_some_nodes_or_more_gets_what_is_free_and_is_planned_for_that(
    room: Site, tmp_path: Path, busy: bool
) -> None:
    folder = tmp_path / "busy"
    folder.mkdir()
    held = None
    if busy:
        held, _ = room.start(folder, "sbatch --parsable --nodelist=h2 --exclusive", "sleep 300")
        await_start(room, held)
    text = RANGE.format(model=SIZE.dimensions(), batch=SIZE.batch)
    ran = room.run(tmp_path, "sbatch --parsable", text)
    if held:
        ask(room, "scancel", held)
        room.end(folder, held)
    shares = re.findall(r"^share (\d+) of 16 on (\d) nodes$", ran.output, re.MULTILINE)
    nodes = 2 if busy else 3
    assert {int(number) for _, number in shares} == {nodes}, ran.output
    assert len(shares) == nodes
    assert sum(int(share) for share, _ in shares) == SIZE.batch
    wanted = r"sn-launch: note: planned for .*samples: .*: [0-9.]+ s a step"
    assert len(re.findall(wanted, ran.output)) == 1, ran.output
    assert ("the job has 1 h100 + 1 a100" in ran.output) == busy, ran.output


def await_start(room: Site, job: str) -> None:
    """Wait until a job runs."""
    for _ in range(600):
        if "RUNNING" in room.twin.client().job(JobId.parse(job)).states:
            return
        time.sleep(0.1)
    raise AssertionError(f"job {job} does not start")


def submit(room: Site, folder: Path, body: str, *options: str) -> str:
    """Hand in a script by plain sbatch; return the job once it waits."""
    text = SCRIPT.format(model=SIZE.dimensions(), batch=SIZE.batch, body=body)
    words = ["sbatch", "--parsable", *options]
    job, _ = room.start(folder, shlex.join(words), text)
    await_file(folder / "waits.happened", folder / "out")
    return job


def await_file(path: Path, output: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.1)
    raise AssertionError(output.read_text() if output.exists() else "no output")


@pytest.fixture
def lost(room: Site) -> Iterator[Callable[[], None]]:
    """Return what takes the node h2 down; afterwards it is up again, and nothing runs."""

    def lose() -> None:
        # Its slurmd would come back at once.
        for state in ("down", "drain"):
            ask(room, "scontrol", "update", "nodename=h2", f"state={state}", "reason=proof")

    yield lose
    ask(room, "scancel", "--me")
    ask(room, "scontrol", "update", "nodename=h2", "state=resume")


def ask(room: Site, *argv: str) -> None:
    env = room.environment({})
    subprocess.run(argv, env=env, check=True, timeout=60)


def start_again(room: Site, job: str, *sizes: str) -> None:
    """Let a requeued job start at once, of other sizes too, as its user would with scontrol.

    Slurm itself waits until the old credentials have expired. A new one of the second in which
    they were revoked counts as revoked.
    """
    client = room.twin.client()
    for _ in range(300):
        if client.job(JobId.parse(job)).states == {"PENDING"}:
            time.sleep(3)
            return ask(room, "scontrol", "update", f"jobid={job}", *sizes, "starttime=now")
        time.sleep(0.1)
    raise AssertionError(f"job {job} is {client.job(JobId.parse(job)).states}")


def check(room: Site, folder: Path, job: str, alone: Alone, nodes: int = 2) -> None:
    """Check that a job of three nodes went on with so many where its checkpoint was."""
    ran = room.end(folder, job)
    assert ran.job.states == {"COMPLETED"}, ran.output
    first, second = starts(folder)
    assert (first["consumed"], second["consumed"]) == (0, 10 * SIZE.batch)
    assert (len(first["shares"]), len(second["shares"])) == (3, nodes)
    assert sum(first["shares"]) == sum(second["shares"]) == SIZE.batch
    assert furthest(ran.parameters("recovered"), alone(SIZE, "varied")) < EQUAL


def test_a_job_that_is_requeued_on_fewer_nodes_is_planned_anew(
    room: Site, tmp_path: Path, alone: Alone, lost: Callable[[], None]
) -> None:
    body = f"sn-launch {program('recover', tmp_path)}"
    job = submit(room, tmp_path, body, "--nodes=3", "--requeue", "--open-mode=append")
    lost()
    start_again(room, job, "numcpus=2", "numtasks=2", "numnodes=2-2")
    check(room, tmp_path, job, alone)


def test_a_job_that_an_urgent_one_displaces_goes_on_with_its_samples(
    room: Site, tmp_path: Path, alone: Alone
) -> None:
    body = f"sn-launch {program('recover', tmp_path)}"
    job = submit(room, tmp_path, body, "--nodes=3", "--requeue", "--open-mode=append")
    urgent = "sbatch --wait --partition=urgent --nodes=2 --exclusive --output=/dev/null --wrap=:"
    ask(room, *shlex.split(urgent))
    if room.twin.client().job(JobId.parse(job)).states == {"PENDING"}:
        start_again(room, job)
    check(room, tmp_path, job, alone, nodes=3)


@pytest.mark.skipif(
    bool(missing_programs()) or installed_release() != "22.05",
    reason="slurmctld of 24.11 and 26.05 ends itself (double free) when a job with --no-kill and "
    "GRES loses a node",
)
def test_a_job_that_outlives_a_node_is_planned_anew_inside_its_allocation(
    room: Site, tmp_path: Path, alone: Alone, lost: Callable[[], None]
) -> None:
    run = f"sn-launch {program('recover', tmp_path)}"
    job = submit(room, tmp_path, f"{run} || {run}", "--nodes=3", "--no-kill")
    lost()
    check(room, tmp_path, job, alone)
