"""The words of the plan in a command: ``{plan}``, ``{torchrun}``, ``{tp}``, ``{file.json}``.

Python 3.8, standard library only.
"""

from __future__ import annotations

import re
import shlex
from typing import Callable, Sequence

from ..plan import Plan
from .problem import USAGE, LaunchError, say
from .rank import Rank

_BRACES = re.compile(r"(?<!\$)\{([A-Za-z_][\w.-]*)\}")
"""``${tp}`` is the shell's."""
_FILE = re.compile(r".+\.(?:json|ya?ml)\Z")
_NUMBERS = (
    "tp", "pp", "dp", "cp", "ep", "micro_batch", "global_batch", "sequence", "accumulation",
)  # fmt: skip

Write = Callable[[str, str], str]
"""Writes a file of this name and text; returns its path."""


def fill(command: Sequence[str], rank: Rank, processes: int, write: Write) -> list[str]:
    """Return the command with the plan's words, files and numbers put in.

    Inside a word ``{plan}`` and ``{torchrun}`` become their words quoted for a shell. Other
    unknown braces stay. ``processes`` are those of this node. Raises ``LaunchError`` for what
    only a plan, or another plan, could say.
    """
    lists = {
        "{plan}": lambda: [
            _BRACES.sub(lambda found: _value(found, rank, write), word)
            for word in (rank.plan.arguments if rank.plan is not None else ())
        ],
        "{torchrun}": lambda: _torchrun(rank, processes),
    }

    def put(found: re.Match[str]) -> str:
        if found.group() in lists:
            return shlex.join(lists[found.group()]())
        return _value(found, rank, write)

    words: list[str] = []
    for word in command:
        words += lists[word]() if word in lists else [_BRACES.sub(put, word)]
    return words


def warn_of_no_plan(command: Sequence[str], plan: Plan | None) -> None:
    """Warn of a command that counts on a plan's arguments and will not get any."""
    planned = plan is not None and bool(plan.pipelines)
    if not planned and any(
        found[1] == "plan" for word in command for found in _BRACES.finditer(word)
    ):
        say(
            "warning",
            "{plan} becomes nothing, and the framework takes its own defaults: the job is "
            "placed, not planned; name its --model (or '#SN --model', or SN_MODEL)",
        )


def _torchrun(rank: Rank, processes: int) -> list[str]:
    if not rank.layout.per_node:
        raise LaunchError("{torchrun} starts a node's processes: write sn-launch --per-node", USAGE)
    return [
        f"--nnodes={len(rank.layout.places)}",
        f"--node-rank={rank.node_rank}",
        f"--nproc-per-node={processes}",
        f"--master-addr={rank.layout.master}",
        f"--master-port={rank.layout.port}",
    ]


def _value(found: re.Match[str], rank: Rank, write: Write) -> str:
    name = found.group(1)
    if rank.plan is not None and name in rank.plan.files:
        return write(name, rank.plan.files[name])
    if name in _NUMBERS:
        return str(_number(name, rank))
    if _FILE.match(name):
        if rank.plan is None or not rank.plan.pipelines:
            raise _placed(name)
        named = ", ".join(map("{{{}}}".format, rank.plan.files)) or "none"
        raise LaunchError(
            f"the plan for {rank.plan.framework} has no file {{{name}}}; its files: {named}", USAGE
        )
    return found.group()


def _number(name: str, rank: Rank) -> int:
    plan, part = rank.plan, rank.part
    if plan is None or part is None:
        raise _placed(name)
    if name == "accumulation":
        return part.accumulation
    value = getattr(plan if name in ("global_batch", "sequence") else part.mesh, name)
    return int(value)


def _placed(name: str) -> LaunchError:
    return LaunchError(
        f"{{{name}}} has no value: the job is placed, not planned; name its --model (or '#SN "
        "--model', or SN_MODEL), or write the value itself"
    )
