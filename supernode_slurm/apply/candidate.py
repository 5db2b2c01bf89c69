"""The configuration that shall be installed, and what the installed Slurm makes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError, SlurmNotFound
from ..inventory import Inventory
from ..slurmconf import find_release, generate
from ..slurmconf.facts import read_head_comment
from ..slurmconf.generate import ROOT
from ..slurmconf.release import Release
from ..twin import Twin, TwinSpec, check, installed_release, preflight, reading
from .target import MAIN, Target


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration to install."""

    files: Mapping[str, str]
    release: Release
    what: str
    """Where it comes from, in words."""
    inventory: str = ""
    """SHA-256 of the inventory, empty for another origin."""
    foreign: tuple[str, ...] = ()
    """Nodes that the files may name and do not define."""
    notes: tuple[str, ...] = ()


def from_inventory(path: Path, inventory: Inventory, release: str) -> Candidate:
    """Return what the inventory of a file yields for a release."""
    generated = generate(inventory, find_release(release))
    return Candidate(
        generated.files,
        find_release(release),
        str(path),
        hashlib.sha256(path.read_bytes()).hexdigest(),
        tuple(host for item in inventory.foreign for host in item.hosts),
        generated.notes,
    )


def from_files(files: Mapping[str, str], what: str) -> Candidate:
    """Return files that were installed before; ``ConfigError`` where they do not say for whom."""
    head = read_head_comment(files.get(ROOT, "").partition("\n")[0])
    if head is None:
        raise ConfigError.one(ROOT, "does not say which Slurm it was written for", "generate it")
    return Candidate(files, find_release(head[1]), what)


def complaints(candidate: Candidate, target: Target, must_run: bool) -> tuple[str, ...]:
    """Return what is wrong with a candidate: read, and run by the installed slurmctld.

    Raises ``ConfigError`` for one that slurmctld would die of, or that was written for
    another release, and ``SlurmNotFound`` if it must run and no slurmctld is installed.
    """
    release = candidate.release
    foreign = tuple(dict.fromkeys((*candidate.foreign, *target.foreign)))
    site = reading.read({MAIN: target.text}, MAIN)
    try:
        installed = installed_release()
    except SlurmNotFound:
        if must_run:
            raise
        found = check(candidate.files, release, foreign)
        if found.errors:
            raise ConfigError(found.errors) from None
        both = preflight.beside(reading.read(candidate.files, ROOT), site)
        return tuple(map(str, (*found.warnings, *both)))
    if find_release(installed) is not release:
        raise ConfigError.one(
            ROOT,
            f"is for Slurm {release.name}, and slurmctld here is {installed}",
            f"give --release {installed}",
        )
    ours = frozenset(
        host for item in reading.read(candidate.files, ROOT).nodes for host in item.hosts
    )
    others = tuple(host for host in foreign if host not in ours)
    with Twin(TwinSpec(candidate.files, site_conf=target.text, foreign=others)) as twin:
        said = twin.messages
    # What stands in slurm.conf already is no fault of the candidate.
    known = set(map(str, preflight.scheduling(site, release)))
    return tuple(line for line in said if line not in known)
