"""What unequal shares gain where one kind of card is slower, by training on a real Slurm.

    python -m benchmarks.training

A twin with slurmds runs a job planned for h100:1,a100:1, where the site has measured the a100 as
half as fast. Each rank trains the small GPT of tests/training on its samples and sleeps for each
of them, on the a100 twice as long. Printed are medians of a step's seconds: with the plan's
shares, with equal ones, and with equal ones that follow the measured times, after the change;
beside them the ideal, in which no sample is whole and nothing but the sleep takes time.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

from tests.training_site import Ran, Size, planned, program, site

MEASURED = """\
accelerators:
  h100-pcie: {bf16: 600 TFLOPS, matmul: 400 TFLOPS, memory_bandwidth: 2000 GB/s}
  a100-pcie-80g: {bf16: 300 TFLOPS, matmul: 200 TFLOPS, memory_bandwidth: 1000 GB/s}
"""
SLOWER = {"h100": 1.0, "a100": 2.0}
PACE_S = 0.03
"""As tests/training/replicas.py has them."""
SIZE = Size(layers=2, batch=24)
WAYS = {"paced": "planned", "paced-equal": "equal", "paced-followed": "equal, followed"}
SETTLED = 20
"""Steps after which shares that follow are to have arrived."""


def main() -> None:
    """Run each way once in one job, and print the table."""
    with tempfile.TemporaryDirectory(prefix="sn-training-") as name:
        folder = Path(name) / "job"
        folder.mkdir()
        Path(name).chmod(0o755)
        with site(Path(name), MEASURED) as room:
            words = planned("h100:1,a100:1", "torch", SIZE)
            ran = room.run(folder, words, f"sn-launch {program('replicas', folder, *WAYS)}")
            show(ran)


def show(ran: Ran) -> None:
    """Print the table."""
    ideal = SIZE.batch * PACE_S / sum(1 / slower for slower in SLOWER.values())
    print(f"{'shares':<18}{'at the end':>12}{'step s':>9}{'x ideal':>9}")
    for name, way in WAYS.items():
        seconds = json.loads((ran.folder / f"{name}.seconds").read_text())
        if "followed" in name:
            seconds = seconds[SETTLED:]
        middle = statistics.median(seconds)
        ended = ":".join(map(str, ran.ranks()[0]["ended"][name]))
        print(f"{way:<18}{ended:>12}{middle:>9.3f}{middle / ideal:>9.2f}")
    print(f"{'ideal':<18}{'':>12}{ideal:>9.3f}{1:>9.2f}")


if __name__ == "__main__":
    main()
