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
from .problem import LaunchError, say

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
_MEMORY = ("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE")


@dataclass(frozen=True)
class Step:
    """One srun of the launcher."""

    argv: tuple[str, ...]
    jobs: tuple[str, ...]
    """Job ids of the components that it spans."""


def steps(
    parts: Sequence[Component], options: Sequence[Sequence[str]], rank: Sequence[str], apart: bool
) -> list[Step]:
    """Return the sruns that start all ranks: one, or one for each component if ``apart``.

    ``options`` are those of each component, ``rank`` is the command of every task.
    """
    if len(parts) < 2:
        return [Step(("srun", *options[0], *rank), (parts[0].job,))]
    if apart:
        return [
            Step(("srun", f"--het-group={index}", *options[index], *rank), (part.job,))
            for index, part in enumerate(parts)
        ]
    if ":" in rank:
        raise LaunchError("in a heterogeneous job srun takes a lone ':' for its own: avoid it")
    argv = ["srun"]
    for index in range(len(parts)):
        argv += [":"] if index else []
        argv += [f"--het-group={index}", *options[index], *rank]
    return [Step(tuple(argv), tuple(part.job for part in parts))]


def task_options(part: Component, layout: Layout, hostfile: str) -> list[str]:
    """Return the options that start the map's tasks on the nodes of one component.

    ``hostfile`` names the file of ``uneven_hosts``.
    """
    counts = tasks_on(part, layout)
    each = set(counts.values())
    total = sum(counts.values())
    # --export: sbatch's --export=NONE would keep the plan from the ranks.
    argv = ["--kill-on-bad-exit=1", "--export=ALL", f"--ntasks={total}"]
    if len(each) == 1:
        argv += [f"--nodes={len(counts)}", f"--ntasks-per-node={each.pop()}"]
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
    """Return the text of a host file for --distribution=arbitrary; None where none is needed."""
    counts = tasks_on(part, layout)
    if len(set(counts.values())) == 1:
        return None
    return "".join(f"{node}\n" * count for node, count in counts.items())


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
