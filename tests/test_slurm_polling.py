"""One loop waits for all jobs, with one query and growing delays."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from supernode_slurm.errors import SlurmDown, SlurmError, SlurmRejected, SlurmTimeout
from supernode_slurm.slurm import JobId, LiveJob, Patience, await_jobs
from supernode_slurm.slurm.polling import ended, exit_code


def job(text: str, *states: str, code: int = 0) -> LiveJob:
    return LiveJob(JobId.parse(text), "", frozenset(states), "", "p", "", (), "", (), code)


class Script:
    """A queue whose answers are given in advance; the last one stays."""

    def __init__(self, *answers: tuple[LiveJob, ...] | SlurmError) -> None:
        self.answers = list(answers)
        self.asked: list[Collection[JobId]] = []

    def jobs(self, ids: Collection[JobId] = ()) -> tuple[LiveJob, ...]:
        self.asked.append(ids)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, SlurmError):
            raise answer
        return answer


class Clock:
    """Time that passes by sleeping only."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        self.now += delay_s

    def patience(self, timeout_s: float = float("inf"), failures: int = 20) -> Patience:
        return Patience(timeout_s, 1.0, 4.0, failures, self.sleep, lambda: self.now)


ONE, TWO = JobId(1), JobId(2)


def test_all_jobs_are_asked_for_at_once_and_delays_grow_to_a_most() -> None:
    waiting = (job("1", "PENDING"), job("2", "RUNNING"))
    done = (job("1", "COMPLETED"), job("2", "FAILED", code=3))
    clock, slurm = Clock(), Script(*[waiting] * 5, done)
    found = await_jobs(slurm, [ONE, TWO], ended, clock.patience())
    assert found == {ONE: (done[0],), TWO: (done[1],)}
    assert clock.slept == [1.0, 1.5, 2.25, 3.375, 4.0]
    assert slurm.asked == [[ONE, TWO]] * 6


def test_components_and_tasks_count_for_their_job() -> None:
    half = (job("1+0", "COMPLETED"), job("1+1", "RUNNING"), job("2_[1-3]", "COMPLETED"))
    done = (job("1+0", "COMPLETED"), job("1+1", "COMPLETED"), job("2_[1-3]", "COMPLETED"))
    found = await_jobs(Script(half, done), [ONE, TWO], ended, Clock().patience())
    assert [str(item.id) for item in found[ONE]] == ["1+0", "1+1"]
    single = JobId.parse("1+0")
    assert await_jobs(Script(half), [single], ended, Clock().patience())[single] == half[:1]


def test_a_failed_query_is_no_answer_and_many_are_the_end() -> None:
    done = (job("1", "COMPLETED"),)
    down = SlurmDown("nobody there")
    slurm = Script(down, SlurmTimeout("slow"), (job("1", "RUNNING"),), down, done)
    assert await_jobs(slurm, [ONE], ended, Clock().patience(failures=3)) == {ONE: done}
    with pytest.raises(SlurmDown):
        await_jobs(Script(down), [ONE], ended, Clock().patience(failures=3))
    with pytest.raises(SlurmRejected):
        await_jobs(Script(SlurmRejected(["squeue"], 1, "no")), [ONE], ended, Clock().patience())


def test_states_that_nobody_knows_are_not_the_end() -> None:
    slurm = Script((job("1", "WARPED"),), (job("1", "COMPLETED", "COMPLETING"),), ())
    assert await_jobs(slurm, [ONE], ended, Clock().patience()) == {ONE: ()}


def test_patience_ends_with_what_is_not_done() -> None:
    clock = Clock()
    with pytest.raises(SlurmTimeout, match=r"after 5 s: 1 PENDING"):
        await_jobs(Script((job("1", "PENDING"),)), [ONE], ended, clock.patience(5.0))
    assert clock.now == 5.0


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([job("1", "COMPLETED")], 0),
        ([job("1", "FAILED", code=7)], 7),
        ([job("1", "FAILED", code=137)], 1),
        ([job("1", "CANCELLED")], 1),
        ([job("1_1", "COMPLETED"), job("1_2", "FAILED", code=3)], 3),
        ([], 1),
    ],
)
def test_the_code_of_a_job_is_what_sbatch_would_return(records: list[LiveJob], code: int) -> None:
    assert exit_code(records) == code
