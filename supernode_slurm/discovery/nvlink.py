"""NVLink domains, by what nvidia-smi prints on many hosts: ``-q``, ``-q -x`` or CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..probe.nvidia import read_query, read_xml
from ..slurmconf.grammar import read_text
from .per_host import Answer, answers_of
from .room import Room
from .scale_up import Membership, add_memberships, nvlink_domain

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_SIGNS = re.compile(
    r"<nvidia_smi_log>|=NVSMI LOG=|\bClusterUUID\s+:"
    r"|\bfabric\.(?:state|status|cliqueId|clusterUuid)\b"
    rf"|^[^\s:]+:\s+(?:{_UUID}|N/A)\s*,\s*(?:[0-9]+|N/A)\s*$",
    re.MULTILINE | re.IGNORECASE,
)
_PAIR = re.compile(rf"({_UUID}|\[?N/A\]?)\s*,\s*([0-9]+|\[?N/A\]?)\s*\Z", re.IGNORECASE)
_LINE = re.compile(r"\s+(State|CliqueId|ClusterUUID)\s+:\s*(.*?)\s*\Z")
_COLUMNS = {
    "fabric.state": "state",
    "fabric.clusteruuid": "cluster",
    "fabric.cliqueid": "clique",
}


def is_nvidia_smi(text: str) -> bool:
    """Return whether a text looks like what nvidia-smi says of cards or their fabric."""
    return _SIGNS.search(text) is not None


def read_nvidia_smi(path: Path, room: Room) -> None:
    """Add the NVLink domains of hosts."""
    known = {host for node in room.nodes for host in node.hosts}
    found: list[Membership] = []
    for answer in answers_of(read_text(path), str(path)):
        hosts = answer.hosts or tuple(known & {path.stem})
        said = list(_fabrics(answer))
        reasons = {nvlink_domain(**fabric)[1] for fabric in said} - {""}
        if not said:
            todo = "ask with nvidia-smi --query-gpu=fabric.clusterUuid,fabric.cliqueId --format=csv"
            room.error(answer.where, "no card says which fabric it is in", todo)
        elif not hosts:
            about = f", and cards that are in no domain: {', '.join(sorted(reasons))}"
            what = f"says no host{about if reasons else ''}"
            room.error(answer.where, what, "save what clush -w @all nvidia-smi -q prints")
        for host in hosts:
            found += [Membership(host, *nvlink_domain(**one), answer.where) for one in said]
    room.check()
    add_memberships(room, found, "NVLink domain", "switch")


def _fabrics(answer: Answer) -> Iterator[dict[str, str]]:
    """Yield for each card its cluster, clique and state, as far as they are said."""
    text = answer.text
    record = read_xml(text) if "<nvidia_smi_log" in text else read_query(text)
    devices: list[dict[str, Any]] = record.get("devices", [])
    if devices:
        for device in devices:
            said = device.get("fabric", {})
            yield {key: str(said.get(key, "")) for key in ("cluster", "clique", "state")}
        return
    yield from _csv(text)
    yield from _part(text)


def _csv(text: str) -> Iterator[dict[str, str]]:
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip().strip("[]") for cell in line.split(",")]
        if "fabric." in line and not line.lstrip().startswith("$"):
            head = [cell.casefold() for cell in cells]
        elif head and len(cells) == len(head):
            said = {_COLUMNS[name]: cell for name, cell in zip(head, cells, strict=True)
                    if name in _COLUMNS}  # fmt: skip
            yield {"cluster": "", "clique": "", "state": ""} | said
        elif not head and (found := _PAIR.match(line.strip())):
            yield {"cluster": found[1], "clique": found[2].strip("[]"), "state": ""}


def _part(text: str) -> Iterator[dict[str, str]]:
    """Yield what a Fabric section says that was cut out of ``nvidia-smi -q``."""
    said: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() == "Fabric" and said:
            yield {"cluster": "", "clique": "", "state": ""} | said
            said = {}
        elif found := _LINE.match(line):
            key = {"State": "state", "CliqueId": "clique", "ClusterUUID": "cluster"}[found[1]]
            said.setdefault(key, found[2])
    if said:
        yield {"cluster": "", "clique": "", "state": ""} | said
