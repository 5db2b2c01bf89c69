"""Stands in for a user's own script with DeepSpeed."""

from __future__ import annotations

import sys

import deepspeed
from standin import Options, finish, need, number, same


def main() -> int:
    """Check this rank; return the exit code."""
    me = deepspeed.init_distributed()
    parser = Options("", "--data --checkpoint --sequence")
    given = deepspeed.add_config_arguments(parser).parse_args()
    same("sequence", me.planned()[0].sequence, number(given.sequence, "--sequence"))
    need(bool(given.data and given.checkpoint), "no --data or --checkpoint")
    sizes = deepspeed.initialize(given, me)
    return finish(me, "deepspeed", sizes=sizes)


if __name__ == "__main__":
    sys.exit(main())
