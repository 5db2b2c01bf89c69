"""Models and domains of other generators: the same blocks and the same tree as theirs.

Compared by meaning: sets of nodes per block and their order, leaves and what is above
them. Names of blocks, comments and placeholders are each tool's own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from supernode_slurm import hostlist
from supernode_slurm.discovery import import_sources
from supernode_slurm.inventory import Inventory
from supernode_slurm.slurm import CliClient
from supernode_slurm.slurmconf import find_release, generate

PEERS = Path(__file__).resolve().parents[2] / "shared/peer_suite"
TOPOGRAPH, AZURE = PEERS / "topograph", PEERS / "azure"
MODELS = ("small-tree", "medium", "large", "nvl72", "dual-xclr-regular", "dual-xclr-irregular")

pytestmark = pytest.mark.skipif(
    not PEERS.is_dir(), reason="the peers' suite is not beside the repository"
)

Nodes = frozenset[str]


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def cases(name: str) -> list[dict[str, Any]]:
    path = TOPOGRAPH / name
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []
    return found


def room_of(source: Path, groups: list[list[str]], folder: Path) -> Inventory:
    """Return what a source and a slurm.conf with a partition for each group amount to."""
    lines = ["ClusterName=peer", "TopologyPlugin=topology/block"]
    for number, hosts in enumerate(groups):
        lines.append(
            f"NodeName={hostlist.fold(hosts)} Sockets=2 CoresPerSocket=8 RealMemory=9000"
            " Gres=gpu:gb200:4"
        )
        lines.append(f"PartitionName=p{number} Nodes={hostlist.fold(hosts)}")
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    return import_sources([str(folder / "slurm.conf"), str(source)], {}, nobody).inventory


def blocks_of(room: Inventory) -> list[list[Nodes]]:
    """Return the non-empty blocks of each topology that 26.05 gets, in order."""
    text = generate(room, find_release("26.05")).files["topology.yaml"]
    return [
        [frozenset(hostlist.expand(block["nodes"])) for block in blocks if block.get("nodes")]
        for topology in yaml.safe_load(text)
        for blocks in [topology.get("block", {}).get("blocks", [])]
        if blocks
    ]


def tree_of(room: Inventory) -> dict[Nodes, list[Nodes]]:
    """Return the leaves of the tree that 22.05 gets, and the nodes under each switch above."""
    text = generate(room, find_release("22.05")).files["topology.conf"]
    switches = {
        name: (key, hostlist.expand(held))
        for name, key, held in re.findall(r"^SwitchName=(\S+) (\w+)=(\S+)$", text, re.M)
    }
    return leaves_and_above(switches)


def leaves_and_above(switches: dict[str, tuple[str, list[str]]]) -> dict[Nodes, list[Nodes]]:
    parent = {child: name for name, (key, held) in switches.items() if key == "Switches"
              for child in held}  # fmt: skip

    def under(name: str) -> Nodes:
        key, held = switches[name]
        if key == "Nodes":
            return frozenset(held)
        return frozenset(host for child in held for host in under(child))

    found: dict[Nodes, list[Nodes]] = {}
    for name, (key, held) in switches.items():
        if key == "Nodes":
            above: list[Nodes] = []
            up = name
            while up in parent:
                up = parent[up]
                if under(up) != (above[-1] if above else frozenset(held)):
                    above.append(under(up))
            found[frozenset(held)] = above
    return found


def expand(texts: list[str]) -> list[str]:
    return [host for text in texts for host in hostlist.expand(str(text))]


def model(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((TOPOGRAPH / f"models/{name}.yaml").read_text())
    return found


def domains_of(raw: dict[str, Any]) -> list[list[str]]:
    """Return the nodes of each domain of a model, in the order of the file."""
    found: dict[str, list[str]] = {}
    for block in raw["blocks"]:
        [name] = [v for k, v in block["annotations"].items() if k.endswith("/domain")]
        found.setdefault(name, []).extend(expand(block["nodes"]))
    return list(found.values())


@pytest.mark.parametrize("name", MODELS)
def test_a_models_domains_become_blocks_in_the_order_of_its_tree(name: str, tmp_path: Path) -> None:
    domains = domains_of(model(name))
    room = room_of(TOPOGRAPH / f"models/{name}.yaml", domains, tmp_path)
    found = [block for blocks in blocks_of(room) for block in blocks]
    assert found == [frozenset(hosts) for hosts in domains]


@pytest.mark.parametrize("name", MODELS)
def test_a_models_switches_keep_their_leaves_and_ancestors(name: str, tmp_path: Path) -> None:
    raw = model(name)
    switches: dict[str, tuple[str, list[str]]] = {
        key: ("Switches", value["switches"]) for key, value in raw["switches"].items()
        if value and value.get("switches")
    }  # fmt: skip
    for block in raw["blocks"]:
        switches[block["switch"]] = ("Nodes", expand(block["nodes"]))
    for key in [key for key, (kind, _) in switches.items() if kind == "Switches"]:
        held = [child for child in switches[key][1] if child in switches]
        switches[key] = ("Switches", held)
    room = room_of(TOPOGRAPH / f"models/{name}.yaml", domains_of(raw), tmp_path)
    assert tree_of(room) == leaves_and_above(switches)


def test_the_racks_of_a_domain_become_racks(tmp_path: Path) -> None:
    raw = model("dual-xclr-irregular")
    room = room_of(TOPOGRAPH / "models/dual-xclr-irregular.yaml", domains_of(raw), tmp_path)
    assert len(room.racks) == 29
    assert {host for rack in room.racks for host in rack.hosts} == {
        host for hosts in domains_of(raw) for host in hosts
    }


@pytest.mark.parametrize("case", cases("block_cases.json"), ids=lambda case: case["name"][:60])
def test_a_block_case_gives_the_same_nodes_in_the_same_order(
    case: dict[str, Any], tmp_path: Path
) -> None:
    """Where the peer cuts a domain into base blocks, together they are the domain's block."""
    domains = {
        name: {sub: expand(texts) for sub, texts in subs.items()}
        for name, subs in case["domains"].items()
    }
    source = tmp_path / "model.yaml"
    blocks = [
        {
            "nodes": hosts,
            "annotations": {"accelerator.test/domain": name}
            | ({"accelerator.test/sub-domain": sub} if sub else {}),
        }
        for name, subs in domains.items()
        for sub, hosts in subs.items()
    ]
    source.write_text(yaml.safe_dump({"blocks": blocks}, sort_keys=False))
    members = {
        name: [host for hosts in subs.values() for host in hosts] for name, subs in domains.items()
    }
    room = room_of(source, list(members.values()), tmp_path)
    owner = {host: name for name, hosts in members.items() for host in hosts}
    theirs: dict[str, set[str]] = {}
    for _, texts in case["expect_blocks"]:
        for host in expand(texts or []):
            theirs.setdefault(owner[host], set()).add(host)
    order = [frozenset(hosts) for hosts in theirs.values()]
    mine = blocks_of(room)
    assert {block for blocks in mine for block in blocks} == {b for b in order if len(b) > 1}
    for found in mine:
        assert found == [block for block in order if block in found]


def test_nodes_of_no_domain_are_kept_where_the_peer_loses_them(tmp_path: Path) -> None:
    source = tmp_path / "model.yaml"
    blocks = [{"nodes": ["n[1-2]"], "annotations": {"a.test/domain": "B1"}}, {"nodes": ["n[3-4]"]}]
    source.write_text(yaml.safe_dump({"blocks": blocks}))
    room = room_of(source, [["n1", "n2"], ["n3", "n4"]], tmp_path)
    assert blocks_of(room) == [[frozenset(("n1", "n2"))]]
    assert [item.hosts for item in room.pools] == [("n3", "n4")]


def test_a_node_of_no_switch_stands_alone(tmp_path: Path) -> None:
    case = cases("tree_cases.json")[0]
    raw = model("medium")
    for block in raw["blocks"]:
        block["nodes"] = [f"n-{text}" for text in block["nodes"]]
    source = tmp_path / "model.yaml"
    source.write_text(yaml.safe_dump(raw, sort_keys=False))
    room = room_of(source, [*domains_of(raw), ["n-CPU"]], tmp_path)
    assert tree_of(room) == expected(case)


def test_unknown_nodes_share_a_leaf(tmp_path: Path) -> None:
    case = cases("tree_cases.json")[1]
    source = tmp_path / "model.yaml"
    switches = {"core": {"switches": ["spine"]}, "spine": {"switches": ["tor1", "tor2"]}}
    blocks = [{"switch": f"tor{n}", "nodes": [f"node[{n}1-{n}2]"]} for n in (1, 2)]
    source.write_text(yaml.safe_dump({"switches": switches, "blocks": blocks}))
    hosts = hostlist.expand("node[11-13,21-23]")
    assert tree_of(room_of(source, [hosts], tmp_path)) == expected(case)


def expected(case: dict[str, Any]) -> dict[Nodes, list[Nodes]]:
    """Return the leaves of a tree case, and what is above each."""
    switches = {}
    for name, held in case["expect"].items():
        key, text = next(iter(held.items()))
        switches[name] = (key.capitalize(), hostlist.expand(text))
    return leaves_and_above(switches)


def test_the_peers_files_for_a_large_model_say_what_ours_do(tmp_path: Path) -> None:
    room = room_of(TOPOGRAPH / "models/large.yaml", domains_of(model("large")), tmp_path)
    block = (TOPOGRAPH / "ci/expected.slinky-dra-block.conf").read_text()
    theirs = [
        frozenset(hostlist.expand(text)) for text in re.findall(r"BlockName=\S+ Nodes=(\S+)", block)
    ]
    assert blocks_of(room) == [theirs]
    sizes = re.search(r"BlockSizes=(\d+)", block)
    assert sizes is not None
    assert {item.planning_nodes for item in room.supernodes} == {int(sizes[1])}
    tree = (TOPOGRAPH / "ci/expected.slinky-oci-sim-tree.conf").read_text()
    switches = {
        name: (key, hostlist.expand(text))
        for name, key, text in re.findall(r"^SwitchName=(\S+) (\w+)=(\S+)$", tree, re.M)
    }
    assert tree_of(room) == leaves_and_above(switches)


@pytest.mark.parametrize("name", ["nodes_clusterUUIDs.txt", "nodes_clusterUUIDs_2.txt"])
def test_nodes_with_one_cluster_uuid_are_a_supernode(name: str, tmp_path: Path) -> None:
    wanted: dict[str, list[str]] = {}
    for line in (AZURE / name).read_text().splitlines():
        host, _, uuid = line.partition(": ")
        wanted.setdefault(uuid, []).append(host)
    room = room_of(AZURE / name, list(wanted.values()), tmp_path)
    assert {item.name: set(item.hosts) for item in room.supernodes} == {
        uuid: set(hosts) for uuid, hosts in wanted.items()
    }


def test_the_uuids_give_the_blocks_of_the_peer(tmp_path: Path) -> None:
    text = (AZURE / "block_topology.txt").read_text()
    theirs = [hostlist.expand(hosts) for hosts in re.findall(r"BlockName=\S+ Nodes=(\S+)", text)]
    room = room_of(AZURE / "nodes_clusterUUIDs.txt", theirs, tmp_path)
    assert blocks_of(room) == [[frozenset(hosts) for hosts in theirs]]


def test_a_peers_tree_keeps_its_leaves(tmp_path: Path) -> None:
    text = (AZURE / "slurm_topology.txt").read_text()
    leaves = [hostlist.expand(hosts) for hosts in re.findall(r"Nodes=(\S+)", text)]
    room = room_of(AZURE / "slurm_topology.txt", leaves, tmp_path)
    everybody = frozenset(host for hosts in leaves for host in hosts)
    assert tree_of(room) == {frozenset(hosts): [everybody] for hosts in leaves}
