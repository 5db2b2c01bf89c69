"""The words of the plan in a command: ``{plan}``, ``{torchrun}``, ``{tp}``, ``{file.json}``.

Python 3.8, standard library only.
"""

from __future__ import annotations

import re
from typing import Callable, Sequence

from .problem import USAGE, LaunchError
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

    Unknown braces stay. ``processes`` are those of this node. Raises ``LaunchError`` for
    what only a plan could say.
    """
    words: list[str] = []
    for word in command:
        if word == "{plan}":
            words += rank.plan.arguments if rank.plan is not None else ()
        elif word == "{torchrun}":
            words += _torchrun(rank, processes)
        else:
            words.append(word)
    return [_BRACES.sub(lambda found: _value(found, rank, write), word) for word in words]


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
    if rank.plan is None and _FILE.match(name):
        raise _placed(name)
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
        f"{{{name}}} has no value: the job is placed, not planned; name its --model, or write "
        "the value itself"
    )
