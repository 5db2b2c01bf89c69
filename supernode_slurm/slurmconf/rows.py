"""What the jobs of each partition can have in each block, for the choice of levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..inventory import Inventory, Partition
from .levels import ORDINARY, Held, first_refused
from .render import Block


@dataclass(frozen=True, slots=True)
class Row:
    """Nodes that one kind of job of a partition can have in each block."""

    partition: str
    held: tuple[int, ...]
    is_whole: bool
    """It holds the planning block at least of each block that it holds any node of."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of partitions over blocks."""

    rows: tuple[Row, ...]
    every: tuple[Held, ...]
    """All nodes of the blocks, and those without the spares."""

    def tried(self) -> list[Held]:
        """Return the rows by which levels are chosen: partitions of whole blocks, if any is.

        No levels serve all sizes of jobs that have only a part of each block.
        """
        whole: list[Held] = [row.held for row in self.rows if row.is_whole]
        return list(dict.fromkeys(whole or self.every))

    def parts(self) -> Rows:
        """Return the rows of those that hold less than a planning block of some block."""
        return Rows(tuple(row for row in self.rows if not row.is_whole), self.every)

    def without(self, partitions: Iterable[str]) -> Rows:
        """Return the rows of all other partitions."""
        gone = set(partitions)
        return Rows(tuple(row for row in self.rows if row.partition not in gone), self.every)

    def refused(self, base: int, levels: list[int], most: float = 1.0) -> dict[str, int]:
        """Return the smallest refused job of each partition that refuses any.

        Of sizes up to the share ``most`` of the nodes that a kind of job can have.
        """
        known: dict[Held, int | None] = {}
        found: dict[str, int] = {}
        for row in self.rows:
            if row.held not in known:
                known[row.held] = first_refused(base, row.held, levels)
            size = known[row.held]
            if size is not None and size <= most * sum(row.held):
                found[row.partition] = min(size, found.get(row.partition, size))
        return found

    def ordinary(self, base: int, levels: list[int]) -> dict[str, int]:
        """Return the smallest refused job of each partition that refuses ordinary sizes."""
        return self.refused(base, levels, ORDINARY)


def rows_of(
    inventory: Inventory, blocks: list[Block], partitions: Iterable[Partition], base: int
) -> Rows:
    """Return what partitions have in blocks, with every node and with the spares gone."""
    spares = {item.name: item.spares for item in inventory.supernodes}
    usual = [max(len(block.nodes) - spares.get(block.name, 0), 0) for block in blocks]
    whole = tuple(len(block.nodes) for block in blocks)
    place = {host: index for index, block in enumerate(blocks) for host in block.nodes}
    kind = {
        host: tuple(devices.type for devices in nodes.devices)
        for nodes in inventory.node_classes
        for host in nodes.hosts
    }
    rows: dict[Row, None] = {}
    for partition in partitions:
        for count in _counts(partition, place, kind):
            is_whole = all(n >= min(base, usual[index]) for index, n in count.items())
            held = tuple(count[index] for index in range(len(blocks)))
            left = tuple(map(min, held, usual))
            rows |= {Row(partition.name, had, is_whole): None for had in (held, left)}
    return Rows(tuple(rows), tuple(dict.fromkeys((whole, tuple(map(min, whole, usual))))))


def _counts(
    partition: Partition, place: dict[str, int], kind: dict[str, tuple[str, ...]]
) -> Iterator[Counter[int]]:
    """Yield the nodes in each block by kind of node, and all of them where there are several."""
    kinds: dict[object, Counter[int]] = {}
    for host in partition.hosts:
        if host in place:
            kinds.setdefault(kind.get(host), Counter())[place[host]] += 1
    yield from kinds.values()
    if len(kinds) > 1:
        yield sum(kinds.values(), Counter())
