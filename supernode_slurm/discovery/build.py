"""From facts to an inventory: the document that is written, each value with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from .. import hostlist
from ..catalogue import find_accelerator
from ..errors import Problem, Where
from ..inventory import fields
from ..slurmconf.shapes import compact_shapes
from .classes import fold_classes
from .document import Leaf, Tree
from .fabrics import Fabric, find_fabrics, needs_topology, root_of_hosts
from .groups import Group, find_groups
from .live import SOURCE
from .machines import Host, find_hosts
from .network import checked_trees, nearest_hosts
from .nodes import sections_of, types_of
from .partitions import partitions_of
from .records import Records
from .room import Room
from .slurm_conf import CLUSTER, RELEASE
from .versions import versions_of

DEFAULT_LATENCY_NS = 1000.0
"""What an inventory assumes where no latency is given."""
_YAML = (".yaml", ".yml", ".json")


_COUNTS = ("whole_supernode_from",)
"""Keys of the policy that hold numbers."""


def build(room: Room, given: Mapping[str, str]) -> dict[str, Tree]:
    """Return the inventory that facts amount to.

    ``given`` maps GRES types to names of the catalogue. Raises ``ConfigError`` where they
    amount to none.
    """
    records = Records(room)
    hosts = find_hosts(room, records, given)
    if not hosts:
        where = room.gres[0].where if room.gres else Where(room.sources[0])
        what = "no line names a node" if room.gres else "no nodes: nothing to import"
        room.error(where, what, "name the slurm.conf that has the NodeName lines as well")
        room.check()
    foreign = {host for _, hosts_of in room.foreign for host in hosts_of}
    _check_gres(room, records, {*hosts, *foreign})
    trees = checked_trees(room, {*hosts, *foreign} if room.nodes else ())
    room.check()
    groups = find_groups(room, hosts, root_of_hosts(trees))
    fabrics = find_fabrics(room, trees, groups)
    _check_plugin(room)
    named = [group for group in groups if group.name]
    types = types_of(hosts)
    document: dict[str, Tree] = {"version": Leaf(1), "cluster": _cluster(room)}
    sections: dict[str, Tree] = {
        "slurm": _slurm(room),
        "fabrics": [_fabric(fabric) for fabric in fabrics],
        "racks": [rack for group in named for rack in _racks(group)],
        "supernodes": fold_classes(
            [_supernode(room, g, hosts, types) for g in named if g.kind == "supernode"]
        ),
        "pools": [_pool(group, hosts, types) for group in named if group.kind == "pool"],
        "foreign": [_foreign(group) for group in named if group.kind == "foreign"],
        "partitions": partitions_of(room, hosts, groups),
        "policy": {
            key: Leaf(int(said.text) if key in _COUNTS else said.text, (said.where,))
            for key, said in room.policy.items()
        },
        "versions": versions_of(room, hosts),
    }
    return document | {key: section for key, section in sections.items() if section}


def fits(kind: Any, text: str) -> bool:
    """Return whether a kind of field takes a text."""
    try:
        get_args(kind)[1].read(text)
    except ValueError:
        return False
    return True


def _cluster(room: Room) -> Leaf:
    said, ours = room.settings.get("clustername"), room.settings.get(CLUSTER)
    if ours and said and said.text not in (ours.text, "twin"):
        what = f"ClusterName is {said.text}, our files are for cluster {ours.text}"
        room.disagreement(said.where, what, f"kept: {ours.text}")
    found = ours or said
    if found is None or not fits(fields.Name, found.text):
        where = found.where if found else Where(room.sources[0])
        room.unsaid(where, "the name of the cluster: no source says", "give it as 'cluster'")
        return Leaf("unnamed", (), "no source says")
    return Leaf(found.text, (found.where,))


def _slurm(room: Room) -> dict[str, Tree]:
    found: dict[str, Tree] = {}
    release = room.settings.get(RELEASE)
    if release:
        found["release"] = Leaf(release.text, (release.where,))
    storage = room.settings.get("accountingstoragetype")
    tracked = room.settings.get("accountingstoragetres")
    runs = storage is not None and storage.text.casefold().endswith("slurmdbd")
    if runs or (tracked and "gres/" in tracked.text.casefold()):
        said = storage if storage and runs else tracked
        found["slurmdbd"] = Leaf(True, (said.where,) if said else ())
    prolog = room.settings.get("taskprolog")
    if prolog and prolog.where.file in room.ours and fits(fields.FilePath, prolog.text):
        found["task_prolog"] = Leaf(prolog.text, (prolog.where,))
    plugins = room.settings.get("jobsubmitplugins")
    if plugins and plugins.where.file in room.ours:
        found["job_submit"] = Leaf(True, (plugins.where,))
    return found


def _fabric(fabric: Fabric) -> dict[str, Tree]:
    origin = (fabric.where,)
    found: dict[str, Tree] = {"name": Leaf(fabric.name, origin)}
    facts = fabric.facts
    if facts is None:
        found["kind"] = Leaf("fat-tree", origin, "no source says, nor how fast it is")
    else:
        found["kind"] = Leaf(facts.kind, origin)
        if facts.rails is not None and facts.rail_gbs is not None:
            found["rails"] = {
                "count": Leaf(facts.rails, origin),
                "bandwidth": Leaf(f"{facts.rail_gbs:g} GB/s", origin),
            }
        if facts.oversubscription != 1:
            found["oversubscription"] = Leaf(facts.oversubscription, origin)
    if fabric.switches:
        found["switches"] = {name: Leaf(below, (where,)) for name, below, where in fabric.switches}
    return found


def _racks(group: Group) -> list[Tree]:
    return [
        {
            "name": Leaf(name, (group.where,)),
            "hosts": Leaf(hostlist.fold(hosts, sort=False), (group.where,)),
        }
        for name, hosts in group.racks
    ]


def _supernode(
    room: Room, group: Group, hosts: Mapping[str, Host], types: Mapping[str, str]
) -> dict[str, Tree]:
    members = [hosts[name] for name in group.hosts]
    found: dict[str, Tree] = {
        "name": Leaf(group.name, (group.where,)),
        "interconnect": _interconnect(room, group, members),
    }
    if group.spares:
        found["spares"] = Leaf(group.spares, (group.where,))
    return found | _nodes(members, types)


def _interconnect(room: Room, group: Group, members: list[Host]) -> dict[str, Tree]:
    link, origin = group.link, (group.where,)
    if link is None:
        return {}
    remark = "" if group.is_said else "assumed: no source says"
    found: dict[str, Tree] = {"kind": Leaf(link.kind, origin, remark)}
    if link.bandwidth_gbs is not None:
        found["bandwidth"] = Leaf(f"{link.bandwidth_gbs:g} GB/s", origin)
    elif not group.said_by_us:
        speeds = {
            devices.accelerator: find_accelerator(devices.accelerator).scale_up_gbs
            for host in members
            for devices in host.machine.devices
        }
        known = {name: speed for name, speed in speeds.items() if speed is not None}
        if known:
            name, speed = min(known.items(), key=lambda item: item[1])
            remark = f"from the catalogue's {name}, not from here"
            found["bandwidth"] = Leaf(f"{speed:g} GB/s", (), remark)
        else:
            what = "how fast the interconnect of {hosts} is: no source says"
            todo = "add 'bandwidth' before jobs are planned on it"
            room.of_hosts("unsaid", Problem(group.where, what, todo), [group.name])
    if link.latency_ns != DEFAULT_LATENCY_NS:
        found["latency"] = Leaf(f"{link.latency_ns:g} ns", origin)
    if link.dims:
        found["dims"] = Leaf(link.dims, origin)
        if link.placements and link.placements != compact_shapes(link.dims):
            found["placements"] = [Leaf(shape, origin) for shape in link.placements]
    return found


def _pool(group: Group, hosts: Mapping[str, Host], types: Mapping[str, str]) -> dict[str, Tree]:
    members = [hosts[name] for name in group.hosts]
    return {"name": Leaf(group.name, (group.where,)), **_nodes(members, types)}


def _nodes(members: list[Host], types: Mapping[str, str]) -> dict[str, Tree]:
    sections = sections_of(members, types)
    return {"nodes": sections[0] if len(sections) == 1 else list(sections)}


def _foreign(group: Group) -> dict[str, Tree]:
    origin = (group.where,)
    hosts = hostlist.fold(group.hosts, sort=False)
    return {"name": Leaf(group.name, origin), "hosts": Leaf(hosts, origin)}


def _check_gres(room: Room, records: Records, known: set[str]) -> None:
    """Tell of nodes that gres.conf alone names, which slurmctld passes over without a word."""
    strays: dict[Where, list[str]] = {}
    for host, where in records.hosts.items():
        if host not in known:
            strays.setdefault(where, []).append(host)
    for where, names in strays.items():
        what = f"{hostlist.fold(names)} are no nodes of slurm.conf"
        room.mistake(where, what, nearest_hosts(names, known))


def _check_plugin(room: Room) -> None:
    """Tell of a topology.conf that slurmctld does not read, and of one that is not here."""
    if not room.nodes or not room.has_slurm_conf:
        return
    plugin = room.settings.get("topologyplugin")
    if plugin and not room.topologies and needs_topology(room):
        what = f"TopologyPlugin={plugin.text}, but no source holds the topology"
        room.unsaid(plugin.where, what, "name topology.conf as well: fabrics are unknown without")
    told = (*_YAML, SOURCE, f"{SOURCE}topoconf", *(source for source, _ in room.subnets))
    files = [t.where for t in room.topologies if not t.where.file.endswith(told)]
    if files and not needs_topology(room):
        says = f"TopologyPlugin={plugin.text}" if plugin else "no TopologyPlugin"
        where = plugin.where if plugin else Where(room.nodes[0].where.file)
        what = f"{says}: slurmctld does not read {Path(files[0].file).name}"
        room.mistake(where, what, f"add TopologyPlugin=topology/{room.topologies[0].kind}")
