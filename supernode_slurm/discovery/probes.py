"""Lines of sn-probe, as clush, pdsh, srun or Ansible carry them here, with what stands between."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from .. import hostlist
from ..errors import ConfigError, Problem, Where
from .probe_facts import Probe, probe_of
from .room import Room

STDIN = "-"
"""The word for standard input among sources."""
MOST_BYTES = 2**30
MOST_LINE = 4 * 2**20
"""A node of sixteen cards answers with some ten thousand bytes."""
_MARK = b'{"sn_probe":'
_PREFIX = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,254}):\s+\Z")
_SAYS = re.compile(
    r"(?:(?:clush|pdsh@[^:\s]+|srun): )?(?:error: )?([A-Za-z0-9_][A-Za-z0-9_.-]{0,254}): (.+)\Z"
)
_NO_HOSTS = frozenset({"bash", "error", "note", "sh", "sn-probe", "srun", "ssh", "warning"})
"""What stands before a colon as well."""
_RULE = re.compile(r"-{3,}\s*\Z")


@dataclass(slots=True)
class _Lines:
    """What has been read so far."""

    source: str
    probes: dict[str, Probe] = field(default_factory=dict)
    again: list[str] = field(default_factory=list)
    called: dict[str, str] = field(default_factory=dict)
    """By host the name under which it answered, empty for none."""
    namesakes: dict[str, list[str]] = field(default_factory=dict)
    """Names that several nodes give themselves, and under which they answered."""
    silent: dict[str, str] = field(default_factory=dict)
    """Hosts that answered something else, and the first of what they said."""
    skipped: int = 0
    first_skipped: tuple[int, str] = (0, "")


def is_probes(path: Path) -> bool:
    """Return whether a file holds lines of sn-probe, by its beginning."""
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            return stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and _MARK in stream.read(2**20)
    except OSError:
        return False


def read_probes(path: Path, room: Room) -> None:
    """Add the nodes that answered; raises ``ConfigError``."""
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ConfigError.one(str(path), "is no regular file", "pipe it in, and name '-'")
            _read(stream, str(path), room)
    except OSError as error:
        raise ConfigError.one(str(path), f"cannot be read: {error.strerror}") from error


def read_standard_input(room: Room) -> None:
    """Add the nodes whose answers come on standard input; raises ``ConfigError``."""
    if sys.stdin is None or sys.stdin.isatty():
        todo = "pipe the answers in: clush -w @all sn-probe | sn import -"
        raise ConfigError.one("standard input", "is a terminal", todo)
    room.sources.append("standard input")
    _read(sys.stdin.buffer, "standard input", room)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to does not keep us waiting."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _read(stream: BinaryIO, source: str, room: Room) -> None:
    found = _Lines(source)
    before = b""
    for number, raw in enumerate(_lines(stream, source), 1):
        if _RULE.match(before.decode("ascii", "replace")) and _is_folded(raw):
            what = "is folded: one answer stands for several nodes"
            todo = "leave -b (dshbak) away, each node must answer for itself"
            raise ConfigError.one(Where(source, number, 1), what, todo)
        before = raw
        if raw.strip():
            _take(found, number, raw)
    if not found.probes:
        line, text = found.first_skipped
        what = f"holds no answer of sn-probe: {text[:60]!r}" if line else "is empty"
        raise ConfigError.one(Where(source, line, 1 if line else 0), what, _HOW)
    _tell(found, room)
    for host, probe in found.probes.items():
        room.probes[host] = probe
        guids = tuple(guid for adapter in probe.adapters for guid in adapter.guids)
        if guids:
            room.guids[host] = tuple(dict.fromkeys(guids))


_HOW = "clush -w @all sn-probe | sn import -"


def _lines(stream: BinaryIO, source: str) -> Iterator[bytes]:
    total = 0
    while raw := stream.readline(MOST_LINE):
        total += len(raw)
        if total > MOST_BYTES:
            raise ConfigError.one(source, f"is larger than {MOST_BYTES >> 20} MiB")
        if len(raw) == MOST_LINE and not raw.endswith(b"\n"):
            what = f"holds a line of more than {MOST_LINE >> 20} MiB"
            raise ConfigError.one(source, what, "that is no answer of sn-probe")
        yield raw


def _is_folded(raw: bytes) -> bool:
    """Return whether a line is the head of a folded answer: ``n[1-4] (4)``."""
    text = raw.decode("utf-8", "replace").strip()
    text = re.sub(r"\s+\([0-9]+\)\Z", "", text)
    try:
        return bool(text) and len(hostlist.expand(text)) > 1
    except ValueError:
        return False


def _take(found: _Lines, number: int, raw: bytes) -> None:
    start = raw.find(_MARK)
    if start < 0:
        _skip(found, number, raw.decode("utf-8", "replace").strip())
        return
    text = raw[start:].decode("utf-8", "replace").strip()
    try:
        probe = probe_of(json.loads(text[: text.rfind("}") + 1]))
    except RecursionError:
        _skip(found, number, "a line that is nested without end")
        return
    except ValueError as error:
        why = "is cut or mangled" if isinstance(error, json.JSONDecodeError) else str(error)
        prefix = _PREFIX.match(raw[:start].decode("utf-8", "replace"))
        _skip(found, number, f"{prefix[1]}: its answer {why}" if prefix else f"answer {why}")
        return
    _keep(found, probe, _called(raw[:start]))


def _called(before: bytes) -> str:
    """Return the name under which a node answered; a number is that of a task."""
    prefix = _PREFIX.match(before.decode("utf-8", "replace"))
    name = prefix[1] if prefix else ""
    return "" if re.fullmatch(r"[0-9.]+", name) else name.partition(".")[0]


def _keep(found: _Lines, probe: Probe, called: str) -> None:
    """Keep an answer; nodes that give themselves one name get those under which they answered."""
    host = probe.host
    first = found.called.setdefault(host, called)
    if host in found.namesakes or (first and called and first != called):
        if host not in found.namesakes:
            found.namesakes[host] = [first]
            found.probes[first] = replace(found.probes.pop(host), host=first)
        if called and called not in found.namesakes[host]:
            found.namesakes[host].append(called)
        probe = replace(probe, host=called or first)
    elif host in found.probes:
        found.again.append(host)
    found.probes[probe.host] = probe


def _skip(found: _Lines, number: int, text: str) -> None:
    found.skipped += 1
    if not found.first_skipped[0]:
        found.first_skipped = (number, text[:200])
    said = _SAYS.match(text[:1000])
    if said and said[1].casefold() not in _NO_HOSTS:
        found.silent.setdefault(said[1].partition(".")[0], said[2][:120])


def _tell(found: _Lines, room: Room) -> None:
    place = Where(found.source)
    if found.again:
        what = "{hosts} answered more than once: the last answer counts"
        room.of_hosts("lost", Problem(place, what), dict.fromkeys(found.again))
    for name, hosts in found.namesakes.items():
        what = f"{{hosts}} call themselves '{name}': taken under the names they answered to"
        todo = "slurmd finds its line by the host name: set them"
        room.of_hosts("fault", Problem(place, what, todo), hosts)
    by_word: dict[str, list[str]] = {}
    for host, said in found.silent.items():
        if host not in found.probes:
            by_word.setdefault(said, []).append(host)
    for said, hosts in list(by_word.items())[:20]:
        what = f"{{hosts}} gave no facts, but said {said!r}"
        room.of_hosts("fault", Problem(place, what.replace("{said}", said)), hosts)
    if found.skipped:
        line, text = found.first_skipped
        what = f"{found.skipped} lines are no answers of sn-probe: passed over"
        if found.skipped == 1:
            what = "one line is no answer of sn-probe: passed over"
        room.lost(Where(found.source, line, 1), what, f"the first is {text[:60]!r}")


def place_of(hosts: Iterable[str]) -> Where:
    """Return the place of what probes of hosts said."""
    return Where(f"probe of {hostlist.fold(hosts)}")
