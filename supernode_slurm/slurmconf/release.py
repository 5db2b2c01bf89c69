"""What each release of Slurm knows, as one table: nothing else compares releases.

Sources: the source trees of the releases' tags and, for those with ``proven``, Debian's
packages, on which the tests run real controllers. Files for the others are written from
the table and tested as text only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class Release:
    """One release, by what its files and its sbatch may say."""

    name: str
    proven: str = ""
    """The Debian release whose packages the tests run, empty for none."""
    topologies: tuple[str, ...] = ("tree",)
    """Kinds of topology that a job can be placed by."""
    yaml: bool = False
    """topology.yaml: several topologies, each bound to its partitions."""
    exact_blocks: bool = False
    """Every block has exactly the base size, and levels cannot be given as sizes."""
    small_blocks: bool = False
    """Blocks may be smaller than the base, or empty: placeholders."""
    gres_prefix: str = "gres:"
    """What stands before a GRES in a job as slurmctld holds it; seen on the proven releases."""
    segment: bool = False
    """sbatch has --segment."""
    cloud_blocks: bool = True
    """Cloud nodes stay in their block when they power down."""
    lone_4096: bool = True
    """topology.yaml may be as long as a multiple of 4096 bytes."""
    cgroup_disabled: bool = True
    """cgroup.conf takes CgroupPlugin=disabled."""
    reconfigure_survives: bool = True
    """A bad file at reconfigure leaves the old slurmctld running."""
    unknown_options: tuple[str, ...] = ()
    """Keys of node and partition lines that slurmctld ends at, of those that a site may add.

    Seen on 22.05; nobody has looked at 23.02 to 24.05, the later ones know all.
    """


_22_05 = Release(
    "22.05",
    "bookworm",
    cgroup_disabled=False,
    reconfigure_survives=False,
    unknown_options=(
        "ExclusiveTopo",
        "MaxCPUsPerSocket",
        "PowerDownOnIdle",
        "RestrictedCoresPerGPU",
    ),
)
_23_11 = replace(
    _22_05,
    name="23.11",
    proven="",
    topologies=("tree", "block"),
    exact_blocks=True,
    reconfigure_survives=True,
    unknown_options=(),
    gres_prefix="gres/",
)
_24_05 = replace(_23_11, name="24.05", exact_blocks=False, segment=True, cgroup_disabled=True)
_25_05 = replace(
    _24_05,
    name="25.05",
    topologies=("tree", "block", "flat"),
    yaml=True,
    small_blocks=True,
    lone_4096=False,
)
_TABLE = (
    _22_05,
    replace(_22_05, name="23.02", proven="", unknown_options=()),
    _23_11,
    _24_05,
    replace(_24_05, name="24.11", proven="trixie"),
    _25_05,
    # 25.11.0 to 25.11.2 lose powered-down cloud nodes; 25.11.0 to 25.11.5 die of 4096 bytes.
    replace(_25_05, name="25.11", cloud_blocks=False),
    replace(
        _25_05,
        name="26.05",
        proven="forky",
        topologies=("tree", "block", "flat", "ring", "torus3d"),
        lone_4096=True,
    ),
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
            "slurm.release",
            f"Slurm {name} is not known",
            f"known releases: {known}; write for the nearest with --release",
        ) from None


def assumed_release(name: str) -> Release:
    """Return the row of a release, the newest one for ``auto`` where no Slurm may be asked."""
    return RELEASES[max(RELEASES)] if name == "auto" else find_release(name)
