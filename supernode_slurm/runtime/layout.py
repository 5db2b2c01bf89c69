"""The rank map: which ranks run on which node. Made once per job and handed down.

Python 3.8, standard library only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Mapping, Sequence, Tuple

from ..hostlist import fold
from ..plan import DeviceGroup, Plan
from .job import Component, Held, devices_among, held_by_job, hosts, per_node
from .problem import LaunchError

_Node = Tuple[str, int, int, Tuple[int, ...]]
"""Its name, group, processes, devices."""


@dataclass(frozen=True)
class Place:
    """One node of the job."""

    node: str
    group: int
    """Index into the plan's groups; -1 without a plan."""
    first: int
    """Rank of its first process."""
    count: int
    """How many processes the training has on it."""
    devices: tuple[int, ...] = ()
    """Which of the node's devices the job holds, where Slurm tells its tasks nothing of them."""


@dataclass(frozen=True)
class Layout:
    """All nodes in the order of their ranks, and where they meet."""

    places: tuple[Place, ...]
    master: str
    port: int
    per_node: bool = False
    """One task per node, which starts the node's processes itself."""

    @property
    def world(self) -> int:
        """Return the number of processes."""
        return sum(place.count for place in self.places)

    def dumps(self) -> str:
        """Return the map as text, neighbours that are alike folded: Linux takes 128 KiB."""
        runs: list[tuple[tuple[int, int, tuple[int, ...]], list[str]]] = []
        for place in self.places:
            alike = (place.group, place.count, place.devices)
            if not runs or runs[-1][0] != alike:
                runs.append((alike, []))
            runs[-1][1].append(place.node)
        folded = [[*alike, fold(nodes, sort=False)] for alike, nodes in runs]
        return json.dumps([folded, self.master, self.port, self.per_node], separators=(",", ":"))


def loads(text: str) -> Layout:
    """Return the map that a text holds."""
    try:
        runs, master, port, per_node = json.loads(text)
        nodes = [
            (node, group, count, tuple(devices))
            for group, count, devices, names in runs
            for node in hosts(names)
        ]
    except (TypeError, ValueError) as error:
        raise LaunchError(f"SN_LAYOUT is not a rank map: {error}") from error
    return Layout(_ranked(nodes), master, port, per_node)


def make_places(
    environ: Mapping[str, str], parts: Sequence[Component], plan: Plan | None, per_node: bool
) -> tuple[Place, ...]:
    """Return the map of a job, or step: the plan's, else of Slurm's tasks and devices."""
    groups = plan.groups if plan is not None else ()
    planned = plan is not None and bool(plan.pipelines)
    counted = not planned and (per_node or not all(part.asked and part.laid for part in parts))
    held = {}
    if counted or any(group.gres != "gpu" for group in groups):
        kinds = kinds_of(parts, groups)
        held = {
            node: devices_among(found, groups[kinds[node]].gres if node in kinds else "")
            for node, found in held_by_job(environ).items()
        }
    if plan is not None and planned:
        places = place_plan(plan, parts)
    else:
        if per_node:
            # The one task of a node starts a process for each device, whoever asked for tasks.
            parts = [replace(part, asked=False) for part in parts]
        devices = {node: item.count for node, item in held.items()}
        parts = [replace(part, asked=part.asked and not _fits(part, devices)) for part in parts]
        places = place_unplanned(parts, devices, groups)
    return _with_devices(places, groups, held)


def place_plan(plan: Plan, parts: Sequence[Component]) -> tuple[Place, ...]:
    """Return the map of a planned job: groups in the plan's order, nodes in their group's.

    In a heterogeneous job a group's component and its hosts tell its nodes, in an ordinary
    job its hosts alone. Raises ``LaunchError`` where the job is not what the plan was made for.
    """
    whole = [node for part in parts for node in part.tasks]
    left = dict.fromkeys(whole)
    found: list[_Node] = []
    for index, group in enumerate(plan.groups):
        component = _component(index, group, parts)
        mine = left if component is None else parts[component].tasks
        nodes = [node for node in hosts(group.hosts) if node in mine and node in left]
        for node in nodes:
            del left[node]
        if len(nodes) != group.nodes:
            raise LaunchError(
                f"the plan wants {group.nodes} nodes for {group.name}, the job got "
                f"{len(nodes)} ({','.join(nodes) or 'none'}); submit it again"
            )
        _check_domains(group, nodes)
        found += [(node, index, group.devices_per_node, ()) for node in nodes]
    if left:
        raise LaunchError(f"the plan does not know {','.join(left)}; submit it again")
    return _ranked(found)


def _fits(part: Component, devices: Mapping[str, int]) -> bool:
    """Say whether a number of tasks, asked for of no node, is that of the devices.

    Slurm lays such tasks by CPUs: 15 and 1 on two nodes of 8 devices.
    """
    mine = [devices.get(node, 0) for node in part.tasks]
    return not part.laid and all(mine) and sum(mine) == sum(part.tasks.values())


def place_unplanned(
    parts: Sequence[Component], devices: Mapping[str, int], groups: Sequence[DeviceGroup] = ()
) -> tuple[Place, ...]:
    """Return the map without a plan: nodes in Slurm's order, a process for each device.

    Where the user told Slurm how many tasks a node has, or nothing is known of devices,
    Slurm's own numbers count. Groups only say of what kind a node is.
    """
    kinds = kinds_of(parts, groups)
    return _ranked(
        [
            (node, kinds.get(node, -1), (not part.asked and devices.get(node)) or tasks or 1, ())
            for part in parts
            for node, tasks in part.tasks.items()
        ]
    )


def kinds_of(parts: Sequence[Component], groups: Sequence[DeviceGroup]) -> dict[str, int]:
    """Return for each node of the job the index of the group that it belongs to, if any."""
    found: dict[str, int] = {}
    whole = {node for part in parts for node in part.tasks}
    for index, group in enumerate(groups):
        component = _component(index, group, parts)
        mine = whole if component is None else parts[component].tasks
        for node in hosts(group.hosts):
            if node in mine:
                found.setdefault(node, index)
    return found


def _with_devices(
    places: Sequence[Place], groups: Sequence[DeviceGroup], held: Mapping[str, Held]
) -> tuple[Place, ...]:
    """Return the map with the devices that the job holds of each GRES that is not a gpu."""
    return tuple(
        replace(place, devices=held[place.node].indices)
        if place.group >= 0 and groups[place.group].gres != "gpu" and place.node in held
        else place
        for place in places
    )


def check_tasks(places: Sequence[Place], parts: Sequence[Component], per_node: bool) -> None:
    """Refuse a step whose number of tasks is not the map's: it would wait for the missing."""
    tasks = {node: count for part in parts for node, count in part.tasks.items()}
    for place in places:
        wanted = 1 if per_node else place.count
        if tasks[place.node] not in (0, wanted):
            raise LaunchError(
                f"{place.node} needs {wanted} tasks, this step has {tasks[place.node]}: leave "
                "srun to sn-launch, or give it the plan's --ntasks-per-node"
            )


def check_step(layout: Layout, environ: Mapping[str, str]) -> None:
    """Refuse to run in a step of ours that srun has not started as the rank map says."""
    nodes = hosts(environ.get("SLURM_STEP_NODELIST", ""))
    tasks = per_node(nodes, environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    mine = [place for place in layout.places if place.node in tasks]
    missing = {place.node for place in layout.places}.difference(nodes)
    if nodes and missing and not environ.get("SLURM_HET_SIZE"):
        raise LaunchError(f"srun left out {fold(missing)}: leave the nodes to sn-launch")
    for place in mine:
        wanted = 1 if layout.per_node else place.count
        if tasks[place.node] not in (0, wanted):
            raise LaunchError(
                f"{place.node} needs {wanted} tasks, srun started {tasks[place.node]}: leave "
                "their number to sn-launch"
            )


def _component(index: int, group: DeviceGroup, parts: Sequence[Component]) -> int | None:
    """Return the component that holds a group; None where the job is not made of several."""
    component = index if group.component < 0 else group.component
    return component if 1 < len(parts) > component else None


def _ranked(nodes: Sequence[_Node]) -> tuple[Place, ...]:
    places: list[Place] = []
    first = 0
    for node, group, count, devices in nodes:
        places.append(Place(node, group, first, count, devices))
        first += count
    return tuple(places)


def _check_domains(group: DeviceGroup, nodes: list[str]) -> None:
    """Refuse nodes that were promised to share a supernode and do not."""
    domains = [set(hosts(text)) for text in group.domains]
    size = group.together or len(nodes)
    for start in range(0, len(nodes) if domains else 0, size):
        part = nodes[start : start + size]
        if not any(domain.issuperset(part) for domain in domains):
            raise LaunchError(
                f"promised one supernode for {group.name}, but {','.join(part)} lie in several; "
                "submit it again"
            )
