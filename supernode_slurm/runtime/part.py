"""What one rank of a plan computes.

Python 3.8, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..plan import Mesh, Plan


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
