"""The environment of one process: torch's variables, the vendor's devices, its share.

Python 3.8, standard library only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping, Sequence

from ..plan import DeviceGroup, Mesh, Plan
from .job import number
from .layout import Layout, Place
from .problem import LaunchError
from .share import fold_runs

_SET_BY_SLURM = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
"""For gres/gpu, unless gres.conf flags another vendor or none (gres.conf(5))."""
_CONTAINERS = {"apptainer": "APPTAINERENV_", "singularity": "SINGULARITYENV_"}


@dataclass(frozen=True)
class Part:
    """The place of a rank in the plan, and its samples of every global batch."""

    mesh: Mesh
    tp_rank: int
    stage: int
    replica: int
    samples: int
    offset: int
    accumulation: int
    """Micro-batches of its replica per step."""


@dataclass(frozen=True)
class Rank:
    """Who this process is."""

    layout: Layout
    place: Place
    local: int
    plan: Plan | None

    @property
    def number(self) -> int:
        """Return its rank; that of the node's first where one task starts the node's."""
        return self.place.first + self.local

    @property
    def node_rank(self) -> int:
        """Return the index of its node."""
        return self.layout.places.index(self.place)

    @property
    def group(self) -> DeviceGroup | None:
        """Return the devices of its node, None where nobody knows them."""
        if self.plan is None or self.place.group < 0:
            return None
        return self.plan.groups[self.place.group]

    @property
    def part(self) -> Part | None:
        """Return what it computes, None where the job is placed and not planned."""
        return None if self.plan is None else part_of(self.plan, self.number)


def part_of(plan: Plan, rank: int) -> Part | None:
    """Return what a rank computes; None where the job is placed and not planned."""
    start, offset, replica = 0, 0, 0
    for pipeline in plan.pipelines:
        stage = 0
        for mesh in pipeline.meshes:
            if rank < start + mesh.devices:
                index = rank - start
                width = mesh.tp * mesh.cp
                mine = index // width % mesh.dp
                each, more = divmod(pipeline.samples, mesh.dp)
                samples = each + (mine < more)
                return Part(
                    mesh,
                    tp_rank=index % mesh.tp,
                    stage=stage + index // (width * mesh.dp),
                    replica=replica + mine,
                    samples=samples,
                    offset=offset + mine * each + min(mine, more),
                    accumulation=-(-samples // mesh.micro_batch),
                )
            start += mesh.devices
            stage += mesh.pp
        offset += pipeline.samples
        replica += pipeline.meshes[0].dp
    return None


def replicas_of(plan: Plan) -> list[tuple[int, int]]:
    """Return samples and micro-batch of every replica.

    Empty where the meshes of a pipeline cut it into unlike numbers of replicas.
    """
    found = []
    for pipeline in plan.pipelines:
        mesh = pipeline.meshes[0]
        if any(other.dp != mesh.dp for other in pipeline.meshes):
            return []
        each, more = divmod(pipeline.samples, mesh.dp)
        found += [(each + (index < more), mesh.micro_batch) for index in range(mesh.dp)]
    return found


def find_rank(environ: Mapping[str, str], layout: Layout, plan: Plan | None) -> Rank:
    """Return the rank of this task, by its node and its place on the node."""
    node = environ.get("SLURMD_NODENAME", "")
    local = number(environ, "SLURM_LOCALID")
    for place in layout.places:
        if place.node == node:
            if local >= (1 if layout.per_node else place.count):
                raise LaunchError(f"node {node} runs more tasks than its share of the rank map")
            return Rank(layout, place, local, plan)
    raise LaunchError(f"node {node!r} is not in the rank map; leave srun's nodes to sn-launch")


def variables(environ: Mapping[str, str], rank: Rank) -> dict[str, str]:
    """Return what is set for the process on top of its environment."""
    found: dict[str, object] = {
        "NODE_RANK": rank.node_rank,
        "MASTER_ADDR": rank.layout.master,
        "MASTER_PORT": rank.layout.port,
    }
    group = rank.group
    if group is not None:
        found.update(visible_devices(environ, group, rank.place.devices))
        found.update({key: text for key, text in group.environment.items() if key not in environ})
        found.update({"SN_GROUP": group.name, "SN_ACCELERATOR": group.accelerator})
    if rank.layout.per_node:
        found["NNODES"] = len(rank.layout.places)
        found["NPROC_PER_NODE"] = node_processes(environ, rank)
        found.update(job_variables(rank.plan))
    else:
        found["RANK"] = rank.number
        found["LOCAL_RANK"] = rank.local
        found["WORLD_SIZE"] = rank.layout.world
        found["LOCAL_WORLD_SIZE"] = rank.place.count
        found.update(job_variables(rank.plan))
        found.update(part_variables(rank.part))
    return {name: str(value) for name, value in found.items()}


def job_variables(plan: Plan | None) -> dict[str, object]:
    """Return what all ranks are told of the plan."""
    if plan is None or not plan.pipelines:
        return {}
    found: dict[str, object] = {"SN_GLOBAL_BATCH": plan.global_batch}
    replicas = replicas_of(plan)
    if replicas:
        samples, sizes = zip(*replicas)
        found.update({"SN_SHARES": fold_runs(samples), "SN_MICRO_BATCHES": fold_runs(sizes)})
    if plan.rebalance:
        found["SN_REBALANCE"] = 1
    found.update(accelerate_variables(plan))
    return found


def accelerate_variables(plan: Plan) -> dict[str, object]:
    """Return by what Accelerate shards over a part of the replicas; no argument says it."""
    mesh = plan.pipelines[0].meshes[0]
    if plan.framework != "hf-fsdp" or mesh.shard in (0, mesh.dp):
        return {}
    return {
        "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
        "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": mesh.dp // mesh.shard,
        "PARALLELISM_CONFIG_DP_SHARD_SIZE": mesh.shard,
    }


def part_variables(part: Part | None) -> dict[str, object]:
    """Return what a rank is told of its own part."""
    if part is None:
        return {}
    found: dict[str, object] = {
        "SN_TP_RANK": part.tp_rank,
        "SN_STAGE": part.stage,
        "SN_REPLICA": part.replica,
        "SN_SAMPLES": part.samples,
        "SN_SAMPLE_OFFSET": part.offset,
        "SN_MICRO_BATCH": part.mesh.micro_batch,
    }
    if part.mesh.shard:
        found["SN_SHARD"] = part.mesh.shard
    return found


def node_processes(environ: Mapping[str, str], rank: Rank) -> int:
    """Return how many processes a node's one task starts: the plan's, else its devices'."""
    if rank.plan is not None and rank.plan.pipelines:
        return rank.place.count
    return number(environ, "SLURM_GPUS_ON_NODE") or rank.place.count


def visible_devices(
    environ: Mapping[str, str], group: DeviceGroup, held: Sequence[int] = ()
) -> dict[str, str]:
    """Return the vendor's variables, where nobody set them.

    What Slurm set for its own vendors is right also where cgroups renumber the devices.
    Without it the step's list; SLURM_JOB_GPUS shows the first component's devices in a
    heterogeneous job. For a GRES that is not called gpu those that the job holds, of which
    Slurm tells its tasks nothing; whole nodes where that is not known.
    """
    found = [environ[name] for name in _SET_BY_SLURM if environ.get(name)]
    if group.gres != "gpu":
        found = [",".join(map(str, held))]
    elif not found:
        found = [environ.get("SLURM_STEP_GPUS", "")]
        if not environ.get("SLURM_HET_SIZE"):
            found.append(environ.get("SLURM_JOB_GPUS", ""))
    whole = ",".join(map(str, range(group.devices_per_node)))
    listed = next(filter(None, found), whole)
    return {name: environ.get(name) or listed for name in group.visible_env}


def seen_devices(environ: Mapping[str, str], group: DeviceGroup | None) -> int | None:
    """Return how many devices this process sees, None where nothing says so."""
    names = _SET_BY_SLURM if group is None else group.visible_env
    lists = [environ[name] for name in names if environ.get(name)]
    return len(lists[0].split(",")) if lists else None


def for_container(command: list[str], found: Mapping[str, str]) -> dict[str, str]:
    """Return variables again under the names that pass a container's --cleanenv.

    As the documents of Apptainer and Singularity say; not run against either.
    """
    prefix = _CONTAINERS.get(os.path.basename(command[0]))
    return {f"{prefix}{name}": text for name, text in found.items()} if prefix else {}
