"""gres.conf: which nodes have which generic resources, as which files."""

from __future__ import annotations

from pathlib import Path

from ..errors import nearest
from ..slurmconf.grammar import read_lines
from .room import GresFacts, Room

KEYS = (
    "AutoDetect",
    "Count",
    "CPUs",
    "Cores",
    "File",
    "Files",
    "Flags",
    "Link",
    "Links",
    "MultipleFiles",
    "Name",
    "NodeName",
    "Type",
)
"""All keys of gres.conf(5); any other one ends slurmctld."""


def read_gres_conf(path: Path, room: Room) -> None:
    """Add what a gres.conf says."""
    known = {key.casefold() for key in KEYS}
    for line in read_lines(path, room.included):
        keys = dict(line.must().keys)
        for key, said in line.pairs:
            if key.casefold() not in known:
                what = f"'{key}' is no key of gres.conf"
                room.error(said.where, what, nearest(key, KEYS))
        named = keys.pop("nodename", None)
        room.gres.append(GresFacts(room.hosts(named) if named else None, keys, line.where))
    room.check()
