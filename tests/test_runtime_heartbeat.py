"""How far each rank is: what a loop's calls leave in its file, and what is seen of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supernode_slurm.runtime import Balance, ShareSampler, equal_share, over_torch, share
from supernode_slurm.runtime.heartbeat import Beat, Heart, Lookout, begin, patience, read
from supernode_slurm.runtime.problem import LaunchError
from tests.in_threads import SumOverRanks, run
from tests.test_runtime_sampler import shares_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where rank 0 writes."""
    tmp_path.chmod(0o700)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("SN_HEARTBEAT", tmp_path / "beats")):
        monkeypatch.setenv(name, str(value))
    return tmp_path / "beats"


def beat(folder: Path, rank: int = 0) -> Beat:
    found = read(str(folder / f"beat.{rank}"))
    assert found is not None
    return found


def kinds(records: Sequence[dict[str, Any]]) -> list[str]:
    return [record["kind"] for record in records]


def test_a_loop_tells_how_far_it_is_without_a_line_of_its_own(folder: Path) -> None:
    seen: list[Beat] = []

    def all_reduce(sums: Any, group: object) -> None:
        seen.append(beat(folder))

    torch: Any = SimpleNamespace(
        tensor=lambda values, dtype, device: SimpleNamespace(tolist=lambda: values),
        float64="float64",
        distributed=SimpleNamespace(
            is_available=lambda: True, is_initialized=lambda: True, all_reduce=all_reduce,
            get_backend_config=lambda group: "cpu:gloo",
            get_world_size=lambda group=None: 4 if group is None else group,
        ),
    )  # fmt: skip
    mine = equal_share(4)
    me = os.getpid()
    assert beat(folder) == Beat(me)
    sampler = ShareSampler(16, mine)
    assert beat(folder).step == 0
    exchange = over_torch(torch)
    for _ in sampler.steps(sampler):
        exchange([1.0])
        sampler.finish_step()
        if sampler.step == 2:
            break
    assert [(item.step, item.entered, item.left) for item in seen] == [(0, 1, 0), (1, 2, 1)]
    assert beat(folder) == Beat(me, step=2, entered=2, left=2)
    over_torch(torch, group=2)([1.0])  # not all ranks: their numbers could not be compared
    over_torch(torch, group=4)([1.0])
    assert [item.entered for item in seen[2:]] == [2, 3]
    again = ShareSampler(16, mine)
    again.load_state_dict({**sampler.state_dict(), "step": 7})
    assert beat(folder).step == 7


def test_share_says_that_a_rank_has_begun(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SAMPLES", "GLOBAL_BATCH"):
        monkeypatch.setenv(f"SN_{name}", "4")
    for name in ("GROUP", "ACCELERATOR", "SAMPLE_OFFSET"):
        monkeypatch.setenv(f"SN_{name}", "0")
    share()
    assert beat(folder).process == os.getpid()


def test_without_a_launcher_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    begin({"RANK": "0"})
    begin({"SN_HEARTBEAT": str(folder)})
    Heart().step(3)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_others_may_enter_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    begin(os.environ)
    assert list(folder.iterdir()) == []


def test_a_rank_that_starts_again_takes_its_file_over_and_its_helpers_do_not(folder: Path) -> None:
    program = "from supernode_slurm.runtime import equal_share as s; s(1)"
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert done.returncode == 0
    first = beat(folder).process
    equal_share(1)
    Heart().step(5)
    mine = beat(folder)
    assert (mine.process, mine.step) == (os.getpid(), 5)
    assert first != mine.process
    # A process that reads samples for a rank inherits its environment.
    program += "; from supernode_slurm.runtime.heartbeat import Heart as H; H().step(9)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert beat(folder) == mine


def test_what_is_seen_of_a_rank(folder: Path) -> None:
    lookout = Lookout(str(folder), 10.0, 0)
    assert lookout.look(0.0) == []
    begin(os.environ)
    assert lookout.look(1.0) == [{"kind": "begun", "rank": 0}]
    heart = Heart()
    heart.step(3)
    assert lookout.look(9.0) == []
    assert lookout.look(19.0) == []
    with heart.waiting():
        lookout.look(20.0)
        (still,) = lookout.look(51.0)
        assert lookout.look(90.0) == []  # once
    assert still == {
        "kind": "still", "rank": 0, "for": 31, "process": os.getpid(), "step": 3, "entered": 1,
        "left": 0, "slow": 0,
    }  # fmt: skip
    assert lookout.look(100.0) == [{"kind": "moves", "after": 80, "rank": 0}]
    lookout.clear()
    assert not folder.exists()


def test_pauses_that_are_usual_are_none(folder: Path) -> None:
    lookout, heart = Lookout(str(folder), 10.0, 0), Heart()
    begin(os.environ)
    now, found = 0.0, []
    for step in range(6):
        heart.step(step)
        found += lookout.look(now)
        found += lookout.look(now + 14.9)
        now += 15.0
    # The first pause is the start's, which is like no other; the next is told.
    assert kinds(found) == ["begun", "still", "moves", "still", "moves"]
    heart.step(9)
    lookout.look(now)
    assert lookout.look(now + 29) == []
    assert kinds(lookout.look(now + 31)) == ["still"]
    for step in range(100):
        heart.step(10 + step)
        lookout.look(now + 32 + step)
    assert kinds(lookout.look(now + 32 + 99 + 11)) == ["still"]


def test_one_task_sees_all_ranks_of_its_node(folder: Path) -> None:
    lookout = Lookout(str(folder), 10.0)
    assert lookout.look(0.0) == []
    for rank in (4, 12):
        begin({**os.environ, "RANK": str(rank)})
    assert lookout.look(1.0) == [{"kind": "begun", "rank": 4}, {"kind": "begun", "rank": 12}]
    lookout.clear()
    assert not folder.exists()


def told_slow(folder: Path, costs: Sequence[float], shares: Sequence[int]) -> list[dict[int, int]]:
    """Return the ranks that are told to be slow, in percent, after each exchange."""
    for rank in range(len(shares)):
        begin({**os.environ, "RANK": str(rank)})
    mine = shares_of(shares)

    def work(rank: int, sum_over_ranks: SumOverRanks) -> list[int]:
        balance = Balance(mine[rank], sum_over_ranks, every=1)
        balance._heart = Heart({**os.environ, "RANK": str(rank)})
        found = []
        for step in range(8):
            # The last rank is as fast as planned at first, and in the end.
            slow = 0 < step < 7 or rank != len(shares) - 1
            balance.rebalance(costs[rank] if slow else 1 / shares[rank], 1.0)
            found.append(beat(folder, rank).slow)
        return found

    rows = zip(*run(len(shares), work), strict=True)
    return [{rank: slow for rank, slow in enumerate(row) if slow} for row in rows]


@pytest.mark.parametrize(
    ("costs", "shares", "percent"),
    [
        ((0.1, 0.3), (10, 6), 180),
        ((0.1, 0.1, 0.1, 0.2), (8, 8, 8, 8), 200),
        ((0.1, 0.1, 0.1, 0.16), (8, 8, 8, 8), 0),
        # Whole shares: the others' may be a sample too small.
        ((1.0, 1.0, 1.0, 2.9), (1, 1, 1, 1), 0),
        ((1.0, 1.0, 1.0, 3.1), (1, 1, 1, 1), 310),
    ],
)
def test_a_rank_that_is_slower_than_its_share_for_three_exchanges_is_told(
    folder: Path, costs: tuple[float, ...], shares: tuple[int, ...], percent: int
) -> None:
    found = told_slow(folder, costs, shares)
    last = {len(shares) - 1: percent} if percent else {}
    assert found == [{}, {}, {}, last, last, last, last, {}]


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_patience_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match=f"SN_PATIENCE={text}: give seconds"):
        patience({"SN_PATIENCE": text})


def test_patience_has_a_default() -> None:
    assert [patience({}), patience({"SN_PATIENCE": "2.5"})] == [120.0, 2.5]
