"""Ask a controller, and tell it: the protocol, and its implementation by Slurm's own programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..errors import SlurmError
from . import parse
from .model import JobId, LiveJob, LiveNode, LivePartition
from .run import Result, check

QUERY_TIMEOUT_S = 60.0
RELEASE_TIMEOUT_S = 10.0
"""Without a slurm.conf, scontrol waits for one for a minute before it tells its release."""
SUBMIT_TIMEOUT_S = 120.0

_OF_A_JOB = re.compile(r"(?:SLURM|SLURMD|SRUN|PMI)_|PMI")
_KEPT = frozenset(
    {"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_EXIT_ERROR", "SLURM_TIME_FORMAT"}
)
_CHANGES_OUTPUT = re.compile(
    r"(?:SQUEUE|SINFO)_|(?:SACCT_FORMAT|SLURM_TIME_FORMAT|SLURM_CLUSTERS|SLURM_BITSTR_LEN|SLURM_TOPO_LEN)\Z|LC_|LANG"
)


class SlurmClient(Protocol):
    """What the project needs of a running Slurm."""

    def release(self) -> str:
        """Return the release of the client programs, like ``24.11``."""

    def submit(self, sbatch_arguments: Sequence[str], script: str | None = None) -> JobId:
        """Submit a batch job; the script's text goes to standard input if it is given."""

    def nodes(self) -> tuple[LiveNode, ...]:
        """Return all nodes, cloud nodes included."""

    def partitions(self) -> tuple[LivePartition, ...]:
        """Return all partitions."""

    def job(self, job: JobId) -> LiveJob:
        """Return a job that the controller still remembers."""

    def cancel(self, job: JobId) -> None:
        """Cancel a job that waits or runs."""


class CliClient:
    """A client that runs ``sbatch``, ``scontrol`` and ``scancel``."""

    def __init__(self, env: Mapping[str, str], notify: Callable[[str], None] | None = None) -> None:
        """Take the whole environment of the programs, and who hears sbatch's messages."""
        self._submit_env = submission_environment(env)
        self._query_env = query_environment(env)
        self._notify = notify or _tell_stderr

    def release(self) -> str:
        """Return the release of the client programs, like ``24.11``."""
        argv = ["scontrol", "--version"]
        answer = check(argv, timeout_s=RELEASE_TIMEOUT_S, env=self._query_env)
        return parse.release(answer.stdout)

    def submit(self, sbatch_arguments: Sequence[str], script: str | None = None) -> JobId:
        """Submit a batch job and return its id.

        What sbatch says on stderr although it took the job goes to ``notify``.
        Raises ``SlurmRejected``, or ``SlurmError`` where the output holds no job id.
        """
        result = check(
            ["sbatch", "--parsable", *sbatch_arguments],
            timeout_s=SUBMIT_TIMEOUT_S,
            env=self._submit_env,
            stdin_text=script,
        )
        for line in result.stderr.splitlines():
            self._notify(line)
        found = parse.submitted(result.stdout)
        if found is None:
            raise SlurmError(
                f"sbatch reported success but no job id: {result.stdout.strip()[-400:]!r}; the job"
                " may be running: look with squeue before you submit it again"
            )
        return found

    def nodes(self) -> tuple[LiveNode, ...]:
        """Return all nodes, cloud nodes included."""
        return parse.nodes(self._query(["scontrol", "-a", "-d", "-o", "show", "node"]).stdout)

    def partitions(self) -> tuple[LivePartition, ...]:
        """Return all partitions, hidden ones included."""
        return parse.partitions(self._query(["scontrol", "-a", "-o", "show", "partition"]).stdout)

    def show(self, *words: str) -> str:
        """Return what ``scontrol show`` prints, a record on each line, whole."""
        return self._query(["scontrol", "-a", "-o", "show", *words]).stdout

    def job(self, job: JobId) -> LiveJob:
        """Return a job; ``SlurmRejected`` when the controller does not know it (any more)."""
        argv = ["scontrol", "-o", "show", "job", job.local]
        return parse.job(self._query(_on(job, argv)).stdout, job)

    def cancel(self, job: JobId) -> None:
        """Cancel a job; one that has ended already is no error."""
        self._query(_on(job, ["scancel", job.local]))

    def _query(self, argv: Sequence[str]) -> Result:
        return check(argv, timeout_s=QUERY_TIMEOUT_S, env=self._query_env)


def submission_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for sbatch: without the variables of an enclosing job.

    SLURM_CPU_BIND, SLURM_MEM_PER_NODE and their like would change the new job;
    SBATCH_* are the user's own defaults and stay.
    """
    return {
        name: value for name, value in env.items() if name in _KEPT or not _OF_A_JOB.match(name)
    }


def query_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a query: without what changes the shape of the output."""
    kept = {name: value for name, value in env.items() if not _CHANGES_OUTPUT.match(name)}
    return {**kept, "LC_ALL": "C"}


def _on(job: JobId, argv: list[str]) -> list[str]:
    """Return the command for the cluster that holds the job."""
    return [argv[0], f"--clusters={job.cluster}", *argv[1:]] if job.cluster else argv


def _tell_stderr(line: str) -> None:
    print(line, file=sys.stderr)
