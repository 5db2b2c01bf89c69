"""sn-launch in the batch script, whole: Slurm's programs are replaced by stand-ins."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pytest

from supernode_slurm.plan import DeviceGroup, Mesh, Pipeline, Plan, Predicted, Stage, dumps
from supernode_slurm.runtime import master, private
from supernode_slurm.runtime.archive import archive
from supernode_slurm.runtime.containers import pyxis_options
from supernode_slurm.runtime.layout import Layout, Place
from supernode_slurm.runtime.problem import LaunchError
from supernode_slurm.runtime.verdict import Ranks, judge

ROOT = Path(__file__).resolve().parents[1]
LAUNCHER = ROOT / "supernode_slurm" / "runtime" / "launch.py"

H100 = DeviceGroup(
    "h100", "h100-sxm", "nvidia", ("CUDA_VISIBLE_DEVICES",), "gpu", "h[1-4]", 2, 2,
    environment={"NCCL_SOCKET_IFNAME": "bond0"},
)  # fmt: skip
LINE = Pipeline(8, (Mesh(0, 2, 1, 2, 2),), (Stage(0, 4),))
PLAN = Plan(
    "m", 8, 128, "deepspeed", (H100,), (LINE,),
    arguments=("--zero={tp}", "--config", "{ds.json}"), files={"ds.json": '{"zero": 1}'},
)  # fmt: skip
PLACED = replace(PLAN, model="", pipelines=(), arguments=(), files={})
SHOW = (
    "import os, sys; e = os.environ.get;"
    "print(e('RANK'), e('WORLD_SIZE'), e('SLURMD_NODENAME'), e('LOCAL_RANK'), *sys.argv[1:])"
)


@dataclass
class Job:
    """A batch script's environment, with stand-ins for Slurm's programs on PATH."""

    folder: Path
    env: dict[str, str]
    launcher: Path = LAUNCHER

    @property
    def python(self) -> str:
        """Return a Python that has no real ``sn`` beside it."""
        return str(self.folder / "bin" / "python3")

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    @contextlib.contextmanager
    def start(self, *words: str, **more: str) -> Iterator[subprocess.Popen[str]]:
        """Run the launcher; whatever it leaves running ends with the test."""
        with subprocess.Popen(
            [self.python, str(self.launcher), *words], env={**self.env, **more},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        with self.start(*words, **more) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def calls(self) -> list[list[str]]:
        """Return the arguments of each srun."""
        log = Path(self.env["FAKE_LOG"])
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    env = {
        "PATH": f"{tmp_path / 'bin'}:{os.defpath}", "TMPDIR": str(tmp_path / "tmp"),
        "FAKE_LOG": str(tmp_path / "log"), "FAKE_NODES": "h1,h2",
        "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "h[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)",
        "SLURM_NTASKS": "4",
    }  # fmt: skip
    found = Job(tmp_path, env)
    (tmp_path / "bin" / "srun").symlink_to(ROOT / "tests" / "fake_step.py")
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    found.program("scontrol", "#!/bin/sh\necho NodeName=x NodeAddr=127.0.0.1\n")
    return found


def test_every_rank_starts_once_with_its_plan(job: Job) -> None:
    done = job.run(sys.executable, "-c", SHOW, "{plan}", SN_PLAN=dumps(PLAN))
    assert (done.returncode, done.stderr) == (0, "")
    lines = sorted(line.split() for line in done.stdout.splitlines())
    assert [line[:4] for line in lines] == [
        ["0", "4", "h1", "0"], ["1", "4", "h1", "1"], ["2", "4", "h2", "0"], ["3", "4", "h2", "1"],
    ]  # fmt: skip
    assert {(line[4], line[5], Path(line[6]).name) for line in lines} == {
        ("--zero=2", "--config", "ds.json")
    }
    assert len(job.calls()) == 1


LEFT = "#!/bin/sh\necho JobId=7 ReqNodeList=h1 NodeList={} BatchHost=h2\n"


def test_a_node_that_the_job_has_lost_gets_no_rank(job: Job) -> None:
    job.program("scontrol", LEFT.format("h2"))
    done = job.run(sys.executable, "-c", SHOW, SN_REPLAN="0", FAKE_NODES="h2")
    assert sorted(done.stdout.split("\n")) == ["", "0 2 h2 0", "1 2 h2 1"], done.stderr
    assert "the job has lost h1: starting on the other nodes" in done.stderr


@pytest.mark.parametrize("nodes", ["h[1-2]", "(null)", "h[1-3]", ""])
def test_nodes_that_slurm_does_not_tell_are_not_taken_for_lost(job: Job, nodes: str) -> None:
    job.program("scontrol", LEFT.format(nodes))
    done = job.run(sys.executable, "-c", SHOW, SN_REPLAN="0")
    assert (len(done.stdout.splitlines()), done.stderr) == (4, "")


def test_files_of_the_plan_are_private_and_gone_afterwards(job: Job) -> None:
    program = (
        "import os, sys; path = sys.argv[1];"
        "print(open(path).read(), oct(os.stat(path).st_mode & 0o777),"
        " oct(os.stat(os.path.dirname(path)).st_mode & 0o777))"
    )
    done = job.run(sys.executable, "-c", program, "{ds.json}", SN_PLAN=dumps(PLAN))
    assert set(done.stdout.splitlines()) == {'{"zero": 1} 0o600 0o700'}, done.stderr
    assert list((job.folder / "tmp").iterdir()) == []


def test_numbers_of_the_plan_stand_in_words(job: Job) -> None:
    words = (
        "{tp} {pp} {dp} {cp} {ep} b={micro_batch}/{global_batch} s={sequence} a={accumulation}",
        "${tp}", "{nonsuch}", "{}", '{"tp": 1}', "{plan",
    )  # fmt: skip
    done = job.run(sys.executable, "-c", SHOW, *words, SN_PLAN=dumps(PLAN))
    filled = '2 1 2 1 1 b=2/8 s=128 a=2 ${tp} {nonsuch} {} {"tp": 1} {plan'
    assert {line.split(maxsplit=4)[4] for line in done.stdout.splitlines()} == {filled}


def test_one_task_per_node_gets_torchruns_words(job: Job) -> None:
    program = SHOW + ";print(e('NNODES'), e('NODE_RANK'), e('NPROC_PER_NODE'), e('SN_GROUP'))"
    words = ("--per-node", sys.executable, "-c", program, "{torchrun}")
    done = job.run(*words, SN_PLAN=dumps(PLAN), MASTER_PORT="29500")
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    for node in (0, 1):
        assert f"--nnodes=2 --node-rank={node} --nproc-per-node=2 --master-addr=" in shown
        assert f"2 {node} 2 h100\n" in shown
    assert shown.count("--master-port=29500") == 2
    done = job.run("true", "{torchrun}", SN_PLAN=dumps(PLAN))
    assert (done.returncode, len(job.calls())) == (2, 1)
    assert "write sn-launch --per-node" in done.stderr


@pytest.mark.parametrize("plan", ["", dumps(PLACED)], ids=["none", "placed"])
@pytest.mark.parametrize("word", ["--tp={tp}", "{ds.json}"])
def test_what_only_a_plan_could_say_is_an_error_before_anything_starts(
    job: Job, word: str, plan: str
) -> None:
    done = job.run("true", word, SN_PLAN=plan)
    assert done.returncode == 3
    assert "the job is placed, not planned; name its --model" in done.stderr
    assert job.calls() == []


def test_a_file_that_the_plan_lacks_is_an_error_that_names_those_it_has(job: Job) -> None:
    done = job.run("true", "{other.json}", SN_PLAN=dumps(PLAN))
    assert done.returncode == 2
    assert "the plan for deepspeed has no file {other.json}; its files: {ds.json}" in done.stderr
    assert job.calls() == []


def test_within_a_word_the_plans_words_are_quoted_for_a_shell(job: Job) -> None:
    plan = replace(PLAN, arguments=("--name=a b", "--tp={tp}", "$HOME"))
    script = """printf '%s\n' "$(printf '%s|' {plan})\""""
    done = job.run("sh", "-c", script, SN_PLAN=dumps(plan))
    assert set(done.stdout.splitlines()) == {"--name=a b|--tp=2|$HOME|"}, done.stderr
    done = job.run("--per-node", "sh", "-c", "echo {torchrun}", SN_PLAN=dumps(plan))
    assert done.stdout.count("--nnodes=2 --node-rank=") == 2


def test_without_a_plan_its_words_vanish(job: Job) -> None:
    for plan in ("", dumps(PLACED)):
        done = job.run(sys.executable, "-c", SHOW, "a", "{plan}", "b", SN_PLAN=plan)
        assert done.stdout.count(" a b\n") == 4
        assert done.stderr.count("warning: {plan} becomes nothing, and the framework takes") == 1


def test_the_network_of_the_nodes_is_set_unless_the_user_did(job: Job) -> None:
    program = "import os; print(os.environ['NCCL_SOCKET_IFNAME'])"
    words = (sys.executable, "-c", program)
    assert set(job.run(*words, SN_PLAN=dumps(PLAN)).stdout.split()) == {"bond0"}
    mine = job.run(*words, SN_PLAN=dumps(PLAN), NCCL_SOCKET_IFNAME="eth7")
    assert set(mine.stdout.split()) == {"eth7"}


def test_the_rank_that_died_first_is_named_with_its_last_lines(job: Job) -> None:
    program = (
        "import os, sys, time\n"
        "rank = int(os.environ['RANK'])\n"
        "print('rank', rank, 'of stdout')\n"
        "time.sleep(1 if rank != 2 else 0)\n"
        "print('no luck on', rank, file=sys.stderr)\n"
        "sys.exit(10 + rank if rank != 1 else 0)"
    )
    done = job.run(sys.executable, "-c", program, SN_PLAN=dumps(PLAN))
    assert done.returncode == 12  # srun itself would say 13
    last = done.stderr[done.stderr.index("sn-launch: error") :]
    assert last.startswith("sn-launch: error: rank 2 on h2 (h100-sxm) died first: exit code 12, ")
    assert last.endswith("; 2 more followed\n    no luck on 2\n")
    assert "\x1e" not in done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {n} of stdout" for n in range(4)]


def test_a_signal_becomes_its_exit_code(job: Job) -> None:
    done = job.run("sh", "-c", "test $RANK != 1 || kill -SEGV $$")
    assert done.returncode == 128 + signal.SIGSEGV
    assert "rank 1 on h1 died first: signal 11 (SIGSEGV), " in done.stderr


def test_a_step_that_fails_before_any_rank_gives_its_own_code(job: Job) -> None:
    (job.folder / "bin" / "srun").unlink()
    job.program("srun", "#!/bin/sh\necho srun: error: no >&2\nexit 1\n")
    done = job.run("true")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "srun: error: no")
    job.program("srun", "#!/bin/sh\nexit 2\n")  # as where Python is missing
    assert "3.8 or newer, and " in job.run("true").stderr
    (job.folder / "bin" / "srun").unlink()
    done = job.run("true", PATH=str(job.folder / "bin"))
    assert done.returncode == 127
    assert "sn-launch: error: cannot start srun: " in done.stderr


HET = {
    "SLURM_HET_SIZE": "2", "FAKE_NODES": "h1;a1", "SLURM_JOB_NODELIST": "h1",
    "SLURM_JOB_ID_HET_GROUP_0": "7", "SLURM_JOB_ID_HET_GROUP_1": "8",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "h1", "SLURM_JOB_NODELIST_HET_GROUP_1": "a1",
    "SLURM_TASKS_PER_NODE_HET_GROUP_0": "2", "SLURM_TASKS_PER_NODE_HET_GROUP_1": "3",
    "SLURM_NTASKS_PER_NODE_HET_GROUP_0": "2", "SLURM_NTASKS_PER_NODE_HET_GROUP_1": "3",
}  # fmt: skip
FORBIDDEN = (
    "#!/bin/sh\necho NodeName=x NodeAddr=127.0.0.1\n"
    "echo 'SchedulerParameters = bf_interval=1,disable_hetjob_steps'\n"
)


@pytest.mark.parametrize("apart", [False, True])
def test_ranks_run_on_over_the_components(job: Job, apart: bool) -> None:
    if apart:
        job.program("scontrol", FORBIDDEN)
    done = job.run(sys.executable, "-c", SHOW, **HET)
    assert [line.split()[:4] for line in sorted(done.stdout.splitlines())] == [
        ["0", "5", "h1", "0"], ["1", "5", "h1", "1"],
        ["2", "5", "a1", "0"], ["3", "5", "a1", "1"], ["4", "5", "a1", "2"],
    ]  # fmt: skip
    assert len(job.calls()) == 1 + apart


def test_steps_that_run_apart_end_together(job: Job) -> None:
    job.program("scontrol", FORBIDDEN)
    job.program("scancel", f"#!/bin/sh\necho $* >> {job.folder}/cancelled\nexit 0\n")
    program = (
        "import os, pathlib, sys, time\n"
        "rank = os.environ['RANK']\n"
        f"flag = pathlib.Path({str(job.folder)!r}, 'cancelled')\n"
        "if rank == '3': sys.exit(9)\n"
        "while rank < '2' and not flag.exists(): time.sleep(0.05)"
    )
    done = job.run(sys.executable, "-c", program, **HET)
    assert done.returncode == 9
    assert "rank 3 on a1 died first" in done.stderr
    (step,) = {call[0] for call in [line.split() for line in cancelled(job)]}
    assert step.startswith("7.")


def cancelled(job: Job) -> list[str]:
    return (job.folder / "cancelled").read_text().splitlines()


@pytest.mark.parametrize(("state", "sent"), [("RUNNING", True), ("COMPLETING", False)])
def test_a_signal_to_the_launcher_reaches_the_ranks_once(job: Job, state: str, sent: bool) -> None:
    job.program("squeue", f"#!/bin/sh\necho {state}\n: > {job.folder}/asked\n")
    job.program("scancel", f"#!/bin/sh\necho $* >> {job.folder}/cancelled\n")
    flag = "cancelled" if sent else "asked"
    loop = f"echo ready; while ! test -e {job.folder}/{flag}; do sleep 0.05; done"
    with job.start("sh", "-c", loop) as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        process.communicate()
    assert (job.folder / "cancelled").exists() == sent
    if sent:
        assert cancelled(job) == ["--signal=TERM 7.0"]


def test_a_signal_that_comes_twice_at_once_is_one(job: Job) -> None:
    """``timeout`` sends it to the launcher, and to the launcher's process group."""
    job.program("squeue", "#!/bin/sh\necho RUNNING\n")
    job.program("scancel", f"#!/bin/sh\necho $* >> {job.folder}/cancelled\n")
    loop = f"echo ready; while ! test -e {job.folder}/cancelled; do sleep 0.05; done; sleep 1"
    with job.start("sh", "-c", loop) as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        process.communicate()
    assert cancelled(job) == ["--signal=TERM 7.0"]


def test_srun_ends_with_the_launcher(job: Job) -> None:
    parent = 'cut -d" " -f4 /proc/$PPID/stat'
    with job.start(
        "sh", "-c", f"echo $PPID $({parent}); touch {job.folder}/up; sleep 60"
    ) as process:  # fmt: skip
        assert process.stdout is not None
        srun = int(process.stdout.readline().split()[1])
        process.kill()
        process.wait(timeout=60)
        for _ in range(100):
            stat = Path(f"/proc/{srun}/stat")
            if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
                break
            time.sleep(0.05)
        else:
            raise AssertionError("srun is left")


def test_a_rank_whose_watcher_is_killed_is_named(job: Job) -> None:
    done = job.run("sh", "-c", "test $RANK != 2 || kill -KILL $PPID; exit 0")
    assert done.returncode == 128 + signal.SIGKILL
    assert "no word from rank 2 on h2: killed, or the sn-launch beside it was" in done.stderr


def test_who_died_first_is_told_by_arrival_and_not_by_clocks() -> None:
    where = Layout((Place("h1", -1, 0, 2),), "h1", 1)
    end = {"kind": "end", "signal": 0, "told": False}
    ranks = Ranks([
        {**end, "rank": 1, "code": 5, "at": 200.0, "text": "rank 1"},
        {**end, "rank": 0, "code": 6, "at": 100.0, "text": "rank 0"},
    ])  # fmt: skip
    assert judge(ranks, 6, where) == 5


def test_a_rank_that_refuses_is_not_taken_for_a_killed_one(job: Job) -> None:
    done = job.run("true", SLURM_STEP_TASKS_PER_NODE="1,2", SLURM_STEP_NODELIST="h[1-2]")
    assert "h1 needs 2 tasks, srun started 1" in done.stderr
    assert "no word" not in done.stderr
    done = job.run("true", SLURM_STEP_TASKS_PER_NODE="2", SLURM_STEP_NODELIST="h2")
    assert "srun left out h1" in done.stderr


def test_streams_that_srun_would_take_away_are_refused(job: Job) -> None:
    done = job.run("true", SLURM_STDERRMODE="x")
    assert (done.returncode, job.calls()) == (2, [])
    assert "SLURM_STDERRMODE is set: " in done.stderr


def test_one_task_per_node_inherits_nothing_of_one_process(job: Job) -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    program = f"import os; print(*(os.environ.get(n) for n in {names}))"
    done = job.run("--per-node", sys.executable, "-c", program, **dict.fromkeys(names, "9"))
    assert done.stdout == "None None None None\n" * 2, done.stderr


def test_a_full_disk_is_a_message(job: Job) -> None:
    blocked = "import os; os.mkdir = lambda *a: (_ for _ in ()).throw(OSError(28, 'No space left'))"
    (job.folder / "full.py").write_text(
        f"{blocked}\nimport runpy, sys\nsys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    done = subprocess.run(
        [job.python, f"{job.folder}/full.py", str(LAUNCHER), "true"], env=job.env,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == (
        "sn-launch: error: cannot make a directory in /tmp: No space left; set TMPDIR to where "
        "you can"
    )


def test_the_tasks_of_the_user_hold_beside_a_placed_document(job: Job) -> None:
    wide = replace(PLACED, groups=(replace(H100, devices_per_node=8),))
    sn_prints(job, dumps(wide))
    done = job.run(sys.executable, "-c", f"{SHOW};print(e('SN_GROUP'))")
    assert done.stdout.count("h100\n") == 4, done.stderr
    assert {line.split()[1] for line in done.stdout.splitlines() if " " in line} == {"4"}


def test_a_plan_is_made_where_the_job_carries_none(job: Job) -> None:
    sn_prints(job, dumps(PLAN))
    done = job.run(sys.executable, "-c", SHOW, "{tp}")
    assert done.stdout.count(" 2\n") == 4, done.stderr
    assert (job.folder / "asked").read_text() == "plan --here\n"
    assert done.stderr == "sn: warning: thinking\n"


def test_what_a_plan_that_is_made_here_promises_is_said_once(job: Job) -> None:
    h1, h2 = (replace(H100, name=name, hosts=name, nodes=1) for name in ("h1", "h2"))
    lines = tuple(
        Pipeline(share, (Mesh(index, 1, 1, 2, 1),), (Stage(0, 4, True, True),))
        for index, share in enumerate((6, 2))
    )
    plan = replace(
        PLAN, groups=(h1, h2), pipelines=lines, predicted=Predicted(2.345), arguments=(), files={}
    )
    said = "sn-launch: note: planned for 2 h1 + 2 h2, samples: h1 6, h2 2: 2.35 s a step\n"
    sn_prints(job, dumps(plan))
    assert job.run("true").stderr == f"sn: warning: thinking\n{said}"
    line = replace(plan, groups=(H100,), pipelines=(LINE,))
    sn_prints(job, dumps(line))
    assert "note: planned for 4 h100: 2.35 s a step" in job.run("true").stderr
    # What sn-submit promised it has said itself.
    assert job.run("true", SN_PLAN=dumps(plan)).stderr == ""
    assert by_hand(job, job.python, str(LAUNCHER), "true").stderr.count("planned for") == 0


def test_a_plan_for_other_nodes_is_made_anew(job: Job) -> None:
    group = DeviceGroup("x", "x", "x", (), "gpu", "z1", 1, 1)
    line = Pipeline(8, (Mesh(0, 1, 1, 1, 2),), (Stage(0, 4),))
    old = Plan("m", 8, 128, "torch", (group,), (line,))
    sn_prints(job, dumps(PLAN))
    done = job.run(sys.executable, "-c", SHOW, "{tp}", SN_PLAN=dumps(old))
    assert done.stdout.count(" 2\n") == 4
    assert "the plan wants 1 nodes for x, the job got 0 (none): planned anew" in done.stderr
    done = job.run("true", SN_PLAN=dumps(old), SN_REPLAN="0")
    assert done.returncode == 3
    assert "submit it again" in done.stderr


@pytest.mark.parametrize(("code", "wanted"), [(3, 3), (4, 4), (2, 2), (1, 3)])
def test_what_cannot_be_planned_does_not_start(job: Job, code: int, wanted: int) -> None:
    job.program("sn", f"#!/bin/sh\necho sn: error: no way >&2\nexit {code}\n")
    done = job.run("true")
    assert done.returncode == wanted
    assert done.stderr.startswith("sn: error: no way\nsn-launch: error: ")
    assert "SN_REPLAN=0" in done.stderr
    assert job.calls() == []
    assert job.run("true", SN_REPLAN="0").returncode == 0


def test_in_a_step_by_hand_one_task_of_each_node_plans(job: Job) -> None:
    sn_prints(job, dumps(PLAN))
    env = {
        **job.env, "SLURM_STEP_NODELIST": "h[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "MASTER_PORT": "29501",
    }  # fmt: skip
    argv = [
        str(job.folder / "bin" / "srun"), "--ntasks-per-node=2", job.python, str(LAUNCHER),
        sys.executable, "-c", SHOW, "{tp}",
    ]  # fmt: skip
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == ["0", "1", "2", "3"]
    assert done.stdout.count(" 2\n") == 4, done.stderr
    assert len((job.folder / "asked").read_text().splitlines()) == 2
    assert list((job.folder / "tmp").iterdir()) == []


def by_hand(job: Job, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the launcher behind srun, on two nodes with two tasks each."""
    env = {
        **job.env, "SLURM_STEP_NODELIST": "h[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "MASTER_PORT": "29501", **more,
    }  # fmt: skip
    argv = [str(job.folder / "bin" / "srun"), "--ntasks-per-node=2", *words]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_task_that_never_plans_keeps_nobody_waiting(job: Job) -> None:
    sn_prints(job, dumps(PLAN))
    script = f'test $SLURM_LOCALID != 0 || exit 0; exec {job.python} {LAUNCHER} echo "{{tp}}"'
    done = by_hand(job, "sh", "-c", script)
    assert done.stdout == "2\n2\n", done.stderr


def test_part_of_a_job_by_hand_is_a_job_of_its_own(job: Job) -> None:
    alone = {"SLURM_STEP_NODELIST": "h2", "SLURM_STEP_TASKS_PER_NODE": "2", "FAKE_NODES": "h2"}
    words = (job.python, str(LAUNCHER), sys.executable, "-c", f"{SHOW};print(e('SN_GROUP'))")
    done = by_hand(job, *words, SN_PLAN=dumps(PLAN), **alone)
    assert sorted(done.stdout.split()) == sorted(
        ["0", "2", "h2", "0", "h100", "1", "2", "h2", "1", "h100"]
    )
    assert done.stderr.count("this step leaves out h1, and the plan is for the whole job") == 1
    done = by_hand(job, *words, "{tp}", SN_PLAN=dumps(PLAN), **alone)
    assert done.stderr.count("{tp} has no value: the job is placed") == 2


def test_what_a_node_asks_slurm_by_hand_it_asks_once(job: Job) -> None:
    job.program(
        "scontrol",
        f"#!/bin/sh\necho $* >> {job.folder}/shown\necho NodeName=x NodeAddr=127.0.0.1\n",
    )
    done = by_hand(job, job.python, str(LAUNCHER), "true", SN_REPLAN="0")
    assert done.returncode == 0, done.stderr
    assert (job.folder / "shown").read_text() == "show node h1 -o\n" * 2


def test_in_a_shell_of_a_step_it_starts_a_step_over_the_whole_job(job: Job) -> None:
    shell = {
        "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "h1", "SLURM_STEP_TASKS_PER_NODE": "1",
        "SLURM_TASKS_PER_NODE": "1", "SLURM_NTASKS": "1", "SLURM_PTY_PORT": "4711",
        "SLURM_JOB_CPUS_PER_NODE": "8(x2)", "SLURM_PROCID": "0", "SLURM_NNODES": "1",
    }  # fmt: skip
    job.program(
        "scontrol",
        "#!/bin/sh\necho NodeName=x NodeAddr=127.0.0.1\n"
        "echo 'Nodes=h[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:h100:3(IDX:0-2),nic:1(CNT:1)'\n",
    )
    done = job.run(sys.executable, "-c", SHOW, **shell)
    assert {line.split()[1] for line in done.stdout.splitlines()} == {"6"}, done.stderr
    assert "--overlap" in job.calls()[0]


def sn_prints(job: Job, plan: str) -> None:
    (job.folder / "plan").write_text(plan)
    job.program(
        "sn",
        f"#!/bin/sh\necho $* >> {job.folder}/asked\necho sn: warning: thinking >&2\n"
        f"cat {job.folder}/plan\n",
    )


def test_a_container_gets_what_its_image_would_hide(job: Job) -> None:
    done = job.run(
        "--srun=--container-image=x.sqsh", "true", SN_PLAN=dumps(PLAN),
        PYXIS_CONTAINER_MOUNTS="/data:/data", PYXIS_CONTAINER_ENV="MINE",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (call,) = job.calls()
    names = "SN_PLAN,SN_LAYOUT,SN_MARK,SN_CARRIED_FILE,SN_WATCH,SN_PATIENCE,"
    names += "CUDA_VISIBLE_DEVICES,MINE"
    package = LAUNCHER.parents[1]
    start = call.index("--container-image=x.sqsh")
    assert call[start : start + 5] == [
        "--container-image=x.sqsh", f"--container-env={names}",
        f"--container-mounts={package}:{package}:ro,/data:/data", "python3", "-I",
    ]  # fmt: skip
    with pytest.raises(LaunchError, match="cannot be mounted"):
        pyxis_options((), ["/a:b"], {})


def test_a_container_without_python_is_told_apart(job: Job) -> None:
    (job.folder / "bin" / "srun").unlink()
    job.program("srun", "#!/bin/sh\nexit 2\n")
    done = job.run("true", PYXIS_CONTAINER_IMAGE="x.sqsh")
    assert "python3, 3.8 or newer, and " in done.stderr
    assert done.stderr.rstrip().endswith("must be in the image")


@pytest.mark.parametrize("name", ["apptainer", "singularity"])
def test_what_cleanenv_would_drop_is_passed_into_the_container(job: Job, name: str) -> None:
    job.program(name, "#!/bin/sh\nenv | grep ENV_ | sort | tr '\\n' ' '; echo $*\n")
    done = job.run(name, "exec", "--cleanenv", "x.sif", "train", SN_PLAN=dumps(PLAN))
    prefix = f"{name.upper()}ENV_"
    shown = [line for line in done.stdout.splitlines() if f"{prefix}RANK=3 " in line]
    assert len(shown) == 1
    for pair in ("WORLD_SIZE=4", "NCCL_SOCKET_IFNAME=bond0", "CUDA_VISIBLE_DEVICES=0,1"):
        assert f"{prefix}{pair} " in shown[0]
    assert shown[0].endswith("exec --cleanenv x.sif train")


def test_the_launcher_is_one_file_that_starts_itself(job: Job, hostile_path: Path) -> None:
    path = hostile_path / "sn-launch.pyz"
    path.write_bytes(archive())
    assert archive() == archive()
    job.launcher = path
    done = job.run(sys.executable, "-c", SHOW)
    assert done.stdout.count("\n") == 4, done.stderr
    assert job.calls()[0].count(str(path)) == 1
    done = job.run("--help")
    assert done.stdout.startswith("sn-launch: start the ranks")


def test_the_program_sees_nothing_of_the_launchers_own_place(job: Job) -> None:
    # A module beside the launcher, and one in the working directory, are not its own.
    (job.folder / "json.py").write_text("raise SystemExit('the wrong module')\n")
    program = "import os, sys; print(os.environ['PYTHONPATH'], sys.path[0] == '')"
    done = subprocess.run(
        [job.python, str(LAUNCHER), sys.executable, "-c", program],
        env={**job.env, "PYTHONPATH": str(job.folder / "nonsuch")}, cwd=job.folder,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [f"{job.folder / 'nonsuch'} True"] * 4, done.stderr


def test_a_loop_imports_the_runtime_from_the_launchers_file(job: Job, hostile_path: Path) -> None:
    job.launcher = hostile_path / "sn-launch.pyz"
    job.launcher.write_bytes(archive())
    # Neither site-packages nor the working directory are searched.
    program = (
        "import supernode_slurm.runtime as r, os; "
        "print(os.environ['PYTHONPATH'].split(os.pathsep)[0], r.equal_share(8).shares, r.Balance)"
    )
    python = [sys.executable, "-S", "-c", f"import sys; sys.path.remove(''); {program}"]
    done = job.run(*python, PYTHONPATH="first")
    assert (
        done.stdout.splitlines()
        == ["first (2, 2, 2, 2) <class 'supernode_slurm.runtime.balance.Balance'>"] * 4
    ), done.stderr


@pytest.mark.parametrize("as_archive", [False, True])
def test_a_carried_launcher_is_sent_to_every_component_and_removed(
    job: Job, as_archive: bool
) -> None:
    if as_archive:
        job.launcher = job.folder / "sn-launch.pyz"
        job.launcher.write_bytes(archive())
    job.program("sbcast", f"#!/bin/sh\necho $* >> {job.folder}/sent\ncp $3 $4\n")
    done = job.run(sys.executable, "-c", SHOW, SN_CARRIED="1", **HET)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 5
    sent = [line.split() for line in (job.folder / "sent").read_text().splitlines()]
    assert [line[:2] for line in sent] == [["--force", "--jobid=7"], ["--force", "--jobid=8"]]
    target = sent[0][3]
    assert [call[-3:] for call in job.calls()[1:]] == [["rm", "-f", target]] * 2
    assert not Path(target).exists()
    job.program("sbcast", "#!/bin/sh\necho sbcast: error: full >&2\nexit 1\n")
    done = job.run("true", SN_CARRIED="1")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        3, "sn-launch: error: sbcast cannot bring sn-launch to the nodes: sbcast: error: full",
    )  # fmt: skip


@pytest.mark.parametrize("command", ["true", "{tp}"])
def test_what_the_script_unpacked_goes_with_the_launcher_that_took_its_place(
    job: Job, command: str
) -> None:
    job.program("sbcast", "#!/bin/sh\ncp $3 $4\n")
    for by, left in (("$PPID", True), ("$$", False)):
        carried = job.folder / "carried"
        carried.mkdir(exist_ok=True)
        script = f'SN_CARRIED_BY={by} exec {job.python} {LAUNCHER} "{command}"'
        env = {**job.env, "SN_CARRIED": str(carried)}
        subprocess.run(["sh", "-c", script], env=env, check=False, timeout=60, capture_output=True)
        assert carried.exists() == left


def test_a_port_that_is_taken_is_passed_over() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        taken = server.getsockname()[1]
        assert not master.is_free(taken)
    ports = list(islice(master.candidates(os.getpid()), 50))
    with (
        master.claim_port(ports) as one,
        master.claim_port(ports) as other,
    ):
        assert [one, other] == ports[:2]
    with master.claim_port(ports) as again:
        assert again == one
    with pytest.raises(LaunchError, match="set MASTER_PORT"), master.claim_port([]):
        pass
    found = (master.candidates(7), master.candidates(7, 1), master.candidates(8))
    others = {next(ports) for ports in found}
    assert len(others) == 3


def test_free_ports_of_another_host_are_asked_for_there(job: Job) -> None:
    job.program("scontrol", "#!/bin/sh\necho NodeName=h1 NodeAddr=192.0.2.1\n")
    done = job.run("sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT", SN_PLAN=dumps(PLAN))
    assert len(set(done.stdout.split())) == 1, done.stderr
    found = done.stdout.split()[0]
    assert found.startswith("192.0.2.1:2")
    assert job.calls()[0][-2:] == ["--free-ports", "7"]
    assert "--nodelist=h1" in job.calls()[0]


def test_the_first_rank_refuses_a_port_that_somebody_has(job: Job) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = str(server.getsockname()[1])
        done = job.run("true", MASTER_PORT=port)
    assert f"port {port} of h1 is taken by another process" in done.stderr
    assert done.returncode == 3
    assert "MASTER_PORT='x' is no port" in job.run("true", MASTER_PORT="x").stderr


def test_a_directory_that_others_could_enter_is_not_used(tmp_path: Path) -> None:
    env: Mapping[str, str] = {"TMPDIR": str(tmp_path)}
    folder = private.Folder(env, "a")
    path = Path(folder.path)
    assert [oct(p.stat().st_mode & 0o777) for p in (path, path.parent)] == ["0o700"] * 2
    shared, path = path, path.parent
    path.chmod(0o755)
    for _ in range(2):
        other = private.Folder(env, "a")
        assert Path(other.path).parent == tmp_path
        assert Path(other.path) != path
        assert Path(other.path).stat().st_mode & 0o777 == 0o700
        other.leave("0", 8)
        assert not Path(other.path).exists()
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(FileExistsError):
            path.symlink_to(tmp_path)
    path.unlink()
    env = {"TMPDIR": str(tmp_path / "nonsuch")}
    with private.temporary(env) as elsewhere:
        assert Path(elsewhere).parents[1] == Path("/tmp")
    assert not shared.exists()


def test_a_directory_goes_with_the_last_of_its_users(tmp_path: Path) -> None:
    env = {"TMPDIR": str(tmp_path)}
    first, second = private.Folder(env, "a"), private.Folder(env, "a")
    assert first.once("x", lambda: "made") == "made"
    assert second.once("x", lambda: "again") == "made"
    first.leave("0", 2)
    assert Path(second.path).exists()
    second.leave("1", 2)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / "x").symlink_to(tmp_path / "other")
    path = Path(private.write(str(tmp_path), "x", "new"))
    assert (path.read_text(), (tmp_path / "other").read_text()) == ("new", "mine")
    assert not path.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "x"]


def find(version: str) -> str | None:
    """Return a Python of this version that starts; shims of version managers may not."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*map(str, root.glob(f"{version}.*/bin/python{version}"))]
    for path in (shutil.which(f"python{version}") or "false", *found):
        tried = subprocess.run([path, "-c", ""], capture_output=True, check=False, timeout=60)
        if tried.returncode == 0:
            return str(path)
    return None


@pytest.mark.parametrize("version", ["3.8", "3.6"])
def test_old_pythons_run_it_or_say_why_not(job: Job, version: str) -> None:
    python = find(version)
    if python is None:
        pytest.skip(f"no python{version} on this machine")
    path = job.folder / "sn-launch.pyz"
    path.write_bytes(archive())
    for launcher in (path, LAUNCHER):
        done = subprocess.run(
            [python, str(launcher), "sh", "-c", "echo $RANK"], env=job.env,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if version == "3.8":
            assert sorted(done.stdout.split()) == ["0", "1", "2", "3"], done.stderr
        else:
            assert done.stderr.startswith(
                "sn-launch: error: needs Python 3.8 or newer, this is 3.6"
            )


def test_time_is_told_in_the_zone_of_the_job(job: Job) -> None:
    done = job.run("false", TZ="UTC")
    assert time.strftime(", %Y-%m-%d ", time.gmtime()) in done.stderr
