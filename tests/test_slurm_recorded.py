"""What real controllers of each release printed, hostile names and reasons among it."""

from __future__ import annotations

from pathlib import Path

import pytest

from supernode_slurm.errors import SlurmError
from supernode_slurm.slurm import Allocated, Gres, JobId, LiveJob, jsonparse, parse
from tests.record_slurm import MARK, NAME

FOLDER = Path(__file__).parent / "recorded"
RELEASES = ("22.05", "24.11", "26.05")
each_release = pytest.mark.parametrize("release", RELEASES)


def recorded(release: str, name: str) -> str:
    return (FOLDER / release / name).read_text(encoding="utf-8")


def job(release: str, name: str, number: int) -> LiveJob:
    return parse.job(recorded(release, name), JobId(number))


@each_release
def test_a_job_tells_which_devices_it_holds_on_which_nodes(release: str) -> None:
    found = job(release, "job.txt", 1)
    gpus = Gres("gpu", "h100", 4, (0, 1, 2, 3))
    assert found.allocated == (Allocated(("h1-01", "h1-02"), (gpus,)),)
    assert job(release, "job_rest.txt", 5).allocated[0].gres == (Gres("gpu", "h100", 2, (4, 5)),)


@each_release
def test_counted_gres_have_a_count_and_no_indexes(release: str) -> None:
    leader, second = job(release, "job_het.txt", 2).components
    assert leader.allocated == (
        Allocated(("b1",), (Gres("gpu", "a100", 1, (0,)), Gres("npu", "910c", 3))),
    )
    assert second.allocated == (Allocated(("h1-03",), ()),)


@each_release
def test_a_name_of_several_lines_stays_a_name(release: str) -> None:
    found = job(release, "job.txt", 1)
    assert (found.id, found.name, found.components) == (JobId(1), NAME, ())
    assert found.states == {"CONFIGURING"}
    (row,) = [item for item in jobs(release) if item.id == JobId(1)]
    assert (row.name, row.states) == (NAME, {"CONFIGURING"})


def jobs(release: str) -> tuple[LiveJob, ...]:
    return parse.job_rows(recorded(release, "jobs.txt"), MARK)


@each_release
def test_all_jobs_come_in_one_answer_components_and_tasks_apart(release: str) -> None:
    found = {str(item.id): item for item in jobs(release)}
    assert sorted(found) == ["1", "2+0", "2+1", "4_1", "4_2", "4_[3-6%2]", "5", "6", "7"]
    assert found["2+0"].gres == (Gres("gpu", "a100", 1), Gres("npu", "910c", 3))
    assert found["1"].hosts == ("h1-01", "h1-02")
    assert (found["6"].features, found["6"].reason) == ("[h100*1&h1*1]", "JobHeldUser")
    assert [key for key, item in found.items() if item.has_ended] == ["7"]


@each_release
def test_a_row_agrees_with_the_record_of_the_same_job(release: str) -> None:
    rows = {str(item.id): item for item in jobs(release)}
    for record in (*job(release, "job_het.txt", 2).components, *tasks(release)):
        row = rows[str(record.id)]
        assert (row.name, row.states, row.reason) == (record.name, record.states, record.reason)
        assert (row.partition, row.hosts, row.gres) == (
            record.partition, record.hosts, record.gres,
        )  # fmt: skip
        assert (row.features, row.exit_code) == (record.features, record.exit_code)


def tasks(release: str) -> tuple[LiveJob, ...]:
    found = job(release, "job_array.txt", 4).components
    return tuple(item for item in found if not item.id.task.startswith("["))


@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_json_and_text_say_the_same_of_nodes(release: str) -> None:
    text = parse.nodes(recorded(release, "nodes.txt"))
    assert text == jsonparse.nodes(recorded(release, "nodes.json"))
    states = {node.name: node.states for node in text}
    assert "DRAIN" in states["a001"]
    assert "DOWN" not in states["a002"]


@each_release
def test_reasons_lose_who_and_when_and_forge_nothing(release: str) -> None:
    nodes = {node.name: node for node in parse.nodes(recorded(release, "nodes.txt"))}
    assert nodes["a001"].reason == "fan"
    assert nodes["a003"].reason == "dead"
    assert nodes["a002"].reason == ""
    assert len(nodes) == 14


@each_release
def test_the_limits_of_partitions_are_read(release: str) -> None:
    parts = {part.name: part for part in parse.partitions(recorded(release, "partitions.txt"))}
    few, shut = parts["few"], parts["shut"]
    assert (few.min_nodes, few.max_nodes, few.max_time) == (2, "4", "01:00:00")
    assert few.allow_groups == ("daemon", "users")
    assert few.allow_accounts == ("alice", "bob")
    assert (few.is_root_only, few.needs_reservation, few.topology) == (False, False, "")
    assert (shut.state, shut.deny_accounts, shut.allow_accounts) == ("DRAIN", ("eve",), ())
    assert (shut.is_root_only, shut.needs_reservation) == (True, True)


@each_release
def test_reservations_are_read_with_times_in_seconds(release: str) -> None:
    found = {item.name: item for item in parse.reservations(recorded(release, "reservations.txt"))}
    now, later = found["now"], found["later"]
    assert (now.is_active, now.hosts, now.users) == (True, ("h1-08",), ("root", "daemon"))
    assert (now.accounts, now.groups, now.partition) == ((), (), "")
    assert (later.is_active, later.hosts) == (False, ("a001", "a002"))
    assert "MAINT" in later.flags
    assert now.end - now.start == later.end - later.start == 3600
    assert later.start > now.end


@each_release
def test_switches_are_read_with_what_is_below_them(release: str) -> None:
    found = parse.topology(recorded(release, "topology.txt"))
    assert [switch.name for switch in found.switches] == ["leaf1", "leaf2", "top"]
    assert found.switches[2].switches == ("leaf1", "leaf2")
    assert (found.switches[0].level, found.switches[2].level) == (0, 1)
    assert len(found.switches[2].hosts) == 14
    assert found.blocks == ()


def test_blocks_are_read_and_their_aggregates_left_out() -> None:
    text = (
        "BlockName=b1 BlockIndex=0 Nodes=h1-[01-02] BlockSize=2\n"
        "BlockName=b2 BlockIndex=1 Nodes=h1-[03-04] BlockSize=2\n"
        "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=h1-[01-04] BlockSize=4\n"
    )
    assert [(b.name, b.hosts, b.size) for b in parse.topology(text).blocks] == [
        ("b1", ("h1-01", "h1-02"), 2),
        ("b2", ("h1-03", "h1-04"), 2),
    ]


@each_release
def test_rows_cut_short_are_an_error(release: str) -> None:
    text = recorded(release, "jobs.txt")
    with pytest.raises(SlurmError, match="cut short"):
        parse.job_rows(text[:-30], MARK)
    first = text.split(f"{MARK}\n")[0]
    with pytest.raises(SlurmError, match="of 9 fields"):
        parse.job_rows(first.partition(MARK)[2] + f"{MARK}\n", MARK)


def test_json_cut_short_is_an_error() -> None:
    text = recorded("24.11", "nodes.json")
    for part in ("", text[: len(text) // 2], "{}", '{"nodes": [{"name": "a"}]}'):
        with pytest.raises(SlurmError, match="cannot read scontrol's JSON"):
            jsonparse.nodes(part)


@each_release
def test_records_that_lack_what_counts_are_an_error(release: str) -> None:
    line = recorded(release, "nodes.txt").splitlines()[0]
    with pytest.raises(SlurmError, match="a node without State: NodeName=a001"):
        parse.nodes(line[: line.index(" State=")])
    line = recorded(release, "partitions.txt").splitlines()[0]
    with pytest.raises(SlurmError, match="a partition without State: PartitionName=h"):
        parse.partitions(line[: line.index(" State=")])


def test_squeues_headings_of_clusters_are_kept_with_the_ids() -> None:
    row = f"1{MARK}RUNNING" + f"{MARK}" * 7 + f"n{MARK}\n"
    text = f"CLUSTER: east\n{row}\nCLUSTER: west\n{row}\nCLUSTER: north\n"
    assert [str(item.id) for item in parse.job_rows(text, MARK)] == ["1;east", "1;west"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("7:0", 7), ("0:9", 137), ("0:0", 0), ("1792", 7), ("9", 137), ("0", 0), ("2:0", 2)],
)
def test_exit_codes_are_read_as_pairs_and_as_wait_statuses(text: str, code: int) -> None:
    row = MARK.join(["1", "FAILED", text, "None", "p", "n1", "N/A", "(null)", "x"]) + f"{MARK}\n"
    assert parse.job_rows(row, MARK)[0].exit_code == code
