"""Stands in for a user's own script under torchrun, with equal shares."""

from __future__ import annotations

import sys

from standin import Options, finish, need, number, rank, same


def main() -> int:
    """Check this rank; return the exit code."""
    me = rank()
    plan, pipeline = me.planned()
    given = Options("", "--data --checkpoint --micro-batch-size --accumulation").parse_args()
    micro = number(given.micro_batch_size, "--micro-batch-size")
    times = number(given.accumulation, "--accumulation")
    same("global batch", plan.global_batch, micro * times * me.world)
    for mesh in pipeline.meshes:
        same("micro-batch", mesh.micro_batch, micro)
        same("replicas", mesh.dp, me.world)
    need(bool(given.data and given.checkpoint), "no --data or --checkpoint")
    return finish(me, plan.framework, sizes={"micro_batch": micro, "accumulation": times})


if __name__ == "__main__":
    sys.exit(main())
