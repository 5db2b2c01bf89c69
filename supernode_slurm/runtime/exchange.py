"""The one collective that uneven training needs of a framework: a sum over ranks.

Python 3.8, standard library only; torch where it is passed in.
"""

from __future__ import annotations

import contextlib
from types import ModuleType
from typing import Callable, List

from .heartbeat import Heart

SumOverRanks = Callable[[List[float]], List[float]]
"""Takes this rank's numbers, returns their sums over the ranks; every rank calls it alike."""


def over_torch(
    torch: ModuleType, group: object = None, device: object = None, dtype: object = None
) -> SumOverRanks:
    """Return the sum over the ranks of a process group, as ``torch.distributed`` makes it.

    It runs on the CPU where the group can, else on the group's own device; numbers travel as
    ``float64`` unless ``dtype`` says otherwise. A gloo group leaves the device's queue alone.
    Without an initialised process group there is one rank, and its numbers are the sums.
    The sn-launch beside the rank sees whether it waits in an exchange over all ranks.
    """
    heart = Heart()

    def sum_over_ranks(values: list[float]) -> list[float]:
        found = torch.distributed
        if not found.is_available() or not found.is_initialized():
            return list(values)
        where = device or _device(str(found.get_backend_config(group)))
        sums = torch.tensor(values, dtype=dtype or torch.float64, device=where)
        everyone = group is None or found.get_world_size(group) == found.get_world_size()
        with heart.waiting() if everyone else contextlib.nullcontext():
            found.all_reduce(sums, group=group)
            return [float(value) for value in sums.tolist()]

    return sum_over_ranks


def gather(
    values: list[float], rank: int, ranks: int, sum_over_ranks: SumOverRanks
) -> list[list[float]]:
    """Return the values of every rank: each has places of its own in one vector that is summed.

    Nothing is added to a number but zeros, so all ranks see the same bits, whatever the order
    in which the collective adds.
    """
    width = len(values)
    sent = [0.0] * (width * ranks)
    sent[rank * width : (rank + 1) * width] = [float(value) for value in values]
    found = sum_over_ranks(sent)
    if len(found) != len(sent):
        raise ValueError(f"sum_over_ranks took {len(sent)} numbers and returned {len(found)}")
    return [found[start : start + width] for start in range(0, len(found), width)]


def _device(backends: str) -> str:
    """Return where a group's collectives run, of a text like ``cpu:gloo,cuda:nccl``."""
    pairs = dict(pair.partition(":")[::2] for pair in backends.split(","))
    if pairs.get("cpu") in ("gloo", "mpi", "ucc"):
        return "cpu"
    return next((name for name, backend in pairs.items() if name != "cpu" and backend), "cpu")
