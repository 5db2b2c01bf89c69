"""The environments of Slurm's programs: what a submission and a query may see of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_OF_A_JOB = re.compile(r"(?:SLURM|SLURMD|SRUN|PMI)_|PMI")
_KEPT_WORDS = """
    SLURM_CLUSTERS SLURM_CONF SLURM_CONF_SERVER SLURM_EXIT_ERROR SLURM_JWT SLURM_SACK_SOCKET
    SLURM_TIME_FORMAT
"""
_KEPT = frozenset(_KEPT_WORDS.split())
"""What leads to the controller and proves who asks, or is no job's but the user's."""
_CHANGES_OUTPUT = re.compile(
    r"(?:SQUEUE|SINFO)_"
    r"|(?:SACCT_FORMAT|SLURM_TIME_FORMAT|SLURM_CLUSTERS|SLURM_BITSTR_LEN|SLURM_TOPO_LEN)\Z"
    r"|LC_|LANG"
)


def submission_environment(env: Mapping[str, str], keep: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment for sbatch: without the variables of an enclosing job.

    SLURM_CPU_BIND, SLURM_MEM_PER_NODE and their like would change the new job;
    SBATCH_* are the user's own defaults and stay, like the names to ``keep``.
    """
    gone = set(scrubbed(env, keep))
    return {name: value for name, value in env.items() if name not in gone}


def scrubbed(env: Mapping[str, str], keep: Iterable[str] = ()) -> list[str]:
    """Return the names that a submission loses, sorted."""
    kept = _KEPT.union(keep)
    return sorted(name for name in env if _OF_A_JOB.match(name) and name not in kept)


def query_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a query: nothing changes the output's shape, times are numbers.

    Times count seconds since the epoch. Long lists come whole.
    """
    kept = {name: value for name, value in env.items() if not _CHANGES_OUTPUT.match(name)}
    return {**kept, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
