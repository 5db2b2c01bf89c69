"""What the project needs of a running Slurm, whoever answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from .model import (
    Associations,
    JobId,
    LiveJob,
    LiveNode,
    LivePartition,
    LiveTopology,
    Reservation,
)


class SlurmClient(Protocol):
    """What the project needs of a running Slurm.

    Queries raise ``SlurmDown`` where no controller is reached, ``SlurmTimeout`` where it does
    not answer, ``SlurmRejected`` for its no, ``SlurmError`` for an answer without sense.
    """

    def passing(self, variables: Mapping[str, str]) -> SlurmClient:
        """Return this client with more variables in the environment of its submissions."""

    def release(self) -> str:
        """Return the release of the client programs, like ``24.11``."""

    def submit(
        self, arguments: Sequence[str], script: str | None = None, *, tag: str = ""
    ) -> JobId:
        """Submit a batch job; the script's text goes to standard input if it is given.

        The tag stands in the job's comment, unique; a lost answer is looked up by it.
        Raises ``SlurmUncertain`` where the job may be running and nobody knows.
        """

    def submit_and_wait(
        self,
        arguments: Sequence[str],
        script: str | None = None,
        *,
        tag: str = "",
        submitted: Callable[[JobId], None],
    ) -> int:
        """Submit, tell the id, wait for the end; return the exit code of ``sbatch --wait``."""

    def test_only(self, arguments: Sequence[str], script: str | None = None) -> str:
        """Return Slurm's estimate for a job that is not submitted."""

    def nodes(self) -> tuple[LiveNode, ...]:
        """Return all nodes, cloud nodes included."""

    def partitions(self) -> tuple[LivePartition, ...]:
        """Return all partitions."""

    def job(self, job: JobId) -> LiveJob:
        """Return a job that the controller still remembers, with what it holds."""

    def batch_script(self, job: JobId) -> str:
        """Return the text of a job's batch script, empty for a job without one."""

    def jobs(self, ids: Collection[JobId] = ()) -> tuple[LiveJob, ...]:
        """Return jobs, components and tasks one by one: those asked for, or all.

        Those that the controller has forgotten are missing.
        """

    def cancel(self, job: JobId) -> None:
        """Cancel a job that waits or runs."""

    def config(self) -> Mapping[str, str]:
        """Return the parameters of ``scontrol show config`` that are set; asked once."""

    def reservations(self) -> tuple[Reservation, ...]:
        """Return all reservations, those to come included."""

    def topology(self, name: str = "") -> LiveTopology:
        """Return the topology of a name, the default one without it."""

    def associations(self, user: str) -> Associations | None:
        """Return what accounting knows of a user, None where nothing can be known."""
