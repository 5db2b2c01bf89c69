"""Files and the running Slurm together: what runs wins, what differs is listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from .. import hostlist
from ..errors import Problem, SlurmError
from ..slurm.parse import gres as parse_gres
from ..slurmconf.grammar import Said
from ..units import minutes
from .live import PLACE
from .machines import shape_of
from .room import Keys, NodeFacts, PartitionFacts, Room, TopologyFacts
from .slurm_conf import CLUSTER, RELEASE

_TODO = "written as it runs: scontrol reconfigure, or correct the file"
_SHAPE = {
    "sockets": ("sockets", "boards", "socketsperboard", "cpus", "procs"),
    "cores": ("corespersocket",),
    "threads": ("threadspercore",),
    "memory": ("realmemory",),
    "features": ("features", "feature"),
}


def merge_live(files: Room, live: Room) -> Room:
    """Return the facts of files, with those of a running Slurm where they differ.

    What only files hold stays: device files, our comments, the order of lines.
    """
    twin = _text(live.settings.get("clustername")) == "twin"
    _settings(files, live)
    _nodes(files, live, twin)
    _partitions(files, live)
    _topologies(files, live)
    files.remarks += live.remarks
    files.silent |= live.silent
    files.booted = live.booted
    return files


def _settings(files: Room, live: Room) -> None:
    ours, runs = files.settings.get(RELEASE), live.settings.get(RELEASE)
    if ours and runs and ours.text != runs.text:
        what = f"files for Slurm {ours.text}, Slurm {runs.text} runs"
        files.disagreement(ours.where, what, "sn generate writes them for the one that runs")
    name = live.settings.get("clustername")
    kept = {key: said for key, said in live.settings.items() if key != "clustername"}
    if name and name.text != "twin":
        kept["clustername"] = name
    for key in ("accountingstoragetres", "taskprolog"):
        kept.pop(key, None)  # slurmctld shows its defaults as well
    if CLUSTER in files.settings:
        kept.pop("accountingstoragetype", None)
    same = {key for key, said in kept.items() if _text(files.settings.get(key)) == _text(said)}
    files.settings |= {key: said for key, said in kept.items() if key not in same}


def _nodes(files: Room, live: Room, twin: bool) -> None:
    runs = {host: node for node in live.nodes for host in node.hosts}
    away = {host for _, hosts in files.foreign for host in hosts}
    known = {host for node in files.nodes for host in node.hosts}
    found: list[NodeFacts] = []
    for node in files.nodes:
        changed: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for host in node.hosts:
            here = runs.get(host)
            changed.setdefault(_changes(node, here, twin, files) if here else (), []).append(host)
        gone = [host for host in node.hosts if host not in runs]
        if gone:
            what = "{hosts} stand in slurm.conf, slurmctld does not know them"
            files.of_hosts("disagreement", Problem(node.where, what, _TODO), gone)
            files.gone.update(gone)
        found += [_changed(node, tuple(hosts), keys) for keys, hosts in changed.items()]
    for host, node in runs.items():
        if host not in known and host not in away:
            what = "slurmctld knows {hosts}, slurm.conf does not"
            files.of_hosts("disagreement", Problem(node.where, what, _TODO), [host])
            found.append(node)
    files.nodes[:] = found


def _changed(
    node: NodeFacts, hosts: tuple[str, ...], keys: tuple[tuple[str, str], ...]
) -> NodeFacts:
    if hosts == node.hosts and not keys:
        return node
    own = {
        key: said for key, said in node.keys.items() if not key.startswith("node") and key != "port"
    }
    said = {key: Said(text, PLACE) for key, text in keys}
    gone = {key for name, _ in keys for key in _SHAPE.get(name, ())}
    kept = {key: value for key, value in own.items() if key not in gone}
    return replace(node, hosts=hosts, keys={**kept, **said})


def _changes(
    node: NodeFacts, here: NodeFacts, twin: bool, room: Room
) -> tuple[tuple[str, str], ...]:
    """Return the keys of a node that run otherwise than its line says, and tell of them."""
    found: dict[str, str] = {}
    quiet = Room()
    written, _ = shape_of(node.keys, quiet)
    runs, _ = shape_of(here.keys, quiet)
    for key, value in runs.items():
        if written[key] != value:
            found[_SHAPE[key][0]] = str(value)
            _tell(room, node, here, key, str(written[key]), str(value))
    tests: dict[str, Callable[[Keys], object]] = {
        "gres": _gres,
        "features": _features,
        "weight": weight_of,
    }
    if not twin:
        tests["state"] = _is_cloud
    for key, value_of in tests.items():
        if value_of(node.keys) != value_of(here.keys):
            text = _text(here.keys.get(key))
            found[key] = text
            _tell(room, node, here, key, _text(_either(node.keys, key)), text)
    return tuple(found.items())


def _tell(room: Room, node: NodeFacts, here: NodeFacts, key: str, says: str, runs: str) -> None:
    what = f"{key} of {{hosts}}: {says or 'none'} in the file, {runs or 'none'} runs"
    room.of_hosts("disagreement", Problem(node.where, what, _TODO), here.hosts)


def _gres(keys: Keys) -> object:
    said = keys.get("gres")
    try:
        items = parse_gres(said.text) if said else ()
    except SlurmError:
        return _text(said)
    # slurmctld shows the type of the cards behind shards.
    counts: Counter[tuple[str, str]] = Counter()
    for item in items:
        counts[item.name, "" if item.name in ("shard", "mps") else item.type] += item.count
    return counts


def _features(keys: Keys) -> object:
    return {name for name in _text(_either(keys, "features")).split(",") if name}


def weight_of(keys: Keys) -> str:
    """Return the weight of a node, as Slurm has it where none is given."""
    return _text(keys.get("weight")) or "1"


def _is_cloud(keys: Keys) -> object:
    return _text(keys.get("state")).upper() == "CLOUD"


def _either(keys: Keys, key: str) -> Said | None:
    return keys.get(key, keys.get("feature") if key == "features" else None)


def _partitions(files: Room, live: Room) -> None:
    runs = {partition.name: partition for partition in live.partitions}
    for index, partition in enumerate(files.partitions):
        here = runs.pop(partition.name, None)
        if here is None:
            what = f"partition {partition.name} stands in slurm.conf, slurmctld does not know it"
            files.disagreement(partition.where, what, _TODO)
        else:
            files.partitions[index] = _merged_partition(files, partition, here)
    for here in runs.values():
        what = f"slurmctld knows partition {here.name}, slurm.conf does not"
        files.disagreement(here.where, what, _TODO)
        files.partitions.append(here)


def _merged_partition(room: Room, written: PartitionFacts, here: PartitionFacts) -> PartitionFacts:
    keys = dict(written.keys)
    for key, value_of in OF_PARTITION.items():
        if value_of(keys) != value_of(here.keys):
            says, runs = _text(keys.get(key)) or "none", _text(here.keys.get(key)) or "none"
            what = f"{key} of partition {written.name}: {says} in the file, {runs} runs"
            room.disagreement(written.where, what, _TODO)
            keys.pop(key, None)
            if key in here.keys:
                keys[key] = here.keys[key]
    wanted, nodes = _nodes_of(room, keys), _nodes_of(room, here.keys)
    if wanted is not None and wanted != nodes:
        more, less = sorted((nodes or set()) - wanted), sorted(wanted - (nodes or set()))
        parts = [f"with {hostlist.fold(more)}"] if more else []
        parts += [f"without {hostlist.fold(less)}"] if less else []
        what = f"partition {written.name} runs {' and '.join(parts)}"
        room.disagreement(written.where, what, _TODO)
        keys["nodes"] = here.keys.get("nodes", Said("", here.where))
    return replace(written, keys=keys)


def _nodes_of(room: Room, keys: Keys) -> set[str] | None:
    """Return the nodes of a partition, None where a node set or ALL stands for them."""
    text = _text(keys.get("nodes"))
    try:
        found = set(hostlist.expand(text)) if text else set()
    except ValueError:
        return None
    known = {host for node in room.nodes for host in node.hosts}
    known |= {host for _, hosts in room.foreign for host in hosts}
    return found if found <= known else None


def _limit(keys: Keys) -> object:
    text = _text(keys.get("maxtime"))
    try:
        return minutes(text) if text else float("inf")
    except ValueError:
        return text


def _is_default(keys: Keys) -> object:
    return _text(keys.get("default")).upper() in ("YES", "TRUE")


def _topologies(files: Room, live: Room) -> None:
    if not live.topologies:
        return
    if _meaning(files.topologies) == _meaning(live.topologies):
        return
    if files.topologies:
        what = "slurmctld runs another topology than the file says"
        files.disagreement(files.topologies[0].where, what, _TODO)
    files.topologies[:] = live.topologies
    files.networks.clear()


def _meaning(topologies: list[TopologyFacts]) -> object:
    """Return what must be equal for topologies to place jobs alike."""
    return [
        (
            topology.kind,
            {
                switch.name: (frozenset(switch.nodes), frozenset(switch.switches))
                for switch in topology.switches
            },
            {group.name: (frozenset(group.nodes), group.dims) for group in topology.groups},
        )
        for topology in topologies
        if topology.kind != "flat"
    ]


def _names(key: str) -> Callable[[Keys], object]:
    def names(keys: Keys) -> object:
        found = {name for name in _text(keys.get(key)).split(",") if name}
        return found - {"ALL"}

    return names


def _word(key: str, usual: str) -> Callable[[Keys], object]:
    return lambda keys: (_text(keys.get(key)) or usual).upper()


OF_PARTITION: Mapping[str, Callable[[Keys], object]] = {
    "maxtime": _limit,
    "default": _is_default,
    "state": _word("state", "UP"),
    "prioritytier": _word("prioritytier", "1"),
    "allowaccounts": _names("allowaccounts"),
    "allowgroups": _names("allowgroups"),
    "allowqos": _names("allowqos"),
}
"""What an admin changes in a running partition, and how two values of it compare."""


def _text(said: Said | None) -> str:
    return said.text if said else ""
