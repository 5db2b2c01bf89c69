"""Partitions that hold other nodes in Slurm than in the inventory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ... import hostlist
from ...errors import Where
from ...inventory import Inventory, Partition
from .changes import Log
from .names import names_in, put_names, with_more, without
from .sheet import Sheet
from .spans import Item
from .told import Told

_KINDS = ("supernodes", "pools", "foreign")


def write_partitions(sheet: Sheet, told: Told, away: Collection[str], log: Log) -> None:
    """Make partitions hold the nodes that Slurm has in them; ``sheet`` knows all its hosts.

    Absent hosts stay where they are. A partition that only Slurm, or only the inventory
    has is told.
    """
    room = sheet.inventory
    listed = sheet.root.at("partitions")
    theirs = {item.name: item for item in told.imported.inventory.partitions}
    for name in sorted(told.partitions & theirs.keys()):
        here = next((item for item in room.partitions if item.name == name), None)
        if here is None:
            _tell_new(told, theirs[name], log)
        elif listed is not None and isinstance(listed.value, dict):
            _Nodes(room, listed.value[name], here, away).make(
                theirs[name], log, _origin(told, name)
            )
    if not told.is_config:
        return
    for here in room.partitions:
        if here.name not in {item.name for item in told.room.partitions}:
            what = f"partition {here.name} is not in Slurm"
            log.differs(here.where, what, "sn apply adds it, or delete it here")


def _origin(told: Told, name: str) -> Sequence[Where]:
    found = [item for item in told.room.partitions if item.name == name]
    return [item.keys["nodes"].where if "nodes" in item.keys else item.where for item in found]


class _Nodes:
    """The nodes of one partition."""

    def __init__(self, room: Inventory, item: Item, here: Partition, away: Collection[str]) -> None:
        self._item = item
        self._here = here
        self._away = set(away)
        self._members = {
            "supernodes": {item.name: item.hosts for item in room.supernodes},
            "pools": {item.name: item.hosts for item in room.pools},
            "foreign": {item.name: item.hosts for item in room.foreign},
        }
        self._known = {h for kind in self._members.values() for held in kind.values() for h in held}

    def make(self, theirs: Partition, log: Log, origin: Sequence[Where]) -> None:
        """Hold what Slurm's partition holds, as far as the inventory knows it."""
        have = set(self._here.hosts)
        want = set(theirs.hosts) & self._known | have & self._away
        if have - self._away == want - self._away:
            return
        if not want:
            what = f"partition {self._here.name} holds none of these nodes in Slurm"
            log.differs(self._here.where, what, "delete it here, or sn apply")
            return
        left: list[str] = []
        for key in _KINDS:
            items = self._item.entries(key)
            names = names_in(items)
            parted = {n for n in names if not want.issuperset(self._members[key][n])}
            left += [h for n in names if n in parted for h in self._members[key][n] if h in want]
            put_names(self._item, key, without(items, parted))
        singles = without(self._item.entries("hosts"), have - want)
        more = [host for host in theirs.hosts if host in want and host not in have]
        left += self._whole(more)
        put_names(self._item, "hosts", with_more(singles, left, self._known))
        parts = [f"with {hostlist.fold(more)}"] if more else []
        gone = have - want
        parts += [f"without {hostlist.fold(gone)}"] if gone else []
        path = f"partitions.{self._here.name}"
        log.changed(path, hostlist.fold(have), " and ".join(parts), origin)

    def _whole(self, more: list[str]) -> list[str]:
        """Add supernodes, pools and foreign nodes that are new as a whole; return the rest."""
        left = list(more)
        for key, members in self._members.items():
            names = [n for n, held in members.items() if held and set(held) <= set(left)]
            if names:
                items = with_more(self._item.entries(key), names, members)
                put_names(self._item, key, items)
                gone = {host for name in names for host in members[name]}
                left = [host for host in left if host not in gone]
        return left


def _tell_new(told: Told, theirs: Partition, log: Log) -> None:
    """Tell of a partition that only Slurm has: whether it is ours to write, a person decides."""
    where = _origin(told, theirs.name)[0]
    what = f"Slurm has partition {theirs.name} over {hostlist.fold(theirs.hosts)}"
    todo = "write it under partitions if our files shall hold it"
    log.differs(where, what, todo)
