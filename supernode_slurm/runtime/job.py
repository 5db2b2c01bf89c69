"""What Slurm tells of the job, or of the step, that we run in.

Python 3.8, standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Mapping, Sequence

from ..hostlist import expand, fold
from .problem import LaunchError, say
from .program import run

Environ = Mapping[str, str]

_ASK_S = 30.0
_HELD = re.compile(r"Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
_GRES = re.compile(
    r"(?:\A|,)(?P<name>[\w.-]+)(?::[\w.-]+)?:(?P<count>[0-9]+)(?:\((?P<more>[^)]*)\))?(?=,|\Z)"
)
_NODES = re.compile(r"(?:\A|\s)NodeList=(\S+)")
_PARTS_OF_DEVICES = ("mps", "shard")
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
    laid: bool = True
    """Whether the user said so of each node, and not of all together."""
    cpus: dict[str, int] = field(default_factory=dict)
    cpus_per_task: int = 0
    gpus_per_task: int = 0


@dataclass(frozen=True)
class Held:
    """What a job holds of one GRES on a node."""

    count: int
    indices: tuple[int, ...] = ()
    """Which of the node's, where Slurm says."""


def in_step(environ: Environ) -> bool:
    """Say whether this process is a task of a step that somebody started with srun."""
    text = environ.get("SLURM_STEP_ID", "")
    return text.isdecimal() and int(text) < _FIRST_SPECIAL_STEP


def outside_step(environ: Environ) -> dict[str, str]:
    """Return the environment without what a step has set for its tasks."""
    of_tasks = ("NTASKS", "NPROCS", "NTASKS_PER_NODE", "TASKS_PER_NODE", "CPUS_PER_TASK", "PTY_")
    gone = tuple(f"SLURM_{name}" for name in (*of_tasks, "STEP", "NNODES"))
    return {name: text for name, text in environ.items() if not name.startswith(gone)}


def step_name(environ: Environ) -> str:
    """Return a name for the files of this step on this node, which no other step has.

    The port is srun's own: a job's number may come again.
    """
    names = ("JOB_ID", "STEP_ID", "RESTART_COUNT", "STEP_LAUNCHER_PORT")
    parts = [environ.get(f"SLURM_{name}", "0") for name in names]
    return ".".join([*parts, environ.get("SLURMD_NODENAME", "0"), environ.get("SN_MARK", "0")])


def components(environ: Environ) -> tuple[Component, ...]:
    """Return the job's components; an ordinary job is one.

    In a step only the nodes and tasks of the step. Raises ``LaunchError`` outside a job.
    """
    parts = whole_job(environ)
    return tuple(_in_step(part, environ) for part in parts) if in_step(environ) else parts


def whole_job(environ: Environ) -> tuple[Component, ...]:
    """Return the job's components, in a step without numbers of tasks."""
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


def without_lost(environ: Environ, parts: Sequence[Component]) -> tuple[Component, ...]:
    """Return the components without the nodes that the job has lost.

    A job with --no-kill outlives a node, and its environment goes on naming it. Where
    slurmctld does not answer, the environment counts.
    """
    argv = ["scontrol", "-o", "show", "job", environ.get("SLURM_JOB_ID", "")]
    shown = _NODES.findall(run(argv, _ASK_S, environ)[1])
    left = {node for text in shown if text != "(null)" for node in hosts(text)}
    lost = [node for part in parts for node in part.tasks if node not in left]
    if not lost or not all(left.intersection(part.tasks) for part in parts):
        return tuple(parts)
    say("warning", f"the job has lost {fold(lost)}: starting on the other nodes")
    return tuple(
        replace(
            part,
            tasks={node: count for node, count in part.tasks.items() if node in left},
            cpus={node: count for node, count in part.cpus.items() if node in left},
        )
        for part in parts
    )


def _component(environ: Environ, end: str) -> Component:
    nodes = hosts(environ.get("SLURM_JOB_NODELIST" + end, ""))
    # In a step this speaks of the step's nodes.
    text = "" if in_step(environ) else environ.get("SLURM_TASKS_PER_NODE" + end, "")
    tasks = per_node(nodes, text)
    # In a heterogeneous job 22.05 alone names SLURM_NTASKS of each component.
    asked = [name for name in ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE") if name + end in environ]
    cpus = environ.get("SLURM_CPUS_PER_TASK" + end, "")
    return Component(
        job=environ.get("SLURM_JOB_ID" + end, environ.get("SLURM_JOB_ID", "")),
        tasks=tasks,
        asked=bool(asked),
        laid="SLURM_NTASKS_PER_NODE" + end in environ,
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


def held_by_job(environ: Environ) -> dict[str, dict[str, Held]]:
    """Return what the job holds of each GRES, by node; empty where slurmctld does not say.

    All components of a heterogeneous job are shown under the id of its leader.
    """
    job = environ.get("SLURM_JOB_ID", "")
    return parse_job(run(["scontrol", "-d", "-o", "show", "job", job], _ASK_S, environ)[1])


def parse_job(shown: str) -> dict[str, dict[str, Held]]:
    """Return each node's GRES from what ``scontrol -d -o show job`` shows."""
    found: dict[str, dict[str, Held]] = {}
    for names, gres in _HELD.findall(shown):
        held: dict[str, Held] = {}
        for item in _GRES.finditer(gres):
            before = held.get(item["name"], Held(0))
            more = _indices(item["more"] or "")
            held[item["name"]] = Held(before.count + int(item["count"]), before.indices + more)
        for node in hosts(names):
            found.setdefault(node, {}).update(held)
    return found


def devices_among(held: Mapping[str, Held], gres: str = "") -> Held:
    """Return which GRES of a node are its devices: one process is started for each.

    The GRES that the plan names; without one ``gpu``; else the only other one that has an
    index list (npu, dcu ...). NICs and licences are counted without indices, shards and MPS
    are parts of a device, and of several others nobody can tell: none then, and Slurm's
    number of tasks holds.
    """
    others = [name for name in held if name not in _PARTS_OF_DEVICES and held[name].indices]
    if not gres:
        gres = "gpu" if "gpu" in held else others[0] if len(others) == 1 else ""
    return held.get(gres, Held(0))


def _indices(text: str) -> tuple[int, ...]:
    """Return the numbers in ``IDX:0-1,4``; none for what counts without them."""
    found = re.match(r"IDX:([0-9,-]+)\Z", text)
    if found is None:
        return ()
    spans = (part.partition("-")[::2] for part in found[1].split(",") if part)
    return tuple(n for low, high in spans for n in range(int(low), int(high or low) + 1))
