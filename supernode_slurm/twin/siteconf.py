"""What of a site's slurm.conf a twin may take over: scheduling, and nothing that runs or stores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NAMES = """
    DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode EnforcePartLimits JobRequeue KillWait
    Licenses MaxArraySize MaxJobCount MaxMemPerCPU MaxMemPerNode MaxNodeCount MaxStepCount
    MaxTasksPerNode MinJobAge OverTimeLimit PreemptExemptTime PreemptMode PreemptParameters
    PreemptType PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags
    PriorityMaxAge PriorityType PriorityUsageResetPeriod PriorityWeightJobSize
    PriorityWeightPartition SchedulerParameters SchedulerTimeSlice SchedulerType SelectType
    SelectTypeParameters TopologyParam
"""
_ALLOWED = {name.lower(): name for name in _NAMES.split()}
_FROM_INVENTORY = frozenset({"nodename", "nodeset", "partitionname", "grestypes", "topologyplugin"})
_NEEDS_ACCOUNTING = re.compile(
    r"account|priorityweight(?:age|assoc|fairshare|qos|tres)|fairshare|jobcomp|.*tres\Z"
)
_PRIVATE = re.compile(
    r"(?:auth|cred|slurmctld|slurmd|slurmuser|statesave|cluster|communication|plugindir|pidfile)"
)
_PAIR = re.compile(r"\s*([A-Za-z0-9_]+)\s*=\s*(\"[^\"]*\"|\S*)")
_QOS_PREEMPTION = "preempt/qos"


@dataclass(frozen=True, slots=True, order=True)
class Dropped:
    """A parameter of the site that the twin does not take over."""

    line: int
    key: str
    reason: str

    def __str__(self) -> str:
        """Return it as a message."""
        return f"slurm.conf:{self.line}: {self.key} is left out: {self.reason}"


@dataclass(frozen=True, slots=True)
class SiteConf:
    """A site's slurm.conf, sifted."""

    kept: tuple[tuple[str, str], ...]
    """Parameter and value; the last of equal ones."""
    dropped: tuple[Dropped, ...]


def read_site_conf(text: str) -> SiteConf:
    """Sift a site's slurm.conf by an allow-list of parameters.

    Whatever is not known to touch scheduling alone is dropped, parameters of
    releases to come included. Lines count from 1.
    """
    kept: dict[str, str] = {}
    dropped: list[Dropped] = []
    for number, line in _logical_lines(text):
        for key, value in _pairs(line):
            reason = _objection(key, value)
            if reason:
                dropped.append(Dropped(number, key, reason))
            else:
                kept[_ALLOWED[key.lower()]] = value
            if key.lower() in _FROM_INVENTORY or key.lower() == "include":
                break
    return SiteConf(tuple(sorted(kept.items())), tuple(dropped))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, comments cut and continuations joined."""
    start, joined = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(?<!\\)#.*", "", raw).rstrip()
        start = start or number
        if line.endswith("\\"):
            joined += line[:-1]
            continue
        if (joined + line).strip():
            yield start, joined + line
        start, joined = 0, ""
    if joined.strip():
        yield start, joined


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    words = line.split(None, 1)
    if words[0].lower() == "include":
        yield "Include", line
        return
    position = 0
    while found := _PAIR.match(line, position):
        yield found[1], found[2]
        position = found.end()
    if rest := line[position:].strip():
        yield rest.split()[0], ""


def _objection(key: str, value: str) -> str:
    """Return why a parameter is not taken over; empty for one that is."""
    low = key.lower()
    if low == "include":
        return "an included file is not read: give its lines here if they matter"
    if low in _FROM_INVENTORY:
        return "comes from the inventory"
    if low == "preempttype" and value.strip('"').lower() == _QOS_PREEMPTION:
        return "needs accounting, which a twin has not"
    if low in _ALLOWED:
        return "" if value else "has no value"
    if _NEEDS_ACCOUNTING.match(low):
        return "needs accounting, which a twin has not"
    if _PRIVATE.match(low):
        return "is the twin's own"
    return "is not about scheduling: a twin runs no program and uses no path of the site"
