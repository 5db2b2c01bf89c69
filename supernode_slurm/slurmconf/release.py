"""What each release of Slurm knows, as one table: nothing else compares releases.

Sources: the source trees of the releases' tags; the rows here are proven on the
packages of Debian (22.05 in bookworm, 24.11 in trixie).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class Release:
    """One release, by what its files and its sbatch may say."""

    name: str
    topologies: tuple[str, ...]
    """Topology plugins, without the ``topology/`` in front."""


_TABLE = (
    Release("22.05", ("tree",)),
    Release("24.11", ("tree", "block")),
)

RELEASES = {release.name: release for release in _TABLE}


def find_release(name: str) -> Release:
    """Return the row of a release such as ``24.11`` or ``24.11.5``.

    Raises ``ConfigError`` that names the known ones.
    """
    try:
        return RELEASES[".".join(name.split(".")[:2])]
    except KeyError:
        known = ", ".join(RELEASES)
        raise ConfigError.one(
            "slurm.release", f"Slurm {name} is not supported yet", f"known releases: {known}"
        ) from None


def assumed_release(name: str) -> Release:
    """Return the row of a release, the newest one for ``auto`` where no Slurm may be asked."""
    return RELEASES[max(RELEASES)] if name == "auto" else find_release(name)
