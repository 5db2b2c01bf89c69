"""Run sbatch: submit, submit and wait, or only ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import SlurmRejected, SlurmTimeout
from . import parse, submitting
from .follow import follow
from .model import JobId
from .run import Result, check, run

TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Sbatch:
    """sbatch as it is run here."""

    program: str
    env: Mapping[str, str]
    """The whole environment, without the variables of an enclosing job."""
    cluster: str
    """Empty for the default one."""
    notify: Callable[[str], None]
    """Hears what sbatch says on stderr although it took the job."""

    def send(self, arguments: Sequence[str], script: str | None) -> JobId:
        """Submit and return the job's id, or raise what ``submitting.read_answer`` raises."""
        argv = self._argv(["--parsable", *arguments])
        try:
            result = run(argv, timeout_s=TIMEOUT_S, env=self.env, stdin_text=script)
        except SlurmTimeout as error:
            raise submitting.uncertain(error) from error
        job = submitting.read_answer(result)
        self._tell(result.stderr)
        return job

    def send_and_wait(
        self, arguments: Sequence[str], script: str | None, submitted: Callable[[JobId], None]
    ) -> tuple[JobId, Result]:
        """Submit, tell the id at once, and return it with what sbatch left behind at the end."""
        known: list[JobId] = []
        told = 0

        def heard(stdout: str, stderr: str) -> bool:
            nonlocal told
            job = parse.submitted(stdout) if stdout.endswith("\n") else None
            if job is not None:
                known.append(job)
                told = len(stderr)
                self._tell(stderr)
                submitted(job)
            return job is not None

        argv = self._argv(["--parsable", "--wait", *arguments])
        try:
            result = follow(
                argv,
                timeout_s=TIMEOUT_S,
                env=self.env,
                stdin_text=script,
                heard=heard,
            )
        except SlurmTimeout as error:
            raise submitting.uncertain(error) from error
        except KeyboardInterrupt:
            for job in known:
                self.remark(f"job {job} goes on: `scancel {job.local}` ends it")
            raise
        if not known:
            return submitting.read_answer(result), result
        self._tell(result.stderr[told:])
        return known[0], result

    def test_only(self, arguments: Sequence[str], script: str | None) -> str:
        """Return Slurm's estimate, which comes on stderr; ``SlurmRejected`` for a no."""
        argv = self._argv(["--test-only", *arguments])
        try:
            result = check(argv, timeout_s=TIMEOUT_S, env=self.env, stdin_text=script)
        except SlurmRejected as refused:
            raise submitting.judge(refused) from refused
        said = (result.stderr.strip() or result.stdout.strip()).splitlines()
        return "\n".join(line.removeprefix("sbatch: ") for line in said)

    def remark(self, text: str) -> None:
        """Say something of our own where sbatch's words are heard."""
        self.notify(f"sn: note: {text}")

    def _argv(self, words: Sequence[str]) -> list[str]:
        return at(self.cluster, [self.program, *words])

    def _tell(self, stderr: str) -> None:
        for line in stderr.splitlines():
            self.notify(line)


def at(cluster: str, argv: list[str]) -> list[str]:
    """Return the command for a cluster; each program takes it so, scontrol with slurmdbd only."""
    return [argv[0], f"--clusters={cluster}", *argv[1:]] if cluster else argv
