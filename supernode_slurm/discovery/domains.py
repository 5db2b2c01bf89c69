"""Lists of ``HOST: DOMAIN``, as clush or pdsh prints what each node answers.

The domain is what the vendor's tool names a scale-up fabric by, such as ``ClusterUUID``
of nvidia-smi. A node whose fabric is not up, or that has none, says zeros or N/A: these
are no domain, or all of them would be one.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import Problem, Where
from ..slurmconf.grammar import read_text
from .room import Room, ScaleUpFacts
from .scale_up import NO_CLIQUE

_LINE = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*):\s+([A-Za-z0-9][A-Za-z0-9_./-]*)\s*\Z")
_NONE = re.compile(r"(?:[0.-]+|n/?a|none|unknown|not.*)\Z", re.IGNORECASE)


def is_domains(text: str) -> bool:
    """Return whether a text is such a list."""
    lines = [line for line in text.splitlines() if line.strip() and line[0] != "#"]
    return bool(lines) and all(map(_LINE.match, lines))


def read_domains(path: Path, room: Room) -> None:
    """Add what a list says."""
    members: dict[str, tuple[list[str], Where]] = {}
    seen: dict[str, tuple[str, int]] = {}
    twice: dict[str, Problem] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        where = Where(str(path), number, 1)
        found = _LINE.match(line)
        if found is None:
            room.error(where, f"expected HOST: DOMAIN, got {line.strip()[:60]!r}")
            continue
        host, domain = found[1], found[2]
        if host in seen and seen[host][0] != domain:
            what = f"{host} is in {domain} and in {seen[host][0]} (line {seen[host][1]})"
            twice.setdefault(host, Problem(where, what, "ask the node again"))
        elif host not in seen and (_NONE.match(domain) or domain.endswith(f".{NO_CLIQUE}")):
            room.bare.setdefault(host, where)
            room.unsaid(where, f"{host}: '{domain}' names no scale-up fabric", "is it up?")
        elif host not in seen:
            members.setdefault(domain, ([], where))[0].append(host)
        seen[host] = (domain, number)
    problems = list(twice.values())
    room.errors += [_of_ports(problems)] if len(problems) == len(seen) > 1 else problems
    for domain, (hosts, where) in members.items():
        room.scale_ups.append(ScaleUpFacts(domain, tuple(hosts), (), where))
    room.check()


def _of_ports(twice: list[Problem]) -> Problem:
    """Return what to say once where every host has several ids."""
    what = f"each of the {len(twice)} hosts has several ids: these name ports, not domains"
    todo = "list what is equal on all nodes of a scale-up fabric, such as ClusterUUID"
    return Problem(twice[0].where, what, todo)
