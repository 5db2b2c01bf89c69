"""Shares of all replicas, as sn-launch leaves them to the ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.plan import Mesh, Pipeline, Plan, Stage
from supernode_slurm.runtime import Share, equal_share, share
from supernode_slurm.runtime.rank import part_of, replicas_of
from supernode_slurm.runtime.share import fold_runs, unfold_runs
from tests.test_launch import A100, H100, MIXED, NPU, pipeline, ranks


def test_every_rank_knows_the_shares_of_all_replicas() -> None:
    found = [share(item) for item in ranks(MIXED)]
    assert {item.shares for item in found} == {(4, 4, 4, 3, 3, 2)}
    assert {item.micro_batches for item in found} == {(1,) * 6}
    assert [item.replica for item in found] == list(range(6))
    assert [item.shares[item.replica] for item in found] == [item.samples for item in found]
    assert [sum(item.shares[: item.replica]) for item in found] == [item.offset for item in found]


def test_processes_that_torchrun_starts_find_their_share_by_their_rank() -> None:
    nodes = ranks(MIXED, True)
    assert "SN_SAMPLES" not in nodes[0]
    whole = [share(item) for item in ranks(MIXED)]
    found = [
        share({**nodes[number // 2], "RANK": str(number), "WORLD_SIZE": "6"}) for number in range(6)
    ]
    assert found == whole
    with pytest.raises(RuntimeError, match="the plan has 6 replicas; with several ranks"):
        share({**nodes[0], "RANK": "0", "WORLD_SIZE": "12"})


def test_ranks_of_one_replica_share_its_number() -> None:
    plan = Plan("m", 9, 128, "torch", (H100,), (pipeline(0, 9, 2, tp=2),))
    found = [share(item) for item in ranks(plan, SLURM_JOB_NODELIST="h1-[02,05]")]
    assert [(item.replica, item.samples, item.shares) for item in found] == [
        (0, 5, (5, 4)), (0, 5, (5, 4)), (1, 4, (5, 4)), (1, 4, (5, 4)),
    ]  # fmt: skip


def test_ranks_know_how_many_of_them_share_the_weights() -> None:
    mesh = Mesh(0, 1, 1, 4, 1, zero=3, shard=2)
    plan = Plan(
        "m", 8, 128, "torch", (H100,), (Pipeline(8, (mesh,), (Stage(0, 4),)),), rebalance=True
    )
    found = [share(item) for item in ranks(plan, SLURM_JOB_NODELIST="h1-[02,05]")]
    assert {(item.shard, item.rebalance) for item in found} == {(2, True)}
    assert {(share(item).shard, share(item).rebalance) for item in ranks(MIXED)} == {(0, False)}


def test_meshes_that_cut_replicas_differently_have_no_common_shares() -> None:
    meshes = (Mesh(0, 1, 1, 2, 1), Mesh(1, 2, 1, 1, 2))
    line = Pipeline(8, meshes, (Stage(0, 4), Stage(1, 4)))
    plan = Plan("m", 8, 128, "flagscale", (H100, NPU), (line,))
    assert replicas_of(plan) == []
    mine = Share(0, 4, "h100", "h100-sxm", 4, 0, 8)
    with pytest.raises(ValueError, match="0 shares for 0 replicas"):
        mine.with_shares([])


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=3
    )
)
def test_the_list_of_replicas_agrees_with_each_ranks_part(
    sizes: list[tuple[int, int, int]],
) -> None:
    lines = tuple(
        Pipeline(samples, (Mesh(0, 1, 1, dp, micro),), (Stage(0, 1),))
        for samples, dp, micro in sizes
    )
    plan = Plan("m", sum(samples for samples, _, _ in sizes), 8, "torch", (A100,), lines)
    parts = [part_of(plan, rank) for rank in range(sum(dp for _, dp, _ in sizes))]
    found = [(part.samples, part.mesh.micro_batch) for part in parts if part is not None]
    assert found == replicas_of(plan)


@given(st.lists(st.integers(0, 3), min_size=1))
def test_folded_runs_unfold_to_the_same(values: list[int]) -> None:
    assert unfold_runs(fold_runs(values)) == tuple(values)


def test_two_thousand_replicas_stay_a_short_variable() -> None:
    assert fold_runs([72] * 1024 + [40] * 1024) == "72x1024,40x1024"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("SN_SHARES", "5;3", "SN_SHARES is '5;3', not like 5x8,3x8"),
        ("SN_SHARES", "4x4,3x1,2x1", "sums to 21, SN_GLOBAL_BATCH is 20"),
        ("SN_SHARES", "3x4,4x2", "gives replica 0 other samples than SN_SAMPLES=4"),
        ("SN_REPLICA", "6", "has 6 replicas, SN_REPLICA is 6"),
        ("SN_SAMPLES", "many", "SN_SAMPLES is 'many', no whole number"),
    ],
)
def test_variables_that_contradict_each_other_are_refused(
    name: str, text: str, message: str
) -> None:
    with pytest.raises(RuntimeError, match=message):
        share({**ranks(MIXED)[0], name: text})


def test_without_a_plan_shares_are_equal() -> None:
    found = [equal_share(10, 2, {"RANK": str(rank), "WORLD_SIZE": "4"}) for rank in range(4)]
    assert [(item.samples, item.offset) for item in found] == [(3, 0), (3, 3), (2, 6), (2, 8)]
    assert {item.shares for item in found} == {(3, 3, 2, 2)}
    assert {item.micro_batch for item in found} == {2}
    assert equal_share(8, environ={}).shares == (8,)
    with pytest.raises(ValueError, match="at least one"):
        equal_share(3, environ={"RANK": "0", "WORLD_SIZE": "4"})


def test_other_shares_move_the_offset() -> None:
    mine = share(ranks(MIXED)[4]).with_shares([5, 5, 5, 2, 2, 1])
    assert (mine.samples, mine.offset) == (2, 17)
    for wrong, message in (
        ([20], "1 shares for 6 replicas"),
        ([5, 5, 5, 3, 2, 0], "at least one"),
        ([5, 5, 5, 2.5, 1.5, 1], "whole number"),
        ([5, 5, 5, 5, 5, 5], "sum to 30, the global batch is 20"),
    ):
        with pytest.raises(ValueError, match=message):
            mine.with_shares(wrong)  # type: ignore[arg-type]
