"""What slurm.conf and gres.conf say, as far as one file can contradict another."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .. import hostlist
from ..errors import Problem
from ..slurmconf.grammar import Line, Said, parse_lines

Keys = Mapping[str, Said]
"""Values by key, in small letters."""
_KINDS = ("nodename", "partitionname", "nodeset")


@dataclass(frozen=True, slots=True)
class Nodes:
    """A NodeName line."""

    hosts: tuple[str, ...]
    keys: Keys


@dataclass(frozen=True, slots=True)
class Partition:
    """A PartitionName line."""

    name: Said
    hosts: tuple[str, ...]
    topology: str
    """Empty for the cluster's default."""


@dataclass(frozen=True, slots=True)
class GresRecord:
    """A line of gres.conf."""

    hosts: tuple[str, ...] | None
    """None for every node that has a resource of this name."""
    keys: Keys
    named: Said
    """The NodeName, or else the first value of the line."""


@dataclass(slots=True)
class Conf:
    """A configuration, read."""

    nodes: list[Nodes] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    gres: list[GresRecord] = field(default_factory=list)
    settings: dict[str, Said] = field(default_factory=dict)
    """Other parameters; the last of equal ones."""
    includes: list[Said] = field(default_factory=list)
    unreadable: list[Problem] = field(default_factory=list)


def read(files: Mapping[str, str], root: str) -> Conf:
    """Return what a file and those that it includes say, and what gres.conf says.

    Lines that cannot be read are kept as problems. Files that are not given are left out.
    """
    conf = Conf()
    reader = _Reader(conf)
    for line in _lines(files, root, conf):
        reader.take(line)
    reader.end()
    for line in _lines(files, "gres.conf", conf):
        named = line.keys.get("nodename")
        hosts = hosts_of(named, conf.unreadable) if named else None
        conf.gres.append(GresRecord(hosts, line.keys, named or line.pairs[0][1]))
    return conf


def hosts_of(said: Said, problems: list[Problem]) -> tuple[str, ...]:
    """Return the hosts of a list; none, and a problem, where it is no host list."""
    try:
        return tuple(hostlist.expand(said.text))
    except ValueError as error:
        problems.append(Problem(said.where, str(error), "write it like n[01-18],login1"))
        return ()


def strangers(hosts: Iterable[str], known: Collection[str]) -> str:
    """Return what is said of hosts that no node line defines; empty if there are none."""
    stray = [host for host in hosts if host not in known]
    return f"names {hostlist.fold(stray)}, which no NodeName line has" if stray else ""


def listed(text: str) -> list[str]:
    """Split a text at the commas that stand outside brackets."""
    return re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)


def _lines(files: Mapping[str, str], root: str, conf: Conf) -> Iterator[Line]:
    seen: set[str] = set()
    waiting = [parse_lines(files.get(root, ""), root)]
    while waiting:
        line = next(waiting[-1], None)
        if line is None:
            waiting.pop()
        elif line.first == "include":
            said = line.pairs[0][1]
            conf.includes.append(said)
            if said.text not in seen:
                seen.add(said.text)
                waiting.append(parse_lines(files.get(said.text, ""), said.text))
        elif line.problem:
            conf.unreadable.append(line.problem)
        else:
            yield line


class _Reader:
    """Keeps what a line leaves for later ones: defaults, and partitions until all nodes are known.

    Partitions may name nodes, and sets of nodes, that stand below them.
    """

    def __init__(self, conf: Conf) -> None:
        self._conf = conf
        self._defaults: dict[str, dict[str, Said]] = {kind: {} for kind in _KINDS}
        self._named: dict[str, list[tuple[Said, Keys]]] = {kind: [] for kind in _KINDS}

    def take(self, line: Line) -> None:
        if line.first not in _KINDS:
            self._conf.settings.update(line.keys)
            return
        said = line.pairs[0][1]
        keys = {key: value for key, value in line.keys.items() if key != line.first}
        if said.text.upper() == "DEFAULT":
            self._defaults[line.first].update(keys)
        else:
            whole = {**self._defaults[line.first], **keys}
            self._named[line.first].append((said, whole))

    def end(self) -> None:
        conf = self._conf
        for said, keys in self._named["nodename"]:
            conf.nodes.append(Nodes(hosts_of(said, conf.unreadable), keys))
        sets = {said.text: self._members(keys) for said, keys in self._named["nodeset"]}
        sets["ALL"] = tuple(host for item in conf.nodes for host in item.hosts)
        for said, keys in self._named["partitionname"]:
            topology = keys["topology"].text if "topology" in keys else ""
            hosts = self._hosts(keys["nodes"], sets) if "nodes" in keys else ()
            conf.partitions.append(Partition(said, hosts, topology))

    def _members(self, keys: Keys) -> tuple[str, ...]:
        given = hosts_of(keys["nodes"], self._conf.unreadable) if "nodes" in keys else ()
        if "feature" not in keys:
            return given
        wanted = keys["feature"].text
        having = (
            host
            for item in self._conf.nodes
            for key in ("feature", "features")
            if key in item.keys and wanted in item.keys[key].text.split(",")
            for host in item.hosts
        )
        return (*given, *having)

    def _hosts(self, said: Said, sets: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        if said.text.upper() == "ALL":
            return sets["ALL"]
        parts = listed(said.text)
        plain = ",".join(part for part in parts if part not in sets)
        given = hosts_of(Said(plain, said.where), self._conf.unreadable) if plain else ()
        return (*given, *(host for part in parts for host in sets.get(part, ())))
