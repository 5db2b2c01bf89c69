"""What of the room the user, or Slurm for this user, allows a group of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import PlanError


def _takes_all(_partition: str, _nodes: int) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the search, as the user set them with sbatch's options."""

    partitions: tuple[str, ...] = ()
    """Those that are named, none for all."""
    refuses: Callable[[str, int], str] = field(default=_takes_all)
    """Why a partition does not take a job of so many nodes; empty if it may."""
    segment: int | None = None
    """Nodes in a row that are enough to share a supernode, as the user says."""
    nodes: tuple[int, int] | None = None
    """Least and most nodes."""
    per_node: int | None = None
    """Devices on each node."""
    hosts: frozenset[str] | None = None
    """The only hosts that may be used, None for all."""
    named: frozenset[str] = field(default=frozenset())
    """Hosts that must be among those used."""

    def devices_on_node(self, devices: int, most: int) -> int:
        """Return how many of the devices lie on each node of at most so many.

        As many as fit where nothing is said. Raises ``PlanError`` where the bounds leave none.
        """
        if self.per_node is not None and self.per_node > most:
            raise PlanError(f"{self.per_node} on each node wanted, they hold {most} of this kind")
        if self.per_node is not None:
            sizes: Sequence[int] = [self.per_node] if devices % self.per_node == 0 else []
        elif self.nodes is not None:
            least, highest = self.nodes
            counts = range(max(least, 1), min(highest, devices) + 1)
            sizes = [devices // nodes for nodes in counts if devices % nodes == 0]
        else:
            sizes = [min(devices, most)]
        fitting = [size for size in sizes if size <= most and self._allows(devices // size)]
        if not fitting:
            raise PlanError(f"{devices} devices do not lie evenly {self._words(most)}")
        return max(fitting)

    def _allows(self, nodes: int) -> bool:
        return self.nodes is None or self.nodes[0] <= nodes <= self.nodes[1]

    def _words(self, most: int) -> str:
        least, highest = self.nodes or (0, 0)
        nodes = f"{least} nodes" if least == highest else f"{least} to {highest} nodes"
        each = f"with {self.per_node} on each" if self.per_node else f"of at most {most} each"
        return f"on {nodes if self.nodes else 'nodes'} {each}"
