"""What a plan for lost cooling holds; watts throughout."""

from __future__ import annotations

from dataclasses import dataclass

from ..catalogue import least_rate_share, rate_share
from ..inventory.cooling import Limit


@dataclass(frozen=True, slots=True)
class Kind:
    """The cards of one kind in a node."""

    accelerator: str
    """The catalogue's id."""
    vendor: str
    count: int
    """Whole cards."""
    first: int
    """Index of its first device among those of its vendor in the node."""
    devices: int
    tdp_w: float
    most_w: float
    """What it may draw before: its TDP, or a cap that it has already."""
    least_w: float
    """Lowest cap that it takes."""
    peak_tflops: float | None
    """Of a card; None where nobody has said."""


@dataclass(frozen=True, slots=True)
class JobShare:
    """A job that holds nodes."""

    id: str
    name: str
    nodes: int
    """How many it holds, here and elsewhere."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a rack whose liquid is lost."""

    host: str
    domain: str
    kinds: tuple[Kind, ...]
    """None where no cap can be told from what is known."""
    host_w: float
    """Without the cards that can be capped."""
    off_w: float
    """Once it is drained: idle, or nothing where it is switched off."""
    is_spare: bool
    is_out: bool
    """Slurm gives it to no job."""
    jobs: tuple[JobShare, ...]

    @property
    def most_w(self) -> float:
        """Return what it draws before."""
        return self.host_w + sum(kind.count * kind.most_w for kind in self.kinds)

    @property
    def least_w(self) -> float:
        """Return what it draws with its cards at their lowest caps."""
        return self.host_w + sum(kind.count * kind.least_w for kind in self.kinds)


@dataclass(frozen=True, slots=True)
class Cap:
    """One power cap for the cards of a kind on some nodes."""

    kind: Kind
    hosts: tuple[str, ...]
    watts: int
    alone: bool
    """No other kind of its vendor is in these nodes."""


@dataclass(frozen=True, slots=True)
class RackPlan:
    """What to do in one rack."""

    name: str
    cooling: str
    """In the inventory's word, empty where it says none."""
    limit: Limit
    """What the air takes."""
    equipment_w: float
    nodes: tuple[Node, ...]
    drained: tuple[Node, ...]
    caps: tuple[Cap, ...]
    """Of the nodes that stay; none where nothing has to change."""
    after_w: float
    unknown: tuple[str, ...]
    """Hosts of which no power is known: they are in no sum."""

    @property
    def kept(self) -> tuple[Node, ...]:
        """Return the nodes that stay."""
        gone = {node.host for node in self.drained}
        return tuple(node for node in self.nodes if node.host not in gone)

    @property
    def before_w(self) -> float:
        """Return what it draws at most without the plan."""
        return self.equipment_w + sum(node.most_w for node in self.nodes)

    @property
    def meanwhile_w(self) -> float:
        """Return what it draws until the jobs on the nodes to drain have ended."""
        return self.after_w + sum(node.least_w - node.off_w for node in self.drained)

    @property
    def is_enough(self) -> bool:
        """Return whether the air takes what is left, and all of it is known."""
        return self.after_w <= self.limit.w + 1e-3 and not self.unknown


@dataclass(frozen=True, slots=True)
class Flops:
    """Peak of the cards concerned, dense bf16, in TFLOPS."""

    before: float
    after: float
    """By ``catalogue.rate_share``."""
    after_least: float
    """By ``catalogue.least_rate_share``."""


@dataclass(frozen=True, slots=True)
class DeratePlan:
    """The plan for lost liquid cooling of a supernode, a pool or a rack."""

    target: str
    racks: tuple[RackPlan, ...]
    outside: tuple[str, ...]
    """Hosts of the target that stand in no rack."""
    assumed: tuple[str, ...]
    """What was assumed because nobody has said it."""
    is_live: bool
    """Slurm said what runs."""

    @property
    def is_enough(self) -> bool:
        """Return whether every rack is under what the air takes."""
        return not self.outside and all(rack.is_enough for rack in self.racks)

    @property
    def caps(self) -> tuple[Cap, ...]:
        """Return the caps of all racks."""
        return tuple(cap for rack in self.racks for cap in rack.caps)

    @property
    def drained(self) -> tuple[Node, ...]:
        """Return the nodes to drain, of all racks."""
        return tuple(node for rack in self.racks for node in rack.drained)

    @property
    def ended_jobs(self) -> tuple[JobShare, ...]:
        """Return the jobs that hold nodes to drain."""
        return _jobs(self.drained)

    @property
    def slowed_jobs(self) -> tuple[JobShare, ...]:
        """Return the jobs whose cards get a cap and that hold no node to drain."""
        capped = {host for cap in self.caps for host in cap.hosts}
        nodes = [node for rack in self.racks for node in rack.kept if node.host in capped]
        ended = {job.id for job in self.ended_jobs}
        return tuple(job for job in _jobs(nodes) if job.id not in ended)

    @property
    def domain_caps(self) -> dict[str, int]:
        """Return the lowest cap in each supernode and pool: what a job over all of it has."""
        domain_of = {node.host: node.domain for rack in self.racks for node in rack.nodes}
        found: dict[str, int] = {}
        for cap in self.caps:
            for host in cap.hosts:
                name = domain_of[host]
                found[name] = min(cap.watts, found.get(name, cap.watts))
        return found

    @property
    def flops(self) -> Flops | None:
        """Return what is left of the cards' peak; None where nobody has said a kind's."""
        watts = {(cap.kind.accelerator, host): cap.watts for cap in self.caps for host in cap.hosts}
        gone = {node.host for node in self.drained}
        before, after, least = 0.0, 0.0, 0.0
        for node in (node for rack in self.racks for node in rack.nodes):
            for kind in node.kinds:
                if kind.peak_tflops is None:
                    return None
                peak = kind.count * kind.peak_tflops
                before += peak * rate_share(kind.most_w / kind.tdp_w)
                if node.host not in gone:
                    share = watts.get((kind.accelerator, node.host), kind.most_w) / kind.tdp_w
                    after += peak * rate_share(share)
                    least += peak * least_rate_share(share)
        return Flops(before, after, least) if before else None


def _jobs(nodes: tuple[Node, ...] | list[Node]) -> tuple[JobShare, ...]:
    found = {job.id: job for node in nodes for job in node.jobs}
    return tuple(found.values())
