"""What preparing a job costs on a login node, beside bare Python and submitit.

    python -m benchmarks.submit [RUNS]

CPU seconds of one process and its children, the least of several runs: Python that does
nothing, ``sn-submit --help``, ``sn-submit --dry-run`` of a planned job on an inventory of 1,000
nodes, and submitit's submission of the same job, where it is installed (``pip install
submitit``). Its sbatch is a shell script that prints an id: what Slurm does is in neither.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.generate import RACKS, site

NODES = 1000
SCRIPT = "#!/bin/sh\nsn-launch python3 train.py\n"
SUBMITIT = """
import submitit
executor = submitit.AutoExecutor(folder="log", cluster="slurm")
executor.update_parameters(
    nodes=16, tasks_per_node=4, gpus_per_node=4, cpus_per_task=36, timeout_min=60,
    slurm_partition="train", slurm_constraint="nvl1",
)
print(executor.submit(print, "x").job_id)
"""


def cpu_s(argv: Sequence[str], env: dict[str, str], folder: Path, runs: int) -> float:
    """Return the least CPU seconds that a command took, its children's too."""
    found = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def prepare(folder: Path) -> dict[str, str]:
    """Write what the commands read; return their environment."""
    inventory = folder / "inventory.yaml"
    per_rack = RACKS.nodes * RACKS.cards
    inventory.write_text(site(NODES * RACKS.cards // per_rack * per_rack))
    (folder / "train.sh").write_text(SCRIPT)
    programs = folder / "bin"
    programs.mkdir()
    for name, says in (("sbatch", "Submitted batch job 1"), ("srun", "srun"), ("sacct", "")):
        (programs / name).write_text(f"#!/bin/sh\necho {says}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    # An installed package has its bytecode: let the first run leave it.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "PATH": path, "SN_INVENTORY": str(inventory)}


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    command = str(Path(sys.executable).with_name("sn-submit"))
    planned = ["--dry-run", "--model", "llama-3-70b", "--cards", "64", "train.sh"]
    rows = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "sn-submit --help": [command, "--help"],
        "sn-submit --dry-run, placed": [command, "--dry-run", "--cards", "64", "train.sh"],
        "sn-submit --dry-run, planned": [command, *planned],
    }
    if importlib.util.find_spec("submitit"):
        rows["submitit"] = [sys.executable, "-c", SUBMITIT]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = prepare(folder)
        bare = 0.0
        print(f"{'':<30} CPU s   x bare Python")
        for label, argv in rows.items():
            seconds = cpu_s(argv, env, folder, runs)
            bare = bare or seconds
            print(f"{label:<30} {seconds:5.3f}   {seconds / bare:5.1f}")


if __name__ == "__main__":
    main()
