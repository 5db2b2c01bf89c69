"""Whose adapters hang at the switches of a fabric: by GUID where a host told its own, or by name.

A node description is ``HOST ADAPTER`` where the host's driver has written it, and the
maker's name (``MT4129 ConnectX7   Mellanox Technologies``) where it has not.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .. import hostlist
from ..errors import Where
from .ibnetdiscover import AGGREGATION, Adapter, Link, Subnet, Switch

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}\Z")
_MAKER = re.compile(
    r"(?:MT[0-9]{4,}\b|ConnectX|Mellanox|NVIDIA\b|Infiniscale|Quantum\b|localhost\b|ip6-|\(none\))",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_:.-]*[0-9][A-Za-z0-9]*\Z")
_NAME = re.compile(r"MF0;(.+):[^:;]*\Z")
_ODD = re.compile(r"[^A-Za-z0-9_.\-]+")


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable from a host's adapter to a switch."""

    host: str
    """Empty where nobody said whose adapter it is."""
    device: str
    """Of the adapter, like mlx5_0; empty where its name does not tell."""
    guid: str
    switch: str
    """GUID of the switch."""
    port: int
    """Of the switch."""
    gbs: float
    """In one direction, 0 where nobody said."""
    where: Where


@dataclass(frozen=True, slots=True)
class Wiring:
    """Switches and what hangs at them, of all sources together."""

    switches: Mapping[str, Switch]
    """By GUID."""
    places: Mapping[str, Where]
    """Of each switch."""
    cables: tuple[Cable, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of the fabrics counts."""

    adapters: tuple[str, ...] = ()
    """Names such as ``mlx5_[0-3]`` or ``HCA-*``; empty for all."""
    without: tuple[str, ...] = ()
    """Names of switches to leave out, such as ``*Storage*``."""

    def takes(self, device: str) -> bool:
        """Return whether an adapter counts."""
        return not self.adapters or any(_matches(device, name) for name in self.adapters)

    def leaves_out(self, switch: Switch) -> bool:
        """Return whether a switch is left out."""
        return any(
            _matches(name, pattern)
            for pattern in self.without
            for name in (switch.name, short_name(switch))
        )


def _matches(name: str, pattern: str) -> bool:
    if re.search(r"\[[0-9]+[-,0-9]*\]", pattern):
        try:
            return name in hostlist.expand(pattern)
        except ValueError:
            pass
    return fnmatch.fnmatchcase(name, pattern)


def short_name(switch: Switch) -> str:
    """Return the name of a switch without its maker's marks: ``MF0;leaf1:MQM9701/U1`` is leaf1."""
    found = _NAME.match(switch.name)
    name = _ODD.sub("-", found[1] if found else switch.name).strip("-.")[:60]
    return name if name and not _MAKER.match(name) else f"switch-{switch.guid}"


def device_of(name: str) -> str:
    """Return the device of a node description, empty where it does not tell."""
    return _split(name)[1]


def _split(name: str) -> tuple[str, str]:
    """Return host and device of a node description, empty where it does not tell."""
    words = name.split()
    if not words or _MAKER.match(name) or not _HOST.match(words[0]):
        return "", ""
    if len(words) == 1:
        return words[0], ""
    if len(words) == 2 and _DEVICE.match(words[1]):
        return words[0], words[1]
    return "", ""


class HostNames:
    """Finds the host of an adapter."""

    def __init__(self, guids: Mapping[str, Iterable[str]], asked: Iterable[str]) -> None:
        self._by_guid = {guid: host for host, mine in guids.items() for guid in mine}
        self._asked = {host.casefold(): host for host in asked}
        self.differ: dict[str, list[str]] = {}
        """By what two sources say of an adapter, differently: its GUIDs."""

    def find(self, adapter: Adapter) -> tuple[str, str]:
        """Return host and device of an adapter; its GUID counts before its name."""
        host, device = _split(adapter.name)
        guids = (adapter.guid, *adapter.port_guids)
        told = next((self._by_guid[guid] for guid in guids if guid in self._by_guid), "")
        if told and host and self._known(told) != self._known(host):
            what = f"is of {told} by its GUID, of {host} by its name"
            self.differ.setdefault(what, []).append(adapter.guid)
        return self._known(told or host), device

    def _known(self, host: str) -> str:
        """Return the name under which other sources know a host, or its own."""
        name = host.casefold()
        return self._asked.get(name) or self._asked.get(name.split(".")[0]) or host


def wire(subnets: Iterable[tuple[str, Subnet]], names: HostNames, wanted: Wanted) -> Wiring:
    """Return what several texts say together; each comes with the name of its source.

    A fabric that two of them hold counts once. Aggregation nodes are no adapters.
    """
    switches: dict[str, Switch] = {}
    places: dict[str, Where] = {}
    cables: dict[tuple[str, int], Cable] = {}
    for source, subnet in subnets:
        for switch in subnet.switches:
            if not wanted.leaves_out(switch) and switch.guid not in switches:
                switches[switch.guid] = switch
                places[switch.guid] = Where(source, switch.line, 1)
        for adapter in subnet.adapters:
            if adapter.name.endswith(AGGREGATION):
                continue
            host, device = names.find(adapter)
            if device and not wanted.takes(device):
                continue
            for link in adapter.links:
                _add(cables, adapter, link, (host, device), source)
    kept = tuple(cable for cable in cables.values() if cable.switch in switches)
    return Wiring(switches, places, kept)


def _add(
    cables: dict[tuple[str, int], Cable],
    adapter: Adapter,
    link: Link,
    owner: tuple[str, str],
    source: str,
) -> None:
    host, device = owner
    if device and link.port > 1:
        device = f"{device}/{link.port}"
    where = Where(source, link.line, 1)
    cable = Cable(host, device, adapter.guid, link.peer, link.peer_port, link.gbs, where)
    cables.setdefault((adapter.guid, link.port), cable)
