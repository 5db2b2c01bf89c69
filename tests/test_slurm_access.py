"""Who may use which partition and reservation, and why not."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime

import pytest

from supernode_slurm.slurm import (
    Association,
    Associations,
    Charge,
    LivePartition,
    Reservation,
    User,
    association_objection,
    current_user,
    parse,
    reservation_note,
    reservation_objection,
    size_objection,
    usable_partitions,
)

OPEN = parse.partitions("PartitionName=p Nodes=n[1-8] State=UP MaxTime=1-00:00:00\n")[0]
ALICE = User("alice", frozenset({"physics", "users"}))
UNKNOWN = Charge()


def reason(part: LivePartition, user: User = ALICE, charge: Charge = UNKNOWN) -> str:
    return usable_partitions([part], user, charge)["p"]


def test_an_open_partition_is_for_everybody() -> None:
    assert reason(OPEN) == ""


@pytest.mark.parametrize("state", ["DOWN", "DRAIN", "INACTIVE"])
def test_only_a_partition_that_is_up_takes_jobs(state: str) -> None:
    assert reason(replace(OPEN, state=state)) == f"State is {state}"


def test_one_group_of_several_is_enough_and_root_needs_none() -> None:
    assert reason(replace(OPEN, allow_groups=("chemistry", "physics"))) == ""
    closed = replace(OPEN, allow_groups=("chemistry",), is_root_only=False)
    assert reason(closed) == "AllowGroups is chemistry, and you are in none of them"
    assert reason(closed, User("root", frozenset(), is_root=True)) == ""
    assert reason(replace(OPEN, is_root_only=True)) == "RootOnly is YES"


def test_accounts_and_qos_refuse_only_where_they_are_known() -> None:
    part = replace(OPEN, allow_accounts=("llm",), deny_qos=("low",))
    assert reason(part) == ""
    assert reason(part, charge=Charge("llm", "normal")) == ""
    assert reason(part, charge=Charge("cv")) == "AllowAccounts is llm, not cv"
    assert reason(part, charge=Charge("llm", "low")) == "DenyQos holds low"
    assert reason(replace(OPEN, deny_accounts=("cv",)), charge=Charge("cv")) != ""
    both = replace(OPEN, allow_accounts=("cv",), deny_accounts=("cv",))
    assert reason(both, charge=Charge("cv")) == ""


def test_a_partition_of_reservations_takes_jobs_of_one() -> None:
    part = replace(OPEN, needs_reservation=True)
    assert reason(part).startswith("ReqResv is YES")
    assert reason(part, charge=Charge(reservation="course")) == ""


@pytest.mark.parametrize(
    ("nodes", "minutes", "said"),
    [
        (None, None, ""),
        (2, 1440.0, ""),
        (1, None, "MinNodes is 2"),
        (5, None, "MaxNodes is 4"),
        (2, 1440.5, "MaxTime is 1-00:00:00"),
    ],
)
def test_sizes_are_held_against_the_limits(
    nodes: int | None, minutes: float | None, said: str
) -> None:
    part = replace(OPEN, min_nodes=2, max_nodes="4")
    assert size_objection(part, nodes, minutes) == said
    free = replace(OPEN, max_time="UNLIMITED")
    assert size_objection(free, 10_000, float("inf")) == ""


KEPT = Reservation(
    "course", True, ("n1",), ("alice", "bob"), ("llm",), (), "", frozenset(), start=0, end=1
)


def test_a_reservation_wants_user_and_account_both() -> None:
    assert reservation_objection(KEPT, ALICE) == ""
    assert reservation_objection(KEPT, ALICE, "llm") == ""
    assert reservation_objection(KEPT, ALICE, "cv") == "Accounts=llm"
    assert reservation_objection(KEPT, replace(ALICE, name="eve"), "llm") == "Users=alice,bob"
    assert reservation_objection(replace(KEPT, groups=("chemistry",)), ALICE) == "Groups=chemistry"
    assert reservation_objection(replace(KEPT, users=("-alice",)), ALICE) == "Users=-alice"
    assert reservation_objection(replace(KEPT, users=("-bob",)), ALICE) == ""


def test_a_reservation_that_is_yet_to_begin_is_told_and_not_refused() -> None:
    later = replace(KEPT, is_active=False, start=2_000_000_000)
    assert reservation_objection(later, ALICE) == ""
    begins = datetime.fromtimestamp(later.start).isoformat(" ", "minutes")
    assert reservation_note(later) == (
        f"reservation course begins at {begins}: the job waits until then"
    )
    assert reservation_note(KEPT) == ""


@pytest.mark.parametrize(
    ("account", "partition", "qos", "said"),
    [
        ("", "p", "", ""),
        ("", "p", "high", ""),
        ("", "p", "low", "your account llm has QOS normal,high, not low"),
        ("", "q", "low", ""),
        ("bio", "p", "", "you have no account bio, only llm,cv"),
        ("cv", "p", "", ""),
        ("cv", "x", "", "your account cv is for p,q only"),
    ],
)
def test_a_job_is_held_against_the_users_associations(
    account: str, partition: str, qos: str, said: str
) -> None:
    rows = (
        Association("llm", "", ("normal", "high")),
        Association("llm", "q", ("low",)),
        Association("cv", "p", ()),
        Association("cv", "q", ()),
    )
    assert association_objection(Associations("llm", rows), account, partition, qos) == said
    assert association_objection(Associations("llm", ()), account, partition, qos) == ""
    assert association_objection(Associations("", rows), "", partition, qos) == ""


def test_the_current_user_is_known_with_all_groups() -> None:
    found = current_user()
    assert found.is_root == (os.geteuid() == 0)
    assert found.groups
