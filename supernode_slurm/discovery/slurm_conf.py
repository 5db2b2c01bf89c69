"""slurm.conf: its nodes, partitions and the few parameters that tell of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..errors import Where
from ..slurmconf.facts import (
    DomainFacts,
    read_domain_comment,
    read_foreign_comment,
    read_head_comment,
    read_policy_comment,
    spoilt,
)
from ..slurmconf.grammar import Line, Said, read_lines
from .room import NodeFacts, PartitionFacts, Room

SETTINGS = frozenset(
    {
        "accountingstoragetres",
        "accountingstoragetype",
        "clustername",
        "grestypes",
        "jobsubmitplugins",
        "taskprolog",
        "topologyplugin",
    }
)
CLUSTER, RELEASE = "# cluster", "# release"
"""Keys of what the first line of our files says."""
_OF_ROOM = frozenset({"nodename", "partitionname", "nodeset"})
_NOT_DEFAULT = frozenset({"nodehostname", "nodeaddr"})
"""Keys that slurm.conf(5) does not take from a NodeName=DEFAULT line."""


def read_slurm_conf(path: Path, room: Room) -> None:
    """Add what a slurm.conf and the files that it includes say."""
    room.has_slurm_conf = True
    add_lines(read_lines(path, room.included), room)


def add_lines(lines: Iterable[Line], room: Room) -> None:
    """Add what lines of slurm.conf say."""
    reader = _Reader(room)
    for line in lines:
        reader.take(line)
    room.check()


class _Reader:
    """Keeps what one line leaves for the next: defaults, and the comments of ours."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._defaults: dict[str, dict[str, Said]] = {"nodename": {}, "partitionname": {}}
        self._ours = room.ours
        self._domain: DomainFacts | None = None
        self._domain_file = ""
        self._seen: dict[str, Where] = {}

    def take(self, line: Line) -> None:
        """Take the next line."""
        self._hear(line)
        if line.first not in _OF_ROOM:
            if line.problem:
                problem = line.problem
                self._room.mistake(problem.where, f"{problem.what}: skipped", problem.todo)
            for key, said in line.pairs:
                if key.casefold() in SETTINGS:
                    self._room.settings[key.casefold()] = said
            return
        line.must()
        said = line.pairs[0][1]
        keys = {key: value for key, value in line.keys.items() if key != line.first}
        if line.first == "nodeset":
            self._room.nodesets[said.text] = keys
        elif said.text.upper() == "DEFAULT":
            self._defaults[line.first].update(keys)
        elif line.first == "nodename":
            self._node(said, keys, line)
        else:
            self._partition(said, {**self._defaults["partitionname"], **keys}, line)

    def _hear(self, line: Line) -> None:
        if line.where.file != self._domain_file:
            self._domain_file, self._domain = line.where.file, None
        for comment in line.comments:
            if head := read_head_comment(comment):
                self._ours.add(line.where.file)
                place = Where(line.where.file, 1, 1)
                for key, text in zip((CLUSTER, RELEASE), head, strict=True):
                    self._room.settings.setdefault(key, Said(text, place))
            elif foreign := read_foreign_comment(comment):
                name, hosts = foreign
                self._room.foreign.append((Said(name, Where(line.where.file)), hosts))
            elif line.where.file in self._ours and (policy := read_policy_comment(comment)):
                place = Where(line.where.file)
                self._room.policy.update({key: Said(policy[key], place) for key in policy})
            elif domain := read_domain_comment(comment):
                self._domain = domain
            elif line.where.file in self._ours and (why := spoilt(comment)):
                self._domain = None
                self._room.mistake(line.where, *why)

    def _node(self, said: Said, keys: dict[str, Said], line: Line) -> None:
        hosts = self._room.hosts(said)
        defaults = self._defaults["nodename"].items()
        usual = {key: value for key, value in defaults if key not in _NOT_DEFAULT}
        for host in hosts:
            if host in self._seen:
                what = f"NodeName {host} stands twice (first at line {self._seen[host].line})"
                self._room.error(said.where, what, "slurmctld refuses that: delete one")
                return
        self._seen.update(dict.fromkeys(hosts, line.where))
        ours = line.where.file in self._ours
        facts = NodeFacts(hosts, {**usual, **keys}, said.where, self._domain, ours)
        self._room.nodes.append(facts)

    def _partition(self, said: Said, keys: dict[str, Said], line: Line) -> None:
        for other in self._room.partitions:
            if other.name == said.text and other.where.file == said.where.file:
                what = f"PartitionName {said.text} stands twice (first at line {other.where.line})"
                self._room.error(said.where, what, "slurmctld refuses that: delete one")
        self._room.partitions.append(PartitionFacts(said.text, keys, said.where))
