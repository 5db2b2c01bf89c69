"""How long slurmctld takes to be up with many switches: it computes all their distances.

    scripts/slurm-lab exec RELEASE -- .venv/bin/python -m benchmarks.switches

Prints seconds from the start of a private slurmctld to its first answer.
"""

from __future__ import annotations

import time

from supernode_slurm.errors import SlurmError
from supernode_slurm.twin import Twin, TwinSpec, installed_release

SIZES = (300, 1000, 1500)


def files(switches: int) -> dict[str, str]:
    """Return a configuration with a node under each leaf and one switch above all."""
    leaves = "".join(f"SwitchName=s{n} Nodes=n{n}\n" for n in range(1, switches))
    return {
        "supernode.conf": "TopologyPlugin=topology/tree\n"
        f"NodeName=n[1-{switches - 1}] CPUs=4 RealMemory=100 State=UNKNOWN\n"
        "PartitionName=p Nodes=ALL Default=YES\n",
        "topology.conf": f"{leaves}SwitchName=top Switches=s[1-{switches - 1}]\n",
    }


def main() -> None:
    """Print the table."""
    print(f"Slurm {installed_release()}")
    print("switches  seconds")
    for switches in SIZES:
        start = time.perf_counter()
        try:
            with Twin(TwinSpec(files(switches))):
                seconds = f"{time.perf_counter() - start:7.2f}"
        except SlurmError:
            seconds = f"not up after {time.perf_counter() - start:.0f}"
        print(f"{switches:8}  {seconds}")


if __name__ == "__main__":
    main()
