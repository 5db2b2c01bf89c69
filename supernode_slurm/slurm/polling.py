"""Wait for jobs: one query for all of them, at growing distances."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from ..errors import SlurmDown, SlurmTimeout
from .model import JobId, LiveJob


class Lists(Protocol):
    """What is needed of a client."""

    def jobs(self, ids: Collection[JobId] = ()) -> tuple[LiveJob, ...]:
        """Return jobs, those asked for or all."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, and how often to ask."""

    timeout_s: float = float("inf")
    first_s: float = 0.5
    most_s: float = 30.0
    failures: int = 20
    """Queries without an answer, one after another, before the wait ends with their error."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


def await_jobs(
    client: Lists,
    ids: Collection[JobId],
    until: Callable[[LiveJob], bool],
    patience: Patience = Patience(),
) -> dict[JobId, tuple[LiveJob, ...]]:
    """Wait until every record of these jobs is as wanted; return the records by job.

    A job has none once the controller has forgotten it. A query that fails is no answer:
    the job is neither finished nor failed. Raises ``SlurmTimeout`` with what is not done.
    """
    deadline = patience.clock() + patience.timeout_s
    delay_s = patience.first_s
    failed = 0
    found: dict[JobId, tuple[LiveJob, ...]] = {}
    while True:
        try:
            found = by_job(client.jobs(ids), ids)
            failed = 0
        except (SlurmDown, SlurmTimeout):
            failed += 1
            if failed >= patience.failures:
                raise
        if not failed and all(until(item) for items in found.values() for item in items):
            return found
        if patience.clock() >= deadline:
            raise SlurmTimeout(f"still waiting after {patience.timeout_s:g} s: {_shown(found)}")
        patience.sleep(min(delay_s, max(deadline - patience.clock(), 0.0)))
        delay_s = min(delay_s * 1.5, patience.most_s)


def by_job(
    records: Collection[LiveJob], ids: Collection[JobId]
) -> dict[JobId, tuple[LiveJob, ...]]:
    """Return the records that belong to each job: its components, its tasks, or itself."""
    return {job: tuple(item for item in records if _is_of(item.id, job)) for job in ids}


def ended(job: LiveJob) -> bool:
    """Whether a job has ended for good."""
    return job.has_ended


def exit_code(records: Collection[LiveJob]) -> int:
    """Return what ``sbatch --wait`` returns for a job: the highest code, 1 for a signal.

    1 as well for a job that ended without a code and did not complete, or is forgotten.
    """
    codes = []
    for item in records:
        failed = "COMPLETED" not in item.states and not item.exit_code
        signalled = 128 < item.exit_code <= 128 + 64
        codes.append(1 if failed or signalled else item.exit_code)
    return max(codes, default=1)


def _is_of(found: JobId, asked: JobId) -> bool:
    if found.number != asked.number:
        return False
    if asked.offset is not None:
        return found.offset == asked.offset
    return not asked.task or found.task == asked.task


def _shown(found: dict[JobId, tuple[LiveJob, ...]]) -> str:
    parts = [
        f"{item.id} {'+'.join(sorted(item.states))} {item.reason}".rstrip()
        for items in found.values()
        for item in items
    ]
    return ", ".join(parts[:8]) + (", ..." if len(parts) > 8 else "") or "no answer yet"
