"""What goes to Slurm's programs, what is made of their answers, and that a real Slurm agrees."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from supernode_slurm.errors import SlurmError, SlurmNotFound, SlurmRejected
from supernode_slurm.slurm import CliClient, Gres, JobId, SlurmClient
from supernode_slurm.slurm.environment import (
    query_environment,
    scrubbed,
    submission_environment,
)
from supernode_slurm.slurm.options import directives, environment, values
from supernode_slurm.slurm.run import check
from supernode_slurm.twin import Twin, TwinSpec
from tests import twin_samples


def client_with(tmp_path: Path, program: str, body: str, heard: list[str]) -> CliClient:
    """Return a client for which a program of Slurm is a script of ours."""
    path = tmp_path / program
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_CPU_BIND": "x", "SBATCH_QOS": "low"}
    return CliClient(env, heard.append)


def test_a_submission_asks_for_the_id_and_passes_messages_on(tmp_path: Path) -> None:
    heard: list[str] = []
    body = 'echo "$@" >&2; env | grep -c SLURM_ >&2; echo "$SBATCH_QOS" >&2; echo "12;east"'
    client = client_with(tmp_path, "sbatch", body, heard)
    assert client.submit(["-N2", "a b.sh"]) == JobId(12, cluster="east")
    assert heard == ["--parsable -N2 a b.sh", "0", "low"]


def test_a_script_given_as_text_goes_to_standard_input(tmp_path: Path) -> None:
    heard: list[str] = []
    client = client_with(tmp_path, "sbatch", "cat >&2; echo 1", heard)
    client.submit([], script="#!/bin/sh\necho ü\n")
    assert heard == ["#!/bin/sh", "echo ü"]


def test_a_refusal_keeps_sbatchs_own_words(tmp_path: Path) -> None:
    client = client_with(tmp_path, "sbatch", "echo 'invalid partition' >&2; exit 1", [])
    with pytest.raises(SlurmRejected, match="sbatch refused: invalid partition"):
        client.submit([])


def test_success_without_an_id_warns_that_the_job_may_run(tmp_path: Path) -> None:
    client = client_with(tmp_path, "sbatch", "echo welcome", [])
    with pytest.raises(SlurmError, match=r"'welcome'; the job may be running: look with squeue"):
        client.submit([])


def test_a_machine_without_slurm_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(SlurmNotFound, match="scontrol: not found on PATH"):
        CliClient({"PATH": str(tmp_path)}).nodes()


def test_a_job_of_another_cluster_is_cancelled_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    client = client_with(tmp_path, "scancel", f'echo "$@" > "{log}"', [])
    client.cancel(JobId(5, task="1", cluster="east"))
    assert log.read_text() == "--clusters=east 5_1\n"


def test_a_submission_loses_the_enclosing_job_and_keeps_the_users_defaults() -> None:
    kept = {
        "SLURM_CONF": "a",
        "SLURM_CLUSTERS": "b",
        "SLURM_JWT": "c",
        "SBATCH_QOS": "d",
        "HOME": "/",
    }
    kept |= {"SLURM_SACK_SOCKET": "e", "SLURM_CONF_SERVER": "f", "SLURM_TIME_FORMAT": "g"}
    lost = {
        "SLURM_JOB_ID": "1",
        "SLURMD_NODENAME": "2",
        "SRUN_DEBUG": "3",
        "PMIX_RANK": "4",
        "PMI_RANK": "5",
    }
    assert submission_environment({**kept, **lost}) == kept
    assert scrubbed({**kept, **lost}) == sorted(lost)


def test_a_site_may_keep_more_of_the_enclosing_job() -> None:
    env = {"SLURM_HINT": "nomultithread", "SLURM_JOB_ID": "1"}
    assert submission_environment(env, ["SLURM_HINT"]) == {"SLURM_HINT": "nomultithread"}
    assert scrubbed(env, ["SLURM_HINT"]) == ["SLURM_JOB_ID"]
    assert CliClient(env, keep=["SLURM_HINT"]).scrubbed == ["SLURM_JOB_ID"]


def test_a_query_loses_what_changes_its_output() -> None:
    kept = {"SLURM_CONF": "a", "HOME": "/"}
    lost = {
        "SQUEUE_FORMAT": "1",
        "SINFO_ALL": "1",
        "SACCT_FORMAT": "1",
        "SLURM_TIME_FORMAT": "%s",
        "SLURM_CLUSTERS": "b",
        "LC_TIME": "zh_CN",
        "LANG": "zh_CN.UTF-8",
    }
    ours = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
    assert query_environment({**kept, **lost}) == {**kept, **ours}


@pytest.fixture(scope="module")
def twin() -> Iterator[Twin]:
    with Twin(TwinSpec(twin_samples.files())) as running:
        yield running


@pytest.mark.slurm
def test_the_client_and_a_real_controller_agree(twin: Twin) -> None:
    client: SlurmClient = twin.client()
    assert client.release() == twin.release
    nodes = {node.name: node for node in client.nodes()}
    assert set(nodes) == set(twin_samples.HOSTS)
    assert nodes["h1-03"].gres == (Gres("gpu", "h100", 8),)
    assert nodes["b2"].gres == (Gres("gpu", "a100", 4),)
    assert [part.name for part in client.partitions()] == ["h", "a"]


@pytest.mark.slurm
def test_a_job_is_submitted_seen_and_cancelled(twin: Twin) -> None:
    client = twin.client()
    job = client.submit(
        ["-H", "-N2", "-J", "a name", "-C", "h100", "--gres=gpu:h100:8"], script="#!/bin/sh\n"
    )
    found = client.job(job)
    assert (found.id, found.name, found.states) == (job, "a name", {"PENDING"})
    assert (found.reason, found.partition, found.features) == ("JobHeldUser", "h", "h100")
    assert found.gres == (Gres("gpu", "h100", 8),)
    client.cancel(job)
    assert client.job(job).states == {"CANCELLED"}
    client.cancel(job)


@pytest.mark.slurm
def test_a_heterogeneous_job_is_seen_with_its_components(twin: Twin) -> None:
    client = twin.client()
    job = client.submit(["-H", "-p", "a", "-N2", ":", "-p", "h", "-N1"], script="#!/bin/sh\n")
    found = client.job(job)
    assert [part.partition for part in found.components] == ["a", "h"]
    assert [part.id.offset for part in found.components] == [0, 1]
    client.cancel(job)


@pytest.mark.slurm
def test_slurms_own_words_reach_the_user(twin: Twin) -> None:
    with pytest.raises(SlurmRejected, match=r"(?i)invalid partition"):
        twin.client().submit(["-p", "nowhere"], script="#!/bin/sh\n")
    with pytest.raises(SlurmRejected, match=r"(?i)invalid job id"):
        twin.client().job(JobId(4_000_000))


@pytest.mark.slurm
@pytest.mark.parametrize(
    "line",
    [
        '-J "a b"',
        "-J 'x \"y\"'",
        "-J a\\ b",
        "-J a#b",
        '-J "a#b"',
        "-J 'it'\\''s'",
        '-J"glued on"',
        "-J one -J two",
        "-J a\\\\b",
        '--job-name="" -J x',
        "-J x # -J y",
    ],
)
def test_directives_are_read_as_sbatch_reads_them(twin: Twin, line: str) -> None:
    client = twin.client()
    script = f"#!/bin/sh\n# text\n\n#SBATCH {line}\n   \n#SBATCH -H\necho\n#SBATCH -J late\n"
    ours = values(directives(script))
    if twin.release == "22.05" and "\\ " in line:
        with pytest.raises(SlurmRejected, match="Invalid directive"):
            client.submit([], script=script)
        return
    job = client.submit([], script=script)
    assert client.job(job).name == ours["job-name"]
    assert "hold" in ours
    client.cancel(job)


@pytest.mark.slurm
def test_variables_mean_to_sbatch_what_they_mean_to_us(twin: Twin) -> None:
    given = {
        "SBATCH_PARTITION": "a",
        "SBATCH_TIMELIMIT": "17",
        "SBATCH_MEM_PER_NODE": "321",
        "SBATCH_REQ_SWITCH": "3",
        "SBATCH_CONSTRAINT": "a100",
        "SBATCH_JOB_NAME": "named",
        "SBATCH_ARRAY_INX": "5-6",
    }
    assert set(environment(given)) == {
        "partition",
        "time",
        "mem",
        "switches",
        "constraint",
        "job-name",
        "array",
    }
    env = {**twin.environment(os.environ), **given}
    job = CliClient(env).submit(["-H"], script="#!/bin/sh\n")
    shown = check(["scontrol", "-o", "show", "job", str(job)], timeout_s=60, env=env).stdout
    for part in (
        "Partition=a",
        "TimeLimit=00:17:00",
        "MinMemoryNode=321M",
        "Switches=3",
        "Features=a100",
        "JobName=named",
        "ArrayTaskId=5-6",
    ):
        assert f" {part}" in shown
    twin.client().cancel(job)
