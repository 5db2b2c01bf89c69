#!/usr/bin/env python3
"""sn-launch: start the ranks of a job, each with its environment and its share.

usage: sn-launch [--per-node] [--srun=OPTION]... COMMAND [ARGUMENT...]
       srun ... sn-launch [--per-node] COMMAND [ARGUMENT...]

In a batch script or in salloc it starts one step over the whole job, one task per device;
behind srun each task is one process. Each gets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
MASTER_PORT, its vendor's visible devices, and its share of the plan as SN_SAMPLES,
SN_SAMPLE_OFFSET and others.

  --per-node     one task per node, which starts the node's processes itself (torchrun,
                 accelerate, FlagScale); it gets NNODES, NODE_RANK and NPROC_PER_NODE
  --srun=OPTION  an option for srun, like --srun=--container-image=IMAGE
  --version      show the version

In COMMAND the word {plan} stands for the plan's arguments of the framework, {torchrun} for
torchrun's (inside a word both are quoted for a shell); {NAME} for the path of the plan's file
NAME; {tp} {pp} {dp} {cp} {ep} {micro_batch} {global_batch} {sequence} {accumulation} for its
numbers.

variables: SN_PLAN or SN_PLAN_FILE carry the plan; without one that fits, 'sn plan --here'
makes it (SN_REPLAN=0: never). SN_WATCH=0 starts no process beside a rank; then a rank that
dies is not named. SN_PATIENCE=SECONDS (120; 0: never) is after how long a rank is named that
does not begin, or stands still (in loops of one's own, docs/training.md); SN_END_HUNG=1 ends the
ranks then. MASTER_PORT is kept where it is set.

exit codes: that of the rank that failed first (128 + its signal), 2 usage, 3 the job is not
what the plan needs, else srun's
"""

# No "annotations" of the future here: Python 3.6 shall see the message below.
import os
import sys

if sys.version_info < (3, 8):  # noqa: UP036
    sys.exit(f"sn-launch: error: needs Python 3.8 or newer, this is {sys.version.split()[0]}")


def main() -> int:
    """Run the launcher; return its exit code where no program took its place."""
    from supernode_slurm.runtime.entry import launch

    return launch(sys.argv[1:], os.environ, (__doc__ or "").strip())


if __name__ == "__main__":
    # Run by its path: the package lies three levels up, and no module beside this file is meant.
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    sys.path[:] = [root, *(path for path in sys.path if os.path.abspath(path) != here)]
    sys.exit(main())
