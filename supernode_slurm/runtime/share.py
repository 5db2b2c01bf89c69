"""What this rank is asked to compute, as sn-launch left it in the environment.

Python 3.8, standard library only.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, replace
from typing import Iterable, Mapping, Sequence


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
    replica: int = 0
    """Which of the replicas this rank belongs to."""
    micro_batch: int = 1
    """Sequences that fit into this rank's device at once."""
    shares: tuple[int, ...] = ()
    """Samples of every replica; empty where the plan's meshes cut a replica differently."""
    micro_batches: tuple[int, ...] = ()
    """Micro-batch of every replica."""
    rebalance: bool = False
    """The plan asks that shares follow measured times."""
    shard: int = 0
    """Ranks that share one copy of the weights, others having copies; 0 for all or none."""

    def with_shares(self, shares: Sequence[int]) -> Share:
        """Return this rank's part where the replicas take these samples.

        Raises ``ValueError`` unless they are whole, one per replica, each at least one, and
        sum to the global batch.
        """
        checked = check_shares(shares, len(self.shares), self.global_batch)
        return replace(
            self,
            shares=checked,
            samples=checked[self.replica],
            offset=sum(checked[: self.replica]),
        )


def share(environ: Mapping[str, str] | None = None) -> Share:
    """Return the share of this process.

    Behind a launcher of a node's processes, such as torchrun, each rank must be a replica.
    The sn-launch beside this process sees by it that the rank has begun. Raises
    ``RuntimeError`` outside a planned job.
    """
    found = os.environ if environ is None else environ
    _begin(found)
    try:
        rank, world = _number(found, "RANK"), _number(found, "WORLD_SIZE")
        shares, sizes = _values(found, "SN_SHARES"), _values(found, "SN_MICRO_BATCHES")
        if "SN_SAMPLES" not in found and shares:
            found = {**found, **_of_replica(rank, world, shares, sizes)}
        mine = Share(
            rank=rank,
            world_size=world,
            group=found["SN_GROUP"],
            accelerator=found["SN_ACCELERATOR"],
            samples=_number(found, "SN_SAMPLES"),
            offset=_number(found, "SN_SAMPLE_OFFSET"),
            global_batch=_number(found, "SN_GLOBAL_BATCH"),
            replica=_number(found, "SN_REPLICA") if "SN_REPLICA" in found else 0,
            micro_batch=_number(found, "SN_MICRO_BATCH") if "SN_MICRO_BATCH" in found else 1,
            shares=shares,
            micro_batches=sizes,
            rebalance=found.get("SN_REBALANCE") == "1",
            shard=_number(found, "SN_SHARD") if "SN_SHARD" in found else 0,
        )
    except KeyError as error:
        raise RuntimeError(f"{error.args[0]} is not set: start the job with sn-launch") from error
    _check(mine)
    return mine


def equal_share(
    global_batch: int, micro_batch: int = 1, environ: Mapping[str, str] | None = None
) -> Share:
    """Return an equal share of a global batch for each rank, where there is no plan.

    The first ``global_batch % world`` ranks take one sample more. RANK and WORLD_SIZE say who
    this is; without them it is alone. Raises ``ValueError`` if a rank would have no sample.
    """
    found = os.environ if environ is None else environ
    _begin(found)
    rank, world = int(found.get("RANK", "0")), int(found.get("WORLD_SIZE", "1"))
    each, more = divmod(global_batch, world)
    shares = check_shares([each + (index < more) for index in range(world)], world, global_batch)
    return Share(
        rank=rank,
        world_size=world,
        group=found.get("SN_GROUP", ""),
        accelerator=found.get("SN_ACCELERATOR", ""),
        samples=shares[rank],
        offset=sum(shares[:rank]),
        global_batch=global_batch,
        replica=rank,
        micro_batch=micro_batch,
        shares=shares,
        micro_batches=(micro_batch,) * world,
        rebalance=found.get("SN_REBALANCE") == "1",
    )


def check_shares(shares: Sequence[int], replicas: int, global_batch: int) -> tuple[int, ...]:
    """Return shares as they are. Raises ``ValueError`` if they cannot be those of the replicas."""
    if len(shares) != replicas or not replicas:
        raise ValueError(f"{len(shares)} shares for {replicas} replicas; give one for each")
    if any(int(samples) != samples or samples < 1 for samples in shares):
        raise ValueError(
            f"shares {fold_runs(shares)}: every replica takes a whole number of samples, at "
            f"least one; take a larger global batch or fewer replicas"
        )
    if sum(shares) != global_batch:
        raise ValueError(
            f"shares {fold_runs(shares)} sum to {sum(shares)}, the global batch is "
            f"{global_batch}; they must be the same"
        )
    return tuple(int(samples) for samples in shares)


def fold_runs(values: Iterable[object]) -> str:
    """Return values with equal neighbours folded, like ``5x8,3x8`` for eight 5 and eight 3."""
    return ",".join(f"{value}x{len(list(same))}" for value, same in itertools.groupby(values))


def unfold_runs(text: str) -> tuple[int, ...]:
    """Return the whole numbers that were folded. Raises ``ValueError`` for any other text."""
    found: list[int] = []
    for run in text.split(","):
        value, _, count = run.partition("x")
        found += [int(value)] * int(count)
    return tuple(found)


def _begin(environ: Mapping[str, str]) -> None:
    """Say that this rank has begun, where a launcher looks."""
    if environ.get("SN_HEARTBEAT"):
        from .heartbeat import begin

        begin(environ)


def _of_replica(
    rank: int, world: int, shares: Sequence[int], sizes: Sequence[int]
) -> dict[str, str]:
    """Return the variables of a rank that is a replica by itself."""
    if len(shares) != world or len(sizes) != world or not 0 <= rank < world:
        raise RuntimeError(
            f"rank {rank} of {world}: the plan has {len(shares)} replicas; with several ranks "
            "to a replica start one task per device: sn-launch without --per-node"
        )
    return {
        "SN_REPLICA": str(rank),
        "SN_SAMPLES": str(shares[rank]),
        "SN_SAMPLE_OFFSET": str(sum(shares[:rank])),
        "SN_MICRO_BATCH": str(sizes[rank]),
    }


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name]
    try:
        return int(text)
    except ValueError:
        raise RuntimeError(f"{name} is {text!r}, no whole number; leave it to sn-launch") from None


def _values(environ: Mapping[str, str], name: str) -> tuple[int, ...]:
    text = environ.get(name, "")
    try:
        return unfold_runs(text) if text else ()
    except ValueError:
        raise RuntimeError(f"{name} is {text!r}, not like 5x8,3x8; leave it to sn-launch") from None


def _check(mine: Share) -> None:
    if not mine.shares:
        return
    wrong = ""
    if sum(mine.shares) != mine.global_batch:
        wrong = f"sums to {sum(mine.shares)}, SN_GLOBAL_BATCH is {mine.global_batch}"
    elif not 0 <= mine.replica < len(mine.shares):
        wrong = f"has {len(mine.shares)} replicas, SN_REPLICA is {mine.replica}"
    elif mine.shares[mine.replica] != mine.samples:
        wrong = f"gives replica {mine.replica} other samples than SN_SAMPLES={mine.samples}"
    if wrong:
        raise RuntimeError(f"SN_SHARES={fold_runs(mine.shares)} {wrong}; leave both to sn-launch")
