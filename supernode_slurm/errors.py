"""The errors that reach a user, and their exit codes.

SupernodeError              1   something failed
+-- UsageError              2   the command line contradicts itself
+-- PlanError               3   no plan, or no place for it
+-- ConfigError             4   inventory or configuration invalid (holds all problems)
+-- CheckFound              5   a check found something: drift, a lint error
+-- SlurmError              1   Slurm, or a program of it, failed
    +-- SlurmNotFound           the program is not installed
    +-- SlurmTimeout            it did not answer in time
    +-- SlurmDown               no controller was reached: nothing was done
    +-- SlurmUncertain          the answer was lost: the job may be running
    +-- SlurmRejected           it answered no (keeps argv, stderr)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Where:
    """A place in a file that a person wrote; lines and columns count from 1."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


def printable(text: str) -> str:
    """Return a text on one line, its control characters shown and not obeyed."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name, or the known names."""
    import difflib

    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1, 0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    more = ", ..." if len(names) > 12 else ""
    return f"known: {', '.join(names[:12])}{more}" if names else "none is defined"


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong with an input: where, what, and what to do about it."""

    where: Where
    what: str
    todo: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}"
        return printable(f"{text}; {self.todo}" if self.todo else text)


class SupernodeError(Exception):
    """The root of every error that is meant for a user."""

    exit_code = 1


class UsageError(SupernodeError):
    """The command line or the script contradicts itself."""

    exit_code = 2


class PlanError(SupernodeError):
    """No legal plan, or no devices that could hold it."""

    exit_code = 3


class ConfigError(SupernodeError):
    """An inventory or a configuration is invalid; all its problems are kept."""

    exit_code = 4

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))

    @classmethod
    def one(cls, where: str | Where, what: str, todo: str = "") -> ConfigError:
        """Build an error that holds a single problem."""
        place = Where(where) if isinstance(where, str) else where
        return cls([Problem(place, what, todo)])


class CheckFound(SupernodeError):
    """A check ran to its end and found something."""

    exit_code = 5


class SlurmError(SupernodeError):
    """Slurm, or one of its programs, failed."""


class SlurmNotFound(SlurmError):
    """A program of Slurm is not installed, or not on PATH."""


class SlurmTimeout(SlurmError):
    """A program of Slurm did not answer in time."""


class SlurmDown(SlurmError):
    """No controller could be reached, so that nothing was done; it may come back."""


class SlurmUncertain(SlurmError):
    """The answer to a submission was lost: the job may be running, and says how to look."""


class SlurmRejected(SlurmError):
    """A program of Slurm answered no."""

    def __init__(self, argv: Sequence[str], returncode: int, stderr: str) -> None:
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stderr = stderr.strip()
        own = f"{self.argv[0]}: error: "
        lines = [line.removeprefix(own) for line in self.stderr.splitlines()]
        detail = "\n".join(lines) or f"exit code {returncode}, no message"
        super().__init__(f"{self.argv[0]} refused: {detail}")
