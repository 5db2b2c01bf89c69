"""Kinds of rooms whose topologies went wrong once: what is written for them, and what is said."""

from __future__ import annotations

import re

import pytest
import yaml

from supernode_slurm import hostlist
from supernode_slurm.inventory import Inventory
from supernode_slurm.slurmconf import RELEASES, Generated, find_release, generate
from tests.test_topology import NEW, OLD, block_lines, one, pods, topologies
from tests.topology_rooms import (
    a_pool_on_leaves,
    a_room,
    a_short_rack,
    a_small_pool_between,
    cloud_leaves,
    fabric,
    parts_of_racks,
    pool,
    rings,
    supernodes,
    toruses,
    two_networks,
)

BLOCKS = [name for name in OLD if "block" in RELEASES[name].topologies]


def written(room: Inventory, release: str) -> Generated:
    return generate(room, find_release(release))


def node_places(generated: Generated) -> dict[str, list[str]]:
    """Return the place of each node, in each topology that its line names."""
    found = {}
    for line in generated.files["supernode-nodes.conf"].splitlines():
        if line.startswith("NodeName="):
            fields = dict(word.split("=", 1) for word in line.split())
            for host in hostlist.expand(fields["NodeName"]):
                found[host] = fields.get("Topology", "").split(",")
    return found


def test_a_cloud_node_names_the_switch_and_the_block_that_hold_it() -> None:
    """BR012: nodes that power down leave their block; none is where its line leaves one out."""
    generated = written(cloud_leaves(), "25.11")
    places = node_places(generated)
    assert places["sn1-01"] == ["default:spine:l1", "sn:sn1"]
    assert places["sn2-04"] == ["default:spine:l2", "sn:sn2"]
    assert places["big-04"] == ["default:spine:l3", "big:big"]
    assert places["big-05"] == ["default:spine:l4", "big:big"]
    assert places["h1"] == ["default:spine:l4"]
    for item in yaml.safe_load(generated.files["topology.yaml"]):
        units = item.get("tree", {}).get("switches") or item["block"]["blocks"]
        for unit in units:
            for host in hostlist.expand(unit["nodes"]) if "nodes" in unit else ():
                name = unit.get("switch") or unit["block"]
                assert any(
                    place.startswith(f"{item['topology']}:") and place.split(":")[-1] == name
                    for place in places[host]
                )


def test_addresses_are_parted_with_the_nodes_that_they_belong_to() -> None:
    lines = written(cloud_leaves(), "25.11").files["supernode-nodes.conf"].splitlines()
    big = [line for line in lines if line.startswith("NodeName=big")]
    assert [line.split()[0] for line in big] == ["NodeName=big-[01-04]", "NodeName=big-[05-08]"]
    assert [line.split()[-1] for line in big] == ["NodeAddr=ip[11-14]", "NodeAddr=ip[15-18]"]


@pytest.mark.parametrize("release", BLOCKS)
def test_one_topology_block_never_joins_what_a_partition_holds_of_two_networks(
    release: str,
) -> None:
    """BR014: jobs were spread over fabrics that cannot talk."""
    generated = written(two_networks(), release)
    assert generated.topology == "tree"
    assert "partition 'every' spans networks that do not meet (ib, roce)" in generated.notes[0]
    lone = a_room(
        fabric("ib", spine="'sn[1-2]'"),
        supernodes("sn[1-2]", 4),
        pool("p", "h[1-8]"),
        every="supernodes: ['sn[1-2]'], pools: [p]",
    )
    assert "(ib, none of 'p')" in written(lone, release).notes[0]


@pytest.mark.parametrize("release", BLOCKS)
def test_networks_that_no_partition_joins_may_be_blocks_of_one_topology(release: str) -> None:
    room = a_room(
        fabric("ib", spine="'sn[1-2]'") + fabric("roce", core="p"),
        supernodes("sn[1-2]", 4),
        pool("p", "h[1-4]"),
        a="supernodes: ['sn[1-2]']",
        b="pools: [p]",
    )
    assert written(room, release).topology == "block"


@pytest.mark.parametrize("release", NEW)
def test_a_partition_of_parts_that_blocks_would_refuse_is_left_on_the_tree(release: str) -> None:
    generated = written(parts_of_racks(), release)
    kinds = {"train": "block", "debug": "tree", "halves": "tree", "corner": "block"}
    assert generated.kinds == kinds
    told = [note for note in generated.notes if "blocks would refuse" in note]
    assert [note.split(":")[0] for note in told] == ["partition 'debug'", "partition 'halves'"]
    assert "jobs of 3 nodes and more: tree places its jobs; lost: --segment" in told[0]
    assert "jobs of 10 nodes and more" in told[1]
    assert topologies(generated)["sn"]["block"]["block_sizes"] == [16, 32, 64]  # type: ignore[index]


@pytest.mark.parametrize("release", ["24.05", "24.11"])
def test_a_partition_of_parts_is_told_from_which_size_on_one_topology_block_refuses(
    release: str,
) -> None:
    notes = written(parts_of_racks(), release).notes
    assert [re.sub(" holds .* jobs of", "", note) for note in notes] == [
        "partition 'debug' 3 nodes and more without --segment",
        "partition 'halves' 10 nodes and more without --segment",
    ]


def test_a_ring_and_a_torus_say_which_sizes_they_refuse() -> None:
    notes = written(rings(), "26.05").notes
    assert "sn[1-4]: topology/ring takes jobs of up to 8 nodes, larger jobs need --segment" in notes
    notes = written(toruses(), "26.05").notes
    sizes = "1, 2, 4, 8, 16, 32, 64 nodes and refuses others, larger jobs need --segment"
    assert f"sn[1-2]: topology/torus3d takes jobs of {sizes}" in notes
    sizes = "1, 2, 4, 16 nodes and refuses others"
    assert f"partition 'plane': topology/torus3d takes jobs of {sizes}" in notes
    assert written(one("ring", 16), "26.05").notes == ()


def test_parts_of_rings_and_toruses_keep_them_only_where_all_their_nodes_are_a_shape() -> None:
    kinds = written(rings(), "26.05").kinds
    assert kinds == {"every": "ring", "pairs": "tree", "row": "ring", "two": "ring", "gap": "tree"}
    kinds = written(toruses(), "26.05").kinds
    assert kinds == {"every": "torus3d", "plane": "torus3d", "askew": "tree"}


@pytest.mark.parametrize("release", BLOCKS)
def test_a_pool_is_a_block_for_each_of_its_leaves(release: str) -> None:
    """BR015: a tier of the network was lost."""
    generated = written(a_pool_on_leaves(), release)
    blocks = dict(block_lines(generated))
    if release == "23.11":
        assert blocks.keys() == {"sn1", "sn2", "sn3", "sn4"}
        assert any("'hgx' has 100 nodes, not those of" in note for note in generated.notes)
    else:
        assert blocks.keys() == {"sn1", "sn2", "sn3", "sn4", "l1", "l2", "l3", "l4", "l5"}
        assert blocks["l5"] == "h[081-100]"


def test_a_pool_on_leaves_smaller_than_the_base_is_one_block_and_it_is_said() -> None:
    room = a_room(
        fabric("ib", spine="top, l1, l2", top="'sn[1-2]'", l1="'h[01-10]'", l2="'h[11-40]'"),
        supernodes("sn[1-2]", 18, 2),
        pool("hgx", "h[01-40]"),
        racks="supernodes: ['sn[1-2]']",
        hgx="pools: [hgx]",
    )
    generated = written(room, "24.11")
    assert ("hgx", "h[01-40]") in block_lines(generated)
    told = "'hgx' is one block: not all of its leaves l[1-2] hold the base of 16 nodes"
    assert any(told in note for note in generated.notes)


@pytest.mark.parametrize("release", NEW)
def test_racks_of_unequal_size_are_blocks_of_one_topology(release: str) -> None:
    generated = written(a_short_rack(), release)
    assert generated.kinds == {"every": "block"}
    assert generated.notes == ()
    block = topologies(generated)["sn"]["block"]
    assert block["block_sizes"] == [16, 32, 64]  # type: ignore[index]
    assert block["blocks"][3] == {"block": "sn4", "nodes": "sn4-[01-12]"}  # type: ignore[index]


@pytest.mark.parametrize("release", NEW)
def test_unequal_blocks_that_would_refuse_ordinary_jobs_are_a_tree(release: str) -> None:
    wide = supernodes("big", 8) + supernodes("sn[1-4]", 4)
    generated = written(a_room(wide=wide, every="supernodes: [big, 'sn[1-4]']"), release)
    assert generated.kinds == {"every": "tree"}
    assert "blocks would refuse some of its jobs of 13 nodes and more" in generated.notes[0]


@pytest.mark.parametrize("release", ["23.11", "24.05", "24.11"])
def test_racks_of_unequal_size_before_are_a_tree_and_what_is_lost_is_said(release: str) -> None:
    (note,) = written(a_short_rack(), release).notes
    assert "do not fit the one base size" in note
    assert "a job of plain sbatch may lie across supernodes" in note


@pytest.mark.parametrize("release", RELEASES)
def test_a_network_that_nobody_described_joins_all_nodes_on_every_release(release: str) -> None:
    """BR014: two roots mean that no job may span them."""
    wide = supernodes("sn[1-2]", 4, kind="ring") + supernodes("big", 17, kind="ring")
    generated = written(a_room(wide=wide, every="supernodes: ['sn[1-2]', big]"), release)
    file = "topology.yaml" if RELEASES[release].yaml else "topology.conf"
    assert re.search(r"(Switches=|children: \")sn1,sn2,big|sn\[1-2\],big", generated.files[file])
    assert not any("never spans" in note for note in generated.notes)


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_outside_of_the_declared_networks_reach_no_others_on_any_release(
    release: str,
) -> None:
    room = a_room(
        fabric("ib", spine="sn1"),
        supernodes("sn[1-3]", 4),
        every="supernodes: ['sn[1-3]']",
        lone="supernodes: [sn2, sn3]",
        one="supernodes: [sn3]",
    )
    generated = written(room, release)
    assert generated.kinds["every"] == generated.kinds["lone"] == "tree"
    assert any("in no fabric: sn2, sn3; Slurm never spans" in note for note in generated.notes)
    assert generated.kinds["one"] == ("block" if RELEASES[release].yaml else "tree")


def test_placeholders_are_written_only_for_levels_that_are() -> None:
    """BR017: placeholders where groups of blocks have to line up, and only there."""
    generated = written(pods(*[3] * 8, nodes=18, spares=2), "26.05")
    block = topologies(generated)["sn"]["block"]
    assert block["block_sizes"] == [16, 512]  # type: ignore[index]
    assert len(block["blocks"]) == 24  # type: ignore[index]


@pytest.mark.parametrize("release", BLOCKS)
def test_a_partition_with_nodes_outside_of_the_blocks_is_told_what_it_gets(release: str) -> None:
    notes = written(a_small_pool_between(), release).notes
    told = "partition 'every' has h[1-4] outside of all blocks: no job gets them together with"
    assert any(note.startswith(told) for note in notes)
