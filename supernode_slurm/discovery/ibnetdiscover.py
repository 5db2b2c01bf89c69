"""What ``ibnetdiscover`` prints of an InfiniBand fabric, whole or as a list of ports (``-p``).

A whole listing names each switch and each channel adapter in a part of its own, so that
every link stands in it twice; a link to something without a part shows that the text was
cut. A list of ports names both ends of a link on each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import ConfigError, Problem, Where

AGGREGATION = "Aggregation Node"
"""The end of the name of what a switch computes with (SHARP): an adapter of no host."""

LANE_GBS = {
    "SDR": 0.25,
    "DDR": 0.5,
    "QDR": 1.0,
    "FDR10": 1.25,
    "FDR": 14.0625 * 64 / 66 / 8,
    "EDR": 3.125,
    "HDR": 6.25,
    "NDR": 12.5,
    "XDR": 25.0,
}
"""Data that one lane carries in one direction, in GB/s (1e9 bytes per second).

Line codes are taken off: 8/10 up to QDR, 64/66 from FDR10 on (InfiniBand Architecture
Specification, volume 2): four lanes of NDR are 400 Gb/s, that is 50 GB/s.
"""

_SIGNS = re.compile(
    r'^(?:(?:Switch|Ca|Rt)\s+[0-9]+\s+"[SHR]-'
    r"|(?:CA|SW|RT)\s+[0-9]+\s+[0-9]+\s+0x[0-9a-f]{16}\s"
    r"|# Topology file: generated on )",
    re.MULTILINE,
)
_PART = re.compile(
    r'(Switch|Ca|Rt)\s+([0-9]{1,4})\s+"[SHR]-([0-9a-f]{1,16})"\s*#\s*"(.*)"([^"]*)\Z'
)
_EXTERNAL = r"(?:\[ext [0-9]+\])?"
_LINK = re.compile(
    rf"\[([0-9]{{1,4}})\]{_EXTERNAL}(?:\(([0-9a-f]{{1,16}})\))?\s+"
    rf'"[SHR]-([0-9a-f]{{1,16}})"\[([0-9]{{1,4}})\]{_EXTERNAL}(?:\([0-9a-f]{{1,16}}\))?'
    r"\s*(?:#(.*))?\Z"
)
_RATE = re.compile(r"\b([0-9]{1,2})x\s?([A-Z]{3}(?:10)?)\b")
_LID = re.compile(r"\blid ([0-9]{1,5})\b")
_HEADER = re.compile(r"(?:vendid|devid|sysimgguid|caguid|switchguid|rtguid)=0x[0-9a-f]{1,16}\b")
_ASIDE = ("#", "ibwarn:", "src/", "Chassis ", "DR path ")
_END = r"(CA|SW|RT)\s+([0-9]{1,5})\s+([0-9]{1,4})\s+0x([0-9a-f]{16})"
_PORT = re.compile(rf"{_END}\s+([0-9]{{1,2}})x\s+(\S+)(.*)\Z")
_OTHER = re.compile(rf"\s+-\s+{_END}\s+\(\s*'(.*)'\s+-\s+'(.*)'\s*\)\s*\Z")
_ALONE = re.compile(r"\s+'.*'\s*\Z")


@dataclass(frozen=True, slots=True)
class Link:
    """A cable, seen from one of its ends."""

    port: int
    peer: str
    """GUID of the switch or adapter at the other end."""
    peer_port: int
    lanes: int
    """0 where the text does not say."""
    rate: str
    """Of a lane, like NDR; empty where the text does not say."""
    line: int

    @property
    def gbs(self) -> float:
        """Return GB/s in one direction, 0 where the text does not say."""
        return self.lanes * LANE_GBS.get(self.rate, 0.0)


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch; GUIDs are 16 hexadecimal digits."""

    guid: str
    name: str
    ports: int
    lid: int
    links: tuple[Link, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Adapter:
    """A channel adapter: of a host, or of a switch's aggregation node."""

    guid: str
    name: str
    """Its node description, such as ``node1 mlx5_0``."""
    port_guids: tuple[str, ...]
    links: tuple[Link, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Subnet:
    """All that one text holds; routers are left out."""

    switches: tuple[Switch, ...]
    adapters: tuple[Adapter, ...]


@dataclass(slots=True)
class _Node:
    """A switch, adapter or router in the making."""

    kind: str
    guid: str
    name: str
    ports: int
    line: int
    lid: int = 0
    links: list[Link] = field(default_factory=list)
    port_guids: list[str] = field(default_factory=list)


def is_ibnetdiscover(text: str) -> bool:
    """Return whether a text looks like such output."""
    return _SIGNS.search(text) is not None


def is_iblinkinfo(text: str) -> bool:
    """Return whether a text is of ``iblinkinfo``, which tells less."""
    return re.search(r"\]\s+==\(.{1,80}\)==>", text) is not None


def parse_ibnetdiscover(text: str, source: str) -> Subnet:
    """Return what a text says.

    Raises ``ConfigError`` with the first line that is cut off or no such output.
    """
    lines = [(number, line.rstrip()) for number, line in enumerate(text.splitlines(), 1)]
    listed = any(_PORT.match(line) for _, line in lines)
    nodes = _ports(lines, source) if listed else _parts(lines, source)
    switches = tuple(
        Switch(node.guid, node.name, node.ports, node.lid, tuple(node.links), node.line)
        for node in nodes
        if node.kind == "S"
    )
    adapters = tuple(
        Adapter(node.guid, node.name, tuple(node.port_guids), tuple(node.links), node.line)
        for node in nodes
        if node.kind == "C"
    )
    return Subnet(switches, adapters)


def _parts(lines: Iterable[tuple[int, str]], source: str) -> list[_Node]:
    nodes: dict[str, _Node] = {}
    node: _Node | None = None
    header = 0
    last = 0
    for number, line in lines:
        last = number
        if not line or line.startswith(_ASIDE):
            node = None if not line else node
            continue
        if line[0] == "[":
            if node is None:
                raise _bad(source, number, "a link of nothing", line)
            _add_link(node, line, number, source)
        elif found := _PART.match(line):
            node = _node(found, number)
            header = 0
            if node.guid in nodes:
                what = f"GUID {node.guid} stands twice (first at line {nodes[node.guid].line})"
                raise _refused(source, number, what, "give each subnet a file of its own")
            nodes[node.guid] = node
        elif _HEADER.match(line):
            node, header = None, header or number
        else:
            raise _bad(source, number, "no line of ibnetdiscover", line)
    if header:
        raise _refused(source, last, "ends in the middle of a part: the text was cut off")
    _check_whole(nodes, source)
    return list(nodes.values())


def _node(found: re.Match[str], number: int) -> _Node:
    lid = _LID.search(found[5])
    guid, name = found[3].zfill(16), found[4].strip()
    return _Node(found[1][0], guid, name, int(found[2]), number, int(lid[1]) if lid else 0)


def _add_link(node: _Node, line: str, number: int, source: str) -> None:
    found = _LINK.match(line)
    if found is None:
        raise _bad(source, number, "no link as ibnetdiscover prints it", line)
    rate = _RATE.search((found[5] or "").rpartition('"')[2])
    lanes, speed = (int(rate[1]), rate[2]) if rate else (0, "")
    peer, far = found[3].zfill(16), int(found[4])
    node.links.append(Link(int(found[1]), peer, far, lanes, speed, number))
    if found[2] and node.kind == "C":
        node.port_guids.append(found[2].zfill(16))


def _check_whole(nodes: dict[str, _Node], source: str) -> None:
    """Raise ``ConfigError`` if links lead to what has no part of its own."""
    stray: dict[str, int] = {}
    for node in nodes.values():
        for link in node.links:
            if link.peer not in nodes:
                stray.setdefault(link.peer, link.line)
    if stray:
        guid, number = min(stray.items(), key=lambda item: item[1])
        what = f"{guid} has no part of its own, as {len(stray)} in all that links lead to"
        raise _refused(source, number, what)


def _ports(lines: Iterable[tuple[int, str]], source: str) -> list[_Node]:
    nodes: dict[str, _Node] = {}
    seen: set[tuple[str, int]] = set()
    for number, line in lines:
        if not line or line.startswith(_ASIDE):
            continue
        found = _PORT.match(line)
        other = _OTHER.match(found[7]) if found else None
        if found is None or (other is None and not _ALONE.match(found[7])):
            raise _bad(source, number, "no port as ibnetdiscover -p prints it", line)
        if other is None:
            continue  # nothing is plugged in, or the link is down
        ends = [(*found.group(1, 2, 3, 4), other[5]), (*other.group(1, 2, 3, 4), other[6])]
        for (kind, lid, port, guid, name), (_, _, far, peer, _) in (ends, ends[::-1]):
            node = nodes.setdefault(guid, _Node(kind[0], guid, name.strip(), 0, number, int(lid)))
            node.ports = max(node.ports, int(port))
            if (guid, int(port)) not in seen:
                seen.add((guid, int(port)))
                node.links.append(Link(int(port), peer, int(far), int(found[5]), found[6], number))
                node.port_guids += [guid] if kind == "CA" else []
    return list(nodes.values())


def _bad(source: str, number: int, what: str, line: str) -> ConfigError:
    return _refused(source, number, f"{what}: {line[:60]!r}")


def _refused(source: str, number: int, what: str, todo: str = "") -> ConfigError:
    todo = todo or "run ibnetdiscover again, all of its output into one file"
    return ConfigError([Problem(Where(source, number, 1), what, todo)])
