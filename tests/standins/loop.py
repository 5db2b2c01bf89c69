"""Stands in for a user's own loop over cards of unlike speed: takes its samples."""

from __future__ import annotations

import sys

from standin import fail, finish, number, rank, same

from supernode_slurm.runtime import share


def main() -> int:
    """Check this rank; return the exit code."""
    me = rank()
    if me.plan is None or not me.plan.pipelines:
        fail("the job has no plan")
    mine = share()
    same("rank", me.number, mine.rank)
    same("global batch", me.plan.global_batch, mine.global_batch)
    samples = number(str(mine.samples), "samples", 0)
    return finish(me, me.plan.framework, samples=samples, offset=mine.offset)


if __name__ == "__main__":
    sys.exit(main())
