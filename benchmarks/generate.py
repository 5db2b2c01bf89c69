"""How long a site of 100,000 cards takes from its inventory to Slurm's files.

    python -m benchmarks.generate [CARDS]

Prints, for each release, the seconds to read the inventory and to generate the files,
best of five, and the size of the files.
"""

from __future__ import annotations

import sys

from benchmarks.best import best
from supernode_slurm.inventory import loads
from supernode_slurm.slurmconf import RELEASES, generate

PER_RACK = 72
PER_LEAF = 16


def site(cards: int) -> str:
    """Return an inventory of NVL72 racks under leaves of sixteen and one spine."""
    racks = -(-cards // PER_RACK)
    leaves = [
        f'      leaf{number}: ["nvl[{first}-{min(first + PER_LEAF - 1, racks)}]"]'
        for number, first in enumerate(range(1, racks + 1, PER_LEAF), 1)
    ]
    switches = "\n".join([f'      spine: ["leaf[1-{len(leaves)}]"]', *leaves])
    return f"""version: 1
cluster: large
fabrics:
  - name: ib
    kind: fat-tree
    rails: {{count: 4, bandwidth: 400 Gb/s}}
    switches:
{switches}
supernodes:
  - name: nvl[1-{racks}]
    interconnect: {{kind: switch, bandwidth: 900 GB/s}}
    spares: 2
    nodes:
      hosts: "nvl{{n}}-[01-18]"
      devices: {{gb200: 4}}
      sockets: 2
      cores: 72
      memory: 940 GiB
partitions:
  train: {{supernodes: ["nvl[1-{racks}]"], default: true}}
"""


def main() -> None:
    """Print the table."""
    cards = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    text = site(cards)
    room = loads(text)
    nodes = sum(len(domain.hosts) for domain in room.domains)
    print(f"{nodes * 4:,} cards in {nodes:,} nodes, read in {best(lambda: loads(text)):.2f} s")
    print("release  seconds  bytes")
    for release in RELEASES.values():
        seconds = best(lambda release=release: generate(room, release))  # type: ignore[misc]
        size = sum(map(len, generate(room, release).files.values()))
        print(f"{release.name}    {seconds:7.2f}  {size:,}")


if __name__ == "__main__":
    main()
