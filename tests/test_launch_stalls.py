"""What sn-launch says of ranks that hang, never begin, or are slow."""

from __future__ import annotations

from typing import Any

import pytest

from supernode_slurm.plan import DeviceGroup, Plan
from supernode_slurm.runtime.layout import Layout, Place
from supernode_slurm.runtime.stalls import Stalls

PLACES = (Place("h1", 0, 0, 2), Place("a1", 1, 2, 2))
GROUPS = tuple(
    DeviceGroup(name, name, "nvidia", (), "gpu", hosts, 1, 2)
    for name, hosts in (("h100", "h1"), ("a100", "a1"))
)
PLAN = Plan("m", 8, 1, "torch", GROUPS, ())


def stalls(begun: int = 4, per_node: bool = False, plan: Plan | None = PLAN) -> Stalls:
    """Return what has heard from some ranks at second 0; it is patient for 60 s."""
    found = Stalls(Layout(PLACES, "h1", 20000, per_node), plan, 60.0)
    for rank in range(begun):
        found.note({"kind": "begun", "rank": rank}, 0.0)
    return found


def still(rank: int, entered: int, left: int, step: int = 7, seconds: int = 61) -> dict[str, Any]:
    return {
        "kind": "still", "rank": rank, "for": seconds, "process": 40 + rank, "step": step,
        "entered": entered, "left": left, "slow": 0,
    }  # fmt: skip


def said(found: Stalls, now: float, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return who holds the others up, and what was said, once it is due."""
    named = ""
    while found.due is not None and found.due <= now:
        named = found.judge(now) or named
    return named, capsys.readouterr().err.replace("sn-launch: ", "")


def test_the_rank_that_the_others_wait_for_is_named_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = stalls()
    found.note(still(2, 8, 8), 100.0)
    assert said(found, 110.0, capsys) == ("", "")
    for rank in (0, 1, 3):
        found.note(still(rank, 9, 8), 120.0)
    assert said(found, 126.0, capsys) == (
        "rank 2 on a1 (a100)",
        "warning: rank 2 on a1 (a100) stands still in step 7 for 87 s (process 42); 3 ranks wait "
        "for it\n",
    )
    found.note(still(3, 9, 8), 130.0)
    assert said(found, 200.0, capsys) == ("", "")
    found.note({"kind": "moves", "rank": 2, "after": 161}, 201.0)
    assert said(found, 210.0, capsys) == ("", "note: rank 2 on a1 (a100) goes on after 161 s\n")
    found.note({"kind": "moves", "rank": 3, "after": 161}, 202.0)
    assert said(found, 210.0, capsys) == ("", "")


def test_several_ranks_that_hang_are_named_together(capsys: pytest.CaptureFixture[str]) -> None:
    found = stalls(plan=None)
    found.note(still(0, 9, 8), 100.0)
    found.note(still(1, 8, 8, seconds=80), 100.0)
    found.note(still(3, 0, 0, step=-1), 101.0)
    named, text = said(found, 110.0, capsys)
    assert named == "rank 1 on h1, rank 3 on a1"
    assert text == (
        "warning: rank 1 on h1 stands still in step 7 for 90 s (process 41), rank 3 on a1 stands "
        "still for 70 s (process 43); 1 rank waits for them\n"
    )


def test_a_loop_without_exchanges_is_judged_by_its_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = stalls()
    for rank in range(4):
        found.note(still(rank, 0, 0, step=7 if rank == 1 else 8), 100.0)
    named, text = said(found, 110.0, capsys)
    assert named == "rank 1 on h1 (h100)"
    assert "in step 7 for 71 s" in text
    assert "3 ranks wait for it" in text


@pytest.mark.parametrize(
    ("left", "words"), [(9, "none waits in an exchange"), (8, "all in the same exchange")]
)
def test_where_all_stand_still_alike_nobody_is_to_blame(
    left: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = stalls()
    for rank in range(4):
        found.note(still(rank, 9, left, seconds=61 + rank), 100.0)
    for _ in range(2):
        named, text = said(found, 110.0, capsys)
        assert named == ""
        assert text.startswith(
            "warning: all ranks stand still; rank 3 on a1 (a100) stands still in step 7 for 74 s"
        )
        assert words in text
        found.note(still(2, 9, left), 120.0)
        assert said(found, 130.0, capsys) == ("", "")
        found.note({"kind": "moves", "rank": 0, "after": 90}, 140.0)
        found.note(still(0, 9, left, seconds=1), 100.0)


@pytest.mark.parametrize("step", [0, -1])
def test_a_pause_before_the_first_step_is_nobodys(
    step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = stalls()
    for rank in range(4):
        found.note(still(rank, 0, 0, step=step), 50.0)
    assert said(found, 100.0, capsys) == ("", "")


def test_who_goes_on_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    found = stalls()
    found.note(still(0, 9, 8), 100.0)
    found.note(still(1, 8, 8), 100.0)
    found.note({"kind": "moves", "rank": 1, "after": 62}, 101.0)
    assert said(found, 110.0, capsys) == ("", "")
    found.note(still(2, 8, 8), 120.0)
    found.end(2)
    assert said(found, 130.0, capsys) == ("", "")


def test_ranks_that_never_begin_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = stalls(begun=1)
    found.note({"kind": "begun", "rank": 3}, 20.0)
    found.end(2)
    assert said(found, 59.0, capsys) == ("", "")
    assert said(found, 60.0, capsys) == (
        "rank 1 on h1 (h100)",
        "warning: rank 1 on h1 (h100) did not begin: no share() there 60 s after the first of 2 "
        "ranks\n",
    )
    found.note({"kind": "begun", "rank": 1}, 70.0)
    assert said(found, 200.0, capsys) == ("", "note: rank 1 on h1 (h100) has begun\n")


def test_one_task_of_a_node_speaks_for_its_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    found = stalls(begun=2, per_node=True)
    assert said(found, 60.0, capsys)[0] == "the task on a1 (a100)"
    found.note({"kind": "begun", "rank": 3}, 61.0)
    assert capsys.readouterr().err == "sn-launch: note: rank 3 on a1 (a100) has begun\n"
    found = stalls(begun=2, per_node=True)
    found.end(2)
    assert said(found, 60.0, capsys) == ("", "")


def test_a_job_whose_ranks_never_begin_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = stalls(begun=0)
    assert found.due is None
    assert said(found, 1e6, capsys) == ("", "")


def test_slow_ranks_are_named_once_and_hold_nobody_up(capsys: pytest.CaptureFixture[str]) -> None:
    found = stalls()
    found.note({"kind": "slow", "rank": 3, "percent": 178}, 100.0)
    found.note({"kind": "slow", "rank": 2, "percent": 200}, 101.0)
    assert said(found, 110.0, capsys) == (
        "",
        "warning: rank 2 on a1 (a100) takes 2.0 times as long, rank 3 on a1 (a100) takes 1.8 times "
        "as long for its share of the plan as others for theirs\n",
    )
    for percent in (0, 190):
        found.note({"kind": "slow", "rank": 3, "percent": percent}, 120.0)
        assert said(found, 130.0, capsys) == ("", "")


def test_of_many_ranks_some_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = Stalls(Layout((Place("n1", -1, 0, 9),), "n1", 20000), None, 60.0)
    found.note({"kind": "begun", "rank": 8}, 0.0)
    named, _ = said(found, 60.0, capsys)
    assert named == "rank 0 on n1, rank 1 on n1, rank 2 on n1, rank 3 on n1 and 4 more"
