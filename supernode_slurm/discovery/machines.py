"""Nodes as they are: what a NodeName line means to Slurm, and which nodes are equal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .. import hostlist
from ..errors import Problem, Where, nearest
from ..inventory import Devices, OtherGres
from ..inventory.options import NODE_OPTIONS
from ..slurmconf.grammar import Said
from .cards import CardReader
from .probe_compare import completed, tell_shape
from .records import Records
from .room import Keys, NodeFacts, Room

OF_EACH = ("nodeaddr", "nodehostname", "bcastaddr", "port")
"""Keys whose value is a list with an entry for each node of the line."""
EACH_HAS_ITS_OWN = ""
"""Keeps the place of such a key among the options of a line."""
_USED = frozenset(
    {
        *("boards", "corespersocket", "cpus", "feature", "features", "gres", "procs"),
        *("realmemory", "sockets", "socketsperboard", "state", "threadspercore", "topology"),
        *OF_EACH,
    }
)
_PORTS = re.compile(r"[0-9]+(?:-[0-9]+)*\Z")
_SPELLED = {name.casefold(): name for name in NODE_OPTIONS}


@dataclass(frozen=True, slots=True)
class Machine:
    """What equal nodes share."""

    sockets: int
    cores: int
    threads: int
    memory_mib: int
    devices: tuple[Devices, ...]
    others: tuple[OtherGres, ...]
    features: tuple[str, ...]
    cloud: bool
    options: tuple[tuple[str, str], ...]
    adapters: tuple[str, ...]
    """Network cards that carry data, none where no probe says."""
    unsaid: tuple[str, ...]
    """Of sockets, cores, threads and memory, those that no source says."""


@dataclass(frozen=True, slots=True)
class Host:
    """A node by its name."""

    name: str
    machine: Machine
    own: tuple[tuple[str, str], ...]
    """Options that are its own: address, port."""
    origin: tuple[Where, ...]
    domain: str
    """Supernode or pool that a comment of ours names; empty for none."""


def find_hosts(room: Room, records: Records, given: Mapping[str, str]) -> dict[str, Host]:
    """Return all nodes that are not foreign, in the order of the sources."""
    reader = CardReader(room, records, given)
    found: dict[str, Host] = {}
    for node in room.nodes or _without_lines(room, records):
        alike: dict[tuple[tuple[int, ...], object], list[str]] = {}
        for host in node.hosts:
            key = (records.signature(host), room.measured.get(host))
            alike.setdefault(key, []).append(host)
        own = _own(node, room)
        for (signature, _), hosts in alike.items():
            machine = _machine(node, tuple(hosts), room, reader)
            probed = [room.measured[hosts[0]][1]] if hosts[0] in room.measured else []
            places = [node.where, *_gres_places(node, machine, records, signature), *probed]
            origin = tuple(dict.fromkeys(places))
            name = node.domain.name if node.domain else ""
            for host in hosts:
                found[host] = Host(host, machine, own.get(host, ()), origin, name)
    room.check()
    return {host: found[host] for node in room.nodes for host in node.hosts} or found


def shape_of(keys: Keys, room: Room) -> tuple[dict[str, int], int]:
    """Return sockets, cores, threads and memory as Slurm counts them, and its CPUs.

    Follows _parse_nodename of Slurm's read_config.c: boards are part of the sockets, and
    sockets that are not given follow from CPUs.
    """
    number = {key: _number(keys[key], room) for key in _USED & keys.keys() if key in _NUMBERS}
    boards = number.get("boards", 1)
    cores, threads = number.get("corespersocket", 1), number.get("threadspercore", 1)
    cpus = number.get("cpus", number.get("procs", 0))
    sockets = number.get("sockets", 0)
    if "socketsperboard" in number:
        sockets = boards * number["socketsperboard"]
    elif not sockets:
        whole, rest = divmod(cpus, cores * threads)
        sockets = whole if whole and not rest else boards
    total = sockets * cores * threads
    if cpus and cpus not in (sockets, sockets * cores, total):
        said = keys.get("cpus", keys.get("procs"))
        where = said.where if said else Where("")
        what = f"CPUs={cpus} of {{hosts}} are not {sockets} sockets of {cores} cores"
        todo = f"Slurm counts {total}: give what slurmd -C prints"
        room.mistake(where, what.replace(" of {hosts}", ""), todo)
        cpus = total
    shape = {"sockets": sockets, "cores": cores, "threads": threads}
    return {**shape, "memory": number.get("realmemory", 1)}, cpus or total


_NUMBERS = frozenset(
    {
        *("boards", "corespersocket", "cpus", "procs", "realmemory", "sockets"),
        *("socketsperboard", "threadspercore"),
    }
)


def _machine(node: NodeFacts, hosts: tuple[str, ...], room: Room, reader: CardReader) -> Machine:
    measured = room.measured[hosts[0]][0] if hosts[0] in room.measured else None
    node = completed(node, hosts, measured, room)
    keys = node.keys
    shape, cpus = shape_of(keys, room)
    if measured is not None:
        tell_shape(node, hosts, shape, measured, room)
    gres = reader.read(node, hosts, (shape["sockets"], shape["cores"]))
    state = keys["state"].text.upper() if "state" in keys else "UNKNOWN"
    options = list(_options(node, hosts, room).items())
    if cpus != shape["sockets"] * shape["cores"] * shape["threads"]:
        options.append(("CPUs", str(cpus)))
    if state not in ("UNKNOWN", "CLOUD"):
        options.append(("State", keys["state"].text))
    unsaid = _unsaid(keys)
    if unsaid:
        named = " and ".join(filter(None, (", ".join(unsaid[:-1]), unsaid[-1])))
        what = f"{named} of {{hosts}}: no source says"
        todo = "written as Slurm's default, 1: give what slurmd -C prints"
        room.of_hosts("unsaid", Problem(node.where, what, todo), hosts)
    return Machine(
        sockets=shape["sockets"],
        cores=shape["cores"],
        threads=shape["threads"],
        memory_mib=max(shape["memory"], 1),
        devices=gres.devices,
        others=gres.others,
        features=_features(node, gres.devices),
        cloud=state == "CLOUD",
        options=tuple(options),
        adapters=measured.adapters if measured else (),
        unsaid=unsaid,
    )


def _unsaid(keys: Keys) -> tuple[str, ...]:
    counts = {"cpus", "procs", "sockets", "socketsperboard", "corespersocket", "boards"}
    found = [] if counts & keys.keys() else ["sockets", "cores"]
    return tuple(found if "realmemory" in keys else [*found, "memory"])


def _features(node: NodeFacts, devices: tuple[Devices, ...]) -> tuple[str, ...]:
    """Return the site's own features: without those that ``sn generate`` adds."""
    said = node.keys.get("feature", node.keys.get("features"))
    names = [name.strip() for name in said.text.split(",")] if said else []
    ours = {node.domain.name, *(item.type for item in devices)} if node.domain else set()
    return tuple(dict.fromkeys(name for name in names if name and name not in ours))


def _options(node: NodeFacts, hosts: tuple[str, ...], room: Room) -> dict[str, str]:
    found = {}
    for key, said in node.keys.items():
        if key in OF_EACH:
            found[_SPELLED[key]] = EACH_HAS_ITS_OWN
        elif key in _SPELLED and key not in _USED:
            found[_SPELLED[key]] = said.text
        elif key not in _USED:
            what = f"'{said.key}' of {{hosts}} is no key of a NodeName line: left out"
            known = [*NODE_OPTIONS, "Feature", "Gres"]
            room.of_hosts("mistake", Problem(said.where, what, nearest(said.key, known)), hosts)
    if "topology" in node.keys and not node.ours:
        what = "Topology= of {hosts}: left out"
        todo = "it follows from the supernodes of the inventory"
        room.of_hosts("lost", Problem(node.keys["topology"].where, what, todo), hosts)
    return found


def _own(node: NodeFacts, room: Room) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the options of each host that are its own, without what Slurm assumes."""
    found: dict[str, list[tuple[str, str]]] = {}
    for key in OF_EACH:
        said = node.keys.get(key)
        if said is None:
            continue
        values = _values(said, len(node.hosts), room)
        if len(values) not in (1, len(node.hosts)):
            what = f"{_SPELLED[key]} names {len(values)} for {len(node.hosts)} nodes"
            room.error(said.where, what, "slurmctld refuses that: name one for each")
            continue
        for index, host in enumerate(node.hosts):
            value = values[index % len(values)]
            if value != host:
                found.setdefault(host, []).append((_SPELLED[key], value))
    return {host: tuple(values) for host, values in found.items()}


def _values(said: Said, count: int, room: Room) -> list[str]:
    text = said.text
    if "[" not in text and "," not in text and count > 1 and _PORTS.match(text):
        text = f"[{text}]"
    try:
        return hostlist.expand(text) if text else []
    except ValueError:
        return text.split(",")


def _number(said: Said, room: Room) -> int:
    return max(room.number(said), 1)


def _gres_places(
    node: NodeFacts, machine: Machine, records: Records, signature: tuple[int, ...]
) -> list[Where]:
    names = {item.gres for item in machine.devices} | {item.name for item in machine.others}
    found = [record.where for record in records.of(signature) if record.name in names]
    return [where for where in found if where != node.where]


def _without_lines(room: Room, records: Records) -> list[NodeFacts]:
    """Return the nodes that only gres.conf, a topology or a model names."""
    places = dict(records.hosts)
    for topology in room.topologies:
        parts = [(part.nodes, part.where) for part in topology.switches]
        for nodes, where in [*parts, *((part.nodes, part.where) for part in topology.groups)]:
            for host in nodes:
                places.setdefault(host, where)
    for facts in room.scale_ups:
        for host in facts.hosts:
            places.setdefault(host, facts.where)
    for host, where in room.bare.items():
        places.setdefault(host, where)
    return [NodeFacts((host,), {}, where) for host, where in places.items()]
