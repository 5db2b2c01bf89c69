"""What the user told sbatch, held against what the plan needs.

What the plan leaves open is the user's; what both say must agree, or both are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .. import hostlist
from ..errors import PlanError, UsageError
from ..inventory import Inventory
from ..placement import Slot, device_types
from ..slurm import parse
from .bounds import named_hosts
from .compose import Component, Request
from .constraint import joined
from .constraint import parse as parse_constraint
from .devices import asked_devices, number, tasks_per_node
from .settings import Settings, of_component
from .site import Site

_OTHER_WAYS = (
    "gpus-per-socket",
    "ntasks-per-gpu",
    "ntasks-per-core",
    "ntasks-per-socket",
    "cores-per-socket",
)
"""Other ways to ask for what the plan asks for, which sbatch refuses beside it or miscounts."""

_INSTEAD = {
    "cpus-per-task": ("cpus-per-gpu",),
    "mem": ("mem-per-cpu", "mem-per-gpu"),
}
"""What the user may say in place of an option of ours; sbatch refuses both together."""


@dataclass(frozen=True, slots=True)
class Part:
    """One component of a job: what the user says of it, and the groups that it holds."""

    given: Settings
    slots: tuple[Slot, ...]
    site: Site


def merge(
    request: Request, parts: Sequence[Settings], slots: tuple[Slot, ...], site: Site
) -> Request:
    """Return the request with the user's own options respected.

    ``parts`` are the user's for each component, or one for all. Raises ``UsageError`` that
    shows both sides where they contradict each other, and ``PlanError`` where an array
    cannot be had.
    """
    several = len(request.components) > 1
    for given in parts:
        if "array" in given.values and several:
            raise PlanError(
                "a heterogeneous job takes no --array: ask for one kind of cards, or for kinds "
                "in one partition with equal nodes"
            )
        if "ntasks" in given.values and several and len(parts) == 1:
            raise UsageError(
                f"{given.said('ntasks')}: each component of a heterogeneous job has its own "
                "number of tasks; leave it out"
            )
    merged = []
    for index, component in enumerate(request.components):
        given = of_component(parts, index)
        mine = slots[index : index + 1] if several else slots
        merged.append(_merged(component, Part(given, mine, site)))
    return replace(request, components=tuple(merged))


def _contradiction(given: Settings, name: str, ours: str) -> UsageError:
    return UsageError(
        f"{given.said(name)} contradicts the plan's {ours}; leave it out, or ask for other --cards"
    )


def _merged(component: Component, part: Part) -> Component:
    options, given = dict(component), part.given
    for name in _OTHER_WAYS:
        if name in given.values:
            raise UsageError(
                f"{given.said(name)} asks anew for what the plan asks for with "
                f"--gres={options['gres']}; leave it out, or ask for other --cards"
            )
    if "nodelist" in given.values or "nodefile" in given.values:
        _with_nodes(options, part)
    if "constraint" in given.values:
        options["constraint"] = _with_feature(options, part)
    _tasks(options, part)
    _devices(options, part)
    kept: list[tuple[str, str]] = []
    for name, value in options.items():
        user = given.values.get(name)
        if user == value:
            continue  # sbatch reads it where the user wrote it.
        if user is None or name in ("constraint", "partition", "gres", "gpus"):
            kept.append((name, value))
        elif name in ("cpus-per-task", "mem"):
            continue  # The plan needs no certain number of them.
        elif _agree(name, user, value):
            # Ours comes later on the line, and is the sharper of the two.
            kept.append((name, value))
        else:
            raise _contradiction(given, name, f"--{name}={value}")
    return tuple(item for item in kept if item[1] or item[0] == "exclusive")


def _tasks(options: dict[str, str], part: Part) -> None:
    """Hold the number of tasks against the plan: one per device, or one per node.

    A launcher of the framework's own, like torchrun, starts the processes of its node.
    """
    given, devices = part.given, int(options["ntasks-per-node"])
    if devices > 1 and tasks_per_node(given) == 1:
        options["ntasks-per-node"] = "1"
        if "cpus-per-task" in options:
            options["cpus-per-task"] = str(int(options["cpus-per-task"]) * devices)
    tasks = int(options["ntasks-per-node"])
    wanted = int(options["nodes"]) * tasks
    if given.values.get("ntasks", str(wanted)) != str(wanted):
        each = "one per device" if tasks == devices else "one per node"
        raise _contradiction(given, "ntasks", f"{wanted} tasks, {each}")
    cpus, most = number(given, "cpus-per-task"), min(slot.node_cpus for slot in part.slots)
    if cpus and cpus * tasks > most:
        raise UsageError(
            f"{given.said('cpus-per-task')}: {tasks} tasks on a node of {most} CPUs; "
            f"ask for at most {most // tasks}"
        )


def _devices(options: dict[str, str], part: Part) -> None:
    """Leave out what the user says in another way, where that says the same."""
    given, group = part.given, part.slots[0].group
    asked = asked_devices(part.site.inventory, given)
    total = sum(slot.group.devices for slot in part.slots)
    per_node = group.devices_per_node
    per_task = per_node // int(options["ntasks-per-node"])
    counts = {"gres": per_node, "gpus": total, "gpus-per-node": per_node}
    kinds = [""] if len(part.slots) > 1 else ["", group.name]
    for name, item in asked.items():
        count = counts.get(name, per_task)
        if item.gres != group.gres or item.kind not in kinds or item.count != count:
            raise _contradiction(given, name, f"--gres={options['gres']} on each node")
    if "gres" in given.values:
        others = asked["gres"].others if "gres" in asked else ()
        if not asked.get("gres") and given.values["gres"].casefold() not in ("none", "help"):
            others = tuple(parse.gres(given.values["gres"]))
        options["gres"] = ",".join((options["gres"], *map(str, others)))
    if "gpus" in asked and len(part.slots) == 1:
        # Beside a typed --gres sbatch takes a typed number only.
        options["gpus"] = f"{group.name}:{total}"
    instead = [
        name for name in ("gpus-per-node", "gpus-per-task", "tres-per-task") if name in asked
    ]
    if instead and not all(asked[name].kind for name in instead) and not options.get("constraint"):
        options["constraint"] = group.name
    if instead:
        options.pop("gres")
        if "gpus" in asked and not all(asked[name].kind for name in instead):
            options.pop("gpus", None)
    for name, ways in _INSTEAD.items():
        if any(way in given.values for way in ways):
            options.pop(name, None)


def _agree(name: str, user: str, ours: str) -> bool:
    """Say whether what the user asks for allows what the plan asks for."""
    least, dash, most = user.partition("-")
    if name == "nodes" and dash and least.isdecimal() and most.isdecimal():
        return int(least) <= int(ours) <= int(most)
    return user == ours


def _with_feature(options: Mapping[str, str], part: Part) -> str:
    """Return the constraint that holds the user's features and ours."""
    user, ours = part.given.values["constraint"], options.get("constraint", "")
    if not ours or user == ours or user.startswith(f"{ours}&"):
        return user
    constraint = parse_constraint(user)
    if constraint is not None:
        sharper = all(map(constraint.allows, _features(part)))
        if sharper and constraint.names <= _domains_and_kinds(part.site.inventory):
            return ours
        if "*" not in ours and not (constraint.has_matching and "[" in ours):
            return joined(f"({ours})" if "|" in ours and "[" not in ours else ours, user)
        if sharper:
            return ours
    hint = "name one of its domains, or " if len(part.slots[0].domains) > 1 else ""
    raise UsageError(
        f"{part.given.said('constraint')} and the plan's {_placed(options, part)} cannot both be "
        f"had; {hint}leave it out"
    )


def _domains_and_kinds(inventory: Inventory) -> set[str]:
    """Return the features that say where a node stands and what it holds: they never change."""
    return {domain.name for domain in inventory.domains} | set(device_types(inventory))


def _features(part: Part) -> list[frozenset[str]]:
    """Return the features of each node that our own constraint lets Slurm choose."""
    inventory, features = part.site.inventory, part.site.features
    return [
        features.get(host, frozenset())
        for slot in part.slots
        for name in slot.domains
        for nodes in inventory.domain(name).nodes
        if any(item.type == slot.group.name for item in nodes.devices)
        for host in nodes.hosts
    ]


def _with_nodes(options: dict[str, str], part: Part) -> None:
    """Let the constraint hold the nodes that the user named, each within its group's domain."""
    given = part.given
    option = "nodelist" if "nodelist" in given.values else "nodefile"
    named = set(named_hosts(given))
    left = set(named)
    for slot in part.slots:
        lists = slot.group.domains or (slot.group.hosts,)
        for name, hosts in zip(slot.domains, lists, strict=True):
            mine = named.intersection(hostlist.expand(hosts))
            if mine and len(mine) <= slot.group.nodes:
                left -= mine
                if len(part.slots) == 1 and slot.span is None:
                    options["constraint"] = name
    if left:
        raise UsageError(
            f"{given.said(option)} does not fit the plan's {_placed(options, part)}; name at most "
            "as many nodes, all in its domains, or leave it out"
        )


def _placed(options: Mapping[str, str], part: Part) -> str:
    """Say where the plan puts the job."""
    names = ", ".join(name for slot in part.slots for name in slot.domains)
    ours = options.get("constraint", "")
    return f"--constraint={ours}" if ours else f"{options['nodes']} nodes in {names}"
