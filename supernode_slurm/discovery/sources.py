"""Sources: what a path holds, known from its content, and read by the reader for it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import ConfigError, Problem, UsageError, Where
from ..inventory import yamltree
from ..slurmconf.facts import AS_GIVEN, TWIN
from ..slurmconf.generate import ROOT
from ..slurmconf.grammar import Line, parse_lines, read_text
from . import (
    cabling,
    domains,
    guids,
    ibnetdiscover,
    nvlink,
    probes,
    super_pods,
    topograph,
    topology_yaml,
)
from .given import MAIN, about_other, without_included
from .gres_conf import read_gres_conf
from .room import Room
from .slurm_conf import read_slurm_conf
from .topology_conf import read_topology_conf

READERS: dict[str, Callable[[Path, Room], None]] = {
    "slurm.conf": read_slurm_conf,
    "gres.conf": read_gres_conf,
    "topology.conf": read_topology_conf,
    "topology.yaml": topology_yaml.read_topology_yaml,
    "topograph": topograph.read_topograph,
    "domains": domains.read_domains,
    "nvidia-smi": nvlink.read_nvidia_smi,
    "npu-smi": super_pods.read_spod_info,
    "rank-table": super_pods.read_rank_table,
    "guids": guids.read_guids,
    "ibstat": guids.read_ibstats,
    "ibnetdiscover": cabling.read_ibnetdiscover,
    "probes": probes.read_probes,
}
"""Kinds of files, by the word that forces one: ``kind:path``."""
BESIDE = ("gres.conf", "topology.yaml", "topology.conf")
"""What slurmctld reads from the directory of slurm.conf."""
TODO = "name slurm.conf or its directory"

_BY_TEXT: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("ibnetdiscover", ibnetdiscover.is_ibnetdiscover),
    ("nvidia-smi", nvlink.is_nvidia_smi),
    ("npu-smi", super_pods.is_spod_info),
    ("ibstat", guids.is_ibstat),
    ("guids", guids.is_guids),
    ("domains", domains.is_domains),
)
"""What knows texts that are not in the grammar of slurm.conf, in the order of asking."""
_SLURM = frozenset(
    {
        *("clustername", "controlmachine", "include", "nodename", "nodeset", "partitionname"),
        *("slurmctldhost", "slurmuser"),
    }
)
_TOPOLOGY = frozenset({"switchname", "blockname", "blocksizes", "ringname"})
_YAML_NAME = re.compile(r"\.(?:ya?ml|json)\Z")


def read_sources(texts: list[str], room: Room) -> None:
    """Add what files and directories say; a text is a path, ``kind:path``, or ``-``.

    ``-`` is standard input, with the answers of probes. Raises ``ConfigError`` for a source
    that is none, or that its own program would refuse.
    """
    named = [_split(text) for text in texts if text != probes.STDIN]
    paths = {path for _, path in named}
    files: dict[Path, str] = {}
    if probes.STDIN in texts:
        probes.read_standard_input(room)
    skipped: list[Problem] = []
    odd: list[tuple[Path, ConfigError]] = []
    for kind, path in named:
        if not kind and (about := about_other(path, paths)):
            skipped.append(Problem(Where(str(path)), about, TODO))
            continue
        try:
            for found, name in _files(kind, path).items():
                files.setdefault(found.resolve(), name)
        except ConfigError as error:  # a file that another includes may hold anything
            odd.append((path, error))
    files, included = without_included(files)
    errors = [p for path, error in odd if path.resolve() not in included for p in error.problems]
    if skipped and not files:
        errors += [Problem(item.where, f"is no source: {item.what}", TODO) for item in skipped]
    if errors:
        raise ConfigError(errors)
    for item in skipped:
        room.lost(item.where, f"{item.what}: skipped")
    _read(_one_topology(files, room), room)


def _read(files: Mapping[Path, str], room: Room) -> None:
    order = list(READERS)
    for path, kind in sorted(files.items(), key=lambda item: order.index(item[1])):
        shown = _shown(path)
        room.sources.append(str(shown))
        READERS[kind](shown, room)


def _one_topology(files: Mapping[Path, str], room: Room) -> dict[Path, str]:
    """Return files without a topology.conf that slurmctld does not read."""
    kept = dict(files)
    for path, kind in files.items():
        if kind == "topology.conf" and files.get(path.with_name("topology.yaml")):
            what = "slurmctld does not read it: topology.yaml is there: skipped"
            room.lost(Where(str(_shown(path))), what, "delete one")
            del kept[path]
    return kept


def kind_of(path: Path) -> str:
    """Return the kind of a file by its content; raises ``ConfigError`` with a reason if none."""
    if probes.is_probes(path):
        return "probes"
    text = read_text(path)
    if _YAML_NAME.search(path.name) or text.lstrip().startswith(("---\n", "- topology:")):
        return _kind_of_yaml(path, text)
    if found := next((kind for kind, is_kind in _BY_TEXT if is_kind(text)), ""):
        return found
    if ibnetdiscover.is_iblinkinfo(text):
        what = "iblinkinfo shows no GUIDs of switches"
        raise ConfigError.one(str(path), what, "save what ibnetdiscover prints instead")
    lines = [line for line in parse_lines(text, str(path)) if line.pairs or line.problem]
    firsts = {line.first for line in lines}
    if not lines and path.name in ("slurm.conf", *BESIDE):
        return path.name  # all comments: slurmctld reads it as well
    if sum(line.problem is not None for line in lines) * 2 > len(lines):
        raise ConfigError([_no_source(path, lines)])
    if firsts & _TOPOLOGY:
        return "topology.conf"
    if any(_is_gres(line) for line in lines):
        return "gres.conf"
    if firsts & _SLURM:
        return "slurm.conf"
    raise ConfigError([_no_source(path, lines)])


def _kind_of_yaml(path: Path, text: str) -> str:
    tree, _ = yamltree.parse(text, str(path))
    if topology_yaml.is_topology_yaml(tree):
        return "topology.yaml"
    if topograph.is_topograph(tree):
        return "topograph"
    if super_pods.is_rank_table(tree):
        return "rank-table"
    what = "is YAML, but no topology.yaml and no model of topograph"
    if isinstance(tree.value, dict) and "cluster" in tree.value:
        raise ConfigError.one(
            tree.where, "is an inventory already", "sn check -i shows what it says"
        )
    raise ConfigError.one(tree.where, what, "name the kind if it is: topology.yaml:PATH")


def _split(text: str) -> tuple[str, Path]:
    kind, colon, rest = text.partition(":")
    if not text or (kind in READERS and colon and not rest):
        raise UsageError(f"source '{text}' names no file")
    if colon and kind in READERS:
        return kind, Path(rest)
    if colon and not os.path.exists(text) and re.fullmatch(r"[a-z.-]+", kind):
        known = ", ".join(f"{name}:" for name in ("slurm", *READERS))
        raise UsageError(f"'{text}': no kind of source is '{kind}:'; known: {known}")
    return "", Path(text)


def _files(kind: str, path: Path) -> dict[Path, str]:
    """Return the files of a source and the kind of each."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise ConfigError.one(str(path), "no such file or directory") from error
    except OSError as error:
        raise ConfigError.one(str(path), f"cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        conf = next((path / name for name in MAIN if (path / name).is_file()), None)
        if conf is None:
            what = f"holds no {' and no '.join(MAIN)}"
            raise ConfigError.one(str(path), what, "name its files one by one")
        return _files("slurm.conf", conf)
    kind = kind or kind_of(path)
    if kind == "slurm.conf" and read_text(path).startswith(TWIN):
        path = path.parent / AS_GIVEN / ROOT
    found = {path: kind}
    if kind == "slurm.conf":
        beside = {name: path.parent / name for name in BESIDE}
        if beside["topology.yaml"].is_file():
            del beside["topology.conf"]  # which slurmctld does not read then
        found |= {file: name for name, file in beside.items() if file.is_file()}
    return found


def _shown(path: Path) -> Path:
    """Return the path as messages show it: short where it lies below the working directory."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _is_gres(line: Line) -> bool:
    keys = line.keys
    return line.first in ("name", "autodetect") or (
        line.first == "nodename" and not keys.keys().isdisjoint({"name", "autodetect"})
    )


def _no_source(path: Path, lines: list[Line]) -> Problem:
    todo = f"sources are {', '.join(READERS)} and slurm:"
    if not lines:
        return Problem(Where(str(path)), "holds nothing to import", todo)
    first = next((line for line in lines if line.problem), lines[0])
    if first.problem:
        return Problem(first.problem.where, f"is no source: {first.problem.what}", todo)
    what = f"is no source: '{first.pairs[0][0]}' tells of no nodes"
    return Problem(first.where, what, todo)
