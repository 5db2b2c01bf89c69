"""topology.conf: switches, blocks or rings, and the comments of ours between them."""

from __future__ import annotations

from pathlib import Path

from ..errors import Where, nearest
from ..slurmconf.facts import (
    FabricFacts,
    read_fabric_comment,
    read_head_comment,
    read_switch_comment,
    spoilt,
)
from ..slurmconf.grammar import Line, Said, read_lines, read_text
from .doubts import tell_doubts
from .room import GroupFacts, NetworkFacts, Room, SwitchFacts, TopologyFacts

_KEYS = {
    "switchname": ("SwitchName", "Nodes", "Switches", "LinkSpeed"),
    "blockname": ("BlockName", "Nodes"),
    "ringname": ("RingName", "Nodes"),
    "blocksizes": ("BlockSizes",),
    "blocklevels": ("BlockLevels",),
}


def read_topology_conf(path: Path, room: Room) -> None:
    """Add what a topology.conf says."""
    reader = _Reader(room, str(path))
    for line in read_lines(path, room.included):
        reader.take(line)
    reader.end()
    tell_doubts(read_text(path), str(path), reader.parts, room)
    room.check()


class Networks:
    """Collects the comments of ours that describe a fabric."""

    def __init__(self) -> None:
        self.found: list[NetworkFacts] = []
        self._fabric: FabricFacts | None = None
        self._switches: list[tuple[str, str]] = []
        self._where = Where("")

    def hear(self, comment: str, where: Where) -> FabricFacts | None:
        """Take a line of comment; return the fabric if it begins one."""
        if fabric := read_fabric_comment(comment):
            self.end()
            self._fabric, self._where = fabric, where
            return fabric
        if (switch := read_switch_comment(comment)) and self._fabric:
            self._switches.append(switch)
        return None

    def end(self) -> None:
        """Keep the fabric that is open, if comments name its switches."""
        if self._fabric and self._switches:
            self.found.append(NetworkFacts(self._fabric, tuple(self._switches), self._where))
        self._fabric, self._switches = None, []


class _Reader:
    """Sorts the lines of one topology.conf."""

    def __init__(self, room: Room, source: str) -> None:
        self._room = room
        self._source = source
        self._networks = Networks()
        self._switches: list[SwitchFacts] = []
        self._groups: dict[str, list[GroupFacts]] = {"block": [], "ring": []}
        self._sizes: Said | None = None
        self._ours = False

    def take(self, line: Line) -> None:
        """Take the next line."""
        heard = [self._networks.hear(comment, line.where) for comment in line.comments]
        for comment in line.comments:
            self._ours |= read_head_comment(comment) is not None
            if self._ours and (why := spoilt(comment)):
                self._room.mistake(line.where, *why)
        fabric = next((item for item in reversed(heard) if item), None)
        keys = line.must().keys
        known = _KEYS.get(line.first)
        if known is None:
            names = [names[0] for names in _KEYS.values()]
            what = f"'{line.pairs[0][0]}' begins no line of topology.conf"
            self._room.error(line.where, what, nearest(line.pairs[0][0], names))
            return
        for key, said in line.pairs[1:]:
            if key.casefold() not in {name.casefold() for name in known}:
                what = f"'{key}' is no key of a {known[0]} line"
                self._room.error(said.where, what, nearest(key, known))
        if line.first == "switchname":
            self._switch(line, keys, fabric)
        elif line.first in ("blocksizes", "blocklevels"):
            self._sizes = keys[line.first]
        else:
            nodes = self._room.hosts(keys["nodes"]) if "nodes" in keys else ()
            group = GroupFacts(keys[line.first].text, nodes, line.where)
            self._groups[line.first.removesuffix("name")].append(group)

    @property
    def parts(self) -> list[SwitchFacts | GroupFacts]:
        """Return all switches and groups."""
        return [*self._switches, *(part for parts in self._groups.values() for part in parts)]

    def _switch(self, line: Line, keys: dict[str, Said], fabric: FabricFacts | None) -> None:
        if "linkspeed" in keys:
            what = "LinkSpeed is left out: Slurm does not use it"
            self._room.lost(keys["linkspeed"].where, what, "give the fabric its rails")
        nodes = self._room.hosts(keys["nodes"]) if "nodes" in keys else ()
        switches = self._room.hosts(keys["switches"]) if "switches" in keys else ()
        name = keys["switchname"].text
        self._switches.append(SwitchFacts(name, nodes, switches, line.where, fabric))

    def end(self) -> None:
        """Add what the file says."""
        self._networks.end()
        room, where = self._room, Where(self._source)
        room.networks += self._networks.found
        sizes = tuple(_sizes(self._sizes, room)) if self._sizes else ()
        if self._sizes and not self._groups["block"]:
            what = f"BlockSizes={self._sizes.text}, but no block"
            todo = "each BlockName line is a comment or missing; blocks need as many nodes"
            room.error(self._sizes.where, what, todo)
        if self._switches:
            switches = tuple(self._switches)
            room.topologies.append(TopologyFacts("default", "tree", where, switches))
        for kind, groups in self._groups.items():
            if groups:
                found = TopologyFacts("default", kind, where, (), tuple(groups), sizes)
                room.topologies.append(found)


def _sizes(said: Said, room: Room) -> list[int]:
    found: list[int] = []
    for text in said.text.split(","):
        if size := room.number(Said(text.strip(), said.where, said.key)):
            found.append(size)
        else:
            room.error(said.where, f"{said.key}: {text!r} is no number of nodes")
    return found
