"""Real fabrics: every host of an NDR fabric placed or named, and a verdict for each file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from supernode_slurm import hostlist
from supernode_slurm.discovery import Imported, import_sources
from supernode_slurm.discovery.ibnetdiscover import parse_ibnetdiscover
from supernode_slurm.errors import ConfigError
from supernode_slurm.slurmconf import find_release, generate
from tests.test_import_fabric import NODE, nobody, told, tree

SHARED = Path(__file__).resolve().parents[2] / "shared"
NDR = SHARED / "peer_suite/topograph/ibnetdiscover/example.out"
CASES = SHARED / "peer_suite/topograph/tree_cases.json"

pytestmark = pytest.mark.skipif(
    not NDR.is_file(), reason="the collected fabrics are not beside the repository"
)

ASKED = "a05-p1-dgx-01-c[03-04],a06-p1-dgx-02-c[01-18],b05-p1-dgx-05-c[01-18]"
"""The hosts that the peer's case asks for."""
LOST = "a06-p1-dgx-02-c[05-06,08-09,13,15,17]"
"""Of them those that the fabric knows under no name: two are off, five have their maker's."""


def load(folder: Path, hosts: str, *more: Path) -> Imported:
    """Return what the NDR fabric and a slurm.conf with some hosts are imported as."""
    (folder / "slurm.conf").write_text(
        f"ClusterName=c\nNodeName={hosts} {NODE}\nPartitionName=p Nodes=ALL\n"
    )
    sources = [folder / "slurm.conf", NDR, *more]
    return import_sources(list(map(str, sources)), {}, nobody)


def leaves(found: Imported) -> dict[str, str]:
    return {
        name: hostlist.fold(below)
        for name, below in tree(found).items()
        if not below & tree(found).keys()
    }


def test_every_asked_host_is_placed_or_named_and_no_leaf_is_above_a_spine(tmp_path: Path) -> None:
    found = load(tmp_path, ASKED)
    placed = {host for hosts in leaves(found).values() for host in hostlist.expand(hosts)}
    assert placed == {*hostlist.expand(ASKED)} - {*hostlist.expand(LOST)}
    assert f"{LOST}: the fabric has no adapter under that name or GUID" in told(found)
    assert "A09-P1-IBLEAF-01-02: adapters at its ports 6,8,9,13,17 name no host" in told(found)
    for name, below in tree(found).items():
        assert ("SPINE" in name) == bool(below & tree(found).keys())
    fabric = found.inventory.fabrics[0]
    assert (fabric.rails, fabric.rail_gbs) == (4, 50.0)
    assert len(found.inventory.fabrics) == 1


def test_the_peers_case_comes_out_right(tmp_path: Path) -> None:
    case = next(c for c in json.loads(CASES.read_text()) if c["name"] == "ibnetdiscover valid")
    theirs = {hostlist.fold(hostlist.expand(held["nodes"]))
              for held in case["expect"].values() if "nodes" in held}  # fmt: skip
    found = load(tmp_path, ASKED)
    assert set(leaves(found).values()) == theirs  # their leaves are right, what is above is not
    text = generate(found.inventory, find_release("22.05")).files["topology.conf"]
    tops = re.findall(r"^SwitchName=(\S+) Switches=(\S+)$", text, re.M)
    assert len(tops) == 1
    assert "SPINE" in tops[0][0]
    below = set(hostlist.expand(tops[0][1]))
    assert below == leaves(found).keys()  # one spine level over three leaves, and no leaf above


def test_guids_of_hosts_place_those_with_their_makers_name(tmp_path: Path) -> None:
    """On these leaves, port N holds tray N of the rack; that gives the GUIDs their hosts."""
    subnet = parse_ibnetdiscover(NDR.read_text(), "ndr")
    bare = {item.guid for item in subnet.adapters if item.name.startswith("MT4129")}
    lines = [
        f"a06-p1-dgx-02-c{link.port:02}: 0x{link.peer}\n"
        for switch in subnet.switches
        if re.search(r"LEAF-0[1-4]-02", switch.name)
        for link in switch.links
        if link.peer in bare
    ]
    assert len(lines) == 20
    (tmp_path / "guids").write_text("".join(lines))
    found = load(tmp_path, ASKED, tmp_path / "guids")
    lost = "a06-p1-dgx-02-c[05,15]"
    assert leaves(found)["A09-P1-IBLEAF-01-02"] == hostlist.fold(
        set(hostlist.expand("a06-p1-dgx-02-c[01-18]")) - set(hostlist.expand(lost))
    )
    assert f"{lost}: the fabric has no adapter under that name or GUID" in told(found)


def test_the_whole_fabric_shows_its_racks_and_its_faults() -> None:
    found = import_sources([str(NDR)], {}, nobody)
    racks = {hosts.rpartition("-c")[0] for hosts in leaves(found).values()}
    assert len(leaves(found)) == 8
    assert {f"{x}-p1-dgx-0{n}" for x, n in zip(
        ("a05", "a06", "a07", "a08", "b05", "b06", "b07"), range(1, 8), strict=True
    )} <= racks  # fmt: skip
    swapped = "HCA-5 of b08-p1-dgx-08-c01 hangs at B09-P1-IBLEAF-04-08, where others have HCA-6"
    assert swapped in told(found)
    a05 = "a05-p1-dgx-01-c[01,03-04,09,12-15,17-18]: 3 of 4 links up"
    assert a05 in told(found)
    assert "9 switches at level 1 above leaves are written as 1" in told(found)
    hosts = {host for domain in found.inventory.domains for host in domain.hosts}
    assert len(hosts) == 121  # 119 trays with a name of their own, and two of the fabric's manager
    assert not any("Mellanox" in host or "localhost" in host for host in hosts)


def test_what_the_fabric_holds_beside_the_wanted_hosts_is_told(tmp_path: Path) -> None:
    found = load(tmp_path, ASKED)
    assert "are in the fabric, but no other source names them: left out" in told(found)
    assert "b08-p1-dgx-08" in told(found)


# What becomes of each file alone: hosts and fabrics, or the words of the error.
VERDICTS: dict[str, tuple[int, int] | str] = {
    "peer_suite/topograph/ibnetdiscover/example.out": (121, 1),
    "peer_suite/topograph/ibnetdiscover/example-bad.out": "holds no switch with a cable",
    "realdata/logs/ib/topograph_ibnetdiscover_bad.txt": "holds no switch with a cable",
    "realdata/logs/ib/topograph_ibnetdiscover_example.txt": ":756:1: ends in the middle of a part",
    "realdata/logs/ib/exporter_ibnetdiscover_test.txt": (3, 2),
    "realdata/logs/ib/exporter_ibnetdiscover_test2.txt": (1, 1),
    "realdata/logs/ib/iblinkinfo_edr_small.txt": "iblinkinfo shows no GUIDs of switches",
    "realdata/logs/ib/ibstat_guid_per_host.txt": "no nodes: nothing to import",
    "realdata/logs/ib/ibstat_b300_cx8_down_cx7_up.txt": "says no host",
    "realdata/logs/ib/ibstat_h100_roce_2_ports_down.txt": "says no host",
    "realdata/logs/ib/sysfs_h100_flat.txt": "is no source",
    "realdata/logs/ib/exporter_ibswinfo_test3.txt": "is no source",
    "realdata/logs/ib/exporter_ibswinfo_test-err1.txt": "is no source",
    "realdata/logs/fabric/azure_nodes_clusterUUIDs.txt": (72, 0),
    "realdata/logs/fabric/azure_hostnames.txt": "is no source",
    "realdata/logs/fabric/fabricmanager_multicast.txt": "is no source",
    "realdata/logs/fabric/gb300_fm_and_imex_log.txt": "is no source",
    "realdata/logs/fabric/gb300_fabric_in_progress.txt": "in no domain: state In Progress",
    "realdata/logs/nvsmi/q_4090_idle_pcie_gen1.txt": "in no domain: ClusterUUID N/A",
    "realdata/logs/nvsmi/telegraf_a100-sxm4-v12.xml": "in no domain: ClusterUUID N/A",
    "realdata/logs/nvsmi/telegraf_rtx-3080-v13.xml": "in no domain: ClusterUUID N/A",
    "realdata/logs/nvsmi/telegraf_tesla-t4.xml": "in no domain: ClusterUUID N/A",
    "realdata/logs/nvsmi/vbios_drift.txt": "is no source",
    "realdata/logs/nvsmi/nvlink_status_a100.txt": "is no source",
    "peer_suite/azure/nodes_clusterUUIDs.txt": (72, 0),
    "peer_suite/azure/nodes_clusterUUIDs_2.txt": (68, 0),
    "peer_suite/azure/nodes_guids.txt": "no nodes: nothing to import",
    "peer_suite/azure/guids.txt": "is no source",
    "peer_suite/azure/all_hostnames.txt": "is no source",
    "peer_suite/azure/guid_hostnames.txt": "is no source",
    "peer_suite/azure/hostnames.txt": "is no source",
    "peer_suite/azure/partitions.txt": "is no source",
    "peer_suite/azure/powered_down_hostnames.txt": "is no source",
    "peer_suite/azure/valid_hostnames.txt": "is no source",
    "peer_suite/azure/topology.txt": "switches hang under each other",
    "peer_suite/azure/slurm_topology.txt": (16, 1),
    "peer_suite/azure/block_topology.txt": (72, 1),
    "peer_suite/azure/slurm_illegal_block_topology.txt": "BlockSizes=20, but no block",
    "peer_suite/azure/slurm_illegal_block_topology_2.txt": (54, 1),
}
FOLDERS = (
    *("peer_suite/topograph/ibnetdiscover", "peer_suite/azure"),
    *("realdata/logs/ib", "realdata/logs/fabric", "realdata/logs/nvsmi"),
)


def test_every_collected_file_has_a_verdict() -> None:
    files = {
        str(path.relative_to(SHARED)) for name in FOLDERS for path in (SHARED / name).iterdir()
    }
    assert files == VERDICTS.keys()


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict_on_a_file_alone(name: str) -> None:
    verdict = VERDICTS[name]
    if isinstance(verdict, str):
        with pytest.raises(ConfigError) as caught:
            import_sources([str(SHARED / name)], {}, nobody)
        assert verdict in str(caught.value)
        assert len(caught.value.problems) == 1
        return
    room = import_sources([str(SHARED / name)], {}, nobody).inventory
    assert (sum(len(domain.hosts) for domain in room.domains), len(room.fabrics)) == verdict


def test_outputs_of_ascend_tools_hold_no_super_pods() -> None:
    """The collected outputs are older, or of other commands: each is told as no source."""
    for path in sorted((SHARED / "realdata/logs/ascend").iterdir()):
        with pytest.raises(ConfigError, match="is no source"):
            import_sources([str(path)], {}, nobody)


def test_a_node_in_progress_beside_a_slurm_conf_is_left_out_of_supernodes(tmp_path: Path) -> None:
    node = "gb300-node"
    text = (SHARED / "realdata/logs/fabric/gb300_fabric_in_progress.txt").read_text()
    (tmp_path / node).write_text(text)
    (tmp_path / "slurm.conf").write_text(f"ClusterName=c\nNodeName={node} {NODE}\n")
    found = import_sources([str(tmp_path / "slurm.conf"), str(tmp_path / node)], {}, nobody)
    assert found.inventory.supernodes == ()
    assert f"{node}: in no NVLink domain (state In Progress)" in told(found)


def test_guids_of_a_real_site_name_their_hosts(tmp_path: Path) -> None:
    """Every GUID of the lists, hung at one switch under its maker's name, finds its host."""
    lists = [SHARED / "peer_suite/azure/nodes_guids.txt"]
    lists.append(SHARED / "realdata/logs/ib/ibstat_guid_per_host.txt")
    for path, hosts in zip(lists, (16, 10), strict=True):
        guids = re.findall(r"\b(?:0x)?([0-9a-f]{14,16})\b", path.read_text())
        lines = [
            f"CA     1  1 0x{guid:0>16} 4x HDR - SW     2 {port} 0x00000000000000aa"
            f" ( 'MT4123 ConnectX6   Mellanox Technologies' - 'leaf' )\n"
            for port, guid in enumerate(guids, 1)
        ]
        (tmp_path / "ib").write_text("".join(lines))
        found = import_sources([str(tmp_path / "ib"), str(path)], {}, nobody)
        assert len(tree(found)["leaf"]) == hosts
