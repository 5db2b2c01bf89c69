"""Ask a controller, and tell it, by Slurm's own programs."""

from __future__ import annotations

import secrets
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace

from ..errors import SlurmError, SlurmRejected
from . import jsonparse, lookup, parse, polling, submitting
from .environment import query_environment, scrubbed, submission_environment
from .formats import node_json
from .model import (
    Associations,
    JobId,
    LiveJob,
    LiveNode,
    LivePartition,
    LiveTopology,
    Reservation,
)
from .run import Result, check
from .sbatch import Sbatch, at

QUERY_TIMEOUT_S = 60.0
RELEASE_TIMEOUT_S = 10.0
"""Without a slurm.conf, scontrol waits for one for a minute before it tells its release."""
_NO_TOPOLOGY = "No topology information available"
"""22.05 says so on stderr, others nothing; an unknown name is 26.05's error. All with code 0."""


class CliClient:
    """A client that runs ``sbatch``, ``scontrol``, ``squeue`` and ``scancel``.

    SN_SBATCH names another sbatch: a site's wrapper that is not first on PATH, or the real
    one behind a wrapper that does not know ``--parsable``.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        notify: Callable[[str], None] | None = None,
        *,
        cluster: str = "",
        keep: Iterable[str] = (),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the whole environment of the programs, and who hears sbatch's messages.

        ``cluster`` asks another one than the default; ``keep`` names variables of an
        enclosing job that this site's submissions want.
        """
        kept = tuple(keep)
        self.scrubbed = scrubbed(env, kept)
        """Names of the variables that a submission does not get."""
        self._query_env = query_environment(env)
        self._cluster = cluster
        self._sleep = sleep
        self._sbatch = Sbatch(
            program=env.get("SN_SBATCH") or "sbatch",
            env=submission_environment(env, kept),
            cluster=cluster,
            notify=notify or _tell_stderr,
        )
        self._config: Mapping[str, str] | None = None
        self._release = ""

    def passing(self, variables: Mapping[str, str]) -> CliClient:
        """Return this client with more variables in the environment of its submissions."""
        found = copy(self)
        found._sbatch = replace(self._sbatch, env={**self._sbatch.env, **variables})
        return found

    def release(self) -> str:
        """Return the release of the client programs, like ``24.11``."""
        if not self._release:
            argv = ["scontrol", "--version"]
            answer = check(argv, timeout_s=RELEASE_TIMEOUT_S, env=self._query_env)
            self._release = parse.release(answer.stdout)
        return self._release

    def submit(
        self, arguments: Sequence[str], script: str | None = None, *, tag: str = ""
    ) -> JobId:
        """Submit a batch job and return its id.

        What sbatch says on stderr although it took the job goes to ``notify``. A lost
        answer is looked up by the tag, and the submission repeated once where no job came
        of it. Raises ``SlurmRejected``, ``SlurmDown``, ``SlurmUncertain``.
        """
        return self._sender(
            lambda: self._sbatch.send(arguments, script), arguments, script, tag
        ).run()

    def submit_and_wait(
        self,
        arguments: Sequence[str],
        script: str | None = None,
        *,
        tag: str = "",
        submitted: Callable[[JobId], None],
    ) -> int:
        """Submit like ``submit`` and wait for the end; return the exit code of ``sbatch --wait``.

        The job's own code, 1 for a signal, the highest of an array. An interrupt ends the
        wait and not the job, and its id is told.
        """
        waited: list[Result] = []

        def send() -> JobId:
            job, result = self._sbatch.send_and_wait(arguments, script, submitted)
            waited.append(result)
            return job

        job = self._sender(send, arguments, script, tag).run()
        if waited:
            return waited[-1].returncode
        submitted(job)
        return self._await_end(job)

    def test_only(self, arguments: Sequence[str], script: str | None = None) -> str:
        """Return Slurm's estimate for a job that is not submitted; ``SlurmRejected`` for a no."""
        return self._sbatch.test_only(arguments, script)

    def nodes(self) -> tuple[LiveNode, ...]:
        """Return all nodes, cloud nodes included."""
        version = node_json(self.release())
        if version:
            return jsonparse.nodes(self._show("-a", "show", "nodes", f"--json={version}"))
        return parse.nodes(self._show("-a", "-d", "-o", "show", "node"))

    def partitions(self) -> tuple[LivePartition, ...]:
        """Return all partitions, hidden ones included."""
        return parse.partitions(self._show("-a", "-o", "show", "partition"))

    def show(self, *words: str) -> str:
        """Return what ``scontrol show`` prints, a record on each line, whole."""
        return self._show("-a", "-o", "show", *words)

    def job(self, job: JobId) -> LiveJob:
        """Return a job; ``SlurmRejected`` when the controller does not know it (any more)."""
        cluster = job.cluster or self._cluster
        return parse.job(self._show("-d", "-o", "show", "job", job.local, cluster=cluster), job)

    def batch_script(self, job: JobId) -> str:
        """Return the text of a job's batch script, empty for a job without one."""
        argv = at(
            job.cluster or self._cluster, ["scontrol", "write", "batch_script", job.local, "-"]
        )
        try:
            return self._query(argv).stdout
        except SlurmRejected:
            return ""

    def jobs(self, ids: Collection[JobId] = ()) -> tuple[LiveJob, ...]:
        """Return jobs that the controller remembers, one query for all of a cluster."""
        clusters = sorted({job.cluster or self._cluster for job in ids}) or [self._cluster]
        found: list[LiveJob] = []
        for cluster in clusters:
            asked = {str(j.number) for j in ids if (j.cluster or self._cluster) == cluster}
            chosen = [f"--jobs={','.join(sorted(asked))}"] if asked else []
            found += self._squeue(cluster, ["--states=all", *chosen])
        return tuple(found)

    def cancel(self, job: JobId) -> None:
        """Cancel a job; one that has ended already is no error."""
        self._query(at(job.cluster or self._cluster, ["scancel", job.local]))

    def config(self) -> Mapping[str, str]:
        """Return the parameters of ``scontrol show config`` that are set; asked once."""
        if self._config is None:
            self._config = parse.config(self._show("show", "config"))
        return self._config

    def reservations(self) -> tuple[Reservation, ...]:
        """Return all reservations, those to come included."""
        return parse.reservations(self._show("-a", "-o", "show", "reservation"))

    def topology(self, name: str = "") -> LiveTopology:
        """Return the topology of a name, the default one without it.

        A name needs 25.05 or later; before, there is one topology. ``SlurmRejected`` for
        an unknown one.
        """
        argv = at(self._cluster, ["scontrol", "-o", "show", "topology", *filter(None, [name])])
        result = self._query(argv)
        if "error" in result.stderr and _NO_TOPOLOGY not in result.stderr:
            raise SlurmRejected(argv, result.returncode, result.stderr)
        return parse.topology(result.stdout)

    def associations(self, user: str) -> Associations | None:
        """Return what accounting knows of a user, None where nothing can be known."""
        try:
            if not lookup.has_accounting(self.config()):
                return None
            default, listed = (
                self._query(argv).stdout for argv in lookup.association_argvs(user, self.config())
            )
        except SlurmError:
            return None
        return lookup.associations(default, listed, self.config())

    def look_up(self, tag: str, clusters: str = "") -> frozenset[JobId]:
        """Return this user's jobs that carry the tag as comment, ended ones included.

        Asks accounting as well where it keeps comments: a job may be forgotten already.
        """
        mark = _mark()
        where = clusters or self._cluster
        argv = ["squeue", "-h", "-a", "--me", "--states=all", "-O", _format(lookup.FIELDS, mark)]
        found = lookup.tagged(self._query(at(where, argv)).stdout, mark, tag)
        if not found and lookup.keeps_comments(self.config()):
            text = self._query(at(where, lookup.sacct_argv())).stdout
            found = lookup.recorded(text, tag)
        return found

    def _sender(
        self,
        send: Callable[[], JobId],
        arguments: Sequence[str],
        script: str | None,
        tag: str,
    ) -> submitting.Sender:
        clusters = lookup.clusters_of(arguments, script, self._sbatch.env) or self._cluster
        shown = at(clusters, ["squeue", "--me", "--states=all", "--Format=JobArrayID,Comment:80"])
        return submitting.Sender(
            send=send,
            look_up=lambda wanted: self.look_up(wanted, clusters),
            cancel=self.cancel,
            tag=tag,
            how_to_look=f"`{shlex.join(shown)}` for {tag}",
            notify=self._sbatch.remark,
            sleep=self._sleep,
        )

    def _await_end(self, job: JobId) -> int:
        patience = polling.Patience(sleep=self._sleep)
        found = polling.await_jobs(self, [job], polling.ended, patience)
        return polling.exit_code(found[job])

    def _squeue(self, cluster: str, options: Sequence[str]) -> tuple[LiveJob, ...]:
        mark = _mark()
        argv = ["squeue", "-h", "-a", *options, "-O", _format(parse.JOB_FIELDS, mark)]
        try:
            return parse.job_rows(self._query(at(cluster, argv)).stdout, mark)
        except SlurmRejected as refused:
            # Of several unknown jobs squeue says nothing, of a single one this.
            if "Invalid job id" in refused.stderr:
                return ()
            raise

    def _show(self, *words: str, cluster: str | None = None) -> str:
        """Return a whole answer of scontrol, never half of one."""
        argv = at(self._cluster if cluster is None else cluster, ["scontrol", *words])
        text = self._query(argv).stdout
        if not text.endswith("\n"):
            said = f"ends with {text[-80:]!r}" if text else "is empty"
            raise SlurmError(f"half an answer from `{shlex.join(argv)}`: it {said}; ask again")
        return text

    def _query(self, argv: Sequence[str]) -> Result:
        try:
            return check(argv, timeout_s=QUERY_TIMEOUT_S, env=self._query_env)
        except SlurmRejected as refused:
            raise submitting.judge(refused) from refused


def _mark() -> str:
    """Return what ends a field of squeue: nobody can have written it into a job's name."""
    return f"<{secrets.token_hex(8)}>"


def _format(fields: Iterable[str], mark: str) -> str:
    return ",".join(f"{name}:0{mark}" for name in fields)


def _tell_stderr(line: str) -> None:
    print(line, file=sys.stderr)
