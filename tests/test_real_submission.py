"""sn-submit and sn-launch on a real Slurm: placed as planned, run as promised."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supernode_slurm.data import data_dir
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.runtime import launch
from supernode_slurm.runtime.job import Component
from supernode_slurm.runtime.layout import place_plan
from supernode_slurm.slurm import JobId, LiveJob
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.submission.commandline import parse
from supernode_slurm.submission.submit import prepare, submit
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests.fake_slurm import FakeSlurm

REPOSITORY = Path(__file__).resolve().parents[1]
MIXED = Path(str(data_dir("topology_conf"))) / "inventories" / "mixed.yaml"

pytestmark = pytest.mark.slurm


def start(live: bool) -> Twin:
    release = find_release(installed_release())
    return Twin(TwinSpec(files=generate(load(MIXED), release).files, live=live))


@pytest.fixture(scope="module")
def room() -> Inventory:
    return load(MIXED)


@pytest.fixture(scope="module")
def twin() -> Iterator[Twin]:
    with start(live=False) as found:
        yield found


@pytest.fixture(scope="module")
def live_twin() -> Iterator[Twin]:
    with start(live=True) as found:
        yield found


def run_job(twin: Twin, room: Inventory, *words: str, until: set[str]) -> LiveJob:
    """Submit a command line; return the job once it is in one of these states."""
    client = twin.client()
    job = submit(prepare(parse(list(words)), {}, room, client), client)
    return await_job(twin, job, until)


def await_job(twin: Twin, job: JobId, states: set[str]) -> LiveJob:
    for _ in range(600):
        found = twin.client().job(job)
        if found.states & states:
            return found
        time.sleep(0.1)
    raise AssertionError(f"job {job} is {found.states}: {found.reason}")


def test_the_fake_says_what_the_real_one_says(twin: Twin, room: Inventory) -> None:
    fake = {node.name: node for node in FakeSlurm(room).nodes()}
    real = {node.name: node for node in twin.client().nodes()}
    assert fake.keys() == real.keys()
    for name, node in real.items():
        assert node.is_free
        assert fake[name].is_free
        assert (node.gres, node.cpus, node.memory_mib, set(node.features)) == (
            fake[name].gres, fake[name].cpus, fake[name].memory_mib, set(fake[name].features),
        )  # fmt: skip
        assert set(node.partitions) == set(fake[name].partitions)
    client = twin.client()
    job = client.submit(["--wrap=true", "--hold"])
    assert isinstance(job, JobId)
    client.cancel(job)


def test_jobs_are_placed_where_the_plan_says(twin: Twin, room: Inventory) -> None:
    homes = [set(supernode.hosts) for supernode in room.supernodes[:2]]
    taken: list[set[str]] = []
    for _ in homes:
        job = run_job(
            twin, room, "--model", "llama-3-70b", "--cards", "h100:64", "--wrap", "true",
            until={"CONFIGURING", "RUNNING"},
        )  # fmt: skip
        taken.append(set(job.hosts))
    assert sorted(map(sorted, taken)) == sorted(map(sorted, homes))
    with pytest.raises(AssertionError, match="PENDING"):
        client = twin.client()
        words = ["--model", "llama-3-70b", "--cards", "h100:64", "--wrap", "true"]
        job_id = submit(prepare(parse(words), {}, room, client), client)
        for _ in range(20):
            found = client.job(job_id)
            if "PENDING" not in found.states:
                break
            time.sleep(0.1)
        raise AssertionError(" ".join(found.states))


@pytest.mark.parametrize("cards", [128, 264])
def test_a_job_over_several_racks_keeps_its_parts_together(cards: int) -> None:
    nvl72 = load(MIXED.with_name("nvl72.yaml"))
    files = generate(nvl72, find_release(installed_release())).files
    with Twin(TwinSpec(files=files)) as twin:
        client = twin.client()
        words = parse(["--cards", str(cards), "--wrap", "true"])
        prepared = prepare(words, {}, nvl72, client)
        together = prepared.choice.plan.groups[0].together
        assert together > 1
        job = await_job(twin, submit(prepared, client), {"CONFIGURING", "RUNNING"})
        counts = [len(set(job.hosts).intersection(rack.hosts)) for rack in nvl72.supernodes]
        assert sum(counts) == cards // 4
        assert all(count % together == 0 for count in counts)
        part = Component(str(job.id), dict.fromkeys(job.hosts, 0))
        assert place_plan(prepared.choice.plan, [part])


@pytest.mark.live
def test_two_kinds_in_one_pool_run_on_nodes_of_their_own(tmp_path: Path) -> None:
    lab = load(MIXED.with_name("lab.yaml"))
    output = shared(tmp_path) / "out"
    show = "echo $RANK $SN_GROUP $SLURMD_NODENAME $SN_SAMPLES"
    files = generate(lab, find_release(installed_release())).files
    with Twin(TwinSpec(files=files, live=True)) as twin:
        job = run_job(
            twin, lab, "--model", "llama-3.2-1b", "--cards", "h100:2,a100:2", "-p", "bench",
            "--framework", "torch", "--strategy", "mixed", "--global-batch", "12",
            f"--output={output}", "--wrap", f"{launcher()} sh -c '{show}'",
            until={"COMPLETED", "FAILED"},
        )  # fmt: skip
    text = output.read_text()
    assert "COMPLETED" in job.states, text
    ranks = sorted(line.split() for line in text.splitlines())
    assert [rank[:2] for rank in ranks] == [
        ["0", "h100"], ["1", "h100"], ["2", "a100"], ["3", "a100"],
    ]  # fmt: skip
    assert ranks[0][2] == ranks[1][2] != ranks[2][2] == ranks[3][2]
    samples = [int(rank[3]) for rank in ranks]
    assert sum(samples) == 12
    assert samples[0] > samples[3]


@pytest.mark.live
def test_every_step_of_the_demonstration_holds(
    live_twin: Twin, request: pytest.FixtureRequest
) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / "demo.py")], env=job_environment(live_twin),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "All three steps did what was planned" in done.stdout
    assert done.stdout.count("ok: ") == 11
    shown = shortened(done.stdout)
    for file in (REPOSITORY / "README.md", REPOSITORY / "README.zh-CN.md"):
        start, end = "<!-- quickstart -->\n", "<!-- quickstart end -->"
        before, _, rest = file.read_text("utf-8").partition(start)
        old, _, after = rest.partition(end)
        if request.config.getoption("--update-golden"):
            new = "".join(f"    {line}".rstrip() + "\n" for line in shown)
            file.write_text(before + start + new + end + after, "utf-8")
        else:
            lines = [line.removeprefix("    ") for line in old.splitlines()]
            assert steady(lines) == steady(shown), f"{file.name}: run pytest --update-golden"


def shortened(output: str) -> list[str]:
    """Return the demonstration's output as the README shows it."""
    lines: list[str] = []
    for line in output.splitlines():
        if line.startswith("sn: note: planning "):
            continue  # How far it is, said on a slow machine alone.
        rank = re.match(r"rank +(\d+) of", line)
        if rank and rank[1] not in ("0", "7", "8", "15"):
            lines += ["..."] if lines[-1] != "..." else []
        else:
            # Paths of this machine are cut to the file's name.
            lines.append(re.sub(r"(?:/[\w.-]+)+/(?=[\w-]+\.\w)", "", line).rstrip())
    return lines


def steady(lines: list[str]) -> list[str]:
    """Return lines without what differs from run to run: the release, times, rounding."""
    varies = r"Slurm [\d.]+|\(\d+ s\)|one process [\d.e+-]+|\((?:Resources|Priority|None)?\)"
    return [re.sub(varies, "*", line) for line in lines]


@pytest.mark.live
@pytest.mark.parametrize("cards", ["h100:2,ascend910c:2", "ascend910c:2,h100:2"])
def test_two_vendors_run_in_one_heterogeneous_step(
    cards: str, live_twin: Twin, room: Inventory, tmp_path: Path
) -> None:
    output = shared(tmp_path) / "out"
    show = "echo rank=$RANK of=$WORLD_SIZE node=$SLURMD_NODENAME group=$SN_GROUP"
    show += " npu=$ASCEND_RT_VISIBLE_DEVICES gpu=$CUDA_VISIBLE_DEVICES cpus=$SLURM_CPUS_PER_TASK"
    job = run_job(
        live_twin, room, "--cards", cards, f"--output={output}",
        "--wrap", f"{launcher()} sh -c '{show}'", until={"COMPLETED", "FAILED"},
    )  # fmt: skip
    text = output.read_text()
    assert "COMPLETED" in job.states, text
    found = sorted(
        re.findall(r"rank=(\d) of=6 node=\S+ group=(\S+) npu=(\S*) gpu=(\S*) cpus=(\d+)", text)
    )
    kinds = {"h100": 2 * [("h100", "", "0,1", "12")]}
    kinds["ascend910c"] = 4 * [("ascend910c", "0,1,2,3", "", "12")]
    order = [rank for part in cards.split(",") for rank in kinds[part.split(":")[0]]]
    assert found == [(str(rank), *wanted) for rank, wanted in enumerate(order)]


@pytest.mark.live
def test_a_plain_srun_computes_the_same_ranks(
    live_twin: Twin, room: Inventory, tmp_path: Path
) -> None:
    output = shared(tmp_path) / "out"
    show = "sh -c 'echo rank=$RANK of=$WORLD_SIZE master=$MASTER_ADDR local=$LOCAL_RANK'"
    once, each = f"{launcher()} {show}", f"srun {launcher()} {show}"
    job = run_job(
        live_twin, room, "--cards", "a100:16", f"--output={output}",
        "--wrap", f"{once} | sort; echo ==; {each} | sort", until={"COMPLETED", "FAILED"},
    )  # fmt: skip
    text = output.read_text()
    assert "COMPLETED" in job.states, text
    first, second = text.split("==\n")
    assert first == second
    assert len(first.splitlines()) == 16


@pytest.mark.live
def test_a_failing_rank_fails_the_job(live_twin: Twin, room: Inventory, tmp_path: Path) -> None:
    job = run_job(
        live_twin, room, "--cards", "a100:8", f"--output={shared(tmp_path) / 'out'}",
        "--wrap", f"{launcher()} sh -c 'test $RANK != 3 || exit 7'",
        until={"COMPLETED", "FAILED"},
    )  # fmt: skip
    assert "FAILED" in job.states


def launcher() -> str:
    return f"{sys.executable} {launch.__file__}"


def job_environment(twin: Twin) -> dict[str, str]:
    """Return an environment in which the package's own commands are on PATH."""
    env = twin.environment(os.environ)
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    return {**env, "SN_INVENTORY": str(MIXED)}


def shared(folder: Path) -> Path:
    """Return a folder in which a job may write."""
    folder.chmod(0o755)
    return folder


def test_one_command_line_or_script_is_for_all_components(twin: Twin, tmp_path: Path) -> None:
    """As ``sbatch_settings`` takes it: sbatch gives a single part to every component."""
    script = tmp_path / "het.sh"
    first, second = "-p train -N1 --gres=gpu:h100:8", "-p small -N1 --gres=gpu:a100:8"
    client = twin.client()
    script.write_text(f"#!/bin/sh\n#SBATCH {first}\n#SBATCH hetjob\n#SBATCH {second}\ntrue\n")
    by_line = client.submit(["-H", "--time=10", "--comment=x", str(script)])
    script.write_text("#!/bin/sh\n#SBATCH --time=10 --comment=x\ntrue\n")
    by_script = client.submit(["-H", *first.split(), ":", *second.split(), str(script)])
    for job in (by_line, by_script):
        shown = client.show("job", job.local)
        assert len(re.findall(r"^JobId=", shown, re.MULTILINE)) == 2
        assert shown.count("TimeLimit=00:10:00") == 2
        assert shown.count("Comment=x") == 2
        client.cancel(job)
