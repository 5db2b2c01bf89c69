"""Where the groups of tensor, context and expert parallelism lie among ranks and supernodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import pytest

from supernode_slurm import hostlist
from supernode_slurm.plan import DeviceGroup, Mesh, Pipeline, Plan, Stage
from supernode_slurm.runtime import job
from supernode_slurm.runtime.layout import place_plan
from supernode_slurm.runtime.problem import LaunchError
from supernode_slurm.runtime.rank import Part, part_of
from tests.test_emission import package

DOMAINS = ("h1-[01-08]", "h2-[01-08]")
MESHES = (
    Mesh(0, tp=2, pp=2, dp=4, cp=2, ep=4, etp=2, micro_batch=1),
    Mesh(0, tp=1, pp=2, dp=4, cp=4, ep=16, etp=1, micro_batch=1),
    Mesh(0, tp=4, pp=1, dp=4, cp=2, ep=8, etp=1, micro_batch=1),
)


def plan(mesh: Mesh, together: int = 4) -> Plan:
    """Return a plan on 8 nodes of 4 devices, so many in a row in one of two supernodes."""
    hosts = ",".join(DOMAINS)
    group = DeviceGroup(
        "h100", "h100-sxm", "nvidia", (), "gpu", hosts, 8, 4, DOMAINS, together=together
    )
    stages = tuple(Stage(0, 4) for _ in range(mesh.pp))
    return Plan("m", 16, 128, "megatron", (group,), (Pipeline(16, (mesh,), stages),))


def parts(mesh: Mesh) -> dict[int, Part]:
    found = {rank: part_of(plan(mesh), rank) for rank in range(mesh.devices)}
    return {rank: part for rank, part in found.items() if part is not None}


def groups(mesh: Mesh, key: Callable[[int, Part], object]) -> set[tuple[int, ...]]:
    """Return the ranks that share a key."""
    found: dict[object, list[int]] = defaultdict(list)
    for rank, part in parts(mesh).items():
        found[key(rank, part)].append(rank)
    return {tuple(ranks) for ranks in found.values()}


def runs(ranks: int, size: int) -> Iterable[range]:
    """Return consecutive ranks, so many at a time."""
    return (range(start, start + size) for start in range(0, ranks, size))


@pytest.mark.parametrize("mesh", MESHES)
def test_a_rank_counts_tensor_then_context_then_replicas_then_stages(mesh: Mesh) -> None:
    found = parts(mesh)
    assert len(found) == mesh.devices == 32
    for rank, part in found.items():
        context = rank // mesh.tp % mesh.cp
        inner = part.tp_rank + mesh.tp * (context + mesh.cp * part.replica)
        assert rank == inner + mesh.tp * mesh.cp * mesh.dp * part.stage
    # The ranks of one sequence compute the same samples.
    assert len({(part.replica, part.offset) for part in found.values()}) == mesh.dp
    assert {part.samples for part in found.values()} == {16 // mesh.dp}


@pytest.mark.parametrize("mesh", MESHES)
def test_megatrons_own_groups_are_those_of_our_ranks(mesh: Mesh) -> None:
    state = package("megatron.core.parallel_state")
    order = "tp-cp-ep-dp-pp"
    dense = state.RankGenerator(mesh.tp, 1, mesh.dp, mesh.pp, mesh.cp, order)

    def theirs(token: str) -> set[tuple[int, ...]]:
        return {tuple(ranks) for ranks in dense.get_ranks(token)}

    assert groups(mesh, lambda _, part: (part.stage, part.replica)) == theirs("tp-cp")
    inner = mesh.tp * mesh.cp
    assert groups(mesh, lambda rank, part: (part.stage, rank % inner)) == theirs("dp")
    assert groups(mesh, lambda rank, part: (part.replica, rank % inner)) == theirs("pp")
    width = mesh.tp * mesh.cp * mesh.dp // (mesh.ep * mesh.etp)
    experts = state.RankGenerator(mesh.etp, mesh.ep, width, mesh.pp, 1, order)
    ours = {tuple(run) for run in runs(mesh.devices, mesh.ep * mesh.etp)}
    assert {tuple(ranks) for ranks in experts.get_ranks("tp-ep")} == ours


@pytest.mark.parametrize("mesh", MESHES)
def test_groups_that_talk_most_stay_inside_one_supernode(mesh: Mesh) -> None:
    held = job.components(
        {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "h1-[02-04,08],h2-[01,03,05,07]"}
    )
    places = place_plan(plan(mesh), held)
    node_of = {
        rank: place.node
        for place in places
        for rank in range(place.first, place.first + place.count)
    }
    assert len(node_of) == mesh.devices
    domain_of = {host: text for text in DOMAINS for host in hostlist.expand(text)}
    for size in (mesh.tp * mesh.cp, mesh.ep * mesh.etp):
        for run in runs(mesh.devices, size):
            assert len({domain_of[node_of[rank]] for rank in run}) == 1


def test_a_job_whose_groups_would_cross_supernodes_does_not_start() -> None:
    held = job.components(
        {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "h1-[02-04],h2-[01,03,05,07-08]"}
    )
    with pytest.raises(LaunchError, match="promised one supernode"):
        place_plan(plan(MESHES[0]), held)
