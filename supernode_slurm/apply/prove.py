"""Whether a controller runs what its files say: asked of itself, not of an exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .. import hostlist
from ..errors import SlurmRejected
from ..slurm import Block, Gres, LiveNode, LiveTopology, Loop, SlurmClient, Switch, parse
from ..slurmconf.generate import ROOT
from ..slurmconf.release import Release
from ..twin import reading, topologies

_BAD = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "INVAL", "INVALID_REG"}
)
_SHOWN = 6
Groups = Mapping[str, frozenset[str]]
"""Hosts of each switch, block, ring or torus, by name."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a configuration means, as far as a controller can be asked for it."""

    gres: Mapping[str, Counter[tuple[str, str]]]
    """Count of each GRES name and type, by host."""
    partitions: frozenset[str]
    topologies: Mapping[str, Groups]
    """By name; the default one under the empty name."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a controller runs."""

    booted: int
    """When it read its files: seconds since the epoch, by its own clock."""
    nodes: Mapping[str, LiveNode]
    partitions: frozenset[str]
    topologies: Mapping[str, Groups]


def intent(files: Mapping[str, str], release: Release) -> Intent:
    """Return what our files mean."""
    conf = reading.read(files, ROOT)
    gres = {}
    for item in conf.nodes:
        said = item.keys.get("gres")
        counted = _counted(parse.gres(said.text) if said else ())
        gres.update(dict.fromkeys(item.hosts, counted))
    if release.yaml and topologies.YAML in files:
        found = topologies.read_yaml(files[topologies.YAML])[0]
    else:
        found = topologies.read_conf(files.get(topologies.CONF, ""))[0]
        plugin = conf.settings.get("topologyplugin")
        found = found if plugin else []
    names = frozenset(item.name.text for item in conf.partitions)
    return Intent(gres, names, {"" if t.is_default else t.name: _groups(t) for t in found})


def observe(client: SlurmClient, wanted: Iterable[str]) -> Observed:
    """Ask a controller what it runs, and for the topologies of these names.

    Raises ``SlurmError`` where it does not answer.
    """
    boot = client.config().get("BOOT_TIME", "")
    shown = {}
    for name in wanted:
        try:
            shown[name] = _live_groups(client.topology(name))
        except SlurmRejected:
            shown[name] = {}
    return Observed(
        booted=int(boot) if boot.isdigit() else 0,
        nodes={node.name: node for node in client.nodes()},
        partitions=frozenset(item.name for item in client.partitions()),
        topologies=shown,
    )


def differences(meant: Intent, seen: Observed) -> Iterator[str]:
    """Yield in words where a controller runs something else than is meant."""
    missing = [host for host in meant.gres if host not in seen.nodes]
    if missing:
        yield f"slurmctld does not know {_folded(missing)}"
    unlike: dict[str, list[str]] = {}
    for host, wanted in meant.gres.items():
        if host in seen.nodes:
            there = _counted(seen.nodes[host].gres)
            if there != wanted:
                words = f"Gres={_gres_words(there)} in place of {_gres_words(wanted)}"
                unlike.setdefault(words, []).append(host)
    for words, hosts in unlike.items():
        yield f"{_folded(hosts)}: {words}"
    for name in sorted(meant.partitions - seen.partitions):
        yield f"there is no partition {name}"
    for name, groups in meant.topologies.items():
        yield from _topology(name, groups, seen)


def worsened(before: Observed, after: Observed) -> Iterator[str]:
    """Yield the nodes that are down, drained or invalid now and were not before."""
    worse: dict[str, list[str]] = {}
    for host, node in after.nodes.items():
        old = before.nodes.get(host)
        bad = node.states & _BAD - (old.states if old else frozenset())
        if bad and (old is not None or "INVALID_REG" in bad or "INVAL" in bad):
            words = f"{'+'.join(sorted(bad))}{f' ({node.reason})' if node.reason else ''}"
            worse.setdefault(words, []).append(host)
    for words, hosts in worse.items():
        yield f"{_folded(hosts)} became {words}"


def _topology(name: str, groups: Groups, seen: Observed) -> Iterator[str]:
    where = f"topology {name}" if name else "the topology"
    there = seen.topologies.get(name, {})
    for group, hosts in groups.items():
        known = frozenset(host for host in hosts if host in seen.nodes)
        if group not in there:
            if known:
                yield f"{where} has no {group}"
        elif there[group] != known:
            held = _folded(there[group]) or "nothing"
            yield f"{where} has {held} in {group}, not {_folded(known)}"
    extra = [group for group in there if group not in groups and there[group]]
    if extra:
        yield f"{where} has {', '.join(sorted(extra)[:_SHOWN])}, which is not meant"


def _groups(topology: topologies.Topology) -> Groups:
    """Return all hosts below each group of a topology."""
    below = {group.name: group for group in topology.groups}
    found: dict[str, frozenset[str]] = {}

    def hosts(name: str, above: tuple[str, ...]) -> frozenset[str]:
        if name not in found and name in below and name not in above:
            group = below[name]
            children = (hosts(child, (*above, name)) for child in group.children)
            found[name] = frozenset(group.hosts).union(*children)
        return found.get(name, frozenset())

    return {name: hosts(name, ()) for name in below}


def _live_groups(found: LiveTopology) -> Groups:
    every: tuple[Switch | Block | Loop, ...] = (*found.switches, *found.blocks, *found.loops)
    return {item.name: frozenset(item.hosts) for item in every}


def _counted(gres: Iterable[Gres]) -> Counter[tuple[str, str]]:
    counts = Counter[tuple[str, str]]()
    for item in gres:
        if item.count:
            counts[item.name, item.type] += item.count
    return counts


def _gres_words(counts: Counter[tuple[str, str]]) -> str:
    words = (":".join(filter(None, (*key, str(count)))) for key, count in sorted(counts.items()))
    return ",".join(words) or "(null)"


def _folded(hosts: Iterable[str]) -> str:
    text = hostlist.fold(hosts)
    return text if len(text) <= 200 else f"{text[:200]}..."
