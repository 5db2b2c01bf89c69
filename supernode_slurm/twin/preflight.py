"""What slurmctld does not say about its files, or says too late: found by reading them.

slurmctld has no check of its own. It waits a minute for a topology.conf that is missing,
takes ``State=CLOUD`` for the value of an empty ``Feature=``, and passes in silence over a
node in two blocks, a gres.conf for nodes that do not exist, a misspelt key of topology.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .. import hostlist
from ..errors import Problem, Where, nearest
from ..slurmconf.release import Release
from . import grescheck, topologies
from .reading import Conf, read, strangers
from .schedulerkeys import scheduler_keys
from .topologies import CONF, YAML, Topology

MAIN = "supernode.conf"
"""The generated file that slurm.conf includes."""
_NEEDS_FILE = frozenset({"tree", "block", "3d_torus"})
_GROUP = {"tree": "switch", "torus3d": "torus"}
_ONCE = frozenset({"grestypes", "taskprolog", "topologyplugin", "accountingstoragetres"})
_LACK = re.compile(r"lack access to [0-9]+ nodes: (\S+)\Z")
_NO_ROOT = "no switch can reach all nodes"


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with a configuration."""

    errors: tuple[Problem, ...] = ()
    """slurmctld would wait, die, or read another configuration than is written."""
    warnings: tuple[Problem, ...] = ()
    """slurmctld would start, and not do what is meant."""
    outside: tuple[frozenset[str], ...] = ()
    """Nodes that each topology leaves out."""
    has_roots: bool = False
    """Whether a tree has more than one root."""

    def covers(self, line: str) -> bool:
        """Whether a line of slurmctld's log is about what was judged here, partitions in view.

        Nodes outside the blocks are right where no partition mixes them with others, and
        several roots where there are several fabrics.
        """
        if _NO_ROOT in line:
            return self.has_roots
        found = _LACK.search(line)
        try:
            hosts = frozenset(hostlist.expand(found[1])) if found else None
            return hosts is not None and any(hosts <= left for left in self.outside)
        except ValueError:
            return False


def check(
    files: Mapping[str, str], release: Release, foreign: Iterable[str] = (), root: str = MAIN
) -> Findings:
    """Return what is wrong with Slurm's files, with file, line and column.

    ``files`` are texts by name, ``root`` the one that includes the others; ``foreign`` are
    nodes that stand in files which are not given.
    """
    conf = read(files, root)
    errors = [*_missing(files, conf, root), *conf.unreadable]
    warnings: list[Problem] = []
    found = _topologies(files, release, conf, errors, warnings)
    known = {host for item in conf.nodes for host in item.hosts}.union(foreign)
    for item in found:
        warnings += _stray(item, known)
        warnings += _twice(item)
        warnings += _split(item, conf)
    warnings += grescheck.check(conf, known)
    warnings += scheduling(conf, release)
    outside = tuple(frozenset(known - item.hosts) for item in found if item.kind != "flat")
    has_roots = any(len(item.roots) > 1 for item in found)
    return Findings(_in_order(errors), _in_order(warnings), outside, has_roots)


def _in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(set(problems)))


def _missing(files: Mapping[str, str], conf: Conf, root: str) -> Iterator[Problem]:
    if root not in files:
        yield Problem(Where(root), "missing", "generate the configuration first")
    for said in conf.includes:
        if said.text not in files:
            yield Problem(said.where, f"includes {said.text}, which is not given")
    for name in files:
        if Path(name).name != name:
            yield Problem(Where(name), "is not a plain file name")


def _topologies(
    files: Mapping[str, str],
    release: Release,
    conf: Conf,
    errors: list[Problem],
    warnings: list[Problem],
) -> list[Topology]:
    """Return the topologies that slurmctld will use, and say of files that it will not read."""
    has_yaml = YAML in files and release.yaml
    said = conf.settings.get("topologyplugin")
    plugin = said.text.lower().removeprefix("topology/") if said else ""
    if YAML in files and not release.yaml:
        what = f"Slurm {release.name} does not read it"
        warnings.append(Problem(Where(YAML, 1, 1), what, f"write {CONF} and TopologyPlugin"))
    if has_yaml and CONF in files:
        what = f"is not read: {YAML} is there"
        warnings.append(Problem(Where(CONF, 1, 1), what, "delete one"))
    if has_yaml:
        found, problems = topologies.read_yaml(files[YAML])
        warnings += problems
        if not found and not problems:
            todo = "slurmctld dies of it without a word: delete the file"
            errors.append(Problem(Where(YAML, 1, 1), "holds no topology", todo))
        return found
    if said and plugin in _NEEDS_FILE and CONF not in files:
        what = f"topology/{plugin} needs a {CONF}, which is not given"
        errors.append(Problem(said.where, what, "slurmctld would wait for it"))
    if CONF in files and plugin not in _NEEDS_FILE:
        what = f"is not read: {f'TopologyPlugin is {said.text}' if said else 'no TopologyPlugin'}"
        todo = "add TopologyPlugin=topology/tree (or block) to slurm.conf"
        warnings.append(Problem(Where(CONF, 1, 1), what, todo))
        return []
    found, problems = topologies.read_conf(files.get(CONF, ""))
    errors += problems
    return found


def _stray(topology: Topology, known: Collection[str]) -> Iterator[Problem]:
    for group in topology.groups:
        if stray := strangers(group.hosts, known):
            yield Problem(group.where, f"'{group.name}' {stray}", "delete or define them")


def _twice(topology: Topology) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for group in topology.groups:
        again: dict[str, list[str]] = {}
        for host in group.hosts:
            if first.get(host, group.name) != group.name:
                again.setdefault(first[host], []).append(host)
            first.setdefault(host, group.name)
        for name, hosts in again.items():
            what = f"{hostlist.fold(hosts)} in '{group.name}' and in '{name}'"
            yield Problem(group.where, what, "a node has one place: delete it from one of them")


def _split(topology: Topology, conf: Conf) -> Iterator[Problem]:
    """Yield the partitions in which the topology keeps nodes from each other."""
    inside = topology.hosts
    for item in conf.partitions:
        if item.topology != topology.name and not (topology.is_default and not item.topology):
            continue
        left = [host for host in item.hosts if host not in inside]
        # Nodes that are all outside the blocks are placed as if there were none.
        if left and (topology.kind == "tree" or len(left) < len(set(item.hosts))):
            what = (
                f"partition '{item.name.text}' holds {hostlist.fold(left)},"
                f" and no {_GROUP.get(topology.kind, topology.kind)} of '{topology.name}' does"
            )
            yield Problem(item.name.where, what, "no job gets them together with the others")


def scheduling(conf: Conf, release: Release) -> Iterator[Problem]:
    """Yield the names in SchedulerParameters that a release does not know."""
    said = conf.settings.get("schedulerparameters")
    known = scheduler_keys(release.name)
    folded = {name.casefold() for name in known}
    for word in said.text.split(",") if said else ():
        name = word.partition("=")[0].strip()
        if said and name and name.casefold() not in folded:
            what = f"Slurm {release.name} has no SchedulerParameters '{name}' and passes over it"
            yield Problem(said.where, what, nearest(name, known))


def beside(ours: Conf, site: Conf) -> Iterator[Problem]:
    """Yield where the generated files and the site's own slurm.conf do not go together."""
    tracked = ours.settings.get("accountingstoragetres")
    kept = site.settings.get("accountingstoragetype")
    if tracked and (not kept or not kept.text.lower().endswith("/slurmdbd")):
        what = (
            "tracks GRES, and slurm.conf has no AccountingStorageType=accounting_storage/slurmdbd"
        )
        todo = "slurmctld dies of it: leave slurmdbd out of the inventory, or run it"
        yield Problem(tracked.where, what, todo)
    for key in _ONCE & ours.settings.keys() & site.settings.keys():
        said, mine = site.settings[key], ours.settings[key]
        if said.text != mine.text:
            what = f"{said.key or key}={said.text} stands in {mine.where.file} too, as {mine.text}"
            yield Problem(said.where, what, "slurmctld takes the last of them: keep one")
