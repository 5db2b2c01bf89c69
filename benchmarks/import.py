"""How long an existing configuration takes to become an inventory.

    python -m benchmarks.import

Prints seconds, best of three: a site that wrote a line for each of 25,000 nodes into
slurm.conf and gres.conf, the files that were generated for 100,000 cards, and what
ibnetdiscover prints of 10,000 hosts with eight adapters each on three levels of switches.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from benchmarks.best import best
from benchmarks.generate import site
from supernode_slurm.discovery import import_sources
from supernode_slurm.inventory import loads
from supernode_slurm.slurm import CliClient
from supernode_slurm.slurmconf import find_release, generate
from tests.fabric_text import Net

NODES = 25_000
HOSTS = 10_000
RAILS, PER_LEAF, SPINES, CORES, LEAVES_OF_POD = 8, 32, 16, 32, 16


def one_by_one(folder: Path) -> Path:
    """Write a line for each node."""
    names = [f"n{number:05d}" for number in range(NODES)]
    nodes = "".join(
        f"NodeName={name} Sockets=2 CoresPerSocket=48 RealMemory=900000 Gres=gpu:h100:8\n"
        for name in names
    )
    gres = "".join(f"NodeName={name} Name=gpu Type=h100 File=/dev/nvidia[0-7]\n" for name in names)
    head = "ClusterName=c\nGresTypes=gpu\n"
    path = folder / "slurm.conf"
    path.write_text(f"{head}{nodes}PartitionName=p Nodes=ALL Default=YES\n")
    (folder / "gres.conf").write_text(gres)
    return path


def generated(folder: Path) -> Path:
    """Write what is generated for 100,000 cards."""
    for name, text in generate(loads(site(100_000)), find_release("24.11")).files.items():
        (folder / name).write_text(text)
    path = folder / "slurm.conf"
    path.write_text("ClusterName=c\nInclude supernode.conf\n")
    return path


def cabled(folder: Path) -> Path:
    """Write what ibnetdiscover prints of a fabric."""
    net = Net()
    for host in range(HOSTS):
        for rail in range(RAILS):
            net.wire(f"n{host:05} mlx5_{rail}", f"leaf{host // PER_LEAF:03}-{rail}")
    for leaf in net.switches():
        pod = int(leaf[4:7]) // LEAVES_OF_POD
        for at in range(SPINES):
            net.wire(leaf, f"spine{pod:02}-{at:02}")
    for spine in (name for name in net.switches() if name.startswith("spine")):
        for core in range(CORES):
            net.wire(spine, f"core{core:02}")
    path = folder / "ibnetdiscover.out"
    path.write_text(str(net))
    return path


def main() -> None:
    """Print the table."""
    sites = {
        "25,000 nodes, a line each": one_by_one,
        "100,000 cards": generated,
        "80,000 cables to 10,000 hosts": cabled,
    }
    for name, write in sites.items():
        with tempfile.TemporaryDirectory() as folder:
            sources = [str(write(Path(folder)))]
            work = partial(import_sources, sources, {}, lambda: CliClient({}))
            seconds = best(work, runs=3)
        print(f"{name:30} {seconds:6.2f} s")


if __name__ == "__main__":
    main()
