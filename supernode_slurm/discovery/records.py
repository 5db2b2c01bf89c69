"""gres.conf as each host sees it: which records apply, and the devices that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import Problem, Where
from ..inventory.cards import expand_files
from ..slurmconf.grammar import Said
from .room import GresFacts, Room

SHARING = frozenset({"mps", "shard"})

_FILES = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_COUNT = re.compile(r"([0-9]{1,15})([KMGT]?)\Z", re.IGNORECASE)
_SCALE = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


@dataclass(frozen=True, slots=True)
class Record:
    """A line of gres.conf that counts something."""

    name: str
    type: str
    count: int
    devices: tuple[tuple[str, ...], ...]
    """The files of each device, none where the line only counts."""
    cores: str
    links: str
    where: Where


class Records:
    """All records of gres.conf, by host."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._all: list[Record] = []
        self._everywhere: list[int] = []
        self._by_host: dict[str, list[int]] = {}
        self._auto_everywhere = False
        self._auto: dict[str, bool] = {}
        for facts in room.gres:
            self._take(facts)
        room.check()

    @property
    def hosts(self) -> dict[str, Where]:
        """Return the hosts that lines name, and the first place of each."""
        return {host: self._all[found[0]].where for host, found in self._by_host.items()}

    def signature(self, host: str) -> tuple[int, ...]:
        """Return what is equal for hosts that see the same records."""
        return tuple(sorted([*self._everywhere, *self._by_host.get(host, ())]))

    def of(self, signature: tuple[int, ...]) -> list[Record]:
        """Return the records behind a signature."""
        return [self._all[index] for index in signature]

    def detects(self, host: str) -> bool:
        """Return whether slurmd looks for the devices of a host itself."""
        return self._auto.get(host, self._auto_everywhere)

    def names(self, host: str) -> bool:
        """Return whether a line names the host."""
        return host in self._by_host

    def _take(self, facts: GresFacts) -> None:
        detect = facts.keys.get("autodetect")
        if detect:
            on = detect.text.casefold() != "off"
            if facts.hosts is None:
                self._auto_everywhere = on
            else:
                self._auto.update(dict.fromkeys(facts.hosts, on))
        if "name" not in facts.keys:
            return
        self._all.append(_record(facts, self._room))
        index = len(self._all) - 1
        if facts.hosts is None:
            self._everywhere.append(index)
        for host in facts.hosts or ():
            self._by_host.setdefault(host, []).append(index)


def _record(facts: GresFacts, room: Room) -> Record:
    keys = facts.keys
    name = keys["name"].text
    many = keys.get("multiplefiles")
    files = many or keys.get("file") or keys.get("files")
    paths = _paths(files, room) if files else ()
    devices = (paths,) if many else tuple((path,) for path in paths)
    count = len(devices) or 1
    if "count" in keys:
        count = _count(keys["count"], room)
        if devices and count != len(devices) and name not in SHARING:
            what = f"Count={count}, but File names {len(devices)} devices"
            room.error(keys["count"].where, what, "slurmctld refuses that: leave Count out")
    cores = keys.get("cores") or keys.get("cpus")
    links = keys.get("links") or keys.get("link")
    return Record(
        name=name,
        type=keys["type"].text if "type" in keys else "",
        count=count,
        devices=devices,
        cores=re.sub(r"[\[\]]", "", cores.text) if cores else "",
        links=links.text if links else "",
        where=facts.where,
    )


def _paths(said: Said, room: Room) -> tuple[str, ...]:
    try:
        return tuple(path for part in _FILES.findall(said.text) for path in expand_files(part))
    except ValueError as error:
        room.errors.append(Problem(said.where, str(error)))
        return ()


def _count(said: Said, room: Room) -> int:
    found = _COUNT.match(said.text)
    if found is None:
        room.error(said.where, f"Count: {said.text!r:.40} is no number")
        return 1
    return int(found[1]) * _SCALE[found[2].upper()]
