"""A running Slurm, by what ``scontrol show`` says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..errors import SlurmRejected, Where
from ..inventory.options import PARTITION_OPTIONS
from ..slurm import parse
from ..slurmconf import RELEASES
from ..slurmconf.grammar import Said
from .room import GroupFacts, NodeFacts, PartitionFacts, Room, SwitchFacts, TopologyFacts
from .slurm_conf import RELEASE, SETTINGS
from .topology_yaml import add_topologies

SOURCE = "slurm:"
"""The word for a running Slurm among sources, and the place of what it says."""
PLACE = Where(SOURCE)
_NODE_KEYS = {
    "AvailableFeatures": "features",
    "Boards": "boards",
    "CoreSpecCount": "corespeccount",
    "CoresPerSocket": "corespersocket",
    "CPUTot": "cpus",
    "Gres": "gres",
    "MemSpecLimit": "memspeclimit",
    "NodeAddr": "nodeaddr",
    "NodeHostName": "nodehostname",
    "Port": "port",
    "RealMemory": "realmemory",
    "Sockets": "sockets",
    "ThreadsPerCore": "threadspercore",
    "TmpDisk": "tmpdisk",
    "Weight": "weight",
}
_SILENT = frozenset(
    {
        *("DOWN", "FUTURE", "NOT_RESPONDING", "UNKNOWN"),
        *("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"),
    }
)
_USUAL_NODE = {"Boards": "1", "TmpDisk": "0", "Weight": "1"}
_USUAL = frozenset({"ALL", "NO", "NONE", "OFF", "UNLIMITED", "0"})
_USUAL_PARTITION = {
    "MinNodes": "1",
    "OverTimeLimit": "NONE",
    "PriorityJobFactor": "1",
    "PriorityTier": "1",
    "State": "UP",
}


class Shows(Protocol):
    """What is needed of a client."""

    def show(self, *words: str) -> str:
        """Return what ``scontrol show`` prints, a record on each line."""


def read_live(client: Shows, room: Room) -> str:
    """Add what a running Slurm says; return the path of its slurm.conf, empty if unknown."""
    config = parse.config(client.show("config"))
    for key, value in config.items():
        if key.casefold() in SETTINGS:
            room.settings[key.casefold()] = Said(value, PLACE)
    version = config.get("SLURM_VERSION", "")
    release = ".".join(version.split(".")[:2])
    if release:
        room.settings[RELEASE] = Said(release, PLACE)
    room.booted = config.get("BOOT_TIME", "")
    room.has_slurm_conf = True
    for record in parse.fields(client.show("node"), "NodeName"):
        keys = _node_keys(record)
        room.nodes.append(NodeFacts((record["NodeName"],), keys, PLACE))
        states = parse.states(record.get("State", ""))
        if states & _SILENT:
            room.silent.add(record["NodeName"])
    for record in parse.fields(client.show("partition"), "PartitionName"):
        keys = _partition_keys(record)
        room.partitions.append(PartitionFacts(record["PartitionName"], keys, PLACE))
    _topologies(client, room, release)
    room.check()
    return config.get("SLURM_CONF", "")


def _node_keys(record: Mapping[str, str]) -> dict[str, Said]:
    found = {
        key: record[name]
        for name, key in _NODE_KEYS.items()
        if name in record and record[name] != _USUAL_NODE.get(name)
    }
    found["state"] = "CLOUD" if "CLOUD" in parse.states(record.get("State", "")) else "UNKNOWN"
    return {key: Said(value, PLACE) for key, value in found.items()}


def _partition_keys(record: Mapping[str, str]) -> dict[str, Said]:
    wanted = {"Nodes", "MaxTime", "Default", *PARTITION_OPTIONS, "QoS"}
    return {
        key.casefold(): Said(value, PLACE)
        for key, value in record.items()
        if key in wanted
        and (key in ("Nodes", "MaxTime", "Default") or value.upper() not in _USUAL)
        and value != _USUAL_PARTITION.get(key)
    }


def _topologies(client: Shows, room: Room, release: str) -> None:
    plugin = room.settings.get("topologyplugin")
    if release in RELEASES and RELEASES[release].yaml:
        try:
            text = client.show("topoconf")
        except SlurmRejected:
            text = ""
        if "- topology:" in text:
            told = Room()  # keys of a later release are no mistake of anybody's
            add_topologies(text, f"{SOURCE}topoconf", told)
            room.topologies += told.topologies
            return
    elif plugin is None or plugin.text.rpartition("/")[2] in ("none", "default", "flat"):
        return
    _read_lines(client.show("topology"), room)


def _read_lines(text: str, room: Room) -> None:
    switches, blocks, sizes = [], [], set()
    for record in parse.fields(text, "SwitchName"):
        below = _hosts(record, "Switches", room)
        nodes = () if below else _hosts(record, "Nodes", room)
        switches.append(SwitchFacts(record["SwitchName"], nodes, below, PLACE))
    for record in parse.fields(text, "BlockName"):
        blocks.append(GroupFacts(record["BlockName"], _hosts(record, "Nodes", room), PLACE))
        sizes.add(room.number(Said(record.get("BlockSize", "0"), PLACE, "BlockSize")))
    if switches:
        room.topologies.append(TopologyFacts("default", "tree", PLACE, tuple(switches)))
    if blocks:
        found = TopologyFacts("default", "block", PLACE, (), tuple(blocks), tuple(sizes - {0}))
        room.topologies.append(found)


def _hosts(record: Mapping[str, str], key: str, room: Room) -> tuple[str, ...]:
    return room.hosts(Said(record[key], PLACE)) if key in record else ()
