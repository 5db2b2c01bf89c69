"""The keys of slurm.conf(5) that a site may add to the lines that are written for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import nearest
from .yamltree import shown

NODE_OPTIONS = (
    "BcastAddr",
    "Boards",
    "CoreSpecCount",
    "CPUs",
    "CpuBind",
    "CpuSpecList",
    "MemSpecLimit",
    "NodeAddr",
    "NodeHostname",
    "Port",
    "Procs",
    "Reason",
    "RestrictedCoresPerGPU",
    "SocketsPerBoard",
    "State",
    "TmpDisk",
    "Weight",
)
"""Keys of a NodeName line (slurm.conf(5)) that a site may add to those that are written."""
PARTITION_OPTIONS = (
    "AllocNodes",
    "AllowAccounts",
    "AllowGroups",
    "AllowQos",
    "Alternate",
    "CpuBind",
    "DefCpuPerGPU",
    "DefMemPerCPU",
    "DefMemPerGPU",
    "DefMemPerNode",
    "DefaultTime",
    "DenyAccounts",
    "DenyQos",
    "DisableRootJobs",
    "ExclusiveTopo",
    "ExclusiveUser",
    "GraceTime",
    "Hidden",
    "JobDefaults",
    "LLN",
    "MaxCPUsPerNode",
    "MaxCPUsPerSocket",
    "MaxMemPerCPU",
    "MaxMemPerNode",
    "MaxNodes",
    "MinNodes",
    "OverSubscribe",
    "OverTimeLimit",
    "PowerDownOnIdle",
    "PreemptMode",
    "Priority",
    "PriorityJobFactor",
    "PriorityTier",
    "QOS",
    "ReqResv",
    "ResumeTimeout",
    "RootOnly",
    "SelectTypeParameters",
    "Shared",
    "State",
    "SuspendTime",
    "SuspendTimeout",
    "TRESBillingWeights",
)
"""Keys of a PartitionName line that a site may add to those that are written."""


@dataclass(frozen=True, slots=True)
class Option:
    """A key of Slurm's own on a line that we write, spelled as slurm.conf(5) does."""

    known: tuple[str, ...]

    def read(self, value: Any) -> str:
        """Return the key in Slurm's spelling, whatever its case."""
        spelled = {name.casefold(): name for name in self.known}
        if not isinstance(value, str) or value.casefold() not in spelled:
            near = nearest(str(value), self.known)
            raise ValueError(f"got {shown(value)}, no option that may be added here; {near}")
        return spelled[value.casefold()]

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema: an enumeration."""
        return {"enum": list(self.known)}
