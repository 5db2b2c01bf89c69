"""What a live cluster holds, as types."""

from __future__ import annotations

import re
from dataclasses import dataclass

_JOB_ID = re.compile(
    r"(?P<number>[0-9]{1,10})"
    r"(?:\+(?P<offset>[0-9]{1,5})|_(?P<task>[0-9]{1,10}|\[[0-9,%:-]+(?:\.\.\.)?\]))?"
    r"(?:\.(?P<step>[0-9A-Za-z+]+))?"
    r"(?:;(?P<cluster>\S+))?\Z"
)
_USABLE_BASES = frozenset({"IDLE", "MIXED", "ALLOCATED"})
_UNUSABLE_WORDS = """
    BLOCKED DOWN DRAIN DRAINED DRAINING FAIL FAILING FUTURE INVAL INVALID_REG MAINT MAINTENANCE
    NOT_RESPONDING NO_RESPOND PERFCTRS POWERING_DOWN REBOOT_ISSUED REBOOT_REQUESTED RESERVED
    UNKNOWN
"""
_UNUSABLE = frozenset(_UNUSABLE_WORDS.split())
_ENDED_WORDS = """
    BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT
"""
_ENDED = frozenset(_ENDED_WORDS.split())
_ASLEEP = frozenset({"POWERED_DOWN", "POWERING_UP"})


@dataclass(frozen=True, slots=True)
class JobId:
    """A job as Slurm names it: ``123``, ``123+1``, ``123_4``, ``123_[1-5%2]``, ``123;cluster``."""

    number: int
    offset: int | None = None
    """Component of a heterogeneous job."""
    task: str = ""
    """Task of an array: an index, or a list in brackets."""
    cluster: str = ""

    @classmethod
    def parse(cls, text: str) -> JobId:
        """Read a job id; a step (``.0``, ``.batch``) names its job. Raises ``ValueError``."""
        found = _JOB_ID.match(text.strip())
        if found is None:
            raise ValueError(
                f"{text[:80]!r} is not a job id: expected 123, 123_4, 123+1 or 123;cluster"
            )
        offset = found["offset"]
        return cls(
            int(found["number"]),
            None if offset is None else int(offset),
            found["task"] or "",
            found["cluster"] or "",
        )

    @property
    def local(self) -> str:
        """Return the id without the cluster, as squeue and scancel take it."""
        if self.offset is not None:
            return f"{self.number}+{self.offset}"
        return f"{self.number}_{self.task}" if self.task else str(self.number)

    def __str__(self) -> str:
        return f"{self.local};{self.cluster}" if self.cluster else self.local


@dataclass(frozen=True, slots=True, order=True)
class Gres:
    """A number of generic resources: ``gpu:h100:8``."""

    name: str
    type: str
    """Empty where Slurm was given none."""
    count: int
    indexes: tuple[int, ...] = ()
    """Of a job's share on a node, where Slurm tracks them."""

    def __str__(self) -> str:
        return ":".join(filter(None, (self.name, self.type, str(self.count))))


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A node as the controller sees it now."""

    name: str
    states: frozenset[str]
    """Base state and flags in Slurm's words; unknown ones are kept."""
    reason: str
    """Why it is down or drained, in the admin's words; empty otherwise."""
    gres: tuple[Gres, ...]
    gres_used: tuple[Gres, ...]
    features: tuple[str, ...]
    """Active features."""
    partitions: tuple[str, ...]
    cpus: int
    cpus_allocated: int
    memory_mib: int
    address: str

    @property
    def is_usable(self) -> bool:
        """Whether a job could run here now or once others end: up, not drained or reserved."""
        against = self.states & _UNUSABLE
        if self.states & _ASLEEP:
            # A cloud node does not respond before it has booted; Slurm uses it all the same.
            against -= {"NOT_RESPONDING"}
        return bool(self.states & _USABLE_BASES) and not against

    @property
    def is_free(self) -> bool:
        """Whether a job could have the whole node now; a powered-down cloud node counts."""
        idle = "IDLE" in self.states and "COMPLETING" not in self.states
        return self.is_usable and idle and self.cpus_allocated == 0


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A partition as the controller sees it now."""

    name: str
    state: str
    is_default: bool
    nodes: str
    """Folded."""
    hosts: tuple[str, ...]
    max_time: str
    min_nodes: int
    max_nodes: str
    """A number, or UNLIMITED."""
    allow_accounts: tuple[str, ...]
    """Empty for all, like the next two."""
    allow_qos: tuple[str, ...]
    allow_groups: tuple[str, ...]
    deny_accounts: tuple[str, ...]
    deny_qos: tuple[str, ...]
    needs_reservation: bool
    is_root_only: bool
    topology: str
    """Name of its own topology; empty for the cluster's."""


@dataclass(frozen=True, slots=True)
class Allocated:
    """What a job holds on each of some nodes."""

    hosts: tuple[str, ...]
    gres: tuple[Gres, ...]
    """On one node; empty where the job asked for none."""


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A job as the controller sees it now."""

    id: JobId
    name: str
    states: frozenset[str]
    reason: str
    """Why it waits, or ended; empty for ``None``."""
    partition: str
    nodes: str
    """Folded; empty before the job has nodes."""
    hosts: tuple[str, ...]
    features: str
    """The constraint as the user wrote it."""
    gres: tuple[Gres, ...]
    """Asked for per node."""
    exit_code: int
    """0 while it runs; 128 + signal for one that a signal ended."""
    components: tuple[LiveJob, ...] = ()
    """The components of a heterogeneous job, the records of an array; else empty."""
    allocated: tuple[Allocated, ...] = ()
    """Its share, node set by node set; only ``SlurmClient.job`` asks for it."""

    @property
    def has_ended(self) -> bool:
        """Whether it, and all its components, ended for good; unknown states have not."""
        parts = self.components or (self,)
        return all(part.states & _ENDED and "COMPLETING" not in part.states for part in parts)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept for some."""

    name: str
    is_active: bool
    hosts: tuple[str, ...]
    users: tuple[str, ...]
    """Empty for no restriction of this kind; ``-name`` excludes, like the next two."""
    accounts: tuple[str, ...]
    groups: tuple[str, ...]
    partition: str
    """Empty for any."""
    flags: frozenset[str]
    start: int
    """Seconds since the epoch, like the end."""
    end: int


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of a tree."""

    name: str
    level: int
    """0 for a leaf."""
    hosts: tuple[str, ...]
    """All below it."""
    switches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A block; Slurm's aggregates of several are left out."""

    name: str
    hosts: tuple[str, ...]
    size: int
    """Nodes of a base block."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A ring or a torus."""

    name: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveTopology:
    """What Slurm knows of its network; all empty where it knows nothing, or has no words."""

    switches: tuple[Switch, ...]
    blocks: tuple[Block, ...]
    loops: tuple[Loop, ...] = ()


@dataclass(frozen=True, slots=True)
class Association:
    """An account that a user may charge."""

    account: str
    partition: str
    """Empty for all."""
    qos: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Associations:
    """What accounting knows of a user."""

    default_account: str
    allowed: tuple[Association, ...]
