"""Kinds of rooms on real controllers: which sizes are refused, where cloud nodes stand."""

from __future__ import annotations

import re

import pytest

from supernode_slurm import hostlist
from supernode_slurm.inventory import Inventory
from supernode_slurm.slurmconf import Generated, find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests import topology_rooms
from tests.proofs import ask, refused
from tests.topology_rooms import REFUSED

pytestmark = pytest.mark.slurm


def here(room: Inventory) -> Generated:
    return generate(room, find_release(installed_release()))


def started(twin: Twin, *argv: str) -> frozenset[str]:
    """Submit a job of whole nodes and return its hosts once it has them."""
    client = twin.client()
    job = client.submit([*argv, "--exclusive", "--output=/dev/null", "--wrap=sleep 60"])
    for _ in range(300):
        hosts = ask(twin, "squeue", "-h", "-j", str(job), "-o", "%N").strip()
        if hosts:
            return frozenset(hostlist.expand(hosts))
        ask(twin, "sleep", "0.1")
    return frozenset()


@pytest.mark.parametrize("name", REFUSED)
def test_slurm_refuses_from_the_announced_size_on_and_no_smaller(name: str) -> None:
    release = find_release(installed_release())
    expected = REFUSED[name].get(release.name)
    if expected is None:
        pytest.skip(f"no sizes are announced for Slurm {release.name}")
    room: Inventory = getattr(topology_rooms, name)()
    with Twin(TwinSpec(here(room).files)) as twin:
        assert twin.messages == ()
        for partition in room.partitions:
            sizes = range(1, len(partition.hosts) + 1)
            first = next(
                (
                    n
                    for n in sizes
                    if refused(twin, f"--partition={partition.name}", f"--nodes={n}")
                ),
                None,
            )
            assert (partition.name, first) == (partition.name, expected[partition.name])


def test_no_job_lies_on_two_networks() -> None:
    """BR014: on real releases, whatever topology is written."""
    room = topology_rooms.two_networks()
    with Twin(TwinSpec(here(room).files)) as twin:
        assert "is not available" in refused(twin, "--partition=every", "--nodes=50")
        assert started(twin, "--partition=every", "--nodes=40") == set(room.domain("hgx").hosts)


def test_jobs_of_racks_of_unequal_size_lie_in_one_rack_each() -> None:
    release = find_release(installed_release())
    if not release.yaml:
        pytest.skip(f"on Slurm {release.name} they may lie across racks, which is said")
    with Twin(TwinSpec(here(topology_rooms.a_short_rack()).files)) as twin:
        for nodes in (16, 16, 16, 11):
            hosts = started(twin, f"--nodes={nodes}")
            assert len(hosts) == nodes
            assert len({host.partition("-")[0] for host in hosts}) == 1


def test_a_job_of_a_pool_lies_under_the_fewest_leaves() -> None:
    with Twin(TwinSpec(here(topology_rooms.a_pool_on_leaves()).files)) as twin:
        for nodes, most in ((20, 1), (40, 2)):
            hosts = started(twin, "--partition=hgx", f"--nodes={nodes}")
            assert len({(int(host[1:]) - 1) // 20 for host in hosts}) == most


def test_one_topology_block_gives_no_job_nodes_inside_and_outside_of_blocks() -> None:
    room = topology_rooms.a_small_pool_between()
    with Twin(TwinSpec(here(room).files)) as twin:
        answer = refused(twin, "--partition=every", "--nodes=38")
        is_block = find_release(twin.release).topologies == ("tree", "block")
        assert bool(answer) == is_block
        assert started(twin, "--partition=every", "--nodes=4", "--constraint=few")


def test_cloud_nodes_keep_their_place_in_every_topology() -> None:
    """BR012: files for 25.11 on 26.05, which honours what a node's line says as well."""
    if not find_release(installed_release()).yaml:
        pytest.skip("this release reads no Topology= of a node")
    room = topology_rooms.cloud_leaves()
    files = generate(room, find_release("25.11")).files
    with Twin(TwinSpec(files)) as twin:
        assert twin.messages == ()
        for name in ("sn1", "sn2", "big", "p"):
            hosts = set(room.domain(name).hosts)
            argv = ("--partition=every", f"--constraint={name}", f"--nodes={len(hosts)}")
            assert started(twin, *argv) == hosts
        before = [places(twin, topology) for topology in ("default", "sn", "big")]
        for name in ("sn1", "sn2", "big"):
            held = [set(hosts) for found in before for hosts in found.values()]
            assert any(set(room.domain(name).hosts) == hosts for hosts in held)
        assert before[0]["l1"] == room.domain("sn1").hosts
        assert before[0]["l3"] == room.domain("big").hosts[:4]
        ask(twin, "scancel", "--state=RUNNING", "--partition=every")
        every = hostlist.fold(host for item in room.domains for host in item.hosts)
        ask(twin, "scontrol", "update", f"nodename={every}", "state=power_down_force")
        assert [places(twin, topology) for topology in ("default", "sn", "big")] == before


def places(twin: Twin, topology: str) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each switch or block."""
    text = ask(twin, "scontrol", "show", "topology", topology)
    found = re.findall(r"^(?:SwitchName|BlockName)=(\S+) .*?\bNodes=(\S*)", text, re.M)
    return {name: tuple(hostlist.expand(hosts) if hosts else ()) for name, hosts in found}
