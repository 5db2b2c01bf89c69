"""What real controllers of each release printed becomes types."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.errors import SlurmError
from supernode_slurm.slurm import Gres, JobId, LiveJob, parse
from supernode_slurm.slurm.words import held_gres

DATA = Path(__file__).parent / "data" / "slurm"
RELEASES = ("22.05", "24.11", "26.05")
each_release = pytest.mark.parametrize("release", RELEASES)


def recorded(release: str, name: str) -> str:
    return (DATA / release / f"{name}.txt").read_text(encoding="utf-8")


def job(release: str, name: str, job_id: str) -> LiveJob:
    return parse.job(recorded(release, name), JobId.parse(job_id))


@each_release
def test_nodes_are_read_with_states_and_gres(release: str) -> None:
    nodes = {node.name: node for node in parse.nodes(recorded(release, "nodes"))}
    assert len(nodes) == 14
    busy = nodes["h1-01"]
    assert busy.gres == (Gres("gpu", "h100", 8),)
    assert busy.gres_used == (Gres("gpu", "h100", 4),)
    assert busy.features == ("h100", "h1")
    assert busy.partitions == ("h",)
    assert (busy.cpus, busy.cpus_allocated, busy.memory_mib) == (96, 1, 1_900_000)
    assert {"MIXED", "CLOUD", "POWERING_UP"} <= busy.states


@each_release
def test_nodes_are_free_or_usable_as_slurm_would_use_them(release: str) -> None:
    nodes = {node.name: node for node in parse.nodes(recorded(release, "nodes"))}
    shown = {name: (nodes[name].is_free, nodes[name].is_usable) for name in nodes}
    assert shown["h1-05"] == (True, True)  # powered down
    assert shown["h1-01"] == (False, True)  # half used, and still booting
    assert shown["h1-08"] == (False, False)  # drained
    assert shown["b2"] == (False, False)  # down


@each_release
def test_a_reason_with_an_equals_sign_is_kept_and_forges_no_state(release: str) -> None:
    node = next(n for n in parse.nodes(recorded(release, "nodes")) if n.name == "h1-08")
    assert node.reason == "fan State=IDLE broken"
    assert "DRAIN" in node.states


@each_release
def test_partitions_are_read(release: str) -> None:
    first, second = parse.partitions(recorded(release, "partitions"))
    assert (first.name, first.is_default, first.state) == ("h", True, "UP")
    assert first.max_time == "7-00:00:00"
    assert (first.allow_accounts, first.allow_qos, first.allow_groups) == ((), (), ())
    assert second.nodes == "a[001-004],b[1-2]"
    assert second.hosts == ("a001", "a002", "a003", "a004", "b1", "b2")
    assert not second.is_default


@each_release
def test_a_job_is_read_whatever_its_name_and_comment_claim(release: str) -> None:
    found = job(release, "job", "1")
    assert found.name == "my job JobState=FAILED Partition=x"
    assert found.states == {"CONFIGURING"}
    assert found.partition == "h"
    assert found.hosts == ("h1-01", "h1-02")
    assert found.nodes == "h1-[01-02]"
    assert found.features == "h100&h1"
    assert found.gres == (Gres("gpu", "h100", 4),)
    assert found.reason == ""
    assert found.components == ()


@each_release
def test_a_heterogeneous_job_carries_its_components_in_order(release: str) -> None:
    found = job(release, "job_het", "2")
    assert [str(part.id) for part in found.components] == ["2+0", "2+1"]
    assert [part.hosts for part in found.components] == [("a001", "a002"), ("h1-03",)]
    assert [part.name for part in found.components] == ["sbatch", "sbatch"]
    assert found.id == JobId(2, 0)


@each_release
def test_waiting_arrays_and_ended_jobs_are_read(release: str) -> None:
    array = job(release, "job_array", "4")
    assert (str(array.id), array.reason) == ("4_[0-3%2]", "JobHeldUser")
    waiting = job(release, "job_pending", "5")
    assert (waiting.reason, waiting.hosts, waiting.nodes) == ("BeginTime", (), "")
    assert job(release, "job_cancelled", "6").states == {"CANCELLED"}


def test_an_answer_without_a_job_is_an_error() -> None:
    with pytest.raises(SlurmError, match="no job 7 in the answer"):
        parse.job("", JobId(7))


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("slurm-wlm 22.05.8\n", "22.05"),
        ("slurm 24.11.5\n", "24.11"),
        ("slurm 26.05.0-0rc1", "26.05"),
    ],
)
def test_the_release_is_read_with_and_without_debians_prefix(text: str, release: str) -> None:
    assert parse.release(text) == release


def test_a_text_without_a_release_is_an_error() -> None:
    with pytest.raises(SlurmError, match="cannot read a release"):
        parse.release("torque 6.1")


@pytest.mark.parametrize(
    ("stdout", "job_id"),
    [
        ("123\n", JobId(123)),
        ("3969755;nautilus\n", JobId(3969755, cluster="nautilus")),
        ("Welcome to Stampede3\n-- 7 jobs running\n99\n", JobId(99)),
        ("12\n\nhave a nice day 5\n", JobId(12)),
        ("Submitted batch job 5\n", JobId(5)),
        ("Submitted batch job 5 on cluster nautilus\n", JobId(5, cluster="nautilus")),
        ("Submitted batch job 5 times\n", None),
        ("Welcome to Stampede3\n", None),
        ("", None),
    ],
)
def test_the_job_id_is_the_last_line_that_is_nothing_else(
    stdout: str, job_id: JobId | None
) -> None:
    assert parse.submitted(stdout) == job_id


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("(null)", ()),
        ("gpu:8", (Gres("gpu", "", 8),)),
        ("gpu", (Gres("gpu", "", 1),)),
        ("gpu:h100:8(S:0-1)", (Gres("gpu", "h100", 8),)),
        ("gpu:h100", (Gres("gpu", "h100", 1),)),
        (
            "gpu:h100:2(IDX:0,3),npu:910c:0(IDX:N/A)",
            (Gres("gpu", "h100", 2), Gres("npu", "910c", 0)),
        ),
        ("gres:gpu:h100:4", (Gres("gpu", "h100", 4),)),
        ("gres/gpu:h100=4", (Gres("gpu", "h100", 4),)),
        ("gres/gpu=4", (Gres("gpu", "", 4),)),
        ("gpu:4090:2", (Gres("gpu", "4090", 2),)),
        ("lustre:no_consume:4K", (Gres("lustre", "", 4096),)),
    ],
)
def test_gres_is_read_in_every_form(text: str, items: tuple[Gres, ...]) -> None:
    assert parse.gres(text) == items


def test_gres_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(SlurmError, match="cannot read GRES"):
        parse.gres("gpu:h100:8:9:10")


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("IDLE+CLOUD+POWERED_DOWN", {"IDLE", "CLOUD", "POWERED_DOWN"}),
        ("DOWN*", {"DOWN", "NOT_RESPONDING"}),
        ("IDLE~", {"IDLE", "POWERED_DOWN"}),
        ("WARP+DRAIN", {"WARP", "DRAIN"}),
    ],
)
def test_states_are_kept_even_if_unknown(text: str, states: set[str]) -> None:
    assert parse.states(text) == states


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123", JobId(123)),
        ("123+1", JobId(123, 1)),
        ("123_4", JobId(123, task="4")),
        ("123_[1-5%2]", JobId(123, task="[1-5%2]")),
        ("123_[1,3-5]", JobId(123, task="[1,3-5]")),
        ("123;east", JobId(123, cluster="east")),
        ("123.batch", JobId(123)),
        ("123_4.0", JobId(123, task="4")),
    ],
)
def test_job_ids_are_read_in_every_form(text: str, expected: JobId) -> None:
    assert JobId.parse(text) == expected


@pytest.mark.parametrize("text", ["", "x", "-1", "12 3", "123_", "123_[1", "Submitted batch job 5"])
def test_what_is_no_job_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a job id"):
        JobId.parse(text)


@given(
    st.builds(
        JobId,
        st.integers(1, 2**31),
        st.none() | st.integers(0, 200),
        st.just(""),
        st.sampled_from(["", "east"]),
    )
)
def test_a_job_id_survives_being_written_and_read(job_id: JobId) -> None:
    assert JobId.parse(str(job_id)) == job_id


def test_a_partition_for_some_names_them() -> None:
    text = "PartitionName=x AllowGroups=a,b AllowAccounts=ALL Default=NO Nodes=(null) State=DOWN"
    (found,) = parse.partitions(text)
    assert (found.allow_groups, found.allow_accounts, found.hosts) == (("a", "b"), (), ())


def test_shares_of_cards_that_a_job_holds_are_counted() -> None:
    text = "gpu:h100:1(IDX:2),shard:h100:3(3/4,0/4),npu:2(CNT:2),nvme:1"
    assert [str(item) for item in held_gres(text)] == [
        "gpu:h100:1", "shard:h100:3", "npu:2", "nvme:1",
    ]  # fmt: skip
