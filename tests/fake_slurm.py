"""A Slurm that only remembers: for unit tests of what is above ``slurm/``.

``test_real_submission.py`` holds it against a real one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from supernode_slurm.errors import SlurmRejected
from supernode_slurm.inventory import Inventory
from supernode_slurm.slurm import Gres, JobId, LiveJob, LiveNode, LivePartition


class FakeSlurm:
    """Every node of an inventory, idle; jobs are kept, not run."""

    def __init__(self, inventory: Inventory, release: str = "24.11") -> None:
        self._release = release
        self._nodes = {node.name: node for node in _nodes(inventory)}
        self.submitted: list[list[str]] = []
        self.scripts: list[str] = []

    def change(self, hosts: Iterable[str], *states: str, cpus_allocated: int = 0) -> None:
        """Give nodes other states."""
        for host in hosts:
            self._nodes[host] = replace(
                self._nodes[host], states=frozenset(states), cpus_allocated=cpus_allocated
            )

    def release(self) -> str:
        return self._release

    def submit(self, sbatch_arguments: Sequence[str], script: str | None = None) -> JobId:
        self.submitted.append(list(sbatch_arguments))
        paths = [Path(word) for word in sbatch_arguments if word.startswith("/")]
        self.scripts.append(paths[0].read_text() if script is None else script)
        return JobId(len(self.submitted))

    def nodes(self) -> tuple[LiveNode, ...]:
        return tuple(self._nodes.values())

    def partitions(self) -> tuple[LivePartition, ...]:
        return ()

    def job(self, job: JobId) -> LiveJob:
        raise SlurmRejected(["scontrol"], 1, f"slurm_load_jobs error: Invalid job id {job}")

    def cancel(self, job: JobId) -> None:
        return


def _nodes(inventory: Inventory) -> Iterable[LiveNode]:
    for domain in inventory.domains:
        for nodes in domain.nodes:
            for host in nodes.hosts:
                types = [item.type for item in nodes.devices]
                yield LiveNode(
                    name=host,
                    states=frozenset({"IDLE"}),
                    gres=tuple(Gres(i.gres, i.type, i.count) for i in nodes.devices),
                    gres_used=(),
                    features=(domain.name, *types),
                    partitions=tuple(
                        part.name for part in inventory.partitions if host in part.hosts
                    ),
                    cpus=nodes.sockets * nodes.cores * nodes.threads,
                    cpus_allocated=0,
                    memory_mib=nodes.memory_mib,
                    address=host,
                    reason="",
                )
