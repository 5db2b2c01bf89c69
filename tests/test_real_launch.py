"""sn-launch on a real Slurm with slurmds: which tasks run where, what they see, how they end."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from supernode_slurm.inventory import load
from supernode_slurm.plan import DeviceGroup, Mesh, Pipeline, Plan, Stage, dumps
from supernode_slurm.runtime import launch
from supernode_slurm.runtime.archive import archive
from supernode_slurm.runtime.batch import ask_ports
from supernode_slurm.runtime.job import Component
from supernode_slurm.slurm import JobId
from supernode_slurm.slurmconf import find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release

pytestmark = pytest.mark.live

ROOM = """\
version: 1
cluster: lab
fabrics:
  - name: eth
    kind: ethernet
    rails: {count: 1, bandwidth: 100 Gb/s}
    switches: {core: [pa, ph, pu5, pu3, pn]}
pools:
  - name: pa
    nodes: {hosts: "a1", devices: {a100-pcie-80g: 4}, sockets: 1, cores: 16, memory: 100 GiB}
  - name: ph
    nodes: {hosts: "h[1-2]", devices: {h100-pcie: 4}, sockets: 1, cores: 16, memory: 100 GiB}
  - name: pu5
    nodes: {hosts: "u5", devices: {h100-pcie: 5}, sockets: 1, cores: 16, memory: 100 GiB}
  - name: pu3
    nodes: {hosts: "u3", devices: {h100-pcie: 3}, sockets: 1, cores: 16, memory: 100 GiB}
  - name: pn
    nodes:
      hosts: "n[1-2]"
      devices: {ascend-910c: 4}
      gres: npu
      sockets: 1
      cores: 16
      memory: 100 GiB
partitions:
  all: {pools: [pa, ph, pu5, pu3], default: true}
  npu: {pools: [pn]}
"""
LAUNCHER = shlex.join([sys.executable, launch.__file__])
SHOW = (
    "echo rank=$RANK/$WORLD_SIZE $SLURMD_NODENAME local=$LOCAL_RANK/$LOCAL_WORLD_SIZE "
    "sees=$CUDA_VISIBLE_DEVICES cpus=$SLURM_CPUS_PER_TASK"
)
LISTEN = """\
import os, signal, sys, time
def told(number, frame):
    print("rank", os.environ["RANK"], "got", signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(5)
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, told)
print("rank", os.environ["RANK"], "ready", flush=True)
while True:
    time.sleep(0.05)
"""


@dataclass
class Lab:
    """A twin with slurmds, and a folder in which its jobs may write."""

    twin: Twin
    folder: Path

    def environment(self) -> dict[str, str]:
        return {**self.twin.environment(os.environ), "SN_REPLAN": "0"}

    def submit(self, script: str, *options: str) -> tuple[str, Path]:
        """Submit a batch script; return its id and its output's file."""
        output = self.folder / f"out.{time.monotonic_ns()}"
        argv = ["sbatch", "--parsable", f"--output={output}", *options]
        done = subprocess.run(
            argv, input=f"#!/bin/bash\n{script}\n", env=self.environment(), cwd=self.folder,
            stdout=subprocess.PIPE, text=True, timeout=60, check=True,
        )  # fmt: skip
        return done.stdout.strip(), output

    def run(self, script: str, *options: str) -> str:
        """Run a batch script to its end; return what it said."""
        job, output = self.submit(script, *options)
        self.wait(job)
        return output.read_text()

    def wait(self, job: str) -> None:
        for _ in range(600):
            states = self.twin.client().job(JobId.parse(job)).states
            if not states & {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}:
                return
            time.sleep(0.1)
        raise AssertionError(f"job {job} is {states}")

    def program(self, name: str, *arguments: str) -> None:
        subprocess.run([name, *arguments], env=self.environment(), timeout=60, check=True)


def make_lab(folder: Path, site_conf: str | None = None) -> Iterator[Lab]:
    folder.chmod(0o755)
    (folder / "room.yaml").write_text(ROOM)
    files = generate(load(folder / "room.yaml"), find_release(installed_release())).files
    with Twin(TwinSpec(files=files, live=True, site_conf=site_conf)) as twin:
        yield Lab(twin, folder)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from make_lab(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def strict_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A site that forbids steps over several components of a job."""
    keys = "SchedulerParameters=bf_interval=1,batch_sched_delay=0,disable_hetjob_steps\n"
    yield from make_lab(tmp_path_factory.mktemp("strict"), keys)


def shown(text: str) -> list[str]:
    """Return the lines of the ranks in their order."""
    lines = re.findall(r"^rank=.*$", text, re.MULTILINE)
    return sorted(lines, key=lambda line: int(re.findall(r"\d+", line)[0]))


def ranks(nodes: dict[str, int], cpus: str) -> list[str]:
    """Return what all ranks show where each sees all its node's devices."""
    world = sum(nodes.values())
    found: list[str] = []
    for node, count in nodes.items():
        sees = ",".join(map(str, range(count)))
        for local in range(count):
            where = f"{node} local={local}/{count} sees={sees}"
            found.append(f"rank={len(found)}/{world} {where} cpus={cpus}")
    return found


@pytest.mark.parametrize(
    ("options", "cpus"),
    [
        ("--gres=gpu:4 --ntasks-per-node=4 --cpus-per-task=2", "2"),
        ("--gres=gpu:h100:4 --cpus-per-task=8", "2"),
        ("--gpus=h100:8 --cpus-per-task=12", "3"),
        ("--gpus-per-node=4 --ntasks-per-node=4 --cpus-per-task=1", "1"),
        ("--gpus-per-task=h100:1 --ntasks-per-node=4 --cpus-per-task=2", "2"),
        ("--gpus-per-task=1 --ntasks-per-node=4", ""),
        ("--gres=gpu:4 --gpu-bind=single:1 --ntasks-per-node=4", ""),
    ],
)
def test_each_rank_sees_its_nodes_devices_however_they_were_asked_for(
    lab: Lab, options: str, cpus: str
) -> None:
    text = lab.run(f"{LAUNCHER} bash -c '{SHOW}'", "-N2", "-w", "h[1-2]", *options.split())
    assert shown(text) == ranks({"h1": 4, "h2": 4}, cpus), text


@pytest.mark.parametrize("options", ["--gres=gpu:4 --cpus-per-task=4", "--gpus-per-task=h100:1"])
def test_one_task_per_node_sees_all_its_devices(lab: Lab, options: str) -> None:
    tasks = "--ntasks-per-node=4" if "per-task=h" in options else "--ntasks-per-node=1"
    show = "echo $NODE_RANK $NNODES $NPROC_PER_NODE $CUDA_VISIBLE_DEVICES $RANK $MASTER_PORT $*"
    text = lab.run(
        f"{LAUNCHER} --per-node bash -c '{show}' torchrun {{torchrun}}",
        "-N2", "-w", "h[1-2]", tasks, *options.split(),
    )  # fmt: skip
    found = re.findall(
        r"^(\d) 2 4 0,1,2,3 (\d+) --nnodes=2 --node-rank=(\d) --nproc-per-node=4 "
        r"--master-addr=\S+ --master-port=(\d+)$", text, re.MULTILINE,
    )  # fmt: skip
    assert sorted((a, c) for a, _, c, _ in found) == [("0", "0"), ("1", "1")], text
    assert {(b, d) for _, b, _, d in found} == {(found[0][1], found[0][1])}


def test_unequal_nodes_get_as_many_ranks_as_devices(lab: Lab) -> None:
    options = ("-N2", "-w", "u3,u5", "--gpus=8", "--cpus-per-task=10")
    text = lab.run(f"{LAUNCHER} bash -c '{SHOW}'", *options)
    assert shown(text) == ranks({"u3": 3, "u5": 5}, "2"), text
    others = (":", "-N1", "-w", "a1", "--gres=gpu:2", "--cpus-per-task=4")
    text = lab.run(f"{LAUNCHER} bash -c '{SHOW}'", *options, *others)
    assert shown(text) == ranks({"u3": 3, "u5": 5, "a1": 2}, "2"), text


def test_ranks_follow_the_tasks_that_the_user_asked_for(lab: Lab) -> None:
    text = lab.run(f"{LAUNCHER} bash -c '{SHOW}'", "-N2", "-w", "h[1-2]", "-n4", "--gres=gpu:4")
    assert [line.split()[0] for line in shown(text)] == [f"rank={n}/4" for n in range(4)]


def test_devices_that_are_not_called_gpu_are_counted(lab: Lab) -> None:
    options = ("-p", "npu", "-N2", "--gres=npu:4", "--cpus-per-task=4")
    text = lab.run(f"{LAUNCHER} bash -c '{SHOW}'", *options)
    wanted = ranks({"n1": 4, "n2": 4}, "1")
    assert shown(text) == [line.replace("sees=0,1,2,3", "sees=") for line in wanted], text


def test_one_cpu_for_many_ranks_starts_them_and_says_so(lab: Lab) -> None:
    text = lab.run(f"{LAUNCHER} bash -c '{SHOW}'", "-N1", "-w", "h1", "--gres=gpu:4")
    assert len(shown(text)) == 4
    assert "h1: 4 tasks share 1 CPUs, all that the job asked for" in text


def test_in_an_interactive_job_it_starts_a_step_of_its_own(lab: Lab) -> None:
    inner = f"{LAUNCHER} bash -c '{SHOW}'"
    script = f"{inner}; srun --interactive --preserve-env -N1 -n1 {inner}"
    argv = ["salloc", "-Q", "-N2", "-w", "h[1-2]", "--gres=gpu:4", "--cpus-per-task=4"]
    done = subprocess.run(
        [*argv, "bash", "-c", script], env=lab.environment(), cwd=lab.folder,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wanted = ranks({"h1": 4, "h2": 4}, "1")
    assert sorted(shown(done.stdout)) == sorted(2 * wanted)


def test_a_plan_orders_the_ranks_of_counted_features(lab: Lab) -> None:
    groups = tuple(
        DeviceGroup(kind, kind, "nvidia", ("CUDA_VISIBLE_DEVICES",), "gpu", hosts, 1, 2)
        for kind, hosts in (("h100", "h[1-2]"), ("a100", "a1"))
    )
    lines = tuple(Pipeline(4, (Mesh(n, 1, 1, 2, 1),), (Stage(0, 4),)) for n in (0, 1))
    plan = shlex.quote(dumps(Plan("m", 8, 1, "torch", groups, lines)))
    text = lab.run(
        f"export SN_PLAN={plan}\n{LAUNCHER} bash -c '{SHOW} group=$SN_GROUP'",
        "-N2", "-C", "[ph*1&pa*1]", "--gres=gpu:2", "--ntasks-per-node=2",
    )  # fmt: skip
    assert [line.rpartition(" ")[2] for line in shown(text)] == [
        "group=h100", "group=h100", "group=a100", "group=a100",
    ], text  # fmt: skip


def as_user(lab: Lab, script: str) -> str:
    """Return a script in which sn-launch asks ``sn plan --here``, as it does for users."""
    return f"unset SN_REPLAN\nexport SN_INVENTORY={lab.folder}/room.yaml\n{script}"


USER_SHOW = f"{SHOW} group=$SN_GROUP npus=$ASCEND_RT_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ("-N2 -w u3,u5 --gpus=8 -c10", {"u3": 3, "u5": 5}),
        ("-N2 -w h[1-2] --gres=gpu:h100:4 --ntasks-per-node=2 -c4", {"h1": 2, "h2": 2}),
        ("-N2 -C [ph*1&pa*1] --gres=gpu:2 --ntasks-per-node=2", {"h1": 2, "a1": 2}),
        ("-N2 -w h[1-2] -n3 --gres=gpu:h100:4", {"h1": 2, "h2": 1}),
        ("-N2 -w h[1-2] -n8 --gpus=8 -c1", {"h1": 4, "h2": 4}),
        ("-N1 -w h1 -n4 -c1 --gres=gpu:4 : -N1 -w a1 -n2 --gres=gpu:2", {"h1": 4, "a1": 2}),
        ("-N1 -w h1 -n2", {"h1": 2}),
    ],
)
def test_as_a_user_runs_it_the_tasks_are_slurms_or_the_users(
    lab: Lab, options: str, counts: dict[str, int]
) -> None:
    script = as_user(lab, f"{LAUNCHER} bash -c '{USER_SHOW}'")
    text = lab.run(script, *options.split())
    lines = [line.split() for line in shown(text)]
    world = sum(counts.values())
    assert [line[0] for line in lines] == [f"rank={n}/{world}" for n in range(world)], text
    assert sum(line[1][0] in "hua" for line in lines) == world
    if "-n3" not in options:  # where Slurm lays them is its own affair
        per_node = {node: sum(line[1][0] == node[0] for line in lines) for node in counts}
        assert sorted(per_node.values()) == sorted(
            sum(count for name, count in counts.items() if name[0] == node[0]) for node in counts
        ), text
    if "gpu" in options:
        assert {line[5] for line in lines} <= {"group=h100", "group=a100"}, text


def test_as_a_user_runs_it_behind_srun(lab: Lab) -> None:
    options = ("-N2", "-w", "h[1-2]", "--gres=gpu:h100:4", "--ntasks-per-node=2", "-c4")
    text = lab.run(as_user(lab, f"srun {LAUNCHER} bash -c '{USER_SHOW}'"), *options)
    assert [line.split()[0] for line in shown(text)] == [f"rank={n}/4" for n in range(4)], text
    text = lab.run(as_user(lab, f"srun -N1 -n2 {LAUNCHER} bash -c '{USER_SHOW}'"), *options)
    assert [line.split()[0] for line in shown(text)] == ["rank=0/2", "rank=1/2"], text


def test_as_a_user_runs_it_in_tasks_of_an_array(lab: Lab) -> None:
    options = ("-N1", "-w", "h1", "--gres=gpu:2", "-c4", "--array=0-1")
    job, _ = lab.submit(
        as_user(lab, f"exec > {lab.folder}/array.$SLURM_ARRAY_TASK_ID 2>&1\n"
                f"{LAUNCHER} bash -c '{USER_SHOW}'"), *options,
    )  # fmt: skip
    for task in (0, 1):
        await_text(lab.folder / f"array.{task}", "^rank=", 2, re.MULTILINE)
        text = (lab.folder / f"array.{task}").read_text()
        assert [line.split()[0] for line in shown(text)] == ["rank=0/2", "rank=1/2"], text
        assert text.count("group=h100") == 2, text
        lab.wait(f"{job}_{task}")


def test_in_a_shell_of_srun_it_starts_the_whole_job(lab: Lab) -> None:
    inner = shlex.quote(f"{LAUNCHER} bash -c {shlex.quote(SHOW)}")
    shell = shlex.quote(f"srun -N1 -n1 --pty bash -c {inner}")
    text = lab.run(
        as_user(lab, f"script -qec {shell} /dev/null"),
        "-N2", "-w", "h[1-2]", "--gres=gpu:2", "-c4",
    )  # fmt: skip
    assert sorted(line.split()[0] for line in shown(text.replace("\r", ""))) == [
        f"rank={n}/4" for n in range(4)
    ], text


def test_timeout_tells_the_ranks_and_leaves_none(lab: Lab) -> None:
    (lab.folder / "listen.py").write_text(LISTEN)
    text = lab.run(
        f"timeout 5 {LAUNCHER} {sys.executable} {lab.folder}/listen.py\n"
        f"timeout -s KILL 5 {LAUNCHER} sh -c 'echo ready; exec sleep 7777.5'\nsleep 3\n"
        "grep -lz '^7777.5' /proc/[0-9]*/cmdline && echo left\necho done",
        "-N2", "-w", "h[1-2]", "--ntasks-per-node=1",
    )  # fmt: skip
    assert len(re.findall(r"rank \d got SIGTERM", text)) == 2, text
    assert len(re.findall("^ready$", text, re.MULTILINE)) == 2, text
    assert "left" not in text
    assert "done" in text


def test_a_rank_is_named_whose_watcher_is_killed(lab: Lab) -> None:
    text = lab.run(
        f"{LAUNCHER} sh -c 'test $RANK != 2 || kill -KILL $PPID; sleep 8'\necho ended $?",
        "-N2", "-w", "h[1-2]", "--ntasks-per-node=2",
    )  # fmt: skip
    assert "no word from rank 2 on h2: killed, or the sn-launch beside it was" in text, text
    assert re.search(r"^ended 1(37|43)$", text, re.MULTILINE), text  # srun's largest


def test_two_jobs_on_one_node_get_different_npus(lab: Lab) -> None:
    script = as_user(lab, f"{LAUNCHER} bash -c '{USER_SHOW}; sleep 5'")
    options = ("-p", "npu", "-N1", "-w", "n1", "--gres=npu:2", "-c2", "--mem=1G")
    jobs = [lab.submit(script, *options) for _ in range(2)]
    seen = []
    for job, output in jobs:
        lab.wait(job)
        text = output.read_text()
        found = set(re.findall(r"npus=(\S*)", text))
        assert len(found) == 1, text
        seen += found.pop().split(",")
    assert sorted(seen) == ["0", "1", "2", "3"]


HET = (
    "-N1", "-w", "h1", "--ntasks-per-node=4", "--gres=gpu:h100:4", "--cpus-per-task=2", ":",
    "-N1", "-w", "a1", "--ntasks-per-node=2", "--gres=gpu:a100:2",
)  # fmt: skip


def test_ranks_run_on_over_components_whether_or_not_one_step_may(
    lab: Lab, strict_lab: Lab
) -> None:
    script = f"{LAUNCHER} bash -c '{SHOW} step=$SLURM_STEP_ID'"
    for found, steps in ((lab, 1), (strict_lab, 2)):
        text = found.run(script, *HET)
        lines = [line.split() for line in shown(text)]
        assert [line[:4] for line in lines] == [
            line.split()[:4] for line in ranks({"h1": 4, "a1": 2}, "")
        ], text
        assert len({line[-1] for line in lines}) == steps


def test_components_end_together_where_they_run_apart(strict_lab: Lab) -> None:
    text = strict_lab.run(
        f"{LAUNCHER} sh -c 'test $RANK != 4 || {{ echo why >&2; exit 7; }}; sleep 100'\n"
        "echo ended with $?", *HET,
    )  # fmt: skip
    assert "rank 4 on a1 died first: exit code 7, " in text
    assert "ended with 7" in text


def test_the_rank_that_died_first_is_named(lab: Lab) -> None:
    program = (
        "import os, sys, time\n"
        "print('some line of', os.environ['RANK'], file=sys.stderr)\n"
        "if os.environ['RANK'] == '5': time.sleep(1); raise RuntimeError('no luck')\n"
        "time.sleep(100)\n"
    )
    (lab.folder / "train.py").write_text(program)
    text = lab.run(
        f"{LAUNCHER} {sys.executable} train.py\necho ended with $?\n"
        f"{LAUNCHER} sh -c 'test $RANK != 2 || kill -SEGV $$; sleep 100'\necho ended with $?\n"
        f"{LAUNCHER} --srun=--label sh -c 'test $RANK != 2 || exit 9; sleep 100'\necho ended $?",
        "-N2", "-w", "h[1-2]", "--ntasks-per-node=4",
    )  # fmt: skip
    assert re.search(
        r"sn-launch: error: rank 5 on h2 died first: exit code 1, [\d :-]+; 7 more followed\n"
        r"    some line of 5\n    Traceback .*\n(    .*\n)+    RuntimeError: no luck\n"
        r"ended with 1\n",
        text,
    ), text
    assert "rank 2 on h1 died first: signal 11 (SIGSEGV), " in text
    assert "ended with 139\n" in text
    assert "ended 9\n" in text
    assert "\x1e" not in text


def test_a_rank_of_a_step_by_hand_names_itself(lab: Lab) -> None:
    text = lab.run(
        f"srun {LAUNCHER} sh -c 'test $RANK != 1 || exit 9'\necho ended with $?",
        "-N2", "-w", "h[1-2]", "--ntasks-per-node=1",
    )  # fmt: skip
    assert "sn-launch: error: rank 1 on h2 ended with exit code 9\n" in text
    assert "ended with 9\n" in text


def await_text(output: Path, pattern: str, count: int, flags: int = 0) -> None:
    for _ in range(600):
        text = output.read_text() if output.exists() else ""
        if len(re.findall(pattern, text, flags)) >= count:
            return
        time.sleep(0.1)
    raise AssertionError(f"no {pattern!r} in:\n{text}")


@pytest.mark.parametrize("more", [(), (":", "-N1", "-w", "a1", "--ntasks-per-node=1")])
def test_signals_to_step_and_script_reach_every_program(lab: Lab, more: tuple[str, ...]) -> None:
    (lab.folder / "listen.py").write_text(LISTEN)
    world = 2 + bool(more)
    script = (
        f"trap 'kill -USR1 $pid' USR1\ntrap 'kill -TERM $pid' TERM\n"
        f"{LAUNCHER} {sys.executable} listen.py &\npid=$!\n"
        "while kill -0 $pid 2>/dev/null; do wait $pid; done\nwait $pid\necho ended with $?"
    )
    job, output = lab.submit(script, "-N1", "-w", "h1", "--ntasks-per-node=2", *more)
    await_text(output, "ready", world)
    lab.program("scancel", "--signal=USR2", job)
    await_text(output, "got SIGUSR2", world)
    lab.program("scancel", "--batch", "--signal=USR1", job)
    await_text(output, "got SIGUSR1", world)
    lab.program("scancel", "--batch", "--signal=TERM", job)
    lab.wait(job)
    text = output.read_text()
    assert len(re.findall(r"rank \d got SIGTERM", text)) == world, text
    assert f"Slurm, or a user, ended the step: {world} ranks with it" in text
    assert "ended with 5\n" in text


def test_a_cancelled_job_leaves_no_process(lab: Lab) -> None:
    (lab.folder / "listen.py").write_text(LISTEN)
    job, output = lab.submit(
        f"{LAUNCHER} {sys.executable} {lab.folder}/listen.py",
        "-N2", "-w", "h[1-2]", "--ntasks-per-node=2",
    )  # fmt: skip
    await_text(output, "ready", 4)
    assert running(str(lab.folder)) > 0
    lab.program("scancel", job)
    lab.wait(job)
    assert len(re.findall(r"rank \d got SIGTERM", output.read_text())) == 4
    for _ in range(100):
        if not running(str(lab.folder)):
            return
        time.sleep(0.1)
    raise AssertionError("processes of the job are left")


def running(word: str) -> int:
    """Return how many processes have a word in their command line."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += word.encode() in path.read_bytes()
        except OSError:
            continue
    return count


@pytest.mark.parametrize("options", [("-N2", "-w", "h[1-2]", "--ntasks-per-node=2"), HET])
def test_a_carried_launcher_reaches_every_node_and_goes_again(
    lab: Lab, options: tuple[str, ...]
) -> None:
    (lab.folder / "sn-launch.pyz").write_bytes(archive())
    files = "ls /tmp/sn-launch.*.pyz 2>/dev/null"
    text = lab.run(
        f"{files} | sort > before\nSN_CARRIED=1 python3 {lab.folder}/sn-launch.pyz bash -c "
        f"'{SHOW}; tr \"\\0\" \"\\n\" < /proc/$PPID/cmdline | grep /tmp/sn-launch'\n"
        f"{files} | sort > after; comm -13 before after | sed s/^/left:/", *options,
    )  # fmt: skip
    count = 6 if ":" in options else 4
    assert len(shown(text)) == count, text
    mine = re.findall(r"^/tmp/sn-launch\.[0-9a-f]{32}\.pyz$", text, re.MULTILINE)
    assert len(mine) == count
    # Other jobs on this machine have files of their own there.
    assert not set(mine) & set(re.findall(r"^left:(.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("options", [("-N2", "-w", "h[1-2]", "--gpus=8"), HET])
def test_ports_of_another_node_are_asked_for_beside_other_steps(
    lab: Lab, options: tuple[str, ...]
) -> None:
    hosts = (("h1",), ("a1",)) if ":" in options else (("h1", "h2"),)
    parts = [Component("", dict.fromkeys(names, 0)) for names in hosts]
    ask = shlex.join(ask_ports(parts, hosts[-1][-1], str(launch.__file__), 7))
    text = lab.run(f"unset SLURM_TRES_PER_TASK SLURM_NTASKS\n{ask} & {ask} & wait", *options)
    ports = [line.split() for line in text.splitlines()]
    assert [len(line) for line in ports] == [16, 16], text
    assert ports[0] == ports[1]


def test_two_launchers_in_one_job_meet_at_two_ports(lab: Lab) -> None:
    one = f"{LAUNCHER} --srun=--overlap bash -c 'echo port=$MASTER_PORT; sleep 3'"
    text = lab.run(f"{one} & {one} & wait", "-N1", "-w", "h1", "--ntasks-per-node=1")
    assert len(set(re.findall(r"port=\d+", text))) == 2, text


def test_a_plan_for_other_nodes_is_made_anew_inside_the_allocation(lab: Lab) -> None:
    group = DeviceGroup("h100", "h100-pcie", "nvidia", (), "gpu", "u[3,5]", 2, 2)
    here = DeviceGroup("h100", "h100-pcie", "nvidia", (), "gpu", "h[1-2]", 2, 2)
    line = Pipeline(8, (Mesh(0, 2, 1, 2, 2),), (Stage(0, 4),))
    folder = lab.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "plan").write_text(dumps(Plan("m", 8, 128, "torch", (here,), (line,))))
    (folder / "sn").write_text(f"#!/bin/sh\ntest \"$*\" = 'plan --here' && cat {folder}/plan\n")
    (folder / "sn").chmod(0o755)
    if not (folder / "python3").exists():
        (folder / "python3").symlink_to(sys.executable)
    plan = shlex.quote(dumps(Plan("m", 8, 128, "torch", (group,), (line,))))
    text = lab.run(
        f"export SN_PLAN={plan} SN_REPLAN=1\n{folder}/python3 {launch.__file__} bash -c "
        f"'{SHOW} tp={{tp}} samples=$SN_SAMPLES'",
        "-N2", "-w", "h[1-2]", "--gres=gpu:2", "--ntasks-per-node=2",
    )  # fmt: skip
    assert text.count("planned anew") == 1, text
    assert [line.split()[-2:] for line in shown(text)] == [["tp=2", "samples=4"]] * 4, text
