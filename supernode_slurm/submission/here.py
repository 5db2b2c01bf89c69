"""A plan for the nodes that Slurm has given already: what ``sn-launch`` asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import hostlist
from ..errors import ConfigError, PlanError, UsageError
from ..inventory import Inventory
from ..placement import Limits, Room, View, describe
from ..plan import DeviceGroup, Plan
from ..slurm import JobId, LiveJob, SlurmClient
from .ask import make_ask
from .cards import Group, parse_cards
from .commandline import CommandLine
from .emitted import told
from .script import Script
from .search import best_choice
from .settings import Settings
from .sources import planning_settings

_NO_SCRIPT = Script("interactive", "", "the job")


@dataclass(frozen=True, slots=True)
class _Held:
    """Equal numbers of devices of one kind on nodes of one component."""

    component: int
    kind: str
    count: int
    """On each node."""
    hosts: tuple[str, ...]


def plan_here(
    load: Callable[[], Inventory], client: SlurmClient, env: Mapping[str, str]
) -> tuple[Plan, tuple[str, ...]]:
    """Return the fastest plan for the job that this process runs in, and what to know of it.

    The job's own script tells what it trains, SN_* variables before it. A workload that
    nobody named is placed and not planned: the plan has no pipelines then, and its groups
    only say which devices are where. Raises ``UsageError`` outside a job, ``PlanError`` where
    the devices hold no plan that the user asked for.
    """
    number = env.get("SLURM_JOB_ID", "")
    if not number.isdecimal():
        raise UsageError("not inside a Slurm job: SLURM_JOB_ID is empty")
    job = client.job(JobId(int(number)))
    script = _script(client, job)
    said = planning_settings(CommandLine({}, ((),), None, ()), env, script, (), Path())
    try:
        inventory = load()
    except ConfigError as error:
        if _asks_for_a_plan(said):
            raise
        return _unplanned(()), (f"placed, not planned: {error}",)
    for name, value in inventory.policy.defaults:
        said.add(name, value, "the site's policy")
    held = _held(inventory, _records(job, env))
    asked = _other_cards(inventory, said, held)
    try:
        plan, notes = _planned(inventory, said, held)
    except PlanError as error:
        if _asks_for_a_plan(said):
            raise
        groups = tuple(_described(inventory, item) for item in held)
        plan, notes = _unplanned(groups), (f"placed, not planned: {error}",)
    return plan, (*asked, *notes)


def _other_cards(inventory: Inventory, said: Settings, held: Sequence[_Held]) -> tuple[str, ...]:
    """Return a note where the job's devices are not those that its planning options ask for."""
    there: dict[str, int] = {}
    for item in held:
        there[item.kind] = there.get(item.kind, 0) + item.count * len(item.hosts)
    text = said.values.get("cards", "")
    if text.isdecimal() and len(there) == 1:
        text = f"{next(iter(there))}:{text}"
    try:
        asked = {group.kind: group.devices for group in parse_cards(inventory, text)}
    except UsageError:
        return ()  # None, or words that say nothing of this job.
    if not there or None in asked or asked == there:
        return ()
    order = [kind for kind in (*asked, *there) if kind in there]
    has = " + ".join(f"{there[kind]} {kind}" for kind in dict.fromkeys(order))
    wanted = " + ".join(f"{count} {kind}" for kind, count in asked.items())
    return (f"asked for {wanted} ({said.origins['cards']}), the job has {has}",)


def _asks_for_a_plan(said: Settings) -> bool:
    return "model" in said.values and "model" not in said.read


def _unplanned(groups: tuple[DeviceGroup, ...]) -> Plan:
    return Plan("", 1, 1, "", groups)


def _planned(
    inventory: Inventory, said: Settings, held: Sequence[_Held]
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan for what a job holds; ``PlanError`` where there is none."""
    if "model" not in said.values:
        raise PlanError("no model was named")
    if not held:
        raise PlanError(
            "the job holds no devices that the inventory knows; ask sbatch for them with --nodes "
            "and --gres, or hand the script in by sn-submit"
        )
    kinds = [item.kind for item in held]
    for kind in kinds:
        if kinds.count(kind) > 1:
            shown = ", ".join(f"{len(h.hosts)} x {h.count}" for h in held if h.kind == kind)
            raise PlanError(f"its nodes hold unequal numbers of {kind}, or lie apart: {shown}")
    groups = [Group(item.kind, item.count * len(item.hosts)) for item in held]
    limits = [Limits(per_node=item.count, hosts=frozenset(item.hosts)) for item in held]
    ask = replace(make_ask(inventory, said, groups, limits), whole=True)
    if ask.model is None:
        raise PlanError("; ".join(note.partition(": ")[2] for note in ask.notes[-1:]))
    hosts = frozenset(host for item in held for host in item.hosts)
    choice, notes = best_choice(Room(inventory, View(hosts, hosts)), ask, said)
    choice, more = told(choice)
    if len({item.component for item in held}) > 1:
        found = {item.kind: item.component for item in held}
        bound = (replace(part, component=found[part.name]) for part in choice.plan.groups)
        choice = replace(choice, plan=replace(choice.plan, groups=tuple(bound)))
    return choice.plan, (*ask.notes, *notes, *more)


def _script(client: SlurmClient, job: LiveJob) -> Script:
    """Return the job's batch script; an interactive job has none."""
    text = client.batch_script(job.id)
    return Script(job.name, text, f"{job.name} of job {job.id}") if text else _NO_SCRIPT


def _records(job: LiveJob, env: Mapping[str, str]) -> tuple[LiveJob, ...]:
    """Return the components of this job; of an array, this task alone."""
    if not job.components or job.components[0].id.offset is not None:
        return job.components or (job,)
    task = env.get("SLURM_ARRAY_TASK_ID", "")
    mine = tuple(record for record in job.components if record.id.task == task)
    return mine[:1] or (job,)


def _held(inventory: Inventory, records: Sequence[LiveJob]) -> list[_Held]:
    """Return what a job holds, nodes with equal numbers of one kind together."""
    kinds = {
        host: {item.type: item.gres for item in nodes.devices}
        for nodes in inventory.node_classes
        for host in nodes.hosts
    }
    found: dict[tuple[int, str, int], list[str]] = {}
    for component, record in enumerate(records):
        for allocated in record.allocated:
            for host in allocated.hosts:
                known = kinds.get(host, {})
                for item in allocated.gres:
                    named = [kind for kind, gres in known.items() if gres == item.name]
                    kind = item.type or (named[0] if len(named) == 1 else "")
                    if kind in known:
                        found.setdefault((component, kind, item.count), []).append(host)
    return [_Held(*key, tuple(hosts)) for key, hosts in found.items()]


def _described(inventory: Inventory, held: _Held) -> DeviceGroup:
    group = describe(inventory, held.kind, held.hosts[0])
    return replace(
        group,
        hosts=hostlist.fold(held.hosts, sort=False),
        nodes=len(held.hosts),
        devices_per_node=held.count,
        component=held.component,
    )
