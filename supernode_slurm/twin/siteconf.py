"""What of a site's slurm.conf a twin may take over: scheduling, and nothing that runs or stores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from ..slurmconf.grammar import parse_lines
from .preflight import MAIN

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
    for line in parse_lines(text, "slurm.conf"):
        number = line.where.line
        of_inventory = line.first in _FROM_INVENTORY
        for key, said in line.pairs[:1] if of_inventory else line.pairs:
            reason = _objection(key, said.text)
            if reason:
                dropped.append(Dropped(number, key, reason))
            else:
                blank = re.search(r"\s", said.text)
                kept[_ALLOWED[key.lower()]] = f'"{said.text}"' if blank else said.text
        if line.problem:
            dropped.append(Dropped(number, "the rest of the line", line.problem.what))
    return SiteConf(tuple(sorted(kept.items())), tuple(dropped))


def _objection(key: str, value: str) -> str:
    """Return why a parameter is not taken over; empty for one that is."""
    low = key.lower()
    if low == "include" and PurePath(value).name == MAIN:
        return "comes from the inventory"
    if low == "include":
        return "an included file is not read: give its lines here if they matter"
    if low in _FROM_INVENTORY:
        return "comes from the inventory"
    if low == "preempttype" and value.lower() == _QOS_PREEMPTION:
        return "needs accounting, which a twin has not"
    if low in _ALLOWED:
        return "" if value else "has no value"
    if _NEEDS_ACCOUNTING.match(low):
        return "needs accounting, which a twin has not"
    if _PRIVATE.match(low):
        return "is the twin's own"
    return "is not about scheduling: a twin runs no program and uses no path of the site"
