"""How long a site of 100,000 cards takes from its inventory to Slurm's files.

    python -m benchmarks.generate [CARDS]

Prints, for two shapes of site and each release, the seconds to read the inventory and to
generate the files, best of five, and the size of the files. One site has racks of 18 nodes
with 4 cards, sixteen under a leaf; the other, supernodes of 2 nodes with 8 cards, three under
a leaf, in five partitions.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from benchmarks.best import best
from supernode_slurm.inventory import loads
from supernode_slurm.slurmconf import RELEASES, generate


@dataclass(frozen=True, slots=True)
class Shape:
    """What a site is made of."""

    nodes: int
    """In a supernode."""
    cards: int
    """In a node."""
    per_leaf: int
    spares: int
    partitions: int


RACKS = Shape(18, 4, 16, 2, 1)
SHAPES = (RACKS, Shape(2, 8, 3, 0, 5))


def site(cards: int, shape: Shape = RACKS) -> str:
    """Return an inventory of supernodes under leaves and one spine."""
    count = -(-cards // (shape.nodes * shape.cards))
    leaves = [
        f'      leaf{number}: ["sn[{first}-{min(first + shape.per_leaf - 1, count)}]"]'
        for number, first in enumerate(range(1, count + 1, shape.per_leaf), 1)
    ]
    switches = "\n".join([f'      spine: ["leaf[1-{len(leaves)}]"]', *leaves])
    every = f'{{supernodes: ["sn[1-{count}]"]}}'
    partitions = "\n".join(f"  part{n}: {every}" for n in range(1, shape.partitions + 1))
    return f"""version: 1
cluster: large
fabrics:
  - name: ib
    kind: fat-tree
    rails: {{count: 4, bandwidth: 400 Gb/s}}
    switches:
{switches}
supernodes:
  - name: sn[1-{count}]
    interconnect: {{kind: switch, bandwidth: 900 GB/s}}
    spares: {shape.spares}
    nodes:
      hosts: "n{{n}}-[01-{shape.nodes:02d}]"
      devices: {{gb200: {shape.cards}}}
      sockets: 2
      cores: 72
      memory: 940 GiB
partitions:
{partitions}
"""


def main() -> None:
    """Print a table for each shape."""
    cards = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for shape in SHAPES:
        text = site(cards, shape)
        room = loads(text)
        nodes = sum(len(domain.hosts) for domain in room.domains)
        held = f"{nodes * shape.cards:,} cards in {len(room.supernodes):,} supernodes of"
        seconds = best(lambda text=text: loads(text))  # type: ignore[misc]
        print(f"{held} {shape.nodes} nodes, read in {seconds:.2f} s")
        print("release  seconds  bytes")
        for release in RELEASES.values():
            seconds = best(lambda room=room, release=release: generate(room, release))  # type: ignore[misc]
            size = sum(map(len, generate(room, release).files.values()))
            print(f"{release.name}    {seconds:7.2f}  {size:,}")


if __name__ == "__main__":
    main()
