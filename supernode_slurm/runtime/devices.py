"""How many devices the job holds on each node, as slurmctld knows it.

Python 3.8, standard library only.
"""

from __future__ import annotations

import re
from typing import Mapping

from .job import hosts
from .program import run

_ASK_S = 30.0
_HELD = re.compile(r"Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
_COUNT = re.compile(r"(?:\A|,)[\w.-]+(?::[\w.-]+)?:([0-9]+)(?=\(|,|\Z)")


def devices_of_job(job: str, environ: Mapping[str, str]) -> dict[str, int]:
    """Return the devices that a job holds, by node; none where slurmctld does not say.

    All components of a heterogeneous job are shown under the id of its leader.
    """
    return parse_job(run(["scontrol", "-d", "-o", "show", "job", job], _ASK_S, environ)[1])


def parse_job(shown: str) -> dict[str, int]:
    """Return the devices by node from what ``scontrol -d -o show job`` shows."""
    found: dict[str, int] = {}
    for names, gres in _HELD.findall(shown):
        count = sum(int(number) for number in _COUNT.findall(gres))
        found.update({node: count for node in hosts(names) if count})
    return found
