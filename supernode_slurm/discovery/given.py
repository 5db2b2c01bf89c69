"""Which of the files that were named are read: each once, and those that tell of a room.

An admin names ``/etc/slurm/*``: files that include each other, and much that says nothing
of nodes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from ..slurmconf.generate import ROOT
from ..slurmconf.grammar import files_of

OTHER_FILES = {
    "acct_gather.conf": "Slurm's way to measure energy and traffic",
    "burst_buffer*.conf": "about Slurm's burst buffers",
    "cgroup*.conf": "about how Slurm confines jobs",
    "cli_filter*.lua": "Slurm's filter of command lines",
    "ext_sensors.conf": "about Slurm's sensors",
    "helpers.conf": "about programs that change features",
    "job_container.conf": "about the containers of Slurm's jobs",
    "job_submit*.lua": "Slurm's plugin for new jobs",
    "jobcomp_*.conf": "about where Slurm logs finished jobs",
    "knl*.conf": "about the modes of Knights Landing nodes",
    "mpi.conf": "about how Slurm starts MPI",
    "namespace.yaml": "about the namespaces of Slurm's jobs",
    "oci.conf": "about how Slurm runs OCI containers",
    "plugstack.conf*": "about Slurm's SPANK plugins",
    "resources.yaml": "about Slurm's hierarchical resources",
    "scrun.lua": "about how Slurm runs OCI containers",
    "slurmdbd.conf": "about Slurm's database daemon",
    "*.key": "a key",
    "*.jwks": "keys",
    "*.pem": "a certificate",
}
"""Files that lie beside slurm.conf and tell of no nodes, and what they are about."""
MAIN = ("slurm.conf", ROOT)
"""The file of a directory that includes the others: the first of these that is there."""
_INCLUDING = frozenset({"slurm.conf", "gres.conf", "topology.conf"})
_OLD = re.compile(r"~\Z|\.(?:bak|old|orig|save|swp|example|rpm\w+|dpkg-\w+|ucf-\w+)\Z")


def about_other(path: Path, named: Collection[Path]) -> str:
    """Return what a file is that tells of no nodes, as far as its name or its start shows it.

    ``named`` are all paths that were named, by which a copy or a folder among them is known.
    """
    found = (f"it is {text}" for like, text in OTHER_FILES.items() if fnmatchcase(path.name, like))
    if about := next(found, ""):
        return about
    original = path.with_name(_OLD.sub("", path.name) or path.name)
    if original != path and original in named:
        return f"it is a copy of {original.name}"
    if os.path.isdir(path):
        holds = any((path / name).is_file() for name in MAIN)
        among = any(other.parent == path.parent for other in named if other != path)
        return "it is a folder" if among and not holds else ""
    return "it is a program" if _is_script(path) else ""


def _is_script(path: Path) -> bool:
    if not os.path.isfile(path):  # a pipe would be waited for
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(2) == b"#!"
    except OSError:
        return False


def without_included(files: Mapping[Path, str]) -> tuple[dict[Path, str], set[Path]]:
    """Return the kinds of files by path without those that others of them include, and these.

    Of files that include each other the last stays, for its error.
    """
    below = {path: files_of(path) - {path} for path, kind in files.items() if kind in _INCLUDING}
    gone: set[Path] = set()
    for path in files:
        if any(path in held for other, held in below.items() if other not in gone):
            gone.add(path)
    included = set().union(*below.values())
    return {path: kind for path, kind in files.items() if path not in gone}, included
