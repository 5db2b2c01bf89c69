"""The steps that start the ranks, as srun's arguments.

Every option that decides where tasks run is given in full: what a job's environment says
of it differs by release, and in a heterogeneous job speaks of the first component. Seen on
22.05, 24.11 and 26.05: with the variables below taken away and these options given, each
task sees all its node's devices, whether the job asked with --gres, --gpus,
--gpus-per-node or --gpus-per-task.

Python 3.8, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

from .job import Component
from .layout import Layout
from .problem import USAGE, LaunchError, say

_PLACES = ("ntasks", "nodes", "nodelist", "nodefile", "exclude", "distribution", "relative",
           "ntasks-per-node", "het-group")  # fmt: skip
_STREAMS = ("output", "error", "pty")
_SHORT = {
    "n": "ntasks", "N": "nodes", "w": "nodelist", "F": "nodefile", "x": "exclude",
    "m": "distribution", "r": "relative", "o": "output", "e": "error",
}  # fmt: skip
NOT_HANDED_DOWN = frozenset(
    (
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_NTASKS_PER_NODE",
        "SLURM_TASKS_PER_NODE",
        "SLURM_CPUS_PER_TASK",
        "SRUN_CPUS_PER_TASK",
        "SLURM_NNODES",
        "SLURM_JOB_NUM_NODES",
        "SLURM_DISTRIBUTION",
        "SLURM_HOSTFILE",
        "SLURM_NTASKS_PER_GPU",
        "SLURM_NTASKS_PER_TRES",
        "SLURM_TRES_PER_TASK",
        "SLURM_TRES_BIND",
        "SLURM_GPUS",
        "SLURM_GPUS_PER_NODE",
        "SLURM_GPUS_PER_TASK",
        "SLURM_GPUS_PER_SOCKET",
        "SLURM_GPU_BIND",
        "SLURM_CPUS_PER_GPU",
        "SLURM_GRES",
    )
)
"""What srun would read of a job's environment beside its options."""
_WAY_OUT = (
    "sn-launch reads the ranks' stderr through srun, to name the one that dies; write to files "
    "with sn-launch sh -c 'exec \"$@\" > out.$RANK 2> err.$RANK' sh COMMAND"
)
_MEMORY = ("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE")


@dataclass(frozen=True)
class Step:
    """One srun of the launcher."""

    argv: tuple[str, ...]
    jobs: tuple[str, ...]
    """Job ids of the components that it spans."""


def check_options(options: Sequence[str]) -> None:
    """Refuse options for srun that would break the rank map, or the watch over the ranks."""
    before = ""
    for option in options:
        if not option.startswith("-"):
            joined = f"{before}={option}" if before.startswith("--") else f"{before}{option}"
            raise LaunchError(
                f"--srun={option}: an option of srun begins with '-'; write it and its value as "
                f"one: --srun={joined if before else '--NAME=VALUE'}",
                USAGE,
            )
        before = option
        name = option[2:].partition("=")[0] if option[1:2] == "-" else _SHORT.get(option[1:2], "")
        if name and any(full.startswith(name) for full in _PLACES):
            raise LaunchError(
                f"--srun={option}: sn-launch itself says where and how many ranks start; ask "
                "sbatch for other nodes or --ntasks-per-node, or start srun yourself: "
                "srun ... sn-launch COMMAND",
                USAGE,
            )
        if name and any(full.startswith(name) for full in _STREAMS):
            raise LaunchError(f"--srun={option}: {_WAY_OUT}", USAGE)


def check_streams(environ: Mapping[str, str]) -> None:
    """Refuse variables of srun that take the ranks' stderr away from the launcher."""
    for name in ("SLURM_STDOUTMODE", "SLURM_STDERRMODE"):
        if environ.get(name):
            raise LaunchError(f"{name} is set: {_WAY_OUT}", USAGE)


def steps(
    parts: Sequence[Component], options: Sequence[Sequence[str]], rank: Sequence[str], apart: bool
) -> list[Step]:
    """Return the sruns that start all ranks: one, or one for each component if ``apart``.

    ``options`` are those of each component, ``rank`` is the command of every task.
    """
    if ":" in rank:
        raise LaunchError("srun takes a lone ':' for its own: avoid it in the command", USAGE)
    if len(parts) < 2:
        return [Step(("srun", *options[0], *rank), (parts[0].job,))]
    if apart:
        return [
            Step(("srun", f"--het-group={index}", *options[index], *rank), (part.job,))
            for index, part in enumerate(parts)
        ]
    argv = ["srun"]
    for index in range(len(parts)):
        argv += [":"] if index else []
        argv += [f"--het-group={index}", *options[index], *rank]
    return [Step(tuple(argv), tuple(part.job for part in parts))]


def task_options(part: Component, layout: Layout, hostfile: str) -> list[str]:
    """Return the options that start the map's tasks on the nodes of one component.

    ``hostfile`` names the file of ``uneven_hosts``, empty where there is none.
    """
    counts = tasks_on(part, layout)
    total = sum(counts.values())
    # --export: sbatch's --export=NONE would keep the plan from the ranks.
    argv = ["--kill-on-bad-exit=1", "--export=ALL", f"--ntasks={total}"]
    if not hostfile:
        argv += [f"--nodes={len(counts)}", f"--ntasks-per-node={total // len(counts)}"]
    else:  # 24.11 refuses --nodes beside it
        argv += ["--distribution=arbitrary", f"--nodelist={hostfile}"]
    argv += _cpus(part, counts)
    if part.gpus_per_task and counts != part.tasks:
        # The step would take so many for each of its own tasks.
        argv.append(f"--gpus={part.gpus_per_task * sum(part.tasks.values())}")
    return argv


def tasks_on(part: Component, layout: Layout) -> dict[str, int]:
    """Return how many tasks each node of a component gets."""
    counts = {place.node: 1 if layout.per_node else place.count for place in layout.places}
    return {node: counts[node] for node in part.tasks}


def uneven_hosts(part: Component, layout: Layout) -> str | None:
    """Return the text of a host file for --distribution=arbitrary; None where none is needed.

    22.05 gives nodes tasks by their CPUs, whatever --ntasks-per-node says.
    """
    counts = tasks_on(part, layout)
    if len(set(counts.values())) == 1 and len(set(part.cpus.values())) < 2:
        return None
    return "".join(f"{node}\n" * count for node, count in counts.items())


def beside(parts: Sequence[Component], index: int, nodes: int = 1) -> list[str]:
    """Return the srun of one task per node beside whatever else runs on a component."""
    argv = ["srun", "--overlap", "--gres=none", "--export=ALL", f"--nodes={nodes}"]
    argv += [f"--ntasks={nodes}", "--ntasks-per-node=1"]
    return [*argv, *([f"--het-group={index}"] if len(parts) > 1 else [])]


def _cpus(part: Component, counts: Mapping[str, int]) -> list[str]:
    """Return the CPUs of each task: the user's, or an equal part of the node's.

    srun ignores SLURM_CPUS_PER_TASK in 22.05 to 23.02.
    """
    if counts == part.tasks:
        return [f"--cpus-per-task={part.cpus_per_task}"] if part.cpus_per_task else []
    if not all(part.cpus.get(node) for node in counts):
        return []
    least, node = min((part.cpus[node] // count, node) for node, count in counts.items())
    if least:
        return [f"--cpus-per-task={least}"]
    say(
        "warning",
        f"{node}: {counts[node]} tasks share {part.cpus[node]} CPUs, all that the job asked for; "
        "ask for more with --cpus-per-task",
    )
    return ["--overcommit"]


def handed_down(
    environ: Mapping[str, str], lists: Sequence[str], heterogeneous: bool
) -> dict[str, str]:
    """Return the environment for srun: the job's, without what speaks of other tasks.

    ``lists`` are the vendors' variables: where they show the devices of the batch script,
    they are not the user's.
    """
    gone = set(NOT_HANDED_DOWN)
    if heterogeneous:
        gone.update(_MEMORY, lists)
    ours = environ.get("SLURM_JOB_GPUS", "")
    gone.update(name for name in lists if environ.get(name) == ours)
    return {name: text for name, text in environ.items() if name not in gone}
