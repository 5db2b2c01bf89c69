"""The command line of sn-launch, and which side of it runs.

Python 3.8, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Mapping, Sequence

from .. import __version__
from .job import in_step, outside_step
from .problem import BROKEN, USAGE, LaunchError, say
from .srun import check_options

_PORTS = 16
"""Enough for all launchers that start at once in a job."""


@dataclass(frozen=True)
class Words:
    """What was asked for on the command line."""

    command: tuple[str, ...]
    per_node: bool = False
    options: tuple[str, ...] = ()
    """For srun."""
    is_rank: bool = False
    """The launcher itself started this task."""


def launch(argv: Sequence[str], environ: Mapping[str, str], usage: str) -> int:
    """Run the side that this process is on; return the exit code."""
    if argv[:1] in (["-h"], ["--help"]):
        print(usage)
        return 0
    if argv[:1] == ["--version"]:
        print(f"sn-launch {__version__}")
        return 0
    if argv[:1] == ["--free-ports"]:
        from .master import free_ports

        print(*(port for port, _ in zip(free_ports(int(argv[1])), range(_PORTS))))
        return 0
    try:
        words = parse(argv)
        if not words.is_rank and in_step(environ) and environ.get("SLURM_PTY_PORT"):
            # A shell that srun --pty started: its step has one task, the job's ranks get another.
            environ = outside_step(environ)
            words = replace(words, options=("--overlap", *words.options))
        if words.is_rank or in_step(environ):
            from .task import run_task

            return run_task(environ, words)
        from .batch import run_batch
        from .carry import remove_if_last

        try:
            return run_batch(environ, words)
        finally:
            remove_if_last(environ)
    except LaunchError as error:
        say("error", str(error))
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say("error", f"{where}{error.strerror or error}; mend that, or set TMPDIR elsewhere")
        return BROKEN
    except KeyboardInterrupt:
        return 130


def parse(argv: Sequence[str]) -> Words:
    """Return what the words mean. Raises ``LaunchError`` for what is none of ours."""
    words = list(argv)
    per_node, is_rank, options = False, False, []
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        if word == "--rank":
            is_rank = True
        elif word == "--per-node":
            per_node = True
        elif word == "--srun" and words:
            options.append(words.pop(0))
        elif word.startswith("--srun="):
            options.append(word[len("--srun=") :])
        else:
            raise LaunchError(f"unknown option {word}; try 'sn-launch --help'", USAGE)
    check_options(options)
    if not words:
        raise LaunchError(
            "no command; usage: sn-launch [--per-node] [--srun=OPTION]... COMMAND [ARGUMENT...]",
            USAGE,
        )
    return Words(tuple(words), per_node, tuple(options), is_rank)
