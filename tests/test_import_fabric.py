"""ibnetdiscover: levels, rails, names and what is told, on fabrics written here."""

from __future__ import annotations

from pathlib import Path

import pytest

from supernode_slurm.discovery import Imported, Wanted, import_sources
from supernode_slurm.discovery.ibnetdiscover import LANE_GBS, parse_ibnetdiscover
from supernode_slurm.errors import ConfigError, UsageError
from supernode_slurm.slurm import CliClient
from supernode_slurm.slurmconf import find_release, generate
from tests.fabric_text import NDR, Net, Wire

NODE = "Sockets=2 CoresPerSocket=8 RealMemory=9000 Gres=gpu:a100:4"


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def load(folder: Path, *texts: str, conf: str = "", wanted: Wanted | None = None) -> Imported:
    """Return what texts, and a slurm.conf, are imported as."""
    sources = []
    if conf:
        (folder / "slurm.conf").write_text(f"ClusterName=c\n{conf}")
        sources.append(str(folder / "slurm.conf"))
    for number, text in enumerate(texts):
        path = folder / f"ib{number}.txt"
        path.write_text(text, encoding="utf-8")
        sources.append(str(path))
    return import_sources(sources, {}, nobody, wanted)


def told(found: Imported) -> str:
    return "\n".join(map(str, found.remarks))


def tree(found: Imported) -> dict[str, set[str]]:
    """Return by switch the switches or hosts directly under it."""
    hosts = {domain.name: domain.hosts for domain in found.inventory.domains}
    return {
        switch.name: {
            *switch.switches,
            *switch.hosts,
            *(h for m in switch.members for h in hosts[m]),
        }
        for fabric in found.inventory.fabrics
        for switch in fabric.switches
    }


def two_rails(hosts: int = 8, per_leaf: int = 4) -> Net:
    """Return hosts with two adapters each, on two rails of leaves under two spines."""
    net = Net()
    for host in range(hosts):
        for rail in range(2):
            net.wire(f"n{host} mlx5_{rail}", f"leaf{host // per_leaf}-{rail}")
    for leaf in net.switches():
        for spine in ("spine0", "spine1"):
            net.wire(leaf, spine)
    return net


def test_a_tree_follows_one_rail_and_counts_them(tmp_path: Path) -> None:
    found = load(tmp_path, str(two_rails()))
    assert tree(found) == {
        "leaf0-0": {f"n{n}" for n in range(4)},
        "leaf1-0": {f"n{n}" for n in range(4, 8)},
        "spine0": {"leaf0-0", "leaf1-0"},
    }
    (fabric,) = found.inventory.fabrics
    assert (fabric.rails, fabric.rail_gbs, fabric.oversubscription) == (2, 50.0, 2.0)
    assert "2 switches at level 1 above leaves are written as 1" in told(found)


def test_a_leaf_without_wanted_hosts_never_climbs_above_a_spine(tmp_path: Path) -> None:
    conf = f"NodeName=n[0-3] {NODE}\n"
    found = load(tmp_path, str(two_rails(12)), conf=conf)
    assert tree(found) == {"leaf0-0": {"n0", "n1", "n2", "n3"}}
    assert "n[4-11] are in the fabric, but no other source names them: left out" in told(found)


def test_pods_stay_apart_below_the_core(tmp_path: Path) -> None:
    net = Net()
    for host in range(16):
        net.wire(f"n{host:02} HCA-1", f"leaf{host // 4}")
    for leaf in range(4):
        for at in range(2):
            net.wire(f"leaf{leaf}", f"pod{leaf // 2}-{at}")
    for pod in range(2):
        for at in range(2):
            net.wire(f"pod{pod}-{at}", f"core{at}")
    found = tree(load(tmp_path, str(net)))
    assert found["pod0-0"] == {"leaf0", "leaf1"}
    assert found["core0"] == {"pod0-0", "pod1-0"}
    net.wire("ufm HCA-1", "core1")  # the fabric's manager makes no leaf of the core
    found = tree(load(tmp_path, str(net)))
    assert found["pod0-0"] == {"leaf0", "leaf1"}
    assert found["core0"] == {"pod0-0", "pod1-0", "core1"}
    assert found["core1"] == {"ufm"}


def test_aggregation_nodes_are_no_hosts_and_make_no_leaf(tmp_path: Path) -> None:
    net = two_rails()
    for switch in net.switches():
        net.wire("Mellanox Technologies Aggregation Node", switch, port=65)
    assert load(tmp_path, str(net)).inventory == load(tmp_path, str(two_rails())).inventory


def test_adapters_with_their_makers_name_are_resolved_by_guid_or_told(tmp_path: Path) -> None:
    net = two_rails()
    net.rename("n3 mlx5_0", "MT4129 ConnectX7   Mellanox Technologies")
    net.rename("n3 mlx5_1", "MT4129 ConnectX7   Mellanox Technologies")
    conf = f"NodeName=n[0-7] {NODE}\n"
    found = load(tmp_path, str(net), conf=conf)
    assert "n3: the fabric has no adapter under that name or GUID" in told(found)
    assert "leaf0-0: adapters at its ports 4 name no host" in told(found)
    assert "n3" not in tree(found)["leaf0-0"]


def test_a_host_off_its_rail_is_placed_by_another_and_told(tmp_path: Path) -> None:
    net = two_rails()
    net.cut("n2 mlx5_0")
    found = load(tmp_path, str(net))
    assert tree(found)["leaf0-1"] == {f"n{n}" for n in range(4)}
    net.cut("n5 mlx5_1")
    found = load(tmp_path, str(net))
    assert "n2" in tree(found)["leaf0-0"]
    assert "n2: no link on mlx5_0; placed under leaf0-0 by mlx5_1" in told(found)
    assert "n2,n5: 1 of 2 links up" in told(found).replace("n[2,5]", "n2,n5")


def test_rails_that_disagree_and_swapped_cables_are_told(tmp_path: Path) -> None:
    net = two_rails()
    net.move("n3 mlx5_1", "leaf1-1")
    found = load(tmp_path, str(net))
    assert tree(found)["leaf0-0"] == {"n0", "n1", "n2", "n3"}
    assert "mlx5_1 of n3 is at leaf1-1, that of its neighbours on mlx5_0 at leaf0-1" in told(found)
    net = two_rails()
    net.move("n3 mlx5_0", "leaf0-1")
    net.move("n3 mlx5_1", "leaf0-0")
    found = load(tmp_path, str(net))
    assert "n3" in tree(found)["leaf0-0"]
    assert "mlx5_0 of n3 hangs at leaf0-1, where others have mlx5_1" in told(found)


def test_hosts_that_name_adapters_in_two_ways_share_rails(tmp_path: Path) -> None:
    net = two_rails()
    for host in range(4, 8):
        for rail in range(2):
            net.rename(f"n{host} mlx5_{rail}", f"n{host} HCA-{rail + 1}")
    found = load(tmp_path, str(net))
    assert set(tree(found)) == {"leaf0-0", "leaf1-0", "spine0"}
    assert "hangs at" not in told(found)


def test_adapters_without_device_names_still_make_a_tree(tmp_path: Path) -> None:
    net = two_rails()
    for host in range(8):
        for rail in range(2):
            net.rename(f"n{host} mlx5_{rail}", f"n{host}")
    found = load(tmp_path, str(net))
    leaves = [below for name, below in tree(found).items() if name.startswith("leaf")]
    assert sorted(map(sorted, leaves)) == [[f"n{n}" for n in r] for r in (range(4), range(4, 8))]
    assert found.inventory.fabrics[0].rails == 2


def test_fabrics_apart_that_share_hosts_are_planes_of_one(tmp_path: Path) -> None:
    one, two = Net(), Net(first=500)
    for host in range(4):
        one.wire(f"n{host} mlx5_0", f"a{host // 2}")
        two.wire(f"n{host} mlx5_1", f"b{host // 2}")
    for net, letter in ((one, "a"), (two, "b")):
        for leaf in range(2):
            net.wire(f"{letter}{leaf}", f"{letter}-spine")
    found = load(tmp_path, str(one), str(two))
    assert set(tree(found)) == {"a0", "a1", "a-spine"}
    assert found.inventory.fabrics[0].rails == 2


def test_fabrics_apart_with_hosts_of_their_own_stay_apart(tmp_path: Path) -> None:
    one, two = Net(), Net(first=500)
    for host in range(4):
        one.wire(f"n{host} mlx5_0", f"a{host // 2}")
        two.wire(f"m{host} mlx5_0", f"b{host // 2}")
    for net, letter in ((one, "a"), (two, "b")):
        for leaf in range(2):
            net.wire(f"{letter}{leaf}", f"{letter}-spine")
    found = load(tmp_path, str(one), str(two))
    assert [fabric.name for fabric in found.inventory.fabrics] == ["ib-1", "ib-2"]
    assert "2 fabrics that no cable joins: over n[0-3], m[0-3]" in told(found)


def test_a_storage_fabric_is_told_by_its_speed_and_left_out_on_request(tmp_path: Path) -> None:
    net = two_rails()
    for host in range(8):
        net.wire(f"n{host} mlx5_9", f"StorageLeaf{host % 2}", Wire(4, "HDR"))
    for at in range(2):
        net.wire(f"StorageLeaf{at}", "StorageSpine")
    found = load(tmp_path, str(net))
    assert "mlx5_9 of n[0-7]: 25 GB/s in one direction, most have 50" in told(found)
    for wanted in (
        Wanted(("mlx5_[0-1]",)),
        Wanted(without=("Storage*",)),
        Wanted(("mlx5_?",), ("S*",)),
    ):
        found = load(tmp_path, str(net), wanted=wanted)
        assert found.inventory == load(tmp_path, str(two_rails())).inventory


def test_one_name_on_several_machines_places_none_of_them(tmp_path: Path) -> None:
    net = two_rails()
    net.wire("ubuntu mlx5_0", "leaf0-0")
    net.wire("ubuntu mlx5_0", "leaf1-0")
    found = load(tmp_path, str(net))
    assert "several machines call themselves ubuntu" in told(found)
    assert not any("ubuntu" in below for below in tree(found).values())


def test_names_of_slurm_are_found_behind_domains_and_case(tmp_path: Path) -> None:
    net = two_rails()
    for host in range(8):
        net.rename(f"n{host} mlx5_0", f"N{host}.site.example mlx5_0")
    found = load(tmp_path, str(net), conf=f"NodeName=n[0-7] {NODE}\n")
    assert tree(found)["leaf0-0"] == {"n0", "n1", "n2", "n3"}


def test_a_list_of_ports_says_the_same_as_a_whole_listing(tmp_path: Path) -> None:
    net = two_rails()
    assert load(tmp_path, net.ports()).inventory == load(tmp_path, str(net)).inventory


def test_cables_between_leaves_alone_make_one_switch_over_all(tmp_path: Path) -> None:
    net = Net()
    for host in range(6):
        net.wire(f"n{host} mlx5_0", f"ring{host // 2}")
    for at in range(3):
        net.wire(f"ring{at}", f"ring{(at + 1) % 3}")
    assert tree(load(tmp_path, str(net)))["ib-all"] == {"ring0", "ring1", "ring2"}


def test_a_leaf_with_few_cables_upwards_is_told(tmp_path: Path) -> None:
    net = Net()
    for host in range(24):
        net.wire(f"n{host:02} mlx5_0", f"leaf{host // 8}")
    for leaf in range(3):
        for cable in range(8 if leaf else 4):
            net.wire(f"leaf{leaf}", f"spine{cable % 2}")
    found = load(tmp_path, str(net))
    assert found.inventory.fabrics[0].oversubscription == 1
    assert "leaf0 has 2.00 times as much to its hosts as upwards" in told(found)


def test_lanes_are_counted_in_decimal_bytes_after_their_code() -> None:
    rates = {"SDR": 8, "QDR": 32, "EDR": 100, "HDR": 200, "NDR": 400, "XDR": 800}
    assert {rate: 4 * 8 * LANE_GBS[rate] for rate in rates} == rates
    assert 4 * 8 * LANE_GBS["FDR"] == pytest.approx(54.5, abs=0.1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda text: text[: len(text) // 2], "ib0.txt:"),
        (lambda text: text.replace("[1]", "[x]", 1), "no link as ibnetdiscover prints it"),
        (lambda text: text.replace("Switch\t", "Swotch\t", 1), "no line of ibnetdiscover"),
        (lambda text: text[: text.index("\nvendid", 300)], "has no part of its own"),
        (lambda text: text + text, "stands twice"),
        (lambda text: text + "vendid=0x2c9\n", "ends in the middle of a part"),
        (lambda _: '\nCa\t1 "H-1"\t\t# "n1 HCA-1"\n', "holds no switch with a cable"),
        (lambda text: text.replace('"n', '"MT4129 n'), "no switch has a cable to a host"),
    ],
)
def test_spoilt_texts_end_in_one_error(spoil: object, words: str, tmp_path: Path) -> None:
    assert callable(spoil)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, spoil(str(two_rails())))
    assert words in str(caught.value)
    assert len(caught.value.problems) == 1


def test_warnings_between_lines_and_unplugged_ports_are_passed_over(tmp_path: Path) -> None:
    net = two_rails()
    noise = "ibwarn: [12] mad_rpc: timed out\nsrc/query_smp.c:228; umad (DR path) bad status\n"
    assert load(tmp_path, noise + str(net)).inventory == load(tmp_path, str(net)).inventory
    ports = f"{net.ports()}SW    51 81 0x00000000000000aa 4x SDR       'leaf9'\n"
    ports += "SW    51 82 0x00000000000000aa 4x ???        'leaf9'\n"
    assert load(tmp_path, ports).inventory == load(tmp_path, str(net)).inventory


def test_a_parsed_text_keeps_what_it_says_of_switches_adapters_and_links() -> None:
    net = Net()
    net.wire("n1 mlx5_0", "leaf1", NDR)
    subnet = parse_ibnetdiscover(str(net), "x")
    (switch,), (adapter,) = subnet.switches, subnet.adapters
    assert (switch.name, switch.ports, switch.lid > 0) == ("MF0;leaf1:MQM9701/U1", 65, True)
    assert (adapter.name, adapter.port_guids) == ("n1 mlx5_0", (adapter.guid,))
    assert (switch.links[0].peer, switch.links[0].gbs) == (adapter.guid, 50.0)
    assert (adapter.links[0].peer, adapter.links[0].peer_port) == (switch.guid, 1)


def test_a_configured_tree_that_agrees_stays_and_learns_its_rails(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text(
        "SwitchName=rack0 Nodes=n[0-3]\nSwitchName=rack1 Nodes=n[4-7]\n"
        "SwitchName=top Switches=rack[0-1]\n"
    )
    conf = f"TopologyPlugin=topology/tree\nNodeName=n[0-7] {NODE}\n"
    found = load(tmp_path, str(two_rails()), conf=conf)
    assert set(tree(found)) == {"rack0", "rack1", "top"}
    assert found.inventory.fabrics[0].rails == 2
    assert not [remark for remark in found.remarks if remark.kind == "disagreement"]


def test_a_configured_tree_that_differs_gives_way_to_the_cables(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text(
        "SwitchName=rack0 Nodes=n[0-4]\nSwitchName=rack1 Nodes=n[5-7]\n"
        "SwitchName=top Switches=rack[0-1]\n"
    )
    conf = f"TopologyPlugin=topology/tree\nNodeName=n[0-7] {NODE}\n"
    found = load(tmp_path, str(two_rails()), conf=conf)
    assert tree(found)["leaf1-0"] == {"n4", "n5", "n6", "n7"}
    (differs,) = [remark for remark in found.remarks if remark.kind == "disagreement"]
    assert str(differs).endswith(
        "topology.conf:1:1: under 'rack0' here, and cabled to leaf1-0: n4; "
        "written as it is cabled: correct topology.conf, or the cables"
    )


def test_a_configured_tree_that_joins_what_no_cable_does_gives_way(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text(
        "SwitchName=rack0 Nodes=n[0-3]\nSwitchName=rack1 Nodes=n[4-7]\n"
        "SwitchName=rack2 Nodes=n[8-11]\nSwitchName=half Switches=rack[0-1]\n"
        "SwitchName=top Switches=half,rack2\n"
    )
    conf = f"TopologyPlugin=topology/tree\nNodeName=n[0-11] {NODE}\n"
    found = load(tmp_path, str(two_rails(12)), conf=conf)
    assert set(tree(found)) == {"leaf0-0", "leaf1-0", "leaf2-0", "spine0"}
    assert "other nodes are joined here than by cables, for jobs on n[0-7]" in told(found)


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_files_of_ours_agree_with_the_cables_that_they_were_made_of(
    release: str, tmp_path: Path
) -> None:
    lines = [f"NodeName=n{n} {NODE.replace('a100', 'h100' if n % 2 else 'a100')}" for n in range(8)]
    conf = "\n".join([*lines, "PartitionName=p Nodes=ALL\n"])
    first = load(tmp_path, str(two_rails()), conf=conf)
    assert len(first.inventory.pools) == 2
    assert "leaf0-0" in tree(first)
    again = tmp_path / "again"
    again.mkdir()
    for name, text in generate(first.inventory, find_release(release)).files.items():
        (again / name).write_text(text)
    (again / "slurm.conf").write_text("ClusterName=c\nInclude supernode.conf\n")
    (again / "ib").write_text(str(two_rails()))
    found = import_sources([str(again), str(again / "ib")], {}, nobody)
    assert not [remark for remark in found.remarks if remark.kind == "disagreement"]
    assert found.inventory.fabrics[0].rails == 2
    assert found.inventory.fabrics[0].name == "ib"


def test_comments_of_ours_give_way_to_cables_and_leave_their_name(tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    (again / "topology.conf").write_text(
        "# Written by 'sn generate' for cluster c and Slurm 24.11.\n"
        "# fabric compute: fat-tree, 4 rails of 50 GB/s, oversubscription 1\n"
        "# switch leaf: sn[1-2]\n"
        "BlockName=sn1 Nodes=n[0-3]\nBlockName=sn2 Nodes=n[4-7]\nBlockSizes=4\n"
    )
    (again / "slurm.conf").write_text(f"ClusterName=c\nNodeName=n[0-7] {NODE}\n")
    (again / "ib").write_text(str(two_rails()))
    found = import_sources([str(again), str(again / "ib")], {}, nobody)
    assert [fabric.name for fabric in found.inventory.fabrics] == ["compute"]
    assert "4 rails of 50 GB/s by its comment, 2 of 50 GB/s are up" in told(found)


def test_patterns_that_choose_nothing_are_told(tmp_path: Path) -> None:
    wanted = Wanted(("mlx5_*", "mlx9_*"), ("*storge*",))
    found = load(tmp_path, str(two_rails()), wanted=wanted)
    assert "--exclude-switch *storge*: no switch has such a name" in told(found)
    assert "--hca mlx9_*: no adapter has such a name" in told(found)
    assert "--hca mlx5_*" not in told(found)
    with pytest.raises(UsageError, match="no source is the output of ibnetdiscover"):
        load(tmp_path, conf=f"NodeName=n1 {NODE}\n", wanted=wanted)
