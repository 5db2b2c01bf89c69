"""Which Slurm this machine could run."""

from __future__ import annotations

from ..slurm import parse
from ..slurm.run import check
from .daemons import program


def installed_release() -> str:
    """Return the release of the installed slurmctld, like ``24.11``.

    Raises ``SlurmNotFound`` where there is none. slurmctld needs no slurm.conf to tell;
    Slurm's other programs do.
    """
    slurmctld = program("slurmctld", "slurmctld slurm-client")
    return parse.release(check([slurmctld, "-V"], timeout_s=20).stdout)
