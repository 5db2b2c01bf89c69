"""What this rank is asked to compute, as sn-launch left it in the environment.

Python 3.8, standard library only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping


@dataclass(frozen=True)
class Share:
    """A rank's part of every global batch."""

    rank: int
    world_size: int
    group: str
    accelerator: str
    samples: int
    """Sequences of the global batch that this rank's replica computes per step."""
    offset: int
    """Index of the first of them within the global batch."""
    global_batch: int


def share(environ: Mapping[str, str] | None = None) -> Share:
    """Return the share of this process.

    Raises ``RuntimeError`` outside a planned job.
    """
    found = os.environ if environ is None else environ
    try:
        return Share(
            rank=int(found["RANK"]),
            world_size=int(found["WORLD_SIZE"]),
            group=found["SN_GROUP"],
            accelerator=found["SN_ACCELERATOR"],
            samples=int(found["SN_SAMPLES"]),
            offset=int(found["SN_SAMPLE_OFFSET"]),
            global_batch=int(found["SN_GLOBAL_BATCH"]),
        )
    except KeyError as error:
        raise RuntimeError(f"{error.args[0]} is not set: start the job with sn-launch") from error
