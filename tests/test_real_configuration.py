"""The inventories' files on a real slurmctld: accepted, meaning what we mean, placing as we say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from supernode_slurm import hostlist
from supernode_slurm.errors import SlurmRejected
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.slurm import Gres, LiveNode
from supernode_slurm.slurmconf import Generated, find_release, generate
from supernode_slurm.twin import Twin, TwinSpec, installed_release, judge
from tests.proofs import (
    INVENTORIES,
    TWO,
    Hosts,
    Placed,
    Proof,
    ask,
    cards_of,
    is_wide,
    refused,
    site_files,
)
from tests.test_topology import LEVELS, TWO_KINDS, pods, room

LEAVES = {
    "SwitchName": "tree",
    "BlockName": "block",
    "RingName": "ring",
    "TorusName": "torus3d",
}

pytestmark = pytest.mark.slurm


@dataclass(frozen=True, slots=True)
class Site:
    """An inventory, its files, and a twin that runs them."""

    room: Inventory
    generated: Generated
    twin: Twin
    nodes: dict[str, LiveNode]
    """As they are before any job."""


@pytest.fixture(scope="module", params=INVENTORIES, ids=lambda path: path.stem)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    path: Path = request.param
    here = load(path)
    generated = generate(here, find_release(installed_release()))
    with Twin(TwinSpec(site_files(here, generated))) as twin:
        nodes = {node.name: node for node in twin.client().nodes()}
        yield Site(here, generated, twin, nodes)


@pytest.fixture(scope="module")
def proof(site: Site) -> Proof:
    return Proof(site.room, site.generated, site.twin)


@pytest.fixture(scope="module")
def refusals(site: Site, proof: Proof) -> list[str]:
    """Return what sbatch says to jobs of all blocks, while no node is down."""
    argvs = [
        proof.plain(group, group.size * len(group.units))
        for group in proof.groups
        if group.topology in ("tree", "block")
    ]
    return [answer for argv in argvs if (answer := refused(site.twin, *argv))]


@pytest.fixture(scope="module")
def placed(proof: Proof, refusals: list[str]) -> list[Placed]:
    """Return where jobs went; afterwards nodes are down."""
    return proof.run()


def test_slurmctld_complains_of_nothing_but_what_was_meant(site: Site) -> None:
    """Of networks that do not meet, and of nodes outside the blocks.

    The latter were announced, or from 25.05 on another topology holds them.
    """
    assert site.twin.messages == ()
    said = judge((site.twin.directory / "slurmctld.log").read_text())
    roots = [line for line in said if "no switch can reach all nodes" in line]
    every = frozenset(site.nodes)
    kind, switches, _ = shown(site.twin, "")
    is_split = kind == "tree" and every not in switches.values()
    # Slurm 22.05 says it as an information.
    assert len(roots) == (is_split and site.twin.release != "22.05")
    if find_release(site.twin.release).yaml:
        found = [shown(site.twin, name) for name in bound(site.twin).values()]
        blocks = [units for kind, units, _ in found if kind == "block"]
        outside = {every.difference(*units.values()) for units in blocks}
    else:
        notes = " ".join(site.generated.notes)
        names = re.findall(r"'(\S+)' has [^:]*: it is left out of topology.conf", notes)
        outside = {frozenset(host for name in names for host in site.room.member(name).hosts)}
    others = " ".join(line for line in said if line not in roots)
    lacking = re.findall(r"warning: [Bb]locks lack access to [0-9]+ nodes: (\S+)", others)
    assert len(lacking) == len(said) - len(roots), said
    hosts = [hostlist.expand(text) for text in lacking]
    assert sorted(map(sorted, hosts)) == sorted(map(sorted, filter(None, outside)))


def test_nodes_have_the_cards_of_the_inventory(site: Site) -> None:
    ours = {host for domain in site.room.domains for host in domain.hosts}
    foreign = {host for item in site.room.foreign for host in item.hosts}
    assert site.nodes.keys() == ours | foreign
    for domain in site.room.domains:
        for part in domain.nodes:
            wanted = {Gres(*card) for card in cards_of(part)}
            for host in part.hosts:
                node = site.nodes[host]
                assert set(node.gres) == wanted
                assert {domain.name, *part.features} <= set(node.features)
                assert node.cpus == part.sockets * part.cores * part.threads
                assert node.memory_mib == part.memory_mib
                assert node.is_free


def test_partitions_are_those_of_the_inventory(site: Site) -> None:
    partitions = {item.name: item for item in site.twin.client().partitions()}
    foreign = {item.name for item in site.room.foreign}
    assert partitions.keys() == {item.name for item in site.room.partitions} | foreign
    for partition in site.room.partitions:
        assert set(partitions[partition.name].hosts) == set(partition.hosts)
        assert partitions[partition.name].is_default == partition.default


def shown(twin: Twin, topology: str) -> tuple[str, dict[str, Hosts], set[str]]:
    """Return the kind of a topology, the hosts of each unit, and the sizes of its blocks.

    Without a name the default topology.
    """
    kind, units, sizes = "flat", {}, set()
    for line in ask(twin, "scontrol", "show", "topology", *filter(None, [topology])).splitlines():
        fields = dict(re.findall(r"(\w+)=(\S+)", line))
        key = next((key for key in LEAVES if key in fields), None)
        if key and "Nodes" in fields:
            kind = LEAVES[key]
            units[fields[key]] = frozenset(hostlist.expand(fields["Nodes"]))
            sizes.add(fields.get("BlockSize", ""))
    return kind, units, sizes


def bound(twin: Twin) -> dict[str, str]:
    """Return the topology of each partition that is bound to one."""
    text = ask(twin, "scontrol", "-o", "show", "partition")
    return dict(re.findall(r"^PartitionName=(\S+) .*\bTopology=(\S+)", text, re.M))


def test_each_partition_has_the_topology_that_was_meant(site: Site) -> None:
    names = bound(site.twin)
    for partition in site.room.partitions:
        kind, units, sizes = shown(site.twin, names.get(partition.name, ""))
        assert kind == site.generated.kinds[partition.name]
        for item in map(site.room.domain, partition.members):
            if is_wide(item):
                assert units[item.name] == set(item.hosts)
                assert kind != "block" or sizes == {str(item.planning_nodes)}


def test_the_tree_is_the_network_of_the_inventory(site: Site) -> None:
    kind, units, _ = shown(site.twin, "")
    if kind != "tree":
        assert kind in ("block", "flat")
        return
    for fabric in site.room.fabrics:
        hosts: dict[str, Hosts] = {}
        for switch in fabric.switches:
            below = [hosts[name] for name in switch.switches]
            below += [frozenset(site.room.member(name).hosts) for name in switch.members]
            hosts[switch.name] = frozenset(switch.hosts).union(*below)
            assert units[switch.name] == hosts[switch.name]


def test_jobs_go_where_the_inventory_says(placed: list[Placed]) -> None:
    assert [job.wrong for job in placed if job.wrong] == []


def test_a_job_of_two_blocks_takes_the_fewest_switches(site: Site, placed: list[Placed]) -> None:
    if any("may take blocks of several switches" in note for note in site.generated.notes):
        return
    for item in (item for item in placed if item.job.what == TWO):
        leaves = [frozenset(hosts) for hosts in lowest_switches(site.room)]
        sizes = sorted((len(item.job.group.hosts & leaf) for leaf in leaves), reverse=True)
        fewest = next(n for n in range(len(sizes) + 1) if sum(sizes[:n]) >= item.job.nodes)
        assert sum(bool(item.hosts & leaf) for leaf in leaves) == fewest


def lowest_switches(here: Inventory) -> Iterator[Hosts]:
    """Yield the hosts of the switches that have nodes or supernodes of their own."""
    for switch in (switch for fabric in here.fabrics for switch in fabric.switches):
        members = (host for name in switch.members for host in here.member(name).hosts)
        if hosts := frozenset([*switch.hosts, *members]):
            yield hosts


def test_a_job_of_all_blocks_is_not_refused(refusals: list[str]) -> None:
    assert refusals == []


def test_a_torus_refuses_what_no_box_holds(site: Site, proof: Proof) -> None:
    for group in proof.groups:
        if group.topology == "torus3d":
            with pytest.raises(SlurmRejected, match="Requested topology configuration is not"):
                site.twin.client().submit([*proof.plain(group, 3), "--wrap=true"])


def test_foreign_nodes_take_jobs(site: Site) -> None:
    for item in site.room.foreign:
        argv = (f"--partition={item.name}", f"--nodelist={hostlist.fold(item.hosts)}")
        assert refused(site.twin, *argv, f"--nodes={len(item.hosts)}") == ""


@pytest.mark.parametrize("sizes", [sizes for sizes, _, _ in LEVELS], ids=str)
def test_jobs_of_all_sizes_are_taken_but_those_that_were_announced(sizes: tuple[int, ...]) -> None:
    release = find_release(installed_release())
    if "block" not in release.topologies:
        pytest.skip("this release has no topology/block")
    generated = generate(pods(*sizes), release)
    told = re.search(r"refuses some jobs of ([0-9]+) nodes and more", " ".join(generated.notes))
    with Twin(TwinSpec(generated.files)) as twin:
        answers = {
            nodes: refused(twin, "--partition=train", f"--nodes={nodes}", "--exclusive")
            for nodes in range(1, 4 * sum(sizes) + 1)
        }
        first = next((nodes for nodes, answer in answers.items() if answer), None)
        assert first == (int(told[1]) if told else None)
        if first:
            segments = ("--partition=train", f"--nodes={4 * sum(sizes)}", "--segment=4")
            assert refused(twin, *segments) == ""


def test_each_kind_of_card_gets_jobs_of_all_sizes_in_one_topology() -> None:
    release = find_release(installed_release())
    if "block" not in release.topologies:
        pytest.skip("this release has no topology/block")
    with Twin(TwinSpec(generate(room(TWO_KINDS), release).files)) as twin:
        for partition, most in (("a", 12), ("b", 8)):
            for nodes in range(1, most + 1):
                assert refused(twin, f"--partition={partition}", f"--nodes={nodes}") == ""
