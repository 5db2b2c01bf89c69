"""What the user told sbatch, held against what the plan needs.

What the plan leaves open is the user's; what both say must agree, or both are shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from .. import hostlist
from ..errors import PlanError, UsageError
from ..placement import Slot
from .compose import Component, Request
from .settings import Settings

_OTHER_WAYS = (
    "gpus",
    "gpus-per-node",
    "gpus-per-task",
    "gpus-per-socket",
    "cpus-per-gpu",
    "ntasks-per-gpu",
    "ntasks-per-core",
    "ntasks-per-socket",
    "cores-per-socket",
)
"""Other ways to ask for what the plan asks for, which sbatch refuses beside it or miscounts."""

_FEATURE = re.compile(r"[A-Za-z0-9_.\-]+")
_FEATURES = re.compile(r"[A-Za-z0-9_.\-]+(?:&[A-Za-z0-9_.\-]+)*\Z")


def merge(request: Request, given: Settings, slots: tuple[Slot, ...]) -> Request:
    """Return the request with the user's own options respected.

    Raises ``UsageError`` that shows both sides where they contradict each other, and
    ``PlanError`` where an array cannot be had.
    """
    if "array" in given.values and len(request.components) > 1:
        raise PlanError(
            "a heterogeneous job takes no --array: ask for one kind of cards, or for kinds "
            "in one partition with equal nodes"
        )
    for name in _OTHER_WAYS:
        if name in given.values:
            asks = dict(request.components[0])["gres"]
            raise UsageError(
                f"{given.said(name)} asks anew for what the plan asks for with --gres={asks}; "
                "leave it out, or ask for other --cards"
            )
    if "ntasks" in given.values:
        _check_tasks(request, given)
    return replace(
        request, components=tuple(_merged(part, given, slots) for part in request.components)
    )


def _contradiction(given: Settings, name: str, ours: str) -> UsageError:
    return UsageError(
        f"{given.said(name)} contradicts the plan's {ours}; leave it out, or ask for other --cards"
    )


def _check_tasks(request: Request, given: Settings) -> None:
    parts = [dict(part) for part in request.components]
    if len(parts) > 1:
        raise UsageError(
            f"{given.said('ntasks')}: each component of a heterogeneous job has its own number "
            "of tasks; leave it out"
        )
    wanted = int(parts[0]["nodes"]) * int(parts[0]["ntasks-per-node"])
    if given.values["ntasks"] != str(wanted):
        raise _contradiction(given, "ntasks", f"{wanted} tasks, one per device")


def _merged(part: Component, given: Settings, slots: tuple[Slot, ...]) -> Component:
    kept: list[tuple[str, str]] = []
    options = dict(part)
    if "nodelist" in given.values:
        options["constraint"] = _with_nodes(options, given, slots)
    if "constraint" in given.values:
        options["constraint"] = _with_feature(options, given, slots)
    for name, value in options.items():
        user = given.values.get(name)
        if user is None or name in ("constraint", "partition"):
            kept.append((name, value))
        elif name == "cpus-per-task":
            continue  # CPUs are no part of a plan
        elif _agree(name, user, value):
            # Ours comes later on the line, and is the sharper of the two.
            kept.append((name, value))
        else:
            raise _contradiction(given, name, f"--{name}={value}")
    return tuple(item for item in kept if item[1] or item[0] == "exclusive")


def _agree(name: str, user: str, ours: str) -> bool:
    """Say whether what the user asks for allows what the plan asks for."""
    if name == "gres":
        return user in (ours, re.sub(r":[^:]*:", ":", ours))
    least, dash, most = user.partition("-")
    if name == "nodes" and dash and least.isdecimal() and most.isdecimal():
        return int(least) <= int(ours) <= int(most)
    return user == ours


def _with_feature(options: Mapping[str, str], given: Settings, slots: tuple[Slot, ...]) -> str:
    """Return the constraint that holds the user's features and ours."""
    user, ours = given.values["constraint"], options.get("constraint", "")
    alone = len(slots) == 1 and slots[0].span is None
    if user == ours or (len(slots) == 1 and user == slots[0].devices.type):
        return ours or user
    if alone and user in slots[0].domains and (not ours or user in _FEATURE.findall(ours)):
        return user
    others = {name for slot in slots for name in slot.domains}
    if alone and _FEATURES.match(user) and not others & set(user.split("&")):
        return f"{ours}&{user}" if ours else user
    hint = "name one of its domains, or " if alone and len(slots[0].domains) > 1 else ""
    raise UsageError(
        f"{given.said('constraint')} and the plan's {_placed(options, slots)} cannot both be "
        f"had; {hint}leave it out"
    )


def _with_nodes(options: Mapping[str, str], given: Settings, slots: tuple[Slot, ...]) -> str:
    """Return the constraint for nodes that the user named, all within one domain."""
    try:
        named = set(hostlist.expand(given.values["nodelist"]))
    except ValueError as error:
        raise UsageError(f"{given.said('nodelist')}: {error}") from error
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
