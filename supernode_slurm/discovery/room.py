"""What sources say of a machine room, each fact with its place, before anything is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .. import hostlist, units
from ..errors import ConfigError, Problem, Where
from ..slurmconf.facts import DomainFacts, FabricFacts
from ..slurmconf.grammar import Said
from .ibnetdiscover import Subnet
from .probe_cards import Measured
from .probe_facts import Probe

Keys = Mapping[str, Said]
"""Values by key, in small letters."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Nodes that one line, or a running Slurm, describes alike."""

    hosts: tuple[str, ...]
    keys: Keys
    where: Where
    domain: DomainFacts | None = None
    """The comment of ours above the line."""
    ours: bool = False
    """The file was written by ``sn generate``."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition."""

    name: str
    keys: Keys
    where: Where


@dataclass(frozen=True, slots=True)
class GresFacts:
    """A line of gres.conf."""

    hosts: tuple[str, ...] | None
    """None where the line is for the node that reads the file, whichever it is."""
    keys: Keys
    where: Where


@dataclass(frozen=True, slots=True)
class SwitchFacts:
    """A switch and what hangs directly under it."""

    name: str
    nodes: tuple[str, ...]
    switches: tuple[str, ...]
    where: Where
    fabric: FabricFacts | None = None
    """The comment of ours above the first switch of a fabric."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A block, a ring or a torus: nodes that belong together, in order."""

    name: str
    nodes: tuple[str, ...]
    where: Where
    dims: tuple[int, ...] = ()
    placements: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """A topology: switches of a tree, or groups of another kind."""

    name: str
    kind: str
    """tree, block, ring, torus3d or flat."""
    where: Where
    switches: tuple[SwitchFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """A fabric of which only comments of ours speak; ``switches`` are name and children."""

    fabric: FabricFacts
    switches: tuple[tuple[str, str], ...]
    where: Where


@dataclass(frozen=True, slots=True)
class ScaleUpFacts:
    """Nodes that share a scale-up fabric, by a source that is not Slurm's."""

    name: str
    hosts: tuple[str, ...]
    racks: tuple[tuple[str, tuple[str, ...]], ...]
    where: Where
    kind: str = ""
    """Of interconnect, empty where the source does not say."""


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """What the reader of an imported inventory should know."""

    kind: str
    """mistake (of an author), disagreement (of sources), lost, unsaid (by any source), or fault
    (of what was probed)."""
    problem: Problem

    def __str__(self) -> str:
        """Return it as a message."""
        return str(self.problem)


@dataclass(slots=True)
class Room:
    """All facts of all sources."""

    sources: list[str] = field(default_factory=list)
    """Files and the like, in the order given."""
    included: set[Path] = field(default_factory=set)
    """Files that others include, read so far."""
    ours: set[str] = field(default_factory=set)
    """Those of them that ``sn generate`` wrote."""
    has_slurm_conf: bool = False
    settings: dict[str, Said] = field(default_factory=dict)
    """Parameters of slurm.conf and of a running Slurm, keys in small letters."""
    policy: dict[str, Said] = field(default_factory=dict)
    """What a comment of ours says of the site's policy."""
    nodes: list[NodeFacts] = field(default_factory=list)
    nodesets: dict[str, Keys] = field(default_factory=dict)
    partitions: list[PartitionFacts] = field(default_factory=list)
    gres: list[GresFacts] = field(default_factory=list)
    topologies: list[TopologyFacts] = field(default_factory=list)
    networks: list[NetworkFacts] = field(default_factory=list)
    foreign: list[tuple[Said, tuple[str, ...]]] = field(default_factory=list)
    """Names and hosts of nodes that comments of ours call foreign."""
    scale_ups: list[ScaleUpFacts] = field(default_factory=list)
    bare: dict[str, Where] = field(default_factory=dict)
    """Hosts that were asked for a scale-up fabric, whether they are in one or not."""
    guids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By host the GUIDs of its network cards and their ports: 16 hexadecimal digits, small."""
    subnets: list[tuple[str, Subnet]] = field(default_factory=list)
    """What ibnetdiscover printed, each with its source, until all sources are read."""
    booted: str = ""
    """When the running slurmctld started, in seconds since 1970; empty where nobody says."""
    gone: set[str] = field(default_factory=set)
    """Hosts of files that the running Slurm does not know."""
    silent: set[str] = field(default_factory=set)
    """Hosts that a running Slurm knows, and that do not answer it."""
    probes: dict[str, Probe] = field(default_factory=dict)
    """Answers of sn-probe by host, until all sources are read."""
    measured: dict[str, tuple[Measured, Where]] = field(default_factory=dict)
    """By host what its probe, and those of nodes like it, found."""
    versions: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Component, version, and the hosts that have it."""
    remarks: list[Remark] = field(default_factory=list)
    errors: list[Problem] = field(default_factory=list)
    _of_hosts: dict[tuple[str, str, str], tuple[Where, list[str]]] = field(default_factory=dict)

    def error(self, where: Where, what: str, todo: str = "") -> None:
        """Keep what makes an import impossible."""
        self.errors.append(Problem(where, what, todo))

    def mistake(self, where: Where, what: str, todo: str = "") -> None:
        """Keep a mistake of the author that Slurm would live with."""
        self.remarks.append(Remark("mistake", Problem(where, what, todo)))

    def disagreement(self, where: Where, what: str, todo: str = "") -> None:
        """Keep what two sources say differently."""
        self.remarks.append(Remark("disagreement", Problem(where, what, todo)))

    def lost(self, where: Where, what: str, todo: str = "") -> None:
        """Keep what an inventory cannot hold."""
        self.remarks.append(Remark("lost", Problem(where, what, todo)))

    def fault(self, where: Where, what: str, todo: str = "") -> None:
        """Keep what is broken on nodes."""
        self.remarks.append(Remark("fault", Problem(where, what, todo)))

    def unsaid(self, where: Where, what: str, todo: str = "") -> None:
        """Keep what no source says."""
        self.remarks.append(Remark("unsaid", Problem(where, what, todo)))

    def of_hosts(self, kind: str, said: Problem, hosts: Iterable[str]) -> None:
        """Keep a remark on hosts, once for all of which it is true.

        ``{hosts}`` in the problem's text stands for them.
        """
        key = (kind, said.what, said.todo)
        self._of_hosts.setdefault(key, (said.where, []))[1].extend(hosts)

    def all_remarks(self) -> list[Remark]:
        """Return all remarks, in the order of the sources."""
        folded = [
            Remark(kind, Problem(where, what.replace("{hosts}", hostlist.fold(hosts)), todo))
            for (kind, what, todo), (where, hosts) in self._of_hosts.items()
        ]
        found = dict.fromkeys([*self.remarks, *folded])
        return sorted(found, key=lambda remark: remark.problem)

    def hosts(self, said: Said) -> tuple[str, ...]:
        """Return the hosts of a list, none after an error."""
        try:
            return tuple(dict.fromkeys(hostlist.expand(said.text)))
        except ValueError as error:
            self.error(said.where, str(error))
            return ()

    def number(self, said: Said) -> int:
        """Return a whole number, 1 after an error."""
        try:
            return units.whole_number(said.text)
        except ValueError as error:
            self.error(said.where, f"{said.key}: {error}" if said.key else str(error))
            return 1

    def check(self) -> None:
        """Raise ``ConfigError`` with all errors so far, if there are any."""
        if self.errors:
            raise ConfigError(self.errors)
