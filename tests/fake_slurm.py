"""A Slurm that only remembers: for unit tests of what is above ``slurm/``.

``test_real_slurm_door.py`` holds it against a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from supernode_slurm import hostlist, units
from supernode_slurm.errors import SlurmRejected, UsageError
from supernode_slurm.inventory import Inventory
from supernode_slurm.slurm import (
    Associations,
    Gres,
    JobId,
    LiveJob,
    LiveNode,
    LivePartition,
    LiveTopology,
    Reservation,
)
from supernode_slurm.slurm.options import HET_SEPARATOR, split, values


class FakeSlurm:
    """Every node of an inventory, idle; jobs are kept, not run."""

    def __init__(self, inventory: Inventory, release: str = "24.11") -> None:
        self._release = release
        self._nodes = {node.name: node for node in _nodes(inventory)}
        self._partitions = {part.name: part for part in _partitions(inventory)}
        self._jobs: dict[int, LiveJob] = {}
        self.submitted: list[list[str]] = []
        self.scripts: list[str] = []
        self.tags: list[str] = []
        self.kept: tuple[Reservation, ...] = ()
        self.accounting: Associations | None = None
        self.passed: dict[str, str] = {}
        self.exit_code = 0
        """Of every job that is waited for."""

    def change(self, hosts: Iterable[str], *states: str, cpus_allocated: int = 0) -> None:
        """Give nodes other states."""
        for host in hosts:
            self._nodes[host] = replace(
                self._nodes[host], states=frozenset(states), cpus_allocated=cpus_allocated
            )

    def close(self, partition: str, state: str = "DOWN") -> None:
        """Give a partition another state."""
        self._partitions[partition] = replace(self._partitions[partition], state=state)

    def passing(self, variables: Mapping[str, str]) -> FakeSlurm:
        self.passed.update(variables)
        return self

    def release(self) -> str:
        return self._release

    def submit(
        self, arguments: Sequence[str], script: str | None = None, *, tag: str = ""
    ) -> JobId:
        self._check_partitions(arguments)
        self.submitted.append(list(arguments))
        paths = [Path(word) for word in arguments if word.startswith("/")]
        wrapped = script is None and not paths
        text = script if script is not None else "" if wrapped else paths[0].read_text()
        self.scripts.append(text)
        self.tags.append(tag)
        job = JobId(len(self.submitted))
        self._jobs[job.number] = _job(job, arguments, paths[0].name if paths else "sbatch")
        return job

    def submit_and_wait(
        self,
        arguments: Sequence[str],
        script: str | None = None,
        *,
        tag: str = "",
        submitted: Callable[[JobId], None],
    ) -> int:
        job = self.submit(arguments, script, tag=tag)
        submitted(job)
        state = "FAILED" if self.exit_code else "COMPLETED"
        self._set(job, frozenset({state}))
        return self.exit_code

    def test_only(self, arguments: Sequence[str], script: str | None = None) -> str:
        self._check_partitions(arguments)
        return f"Job {len(self.submitted) + 1} to start at 2026-01-01T00:00:00 using 1 processors"

    def nodes(self) -> tuple[LiveNode, ...]:
        return tuple(self._nodes.values())

    def partitions(self) -> tuple[LivePartition, ...]:
        return tuple(self._partitions.values())

    def job(self, job: JobId) -> LiveJob:
        if job.number not in self._jobs:
            raise SlurmRejected(["scontrol"], 1, "slurm_load_jobs error: Invalid job id specified")
        return self._jobs[job.number]

    def batch_script(self, job: JobId) -> str:
        return self.scripts[job.number - 1]

    def jobs(self, ids: Collection[JobId] = ()) -> tuple[LiveJob, ...]:
        numbers = {job.number for job in ids}
        return tuple(
            part
            for job in self._jobs.values()
            if not numbers or job.id.number in numbers
            for part in job.components or (job,)
        )

    def cancel(self, job: JobId) -> None:
        if not self.job(job).has_ended:
            self._set(job, frozenset({"CANCELLED"}))

    def config(self) -> Mapping[str, str]:
        return {
            "AccountingStorageType": "accounting_storage/none",
            "ClusterName": "fake",
            "MaxArraySize": "1001",
            "SLURM_VERSION": f"{self._release}.0",
        }

    def reservations(self) -> tuple[Reservation, ...]:
        return self.kept

    def topology(self, name: str = "") -> LiveTopology:
        return LiveTopology((), ())

    def associations(self, user: str) -> Associations | None:
        return self.accounting

    def _set(self, job: JobId, states: frozenset[str]) -> None:
        found = self._jobs[job.number]
        parts = tuple(replace(part, states=states) for part in found.components)
        self._jobs[job.number] = replace(found, states=states, components=parts)

    def _check_partitions(self, arguments: Sequence[str]) -> None:
        for options in _components(arguments):
            for name in filter(None, (options.get("partition") or "").split(",")):
                if name not in self._partitions:
                    said = f"sbatch: error: invalid partition specified: {name}"
                    raise SlurmRejected(["sbatch"], 1, said)


def _components(arguments: Sequence[str]) -> list[dict[str, str | None]]:
    try:
        return [values(words) for words in split(arguments).components]
    except UsageError:
        return []


def _job(job: JobId, arguments: Sequence[str], script: str) -> LiveJob:
    parts = _components(arguments)
    several = HET_SEPARATOR in arguments
    found = tuple(
        LiveJob(
            id=replace(job, offset=index) if several else job,
            name=options.get("job-name") or ("wrap" if "wrap" in options else script),
            states=frozenset({"PENDING"}),
            reason="JobHeldUser" if "hold" in options else "",
            partition=options.get("partition") or "",
            nodes="",
            hosts=(),
            features=options.get("constraint") or "",
            gres=(),
            exit_code=0,
        )
        for index, options in enumerate(parts)
    )
    return replace(found[0], components=found if several else ())


def _partitions(inventory: Inventory) -> Iterable[LivePartition]:
    for part in inventory.partitions:
        limit = units.minutes(part.max_time or "UNLIMITED")
        yield LivePartition(
            name=part.name,
            state="UP",
            is_default=part.default,
            nodes=hostlist.fold(part.hosts),
            hosts=part.hosts,
            max_time="UNLIMITED" if limit == float("inf") else str(part.max_time),
            min_nodes=0,
            max_nodes="UNLIMITED",
            allow_accounts=(),
            allow_qos=(),
            allow_groups=(),
            deny_accounts=(),
            deny_qos=(),
            needs_reservation=False,
            is_root_only=False,
            topology="",
        )


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
                    features=(domain.name, *types, *nodes.features),
                    partitions=tuple(
                        part.name for part in inventory.partitions if host in part.hosts
                    ),
                    cpus=nodes.sockets * nodes.cores * nodes.threads,
                    cpus_allocated=0,
                    memory_mib=nodes.memory_mib,
                    address=host,
                    reason="",
                )
