"""Who else needs the files, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .. import hostlist
from ..slurmconf.plugin import PLUGIN
from ..slurmconf.prolog import TASK_PROLOG
from .change import Change

_SHARED = ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "fuse.ceph", "cifs", "9p", "afs")


def filesystem(directory: Path, mounts: str) -> str:
    """Return the kind of file system that a directory lies on, given the text of /proc/mounts."""
    found, length = "", 0
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 2:
            place = fields[1].encode().decode("unicode_escape")
            if directory.is_relative_to(place) and len(place) >= length:
                found, length = fields[2], len(place)
    return found


def steps(change: Change, config: Mapping[str, str], directory: Path, kind: str) -> tuple[str, ...]:
    """Return what is to be done for the other machines, one step after another.

    ``config`` is that of ``scontrol show config``, ``kind`` the file system of the directory.
    """
    names = [item.name for item in change.files if item.kind != "removed"]
    found = []
    backups = _backups(config)
    if backups and kind not in _SHARED:
        found.append(f"to the other controllers ({', '.join(backups)}): {' '.join(names)}")
    if TASK_PROLOG in names:
        found.append(f"to every node, at the path of TaskProlog, before any job: {TASK_PROLOG}")
    others = [name for name in names if name not in (PLUGIN, TASK_PROLOG)]
    if "enable_configless" in config.get("SlurmctldParameters", "").casefold():
        if others:
            found.append("nodes are configless: slurmctld hands them the rest, copy nothing")
    elif kind in _SHARED:
        found.append(f"{directory} lies on {kind}: nodes that mount it have the rest")
    elif others:
        found.append(
            f"to {directory} of nodes and login nodes that have files of their own, between"
            f" `sn apply --no-controller` and `sn apply`: {' '.join(others)}"
        )
    gone = [item.name for item in change.files if item.kind == "removed"]
    if gone and kind not in _SHARED:
        found.append(f"delete wherever it was copied to: {' '.join(gone)}")
    if change.slurmds:
        found.append(f"then restart slurmd on {hostlist.fold(change.slurmds)}")
    elif change.added:
        found.append(f"then start slurmd on {hostlist.fold(change.added)}")
    return tuple(found)


def _backups(config: Mapping[str, str]) -> list[str]:
    hosts = [
        config[key].partition("(")[0] for key in sorted(config) if key.startswith("SlurmctldHost[")
    ]
    return hosts[1:]
