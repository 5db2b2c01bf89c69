"""Super pods of Ascend cards, by ``npu-smi info -t spod-info`` of many hosts or by a rank table.

An id of 0 is a super pod like any other; 4294967295 (all bits set) stands for none, as in the
sources of MindCluster and of memfabric_hybrid. No output of a real machine has been read
here: the lines are those of the vendor's documents (HCCL_LOGIC_SUPERPOD_ID, rank tables).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import nearest
from ..inventory import yamltree
from ..inventory.yamltree import Node
from ..slurmconf.grammar import read_text
from .per_host import answers_of
from .room import Room
from .scale_up import Membership, add_memberships

NO_SUPER_POD = 0xFFFFFFFF
NO_SERVER = 0x3FF
_SAID = re.compile(
    r"\b(SDID|Super Pod ID|Super Pod Size|Server Index)\s*:\s*([^\s|]+)", re.IGNORECASE
)
_NOT = re.compile(r"does not support querying spod-info", re.IGNORECASE)
_NUMBER = re.compile(r"(?:0x[0-9a-fA-F]{1,8}|[0-9]{1,10})\Z")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}\Z")
_ADDRESS = re.compile(r"[0-9.]+\Z|[0-9a-fA-F:]*:[0-9a-fA-F:]*\Z")


def is_spod_info(text: str) -> bool:
    """Return whether a text looks like what npu-smi says of super pods."""
    return re.search(r"Super Pod ID\s*:", text, re.IGNORECASE) is not None or bool(
        _NOT.search(text)
    )


def is_rank_table(node: Node) -> bool:
    """Return whether a tree looks like a rank table with super pods."""
    return isinstance(node.value, dict) and "super_pod_list" in node.value


def read_spod_info(path: Path, room: Room) -> None:
    """Add the super pods of hosts."""
    found: list[Membership] = []
    servers: dict[tuple[str, int], str] = {}
    for answer in answers_of(read_text(path), str(path)):
        if not answer.hosts:
            todo = "save what clush -w @all npu-smi info -t spod-info -i 0 -c 0 prints"
            room.error(answer.where, "says no host", todo)
        for host in answer.hosts:
            for said in _chips(answer.text):
                domain, why = _domain(said.get("super pod id", ""))
                found.append(Membership(host, domain, why, answer.where))
                server = _whole(said.get("server index", ""))
                if domain and server is not None and server != NO_SERVER:
                    other = servers.setdefault((domain, server), host)
                    if other != host:
                        what = f"{host} and {other} are both server {server} of {domain}"
                        todo = "two super pods with one id? give each an id of its own"
                        room.mistake(answer.where, what, todo)
    room.check()
    add_memberships(room, found, "super pod", "clos")


def read_rank_table(path: Path, room: Room) -> None:
    """Add the super pods of a rank table; its servers are hosts, or addresses of hosts."""
    tree, problems = yamltree.parse(read_text(path), str(path))
    room.errors += problems
    by_address = {
        node.keys["nodeaddr"].text: node.hosts[0]
        for node in room.nodes
        if "nodeaddr" in node.keys and len(node.hosts) == 1
    }
    found = []
    for pod in _list(tree, "super_pod_list", room):
        named = _child(pod, "super_pod_id")
        domain, why = _domain((named.text or "") if named else "")
        for server in _list(pod, "server_list", room):
            said = _child(server, "server_id")
            name = (said.text or "") if said else ""
            where = said.where if said else server.where
            host = by_address.get(name, name)
            if not _HOST.match(host) or _ADDRESS.match(host):
                what = f"server_id {name[:60] or 'is missing'}: no host"
                room.error(where, what, nearest(name, by_address) if by_address else _WANTED)
            else:
                found.append(Membership(host, domain, why, where))
    room.check()
    add_memberships(room, found, "super pod", "clos")


_WANTED = "name a slurm.conf with NodeAddr too, or use host names as ids"


def _chips(text: str) -> Iterator[dict[str, str]]:
    """Yield what each chip says, one after another."""
    said: dict[str, str] = {}
    for found in _SAID.finditer(text):
        key = found[1].casefold()
        if key in said:
            yield said
            said = {}
        said[key] = found[2]
    if said or _NOT.search(text) or not text.strip():
        yield said


def _domain(text: str) -> tuple[str, str]:
    number = _whole(text)
    if number is None or number == NO_SUPER_POD:
        return "", f"Super Pod ID {text or 'is missing'}"
    return f"super-pod-{number}", ""


def _whole(text: str) -> int | None:
    return int(text, 0 if text.startswith("0x") else 10) if _NUMBER.match(text) else None


def _child(node: Node, key: str) -> Node | None:
    value: Any = node.value
    return value.get(key) if isinstance(value, dict) else None


def _list(node: Node, key: str, room: Room) -> list[Node]:
    found = _child(node, key)
    if found is None or not isinstance(found.value, list):
        room.error(found.where if found else node.where, f"expected a list '{key}'")
        return []
    return found.value
