"""Submit once: what sbatch said, a lost answer looked up, one retry, never a second job.

``Socket timed out on send/recv`` and its like leave open whether the controller took the job
(nextflow issue 970, submitit issue 1659); a blind retry would start it twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import SlurmDown, SlurmError, SlurmRejected, SlurmTimeout, SlurmUncertain
from . import parse
from .model import JobId
from .run import Result

LOOK_AFTER_S = (1.0, 2.0, 4.0, 8.0)
"""Delays between looks: a busy controller may take a request long after its client gave up."""

_LOST = (
    "Broken pipe",
    "Communication connection failure",
    "Communication shutdown failure",
    "Connection reset by peer",
    "Connection timed out",
    "Header lengths are longer than data received",
    "Insane message length",
    "Message receive failure",
    "Message send failure",
    "Protocol authentication error",
    "Socket timed out on send/recv operation",
    "Unable to contact slurm controller (receive failure)",
    "Unable to contact slurm controller (send failure)",
    "Unable to contact slurm controller (shutdown failure)",
    "Unexpected message received",
    "Zero Bytes were transmitted or received",
)
"""Of slurm_errno.c, and of the system: the connection failed, at a moment that is not known."""
_DOWN = "Unable to contact slurm controller (connect failure)"


@dataclass(frozen=True, slots=True)
class Sender:
    """One submission, and how to find out what became of it."""

    send: Callable[[], JobId]
    """Raises ``SlurmUncertain`` for a lost answer."""
    look_up: Callable[[str], frozenset[JobId]]
    """The jobs of this user that carry a tag as comment."""
    cancel: Callable[[JobId], None]
    tag: str
    """Empty for a job that cannot be looked up."""
    how_to_look: str
    """A command, for the message."""
    notify: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> JobId:
        """Submit and return the job's id; at most one job is left when it returns.

        Raises ``SlurmUncertain`` where nobody can tell whether the job was taken.
        """
        try:
            return self.send()
        except SlurmUncertain as lost:
            found = self._find(lost)
        if found:
            return self._say(min(found, key=_age))
        self.notify("the answer to a submission was lost, and no job came of it: submitting again")
        try:
            again = self.send()
        except SlurmUncertain as lost:
            twice = self._find(lost)
            if twice:
                return self._say(min(twice, key=_age))
            raise SlurmError(
                f"{lost}\nlooked up with {self.how_to_look}: no job was taken"
            ) from lost
        return self._without_double(again)

    def _find(self, lost: SlurmUncertain) -> frozenset[JobId]:
        """Return the jobs that carry the tag; none only where the last look was answered."""
        if not self.tag:
            raise lost
        failure: SlurmError | None = None
        for delay_s in LOOK_AFTER_S:
            self.sleep(delay_s)
            try:
                found = self.look_up(self.tag)
            except SlurmError as error:
                failure = error
                continue
            failure = None
            if found:
                return found
        if failure is not None:
            raise SlurmUncertain(
                f"{lost}\nand the queue could not be read: {failure}\n"
                f"the job may be running: look with {self.how_to_look} before you submit it again"
            ) from failure
        return frozenset()

    def _without_double(self, again: JobId) -> JobId:
        """Return the job that stays: the first request may have been taken after all."""
        try:
            found = {job for job in self.look_up(self.tag) if job.number != again.number}
        except SlurmError:
            return again
        if not found:
            return again
        first = min(found, key=_age)
        self.cancel(again)
        self.notify(f"the first request was taken late, as job {first}: job {again} is cancelled")
        return first

    def _say(self, job: JobId) -> JobId:
        self.notify(f"the answer to the submission was lost; the job was taken: {job}")
        return job


def read_answer(result: Result) -> JobId:
    """Return the job of a finished sbatch.

    Raises ``SlurmRejected`` for a no, ``SlurmDown`` where nothing was sent and
    ``SlurmUncertain`` where the answer was lost or holds no id.
    """
    found = parse.submitted(result.stdout)
    if found is not None and not result.returncode:
        return found
    if not result.returncode:
        raise SlurmUncertain(
            f"sbatch reported success but no job id: {result.stdout.strip()[-400:]!r}; the job"
            " may be running: look with squeue before you submit it again"
        )
    refused = SlurmRejected(result.argv, result.returncode, result.stderr or result.stdout)
    if is_lost(refused):
        raise SlurmUncertain(f"{refused.argv[0]} lost the controller's answer: {refused.stderr}")
    raise judge(refused)


def judge(refused: SlurmRejected) -> SlurmError:
    """Return the error that a failed program stands for: nobody there, no answer, or a no."""
    if _DOWN in refused.stderr:
        return SlurmDown(f"{refused.argv[0]}: {_DOWN}: is slurmctld up? `scontrol ping` tells")
    if is_lost(refused):
        return SlurmTimeout(f"{refused.argv[0]} lost the controller's answer: {refused.stderr}")
    return refused


def is_lost(refused: SlurmRejected) -> bool:
    """Whether the connection failed at a moment that is not known."""
    return any(words in refused.stderr for words in _LOST)


def uncertain(error: SlurmTimeout) -> SlurmUncertain:
    """Return the error for an sbatch that was killed while it waited."""
    return SlurmUncertain(f"{error}; the job may be running: look with squeue")


def _age(job: JobId) -> int:
    return job.number
