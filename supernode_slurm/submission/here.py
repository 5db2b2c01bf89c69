"""A plan for the nodes that Slurm has given already: what ``sn-launch`` asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ..errors import PlanError, UsageError
from ..inventory import Inventory
from ..placement import Choice, Limits, Room, View
from ..slurm import JobId, LiveJob, SlurmClient
from .ask import make_ask
from .cards import Group
from .commandline import CommandLine
from .emitted import told
from .script import Script
from .search import best_choice
from .sources import planning_settings

_NO_SCRIPT = Script("interactive", "", "the job")


def plan_here(
    inventory: Inventory, client: SlurmClient, env: Mapping[str, str]
) -> tuple[Choice, tuple[str, ...]]:
    """Return the fastest plan for the job that this process runs in, and what to know of it.

    The job's own script tells what it trains, SN_* variables before it. A workload that
    nobody named is placed and not planned. Raises ``UsageError`` outside a job, ``PlanError``
    where its devices hold no plan.
    """
    number = env.get("SLURM_JOB_ID", "")
    if not number.isdecimal():
        raise UsageError("not inside a Slurm job: SLURM_JOB_ID is empty")
    job = client.job(JobId(int(number)))
    script = _script(client, job)
    said = planning_settings(_line(), env, script, inventory.policy.defaults, Path())
    groups, limits, hosts = _allocated(inventory, job)
    ask = make_ask(inventory, said, groups, limits)
    choice, notes = best_choice(Room(inventory, View(hosts, hosts)), ask, said)
    choice, more = told(choice)
    return choice, (*ask.notes, *notes, *more)


def _line() -> CommandLine:
    return CommandLine({}, ((),), None, ())


def _script(client: SlurmClient, job: LiveJob) -> Script:
    """Return the job's batch script; an interactive job has none."""
    text = client.batch_script(job.id)
    return Script(job.name, text, f"{job.name} of job {job.id}") if text else _NO_SCRIPT


def _allocated(
    inventory: Inventory, job: LiveJob
) -> tuple[list[Group], list[Limits], frozenset[str]]:
    """Return the devices of each kind that the job has, as groups with their bounds."""
    kinds = {
        host: {(item.gres, item.type): item.type for item in nodes.devices}
        for nodes in inventory.node_classes
        for host in nodes.hosts
    }
    found: dict[str, dict[str, int]] = {}
    for part in job.components or (job,):
        for allocated in part.allocated:
            for host in allocated.hosts:
                for item in allocated.gres:
                    kind = item.type or _only_kind(kinds.get(host, {}), item.name)
                    if kind in kinds.get(host, {}).values():
                        found.setdefault(kind, {})[host] = item.count
    if not found:
        raise PlanError(f"job {job.id} has no devices that the inventory knows")
    groups, limits = [], []
    for kind, counts in found.items():
        sizes = Counter(counts.values())
        if len(sizes) > 1:
            shown = ", ".join(f"{nodes} x {size}" for size, nodes in sorted(sizes.items()))
            raise PlanError(f"the nodes of job {job.id} hold unequal numbers of {kind}: {shown}")
        per_node = next(iter(sizes))
        groups.append(Group(kind, per_node * len(counts)))
        limits.append(Limits(per_node=per_node, hosts=frozenset(counts)))
    return groups, limits, frozenset(host for counts in found.values() for host in counts)


def _only_kind(kinds: Mapping[tuple[str, str], str], gres: str) -> str:
    named = [kind for (name, _), kind in kinds.items() if name == gres]
    return named[0] if len(named) == 1 else ""
