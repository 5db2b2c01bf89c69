"""What Slurm tells of the job, or of the step, that we run in.

Python 3.8, standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Mapping

from ..hostlist import expand
from .problem import LaunchError

Environ = Mapping[str, str]

_REPEATED = re.compile(r"([0-9]+)(?:\(x([0-9]+)\))?\Z")
_FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""Steps from here on are Slurm's own: batch, extern, interactive (slurm.h). 26.05 shows -6."""


@dataclass(frozen=True)
class Component:
    """The nodes of an ordinary job, or of one component of a heterogeneous job."""

    job: str
    """Its job id."""
    tasks: dict[str, int]
    """How many tasks Slurm starts on each node unless told otherwise; 0 where it does not say."""
    asked: bool = False
    """Whether the user said how many."""
    cpus: dict[str, int] = field(default_factory=dict)
    cpus_per_task: int = 0
    gpus_per_task: int = 0


def in_step(environ: Environ) -> bool:
    """Say whether this process is a task of a step that somebody started with srun."""
    text = environ.get("SLURM_STEP_ID", "")
    return text.isdecimal() and int(text) < _FIRST_SPECIAL_STEP


def step_name(environ: Environ) -> str:
    """Return a name for the files of this step on this node, which a requeued job has not."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "SLURMD_NODENAME")
    return ".".join(environ.get(name, "0") for name in names)


def components(environ: Environ) -> tuple[Component, ...]:
    """Return the job's components; an ordinary job is one.

    In a step only the nodes and tasks of the step. Raises ``LaunchError`` outside a job.
    """
    parts = _of_job(environ)
    return tuple(_in_step(part, environ) for part in parts) if in_step(environ) else parts


def _of_job(environ: Environ) -> tuple[Component, ...]:
    size = number(environ, "SLURM_HET_SIZE")
    ends = [f"_HET_GROUP_{index}" for index in range(size)]
    found = tuple(_component(environ, end) for end in ends)
    if size and all(part.tasks for part in found):
        return found
    whole = _component(environ, "")
    if not whole.tasks:
        raise LaunchError(
            "not inside a Slurm job: SLURM_JOB_NODELIST is empty; start it in a batch script, "
            "in salloc, or behind srun"
        )
    return (whole,)


def _component(environ: Environ, end: str) -> Component:
    nodes = hosts(environ.get("SLURM_JOB_NODELIST" + end, ""))
    tasks = per_node(nodes, environ.get("SLURM_TASKS_PER_NODE" + end, ""))
    # In a heterogeneous job 22.05 alone names SLURM_NTASKS of each component.
    asked = [name for name in ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE") if name + end in environ]
    cpus = environ.get("SLURM_CPUS_PER_TASK" + end, "")
    return Component(
        job=environ.get("SLURM_JOB_ID" + end, environ.get("SLURM_JOB_ID", "")),
        tasks=tasks,
        asked=bool(asked),
        cpus=per_node(nodes, environ.get("SLURM_JOB_CPUS_PER_NODE" + end, "")),
        cpus_per_task=int(cpus) if cpus.isdecimal() else 0,
        gpus_per_task=_gpus_per_task(environ, end),
    )


def _gpus_per_task(environ: Environ, end: str) -> int:
    """Return --gpus-per-task: ``h100:1`` in 22.05 to 23.11, ``cpu=2,gres/gpu:h100=1`` after."""
    found = re.search(
        r"gres/gpu(?::\w+)?[=:]([0-9]+)", environ.get("SLURM_TRES_PER_TASK" + end, "")
    )
    if found is None:
        found = re.search(r"(?:^|:)([0-9]+)\Z", environ.get("SLURM_GPUS_PER_TASK" + end, ""))
    return int(found.group(1)) if found else 0


def _in_step(part: Component, environ: Environ) -> Component:
    nodes = hosts(environ.get("SLURM_STEP_NODELIST", ""))
    step = per_node(nodes, environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    return Component(part.job, {node: step[node] for node in part.tasks if node in step}, True)


def number(environ: Environ, name: str) -> int:
    """Return the number that a variable of Slurm holds, 0 if it is not set.

    Raises ``LaunchError`` if it is no number.
    """
    text = environ.get(name, "") or "0"
    if not text.isdecimal():
        raise LaunchError(f"the job's environment is broken: {name}={text!r} is no number")
    return int(text)


def hosts(text: str) -> list[str]:
    """Return the hosts of a list in Slurm's notation, none for an empty text."""
    try:
        return expand(text) if text else []
    except ValueError as error:
        raise LaunchError(f"cannot read the host list {text[:200]!r}: {error}") from error


def per_node(nodes: list[str], text: str) -> dict[str, int]:
    """Return what a list like ``3(x2),2`` says of each node; 0 where Slurm does not say."""
    counts: list[int] = []
    for part in text.split(",") if text else []:
        found = _REPEATED.match(part)
        if found is None:
            raise LaunchError(f"cannot read Slurm's numbers per node {text!r}")
        counts += [int(found.group(1))] * int(found.group(2) or 1)
    if counts and len(counts) != len(nodes):
        raise LaunchError(f"{len(nodes)} nodes, but numbers for {len(counts)} ({text})")
    return dict(zip(nodes, counts or [0] * len(nodes)))
