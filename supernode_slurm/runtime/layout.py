"""The rank map: which ranks run on which node. Made once per job and handed down.

Python 3.8, standard library only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Mapping, Sequence

from ..hostlist import fold
from ..plan import DeviceGroup, Plan
from .job import Component, hosts
from .problem import LaunchError


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
        runs: list[tuple[int, int, list[str]]] = []
        for place in self.places:
            if not runs or runs[-1][:2] != (place.group, place.count):
                runs.append((place.group, place.count, []))
            runs[-1][2].append(place.node)
        folded = [[group, count, fold(nodes, sort=False)] for group, count, nodes in runs]
        return json.dumps([folded, self.master, self.port, self.per_node], separators=(",", ":"))


def loads(text: str) -> Layout:
    """Return the map that a text holds."""
    try:
        runs, master, port, per_node = json.loads(text)
        nodes = [(node, group, count) for group, count, names in runs for node in hosts(names)]
    except (TypeError, ValueError) as error:
        raise LaunchError(f"SN_LAYOUT is not a rank map: {error}") from error
    return Layout(_ranked(nodes), master, port, per_node)


def place_plan(plan: Plan, parts: Sequence[Component]) -> tuple[Place, ...]:
    """Return the map of a planned job: groups in the plan's order, nodes in their group's.

    In a heterogeneous job a group's component and its hosts tell its nodes, in an ordinary
    job its hosts alone. Raises ``LaunchError`` where the job is not what the plan was made for.
    """
    whole = [node for part in parts for node in part.tasks]
    left = dict.fromkeys(whole)
    found: list[tuple[str, int, int]] = []
    for index, group in enumerate(plan.groups):
        component = index if group.component < 0 else group.component
        mine = parts[component].tasks if 1 < len(parts) > component else left
        nodes = [node for node in hosts(group.hosts) if node in mine and node in left]
        for node in nodes:
            del left[node]
        if len(nodes) != group.nodes:
            raise LaunchError(
                f"the plan wants {group.nodes} nodes for {group.name}, the job got "
                f"{len(nodes)} ({','.join(nodes) or 'none'}); submit it again"
            )
        _check_domains(group, nodes)
        found += [(node, index, group.devices_per_node) for node in nodes]
    if left:
        raise LaunchError(f"the plan does not know {','.join(left)}; submit it again")
    return _ranked(found)


def place_unplanned(parts: Sequence[Component], devices: Mapping[str, int]) -> tuple[Place, ...]:
    """Return the map without a plan: nodes in Slurm's order, a process for each device.

    Where the user told Slurm how many tasks a node has, or nothing is known of devices,
    Slurm's own numbers count.
    """
    return _ranked(
        [
            (node, -1, (not part.asked and devices.get(node)) or tasks or 1)
            for part in parts
            for node, tasks in part.tasks.items()
        ]
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


def _ranked(nodes: Sequence[tuple[str, int, int]]) -> tuple[Place, ...]:
    places: list[Place] = []
    first = 0
    for node, group, count in nodes:
        places.append(Place(node, group, first, count))
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
