"""What a line of sn-probe says, checked where it enters: every value may come from anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
"""Newest kind of line that is understood."""
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}\Z")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}\Z")
_GUID = re.compile(r"[0-9a-f]{16}\Z")
_MOST = 1024
"""Most cards, ports or versions of a node that are read."""


@dataclass(frozen=True, slots=True)
class ProbedCard:
    """A device as a vendor's tool shows it."""

    vendor: str
    name: str
    """Empty where the tool names no kind of card."""
    memory_mib: int
    """0 where nobody said."""
    minor: int | None
    """Number of its device file."""
    verified: bool
    """The tool's reader was tried on real output."""
    health: str
    width: int
    """PCIe lanes in use, 0 where nobody said."""
    links_down: int
    """Scale-up links of it that are down."""
    cluster: str
    """What the tool names its scale-up fabric by, with the state of that."""
    clique: str
    state: str
    instances: tuple[tuple[str, int], ...]
    """MIG profiles and the ids of their GPU instances."""
    is_split: bool
    """MIG is on."""


@dataclass(frozen=True, slots=True)
class ProbedAdapter:
    """A network card that speaks InfiniBand or RoCE."""

    name: str
    type: str
    internal: bool
    """It leads to the switches inside the box."""
    gbits: int
    """Of its fastest active port, 0 for none."""
    down: tuple[str, ...]
    """What the ports that are not active say."""
    guids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SuperPod:
    """An Ascend super-pod, by the numbers that its switches give."""

    id: int
    size: int
    """Devices, 0 where nobody said."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A node as it is."""

    host: str
    sockets: int
    """As cores (of each socket), threads and memory: 0 where nobody said."""
    cores: int
    threads: int
    memory_mib: int
    product: str
    cards: tuple[ProbedCard, ...]
    adapters: tuple[ProbedAdapter, ...]
    pod: SuperPod | None
    versions: tuple[tuple[str, str], ...]
    on_bus: tuple[tuple[str, int], ...]
    """Cards on the PCI bus, by vendor."""
    troubles: tuple[str, ...]
    """What did not answer, and why."""


def probe_of(record: object) -> Probe:
    """Return the facts of a line; raises ``ValueError`` in words that follow "line"."""
    if not isinstance(record, dict) or not isinstance(record.get("sn_probe"), int):
        raise ValueError("is no answer of sn-probe")
    if not 1 <= record["sn_probe"] <= SCHEMA:
        raise ValueError(f"has schema {record['sn_probe']}, known are 1 to {SCHEMA}: update sn")
    host = _text(record, "host").partition(".")[0]
    if not _HOST.match(host):
        raise ValueError("names no host")
    node, pod = _map(record, "node"), _map(record, "super_pod")
    return Probe(
        host=host,
        sockets=_number(node, "sockets", 1024),
        cores=_number(node, "cores", 4096),
        threads=_number(node, "threads", 64),
        memory_mib=_number(node, "memory_mib", 2**32),
        product=_text(_map(record, "board"), "product"),
        cards=tuple(_card(item) for item in _items(record, "devices")),
        adapters=tuple(_adapters(record)),
        pod=SuperPod(_number(pod, "id", 2**31), _number(pod, "size", 2**20))
        if "id" in pod
        else None,
        versions=tuple(
            (name, _text(_map(record, "versions"), name))
            for name in list(_map(record, "versions"))[:_MOST]
            if _NAME.match(name)
        ),
        on_bus=tuple(
            (vendor, sum(_number(kinds, name, 4096) for name in list(kinds)[:_MOST]))
            for vendor, kinds in _map(record, "bus").items()
            if isinstance(kinds, dict) and _NAME.match(vendor)
        ),
        troubles=tuple(_troubles(record)),
    )


def _card(item: Mapping[str, Any]) -> ProbedCard:
    fabric, link = _map(item, "fabric"), _map(item, "nvlink")
    minor = item.get("minor")
    has_minor = isinstance(minor, int) and not isinstance(minor, bool) and 0 <= minor < _MOST
    return ProbedCard(
        vendor=_text(item, "vendor"),
        name=_text(item, "model") or _text(item, "name"),
        memory_mib=_number(item, "memory_mib", 2**24),
        minor=minor if has_minor else None,
        verified=item.get("verified") is not False,
        health=_text(item, "health"),
        width=_number(_map(item, "pcie"), "width", 64),
        links_down=_number(link, "down", 64),
        cluster=_text(fabric, "cluster"),
        clique=_text(fabric, "clique"),
        state=_text(fabric, "state"),
        instances=tuple(_instances(item)),
        is_split=_text(item, "mig").casefold() == "enabled",
    )


def _instances(item: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    listed = item.get("mig_instances")
    for pair in listed[:16] if isinstance(listed, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], int):
            yield _cleaned(pair[0]), pair[1]


def _adapters(record: Mapping[str, Any]) -> Iterator[ProbedAdapter]:
    for item in _items(record, "network"):
        name = _text(item, "name")
        if not _NAME.match(name):
            continue
        ports = _items(item, "ports")
        up = [port for port in ports if _text(port, "state").casefold() == "active"]
        down = [
            f"{_text(port, 'state') or 'Down'} ({_text(port, 'physical') or 'no reason'})"
            for port in ports
            if port not in up
        ]
        guids = [_text(item, "guid"), *(_text(port, "guid") for port in ports)]
        yield ProbedAdapter(
            name=name,
            type=_text(item, "type"),
            internal=item.get("internal") is True,
            gbits=max((_number(port, "rate_gbits", 10**5) for port in up), default=0),
            down=tuple(down),
            guids=tuple(dict.fromkeys(guid for guid in guids if _GUID.match(guid))),
        )


def _troubles(record: Mapping[str, Any]) -> Iterator[str]:
    if stopped := _text(record, "stopped"):
        yield f"sn-probe stopped {stopped}"
    for name, reason in list(_map(record, "unread").items())[:_MOST]:
        yield f"{_cleaned(name)}: not understood ({_cleaned(reason)})"
    told = set()
    for name, said in list(_map(record, "tools").items())[:_MOST]:
        answer = _text(said, "answer") if isinstance(said, dict) else ""
        program = name.partition(" ")[0]
        if answer and answer not in ("ok", "missing") and program not in told:
            told.add(program)
            yield f"{_cleaned(name)}: {answer}"


def _map(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = item.get(key)
    return value if isinstance(value, dict) else {}


def _items(item: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = item.get(key)
    listed = value[:_MOST] if isinstance(value, list) else []
    return [each for each in listed if isinstance(each, dict)]


def _number(item: Mapping[str, Any], key: str, most: int) -> int:
    value = item.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return 0
    return int(value) if 0 <= value <= most else 0


def _text(item: Mapping[str, Any], key: str) -> str:
    return _cleaned(item.get(key))


def _cleaned(value: object) -> str:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return ""
    return "".join(c for c in str(value)[:200] if c.isprintable()).strip()
