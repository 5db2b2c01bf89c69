"""A lost answer is looked up before one retry; no job is ever doubled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from supernode_slurm.errors import (
    SlurmDown,
    SlurmError,
    SlurmNotFound,
    SlurmRejected,
    SlurmTimeout,
    SlurmUncertain,
    UsageError,
)
from supernode_slurm.slurm import CliClient, JobId, lookup, one_cluster
from supernode_slurm.slurm.run import Result
from supernode_slurm.slurm.submitting import LOOK_AFTER_S, Sender, read_answer

T = TypeVar("T")
TIMED_OUT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"


class Queue:
    """sbatch and squeue by scripts: each call takes the next answer, an exception or a value."""

    def __init__(
        self,
        sends: Sequence[JobId | SlurmError],
        looks: Sequence[frozenset[JobId] | SlurmError],
        tag: str = "t1",
    ) -> None:
        self.sends, self.looks = list(sends), list(looks)
        self.slept: list[float] = []
        self.said: list[str] = []
        self.cancelled: list[JobId] = []
        self.sender = Sender(
            send=lambda: self._next(self.sends),
            look_up=lambda _: self._next(self.looks),
            cancel=self.cancelled.append,
            tag=tag,
            how_to_look="`squeue`",
            notify=self.said.append,
            sleep=self.slept.append,
        )

    @staticmethod
    def _next(answers: list[T | SlurmError]) -> T:
        answer = answers.pop(0)
        if isinstance(answer, SlurmError):
            raise answer
        return answer


LOST = SlurmUncertain("lost")
NONE: frozenset[JobId] = frozenset()


def only(*numbers: int) -> frozenset[JobId]:
    return frozenset(map(JobId, numbers))


def test_an_answer_that_arrives_needs_no_look() -> None:
    queue = Queue([JobId(7)], [])
    assert queue.sender.run() == JobId(7)
    assert queue.slept == []


def test_a_job_that_was_taken_is_found_and_not_submitted_again() -> None:
    queue = Queue([LOST], [NONE, SlurmTimeout("slow"), only(7)])
    assert queue.sender.run() == JobId(7)
    assert queue.slept == list(LOOK_AFTER_S[:3])
    assert "the job was taken: 7" in queue.said[-1]


def test_a_job_that_was_not_taken_is_submitted_once_more() -> None:
    queue = Queue([LOST, JobId(8)], [NONE] * 4 + [only(8)])
    assert queue.sender.run() == JobId(8)
    assert queue.slept == list(LOOK_AFTER_S)


def test_nobody_submits_a_third_time() -> None:
    queue = Queue([LOST, LOST], [NONE] * 8)
    with pytest.raises(SlurmError, match="no job was taken"):
        queue.sender.run()
    assert queue.sends == []


def test_a_second_answer_may_be_lost_and_its_job_found() -> None:
    queue = Queue([LOST, LOST], [*[NONE] * 4, only(9)])
    assert queue.sender.run() == JobId(9)


def test_a_first_request_that_was_taken_late_costs_the_second_job() -> None:
    queue = Queue([LOST, JobId(8)], [*[NONE] * 4, only(7, 8)])
    assert queue.sender.run() == JobId(7)
    assert queue.cancelled == [JobId(8)]


def test_a_queue_that_cannot_be_read_leaves_it_open_and_says_how_to_look() -> None:
    queue = Queue([LOST], [NONE, NONE, NONE, SlurmDown("nobody there")])
    with pytest.raises(SlurmUncertain, match=r"(?s)nobody there.*may be running: look with `sq"):
        queue.sender.run()


def test_without_a_tag_nothing_can_be_looked_up() -> None:
    queue = Queue([LOST], [], tag="")
    with pytest.raises(SlurmUncertain, match="lost"):
        queue.sender.run()


def answer(stderr: str, stdout: str = "", code: int = 1) -> Callable[[], JobId]:
    return lambda: read_answer(Result(("sbatch",), code, stdout, stderr))


@pytest.mark.parametrize(
    "said",
    [
        "Socket timed out on send/recv operation",
        "Zero Bytes were transmitted or received",
        "Connection reset by peer",
        "Header lengths are longer than data received",
        "Unable to contact slurm controller (receive failure)",
    ],
)
def test_a_connection_that_fails_leaves_open_whether_the_job_was_taken(said: str) -> None:
    with pytest.raises(SlurmUncertain, match="lost the controller's answer"):
        answer(f"sbatch: error: Batch job submission failed: {said}")()


def test_a_controller_that_is_not_there_took_nothing() -> None:
    with pytest.raises(SlurmDown, match="is slurmctld up"):
        answer("sbatch: error: Unable to contact slurm controller (connect failure)")()


def test_a_no_is_a_no() -> None:
    with pytest.raises(SlurmRejected, match="Invalid qos"):
        answer("sbatch: error: Batch job submission failed: Invalid qos specification")()


def test_success_without_an_id_leaves_it_open() -> None:
    with pytest.raises(SlurmUncertain, match="no job id: 'welcome'"):
        answer("", "welcome\n", 0)()


def slurm_of(tmp_path: Path, **programs: str) -> dict[str, str]:
    """Return an environment in which Slurm's programs are scripts of ours."""
    for name, body in programs.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


def argv_log(tmp_path: Path) -> list[str]:
    return (tmp_path / "log").read_text().splitlines()


def logged(tmp_path: Path, body: str = "") -> str:
    return f'echo "$(basename "$0") $*" >> "{tmp_path}/log"\n{body}'


def test_another_cluster_is_asked_by_every_program(tmp_path: Path) -> None:
    programs = dict.fromkeys(("squeue", "scancel"), logged(tmp_path))
    programs["scontrol"] = logged(tmp_path, "echo PartitionName=p State=UP")
    programs["sbatch"] = logged(tmp_path, "echo '3;east'")
    client = CliClient(slurm_of(tmp_path, **programs), cluster="east")
    job = client.submit(["--wrap=true"])
    client.partitions()
    client.jobs([job])
    client.cancel(job)
    log = argv_log(tmp_path)
    assert log[0] == "sbatch --clusters=east --parsable --wrap=true"
    assert log[1] == "scontrol --clusters=east -a -o show partition"
    assert log[2].startswith("squeue --clusters=east -h -a --states=all --jobs=3 -O ")
    assert log[3] == "scancel --clusters=east 3"


@pytest.mark.parametrize(
    ("arguments", "script", "variables"),
    [
        (["-M", "east,west", "x.sh"], None, {}),
        (["x.sh"], None, {"SBATCH_CLUSTERS": "east,west"}),
        (["x.sh"], None, {"SLURM_CLUSTERS": "east,west"}),
        (["x.sh"], None, {"SLURM_CLUSTERS": "east,west", "SBATCH_CLUSTERS": "north"}),
        (["-H", ":", "-M", "east,west", "x.sh"], None, {"SLURM_CLUSTERS": "north"}),
        ([], "#!/bin/sh\n#SBATCH --clusters=east,west\n", {}),
        (["-N1", ":", "-N2"], "#!/bin/sh\n#SBATCH -M east,west\n#SBATCH hetjob\n#SBATCH -n1\n", {}),
    ],
)
def test_a_lost_job_is_looked_up_where_it_was_sent(
    tmp_path: Path, arguments: list[str], script: str | None, variables: dict[str, str]
) -> None:
    found = logged(tmp_path, 'mark=${*##*:0}; printf "CLUSTER: west\\n5$mark"; echo "a t1$mark"')
    env = slurm_of(tmp_path, sbatch=f"echo '{TIMED_OUT}' >&2; exit 1", squeue=found)
    client = CliClient({**env, **variables}, lambda _: None, sleep=lambda _: None)
    assert client.submit(arguments, script, tag="t1") == JobId(5, cluster="west")
    assert argv_log(tmp_path)[0].startswith("squeue --clusters=east,west -h -a --me")


def test_accounting_tells_of_a_job_that_the_controller_has_forgotten(tmp_path: Path) -> None:
    config = "AccountingStorageType = accounting_storage/slurmdbd\nAccountingStoreFlags = %s"
    env = slurm_of(
        tmp_path, squeue="", sacct="echo '4|x'; echo '5|hi t1'; echo '6|t12'",
        scontrol=f"echo '{config % 'job_comment'}'", sbatch=f"echo '{TIMED_OUT}' >&2; exit 1",
    )  # fmt: skip
    client = CliClient(env, lambda _: None, sleep=lambda _: None)
    assert client.submit(["--wrap=true"], tag="t1") == JobId(5)


def test_what_accounting_knows_of_a_user_is_read(tmp_path: Path) -> None:
    sacctmgr = (
        'case "$*" in *DefaultAccount) echo llm;; *) echo "llm||normal,high"; echo "cv|p|";; esac'
    )
    config = (
        "AccountingStorageType = accounting_storage/slurmdbd\nClusterName = east\n"
        "AccountingStorageEnforce = associations,limits,qos"
    )
    env = slurm_of(tmp_path, sacctmgr=logged(tmp_path, sacctmgr), scontrol=f"echo '{config}'")
    found = CliClient(env).associations("alice")
    assert found is not None
    assert found.default_account == "llm"
    assert [(a.account, a.partition, a.qos) for a in found.allowed] == [
        ("llm", "", ("normal", "high")),
        ("cv", "p", ()),
    ]
    assert "user=alice cluster=east" in argv_log(tmp_path)[1]


@pytest.mark.parametrize(
    ("enforced", "rows", "qos"),
    [("none", 0, ()), ("", 0, ()), ("associations", 1, ()), ("associations, qos", 1, ("high",))],
)
def test_a_user_is_held_to_what_the_site_enforces(
    enforced: str, rows: int, qos: tuple[str, ...]
) -> None:
    found = lookup.associations("llm\n", "llm||high\n", {"AccountingStorageEnforce": enforced})
    assert found.default_account == "llm"
    assert len(found.allowed) == rows
    assert all(row.qos == qos for row in found.allowed)


def test_one_cluster_is_planned_for_wherever_it_is_named() -> None:
    script = "#!/bin/sh\n#SBATCH -M script\n"
    env = {"SBATCH_CLUSTERS": "a", "SLURM_CLUSTERS": "b"}
    assert one_cluster([["--cluster=line"]], script, env) == "line"
    assert one_cluster([[], ["-M", "second"]], script, env) == "second"
    assert one_cluster([[]], script, env) == "b"
    assert one_cluster([[]], script, {"SBATCH_CLUSTERS": "a"}) == "a"
    assert one_cluster([[]], script, {}) == "script"
    assert one_cluster([[]], "#!/bin/sh\n#SBATCH hetjob\n#SBATCH -M two\n", {}) == "two"
    assert one_cluster([[]], "#!/bin/sh\n", {}) == ""
    for several in ("a,b", "all"):
        with pytest.raises(UsageError, match=f"--clusters={several}: a plan is for .* one cluster"):
            one_cluster([[]], f"#!/bin/sh\n#SBATCH -M {several}\n", {})


def test_our_own_words_are_told_apart_from_sbatchs(tmp_path: Path) -> None:
    found = 'mark=${*##*:0}; printf "5$mark"; echo "a t1$mark"'
    env = slurm_of(tmp_path, sbatch=f"echo '{TIMED_OUT}' >&2; exit 1", squeue=found)
    said: list[str] = []
    client = CliClient(env, said.append, sleep=lambda _: None)
    assert client.submit(["--wrap=true"], tag="t1") == JobId(5)
    assert said == ["sn: note: the answer to the submission was lost; the job was taken: 5"]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("/nosuch", "/nosuch: no such program; SN_SBATCH names it"),
        ("nosuch", "nosuch: not found on PATH; SN_SBATCH names it"),
        ("", "sbatch: not found on PATH; install Slurm's client programs"),
    ],
)
def test_a_missing_sbatch_is_told_with_who_named_it(
    tmp_path: Path, program: str, said: str
) -> None:
    client = CliClient({"PATH": str(tmp_path), "SN_SBATCH": program})
    with pytest.raises(SlurmNotFound) as refused:
        client.submit(["--wrap=true"])
    assert str(refused.value) == said


@pytest.mark.parametrize("config", ["AccountingStorageType = accounting_storage/none", ""])
def test_without_accounting_nothing_is_known_and_nothing_fails(tmp_path: Path, config: str) -> None:
    env = slurm_of(tmp_path, scontrol=f"printf '%s' '{config}'", sacctmgr="exit 1")
    assert CliClient(env).associations("alice") is None


def test_a_database_that_is_down_is_no_failure(tmp_path: Path) -> None:
    config = "AccountingStorageType = accounting_storage/slurmdbd"
    env = slurm_of(tmp_path, scontrol=f"echo '{config}'", sacctmgr="echo no >&2; exit 1")
    assert CliClient(env).associations("alice") is None


@pytest.mark.parametrize("printed", ["", "PartitionName=p State=UP\\nPartitionName=q Sta"])
def test_half_an_answer_is_an_error_even_with_exit_code_0(tmp_path: Path, printed: str) -> None:
    client = CliClient(slurm_of(tmp_path, scontrol=f"printf '{printed}'"))
    with pytest.raises(SlurmError, match="half an answer from `scontrol -a -o show partition`"):
        client.partitions()


def test_a_site_may_name_its_own_sbatch(tmp_path: Path) -> None:
    env = slurm_of(tmp_path, sbatch="exit 1", site_submit="echo welcome; echo 12")
    client = CliClient({**env, "SN_SBATCH": "site_submit"})
    assert client.submit(["--wrap=true"]) == JobId(12)


def test_the_parameters_of_slurm_are_asked_once(tmp_path: Path) -> None:
    env = slurm_of(tmp_path, scontrol=logged(tmp_path, "echo 'MaxArraySize = 1001'"))
    client = CliClient(env)
    assert client.config()["MaxArraySize"] == "1001"
    assert client.config()["MaxArraySize"] == "1001"
    assert len(argv_log(tmp_path)) == 1


def test_the_id_is_told_while_sbatch_waits_and_its_code_comes_back(tmp_path: Path) -> None:
    goes_on = tmp_path / "goes on"
    body = f'echo a notice >&2; echo "6;east"; while [ ! -e "{goes_on}" ]; do sleep 0.1; done'
    env = slurm_of(tmp_path, sbatch=f"{body}; echo bye >&2; exit 7")
    events: list[str] = []

    def submitted(job: JobId) -> None:
        events.append(str(job))
        goes_on.touch()

    client = CliClient(env, events.append)
    assert client.submit_and_wait(["--wrap=true"], submitted=submitted) == 7
    assert events == ["a notice", "6;east", "bye"]


def test_an_interrupt_leaves_the_job_and_says_its_id(tmp_path: Path) -> None:
    env = slurm_of(tmp_path, sbatch="echo 6; exec sleep 600")
    said: list[str] = []

    def interrupt(job: JobId) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CliClient(env, said.append).submit_and_wait(["--wrap=true"], submitted=interrupt)
    assert said == ["sn: note: job 6 goes on: `scancel 6` ends it"]


def test_a_refusal_is_told_from_a_job_that_failed(tmp_path: Path) -> None:
    env = slurm_of(tmp_path, sbatch="echo 'sbatch: error: invalid partition' >&2; exit 1")
    with pytest.raises(SlurmRejected, match="invalid partition"):
        CliClient(env).submit_and_wait(["--wrap=true"], submitted=lambda _: None)


def test_a_script_longer_than_a_pipe_is_waited_for_too(tmp_path: Path) -> None:
    env = slurm_of(tmp_path, sbatch='echo 6; test "$(wc -c)" -eq 300000; exit $?')
    client = CliClient(env)
    assert client.submit_and_wait([], "x" * 300_000, submitted=lambda _: None) == 0
