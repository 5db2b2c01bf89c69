"""What the user told sbatch, held against what the plan needs.

What the plan leaves open is the user's; what both say must agree, or both are shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .. import hostlist
from ..errors import PlanError, UsageError
from ..placement import Slot
from .bounds import host_list
from .compose import Component, Request
from .settings import Settings

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
    "gres": ("gpus-per-node", "gpus-per-task"),
}
"""What the user may say in place of an option of ours; sbatch refuses both together."""

_FEATURE = re.compile(r"[A-Za-z0-9_.\-]+")
_FEATURES = re.compile(r"[A-Za-z0-9_.\-]+(?:&[A-Za-z0-9_.\-]+)*\Z")


def merge(request: Request, parts: Sequence[Settings], slots: tuple[Slot, ...]) -> Request:
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
        mine = slots if not several else slots[index : index + 1]
        merged.append(_merged(component, parts[index if len(parts) > 1 else 0], mine))
    return replace(request, components=tuple(merged))


def _contradiction(given: Settings, name: str, ours: str) -> UsageError:
    return UsageError(
        f"{given.said(name)} contradicts the plan's {ours}; leave it out, or ask for other --cards"
    )


def _merged(part: Component, given: Settings, slots: tuple[Slot, ...]) -> Component:
    options = dict(part)
    for name in _OTHER_WAYS:
        if name in given.values:
            raise UsageError(
                f"{given.said(name)} asks anew for what the plan asks for with "
                f"--gres={options['gres']}; leave it out, or ask for other --cards"
            )
    if "nodelist" in given.values:
        options["constraint"] = _with_nodes(options, given, slots)
    if "constraint" in given.values:
        options["constraint"] = _with_feature(options, given, slots)
    _tasks(options, given, slots)
    _devices(options, given, slots)
    kept: list[tuple[str, str]] = []
    for name, value in options.items():
        user = given.values.get(name)
        if user == value:
            continue  # sbatch reads it where the user wrote it.
        if user is None or name in ("constraint", "partition"):
            kept.append((name, value))
        elif name in ("cpus-per-task", "mem"):
            continue  # The plan needs no certain number of them.
        elif _agree(name, user, value):
            # Ours comes later on the line, and is the sharper of the two.
            kept.append((name, value))
        else:
            raise _contradiction(given, name, f"--{name}={value}")
    return tuple(item for item in kept if item[1] or item[0] == "exclusive")


def _tasks(options: dict[str, str], given: Settings, slots: tuple[Slot, ...]) -> None:
    """Hold the number of tasks against the plan: one per device, or one per node.

    A launcher of the framework's own, like torchrun, starts the processes of its node.
    """
    if given.values.get("ntasks-per-node") == "1":
        per_node = int(options["ntasks-per-node"])
        options["ntasks-per-node"] = "1"
        options["cpus-per-task"] = str(int(options["cpus-per-task"]) * per_node)
    wanted = int(options["nodes"]) * int(options["ntasks-per-node"])
    if given.values.get("ntasks", str(wanted)) != str(wanted):
        each = "one per device" if options["ntasks-per-node"] != "1" else "one per node"
        raise _contradiction(given, "ntasks", f"{wanted} tasks, {each}")


def _devices(options: dict[str, str], given: Settings, slots: tuple[Slot, ...]) -> None:
    """Leave out what the user says in another way, where that says the same."""
    group = slots[0].group
    if "gpus" in given.values:
        total = sum(slot.group.devices for slot in slots)
        if not _same_devices(given.values["gpus"], group.name, total):
            raise _contradiction(given, "gpus", f"--gres={options['gres']} on each node")
        if len(slots) == 1:
            # Beside a typed --gres sbatch takes a typed number only.
            options["gpus"] = f"{group.name}:{total}"
    each = {"gpus-per-node": group.devices_per_node}
    each["gpus-per-task"] = group.devices_per_node // int(options["ntasks-per-node"])
    for name, count in each.items():
        if name not in given.values:
            continue
        if not _same_devices(given.values[name], group.name, count):
            raise _contradiction(given, name, f"--gres={options['gres']}")
        if group.name not in given.values[name] and not options.get("constraint"):
            options["constraint"] = group.name
    for name, others in _INSTEAD.items():
        if any(other in given.values for other in others):
            options.pop(name, None)


def _same_devices(text: str, kind: str, count: int) -> bool:
    return text in (str(count), f"{kind}:{count}")


def _agree(name: str, user: str, ours: str) -> bool:
    """Say whether what the user asks for allows what the plan asks for."""
    if name == "gres":
        return user in (ours, re.sub(r":[^:]*:", ":", ours))
    if name == "gpus":
        return True
    least, dash, most = user.partition("-")
    if name == "nodes" and dash and least.isdecimal() and most.isdecimal():
        return int(least) <= int(ours) <= int(most)
    return user == ours


def _with_feature(options: Mapping[str, str], given: Settings, slots: tuple[Slot, ...]) -> str:
    """Return the constraint that holds the user's features and ours."""
    user, ours = given.values["constraint"], options.get("constraint", "")
    alone = len(slots) == 1 and slots[0].span is None
    if user == ours or (ours and user.startswith(f"{ours}&")):
        return user
    if len(slots) == 1 and user == slots[0].devices.type:
        return ours or user
    chosen = {name for slot in slots for name in slot.domains}
    words = set(_FEATURE.findall(user))
    if ours and words >= chosen and re.fullmatch(r"\[?[^&*]*", user) and len(slots) == 1:
        # The search kept to them, and says more sharply which: [sn1|sn2] for sn1|sn2|sn3.
        return ours
    if alone and _FEATURES.match(user):
        if user in chosen and (not ours or user in _FEATURE.findall(ours)):
            return user
        if not chosen & words:
            return f"{ours}&{user}" if ours else user
        if ours and len(chosen) == 1:
            return user
    hint = "name one of its domains, or " if alone and len(slots[0].domains) > 1 else ""
    raise UsageError(
        f"{given.said('constraint')} and the plan's {_placed(options, slots)} cannot both be "
        f"had; {hint}leave it out"
    )


def _with_nodes(options: Mapping[str, str], given: Settings, slots: tuple[Slot, ...]) -> str:
    """Return the constraint for nodes that the user named, all within one domain."""
    named = set(host_list(given, "nodelist"))
    slot = slots[0]
    alone = len(slots) == 1 and slot.span is None
    if alone and len(named) <= slot.group.nodes:
        lists = slot.group.domains or (slot.group.hosts,)
        for name, hosts in zip(slot.domains, lists, strict=True):
            if named <= set(hostlist.expand(hosts)):
                return name
    hint = "name at most as many nodes, all in one of its domains, or " if alone else ""
    raise UsageError(
        f"{given.said('nodelist')} does not fit the plan's {_placed(options, slots)}; "
        f"{hint}leave it out"
    )


def _placed(options: Mapping[str, str], slots: tuple[Slot, ...]) -> str:
    """Say where the plan puts the job."""
    names = ", ".join(name for slot in slots for name in slot.domains)
    ours = options.get("constraint", "")
    return f"--constraint={ours}" if ours else f"{options['nodes']} nodes in {names}"
