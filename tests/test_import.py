"""Sources and their mistakes: what is read, what is refused, and what is told with its line."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supernode_slurm.cli.main import cli
from supernode_slurm.discovery import Imported, import_sources
from supernode_slurm.discovery.gpus import accelerator_of, split_mig
from supernode_slurm.errors import ConfigError, SupernodeError, UsageError
from supernode_slurm.inventory import NodeClass, loads
from supernode_slurm.slurm import CliClient

NODES = "NodeName=n[1-4] Sockets=2 CoresPerSocket=8 RealMemory=9000 Gres=gpu:a100:4\n"
BLOCKS = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n"
BLOCK_PLUGIN = "TopologyPlugin=topology/block\n"
TREE_PLUGIN = "TopologyPlugin=topology/tree\n"


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def site(folder: Path, conf: str, **files: str) -> Imported:
    """Return what a slurm.conf, and what lies beside it, is imported as."""
    (folder / "slurm.conf").write_text(f"ClusterName=c\n{conf}")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return import_sources([str(folder)], {}, nobody)


def nodes(found: Imported) -> dict[str, NodeClass]:
    return {host: part for part in found.inventory.node_classes for host in part.hosts}


def told(found: Imported) -> str:
    return "\n".join(f"{item.problem.where.line} {item.kind}: {item}" for item in found.remarks)


def refused(folder: Path, conf: str, **files: str) -> str:
    with pytest.raises(ConfigError) as caught:
        site(folder, conf, **files)
    return str(caught.value)


def sn(*argv: str) -> Result:
    return CliRunner().invoke(cli, argv, prog_name="sn")


# --- Slurm's grammar


def test_includes_are_read_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more/nodes-c.conf").write_text(f"{NODES}include parts.conf\n")
    (tmp_path / "more/parts.conf").write_text("PartitionName=p Nodes=n[1-4]\n")
    found = site(tmp_path, "Include more/nodes-%c.conf\n")
    assert found.inventory.partition("p").hosts == ("n1", "n2", "n3", "n4")
    assert "parts.conf:1" in found.text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Include nodes*.conf", "no patterns; write an Include line for each file: nodes1.conf"),
        ("Include none.conf", "slurm.conf:2:9: Include none.conf: there is no such file"),
        ("Include slurm.conf", "the file includes itself"),
    ],
)  # fmt: skip
def test_an_include_that_slurm_would_not_read_is_refused(
    line: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "nodes1.conf").write_text(NODES)
    assert words in refused(tmp_path, line)


def test_an_include_before_the_clusters_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_text("Include %c.conf\n")
    with pytest.raises(ConfigError, match="give ClusterName first"):
        import_sources([f"slurm.conf:{tmp_path / 'x.conf'}"], {}, nobody)


def test_lines_go_on_after_a_backslash_and_keep_their_place(tmp_path: Path) -> None:
    conf = (
        "NODENAME=n1 cpus = 4 \\\n  RealMemory=500 \\ # a comment\n"
        '  Reason="a b" CoreSpecCount=x;\n'
    )
    found = site(tmp_path, conf)
    assert dict(nodes(found)["n1"].options) == {"Reason": "a b", "CoreSpecCount": "x;"}
    assert "# slurm.conf:2" in found.text


def test_a_key_without_a_value_swallows_the_next_one(tmp_path: Path) -> None:
    text = refused(tmp_path, "NodeName=n1 Topology= CoreSpecCount=4\n")
    assert "slurm.conf:2:23: Topology has no value: Slurm takes 'CoreSpecCount=4' for it" in text


def test_defaults_hold_for_the_lines_below(tmp_path: Path) -> None:
    conf = (
        "NodeName=n0 CPUs=1 RealMemory=1\n"
        "NodeName=DEFAULT Sockets=2 CoresPerSocket=4 RealMemory=700 NodeAddr=x\n"
        "NodeName=n1\nNodeName=default Weight=3\nNodeName=n2 CoresPerSocket=6\n"
        "PartitionName=DEFAULT MaxTime=60 State=DOWN\nPartitionName=p Nodes=ALL State=UP\n"
    )
    found = site(tmp_path, conf)
    by_host = nodes(found)
    shapes = {name: (n.sockets, n.cores, n.memory_mib) for name, n in by_host.items()}
    assert shapes == {"n0": (1, 1, 1), "n1": (2, 4, 700), "n2": (2, 6, 700)}
    assert dict(by_host["n2"].options) == {"Weight": "3"}
    partition = found.inventory.partition("p")
    assert (partition.max_time, partition.options, len(partition.hosts)) == ("60", (), 3)


def test_node_sets_stand_for_their_nodes(tmp_path: Path) -> None:
    conf = (
        "NodeName=n[1-3] CPUs=2 RealMemory=9 Feature=fast,x\nNodeName=n4 CPUs=2 RealMemory=9\n"
        "NodeSet=some Nodes=n[3-4]\nNodeSet=quick Feature=fast\n"
        "PartitionName=a Nodes=some\nPartitionName=b Nodes=quick\n"
    )
    found = site(tmp_path, conf).inventory
    assert found.partition("a").hosts == ("n3", "n4")
    assert found.partition("b").hosts == ("n1", "n2", "n3")


# --- Nodes


@pytest.mark.parametrize(
    ("keys", "shape"),
    [
        ("CPUs=36", (36, 1, 1)),
        ("CPUs=80 Sockets=2 CoresPerSocket=20 ThreadsPerCore=2", (2, 20, 2)),
        ("CPUs=64 SocketsPerBoard=8 CoresPerSocket=8", (8, 8, 1)),
        ("Boards=2 SocketsPerBoard=4 CoresPerSocket=8", (8, 8, 1)),
        ("CPUs=48 CoresPerSocket=12 ThreadsPerCore=2", (2, 12, 2)),
        ("Procs=8 CoresPerSocket=4", (2, 4, 1)),
    ],
)
def test_a_node_has_the_shape_that_slurm_gives_it(
    keys: str, shape: tuple[int, int, int], tmp_path: Path
) -> None:
    found = site(tmp_path, f"NodeName=n1 RealMemory=5 {keys}\n")
    node = nodes(found)["n1"]
    assert (node.sockets, node.cores, node.threads) == shape
    assert (node.options, found.remarks) == ((), ())


def test_cpus_that_are_cores_stay_and_impossible_ones_are_told(tmp_path: Path) -> None:
    shape = "Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=5"
    found = site(tmp_path, f"NodeName=n1 CPUs=16 {shape}\nNodeName=n2 CPUs=20 {shape}\n")
    by_host = nodes(found)
    assert dict(by_host["n1"].options) == {"CPUs": "16"}
    assert by_host["n2"].options == ()
    assert "CPUs=20 are not 2 sockets of 8 cores; Slurm counts 32" in told(found)


def test_addresses_and_ports_stay_with_their_nodes(tmp_path: Path) -> None:
    conf = (
        "NodeName=n[1-3] CPUs=2 RealMemory=9 NodeAddr=10.0.0.[7-9] Port=27001-27003\n"
        "NodeName=m[1-2] CPUs=2 RealMemory=9 NodeAddr=localhost\n"
        "NodeName=o[1-2] CPUs=2 RealMemory=9 NodeAddr=o[1-2]\n"
    )
    by_host = nodes(site(tmp_path, conf))
    assert dict(by_host["n1"].options) == {"NodeAddr": "10.0.0.[7-9]", "Port": "[27001-27003]"}
    assert dict(by_host["m1"].options) == {"NodeAddr": "localhost"}
    assert by_host["o1"].options == ()


def test_equal_lines_become_one_class_with_all_its_origins(tmp_path: Path) -> None:
    lines = "".join(f"NodeName=n{n} CPUs=4 RealMemory=9\n" for n in (1, 2, 4, 3))
    found = site(tmp_path, lines)
    assert [item.hosts for item in found.inventory.node_classes] == [("n1", "n2", "n4", "n3")]
    assert "slurm.conf:2-5" in found.text


def test_what_nobody_says_is_written_as_such(tmp_path: Path) -> None:
    found = site(tmp_path, "NodeName=n[1-2] CPUs=4\n")
    assert "memory: 1 MiB  # no source says: see slurmd -C" in found.text
    assert "unsaid" in told(found)
    assert "memory of n[1-2]: no source says" in told(found)


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        (f"{NODES}NodeName=n3 CPUs=1\n", "NodeName n3 stands twice (first at line 2)"),
        ("NodeName=n[1-\n", "unbalanced brackets"),
        ("NodeName=n1 CPUs=many\n", "expected a whole number, got 'many'"),
        ("NodeName=n1 and more\n", "expected Key=value, got 'and more'"),
        ("NodeName=n[1-3] NodeAddr=a[1-2]\n", "NodeAddr names 2 for 3 nodes"),
        (f"{NODES}PartitionName=p Nodes=n[4-5]\n", "n5 are no nodes of slurm.conf; known: n1"),
        (f"{NODES}PartitionName=p Nodes=n1\nPartitionName=p Nodes=n2\n", "stands twice"),
        ("SlurmUser=root\n", "no nodes: nothing to import"),
    ],
)
def test_what_slurmctld_dies_of_is_refused(conf: str, words: str, tmp_path: Path) -> None:
    assert words in refused(tmp_path, conf)


# --- Cards


@pytest.mark.parametrize(
    ("text", "wanted", "profile"),
    [
        ("h100", "h100-sxm", ""),
        ("nvidia_h100_80gb_hbm3", "h100-sxm", ""),
        ("nvidia_h100_80gb_hbm3_1g.10gb", "h100-sxm", "1g.10gb"),
        ("a100_3g.20gb", "a100-sxm-80g", "3g.20gb"),
        ("nvidia_a100-sxm4-40gb", "a100-sxm-40g", ""),
        ("nvidia_a100_80gb_pcie", "a100-pcie-80g", ""),
        ("Ascend-910B3", "ascend-910b3", ""),
        ("nvidia_gh200", "gh200", ""),
        ("1g.10gb", None, "1g.10gb"),
        ("a100_24gb", None, ""),
        ("quadro", None, ""),
    ],
)
def test_a_gres_type_is_the_card_that_it_names(text: str, wanted: str | None, profile: str) -> None:
    base, found_profile = split_mig(text)
    found = accelerator_of(base, {}) if base else None
    assert (found.id if found else None, found_profile) == (wanted, profile)


def test_cards_come_from_both_files_with_files_cores_and_types(tmp_path: Path) -> None:
    gres = (
        "NodeName=n[1-3] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-7\n"
        "NodeName=n[1-3] Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=[8-15]\n"
        "NodeName=n4 Name=gpu Type=a100 File=/dev/nvidia[0,2-4]\n"
    )
    by_host = nodes(site(tmp_path, NODES, gres_conf=gres))
    assert by_host["n1"].devices[0].cores == ("0-7", "8-15")
    assert by_host["n4"].devices[0].missing == (1,)


def test_counts_and_types_that_differ_are_told_and_slurm_conf_counts(tmp_path: Path) -> None:
    gres = (
        "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-2]\n"
        "NodeName=n3 Name=gpu Type=h100 File=/dev/nvidia[0-3]\n"
        "NodeName=m7 Name=gpu Type=a100 File=/dev/nvidia0\n"
    )
    found = site(tmp_path, NODES, gres_conf=gres)
    text = told(found)
    assert "1 disagreement" in text
    assert "gpu:a100:4 of n[1-2]: gres.conf names 3" in text
    assert "gpu:a100:4 of n3: gres.conf has gpu:h100" in text
    assert "gpu:a100:4 of n4: no line of gres.conf" in text
    assert "m7 are no nodes of slurm.conf" in text
    assert {part.devices[0].count for part in nodes(found).values()} == {4}


def test_detected_cards_need_no_lines(tmp_path: Path) -> None:
    assert site(tmp_path, NODES, gres_conf="AutoDetect=nvml\n").remarks == ()


def test_types_stand_in_gres_conf_where_slurm_conf_has_none(tmp_path: Path) -> None:
    conf = "NodeName=n1 CPUs=4 RealMemory=9 Gres=gpu:4\n"
    gres = "Name=gpu Type=a100 File=/dev/nvidia[0-1]\nName=gpu Type=h100 File=/dev/nvidia[2-3]\n"
    found = site(tmp_path, conf, gres_conf=gres)
    kinds = [(item.accelerator, item.count) for item in nodes(found)["n1"].devices]
    assert kinds == [("a100-sxm-80g", 2), ("h100-sxm", 2)]


def test_cards_without_a_type_are_asked_for(tmp_path: Path) -> None:
    conf = "ClusterName=c\nNodeName=n1 CPUs=4 RealMemory=9 Gres=gpu:8,npu:2,lustre:no_consume:4K\n"
    (tmp_path / "slurm.conf").write_text(conf)
    shown = sn("import", str(tmp_path))
    assert shown.exit_code == 0
    assert "--accelerator gpu=NAME" in shown.stderr
    assert "lustre:4096 of n1: no card" in shown.stderr
    shown = sn("import", str(tmp_path), "--accelerator", "gpu=h100", "--accelerator", "npu=910b3")
    [part] = loads(shown.stdout).node_classes
    assert [(item.accelerator, item.count) for item in part.devices] == [
        ("h100-sxm", 8),
        ("ascend-910b3", 2),
    ]


def test_a_file_that_does_not_match_its_count_is_refused(tmp_path: Path) -> None:
    gres = "NodeName=n[1-4] Name=gpu Type=a100 Count=4 File=/dev/nvidia[0-1]\n"
    assert "Count=4, but File names 2" in refused(tmp_path, NODES, gres_conf=gres)
    gres = "NodeName=n1 Name=gpu Files=/dev/x Speed=9\n"
    assert "'Speed' is no key of gres.conf" in refused(tmp_path, NODES, gres_conf=gres)


# --- Topologies


def test_blocks_become_a_class_of_supernodes(tmp_path: Path) -> None:
    found = site(tmp_path, NODES + BLOCK_PLUGIN, topology_conf=BLOCKS)
    assert [(item.name, item.hosts) for item in found.inventory.supernodes] == [
        ("b1", ("n1", "n2")),
        ("b2", ("n3", "n4")),
    ]
    assert "from the catalogue's a100-sxm-80g" in found.text


def test_equal_blocks_are_written_as_one(tmp_path: Path) -> None:
    conf = "".join(
        f"NodeName=r{n}-[1-4] CPUs=4 RealMemory=9 Gres=gpu:gb200:4\n" for n in range(1, 9)
    )
    blocks = "".join(f"BlockName=b{n} Nodes=r{n}-[1-4]\n" for n in range(1, 9))
    found = site(tmp_path, conf + BLOCK_PLUGIN, topology_conf=blocks + "BlockSizes=3,6\n")
    assert 'name: "b[1-8]"' in found.text
    assert 'hosts: "r{n}-[1-4]"' in found.text
    assert {item.spares for item in found.inventory.supernodes} == {1}
    assert len(found.text.splitlines()) < 30


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "switch 'a' stands twice"),
        ("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2\n", "has nodes and switches"),
        ("SwitchName=lf1 Nodes=n1\nSwitchName=t Switches=leaf1\n", "undefined children leaf1"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "under each other: a > b > a"),
        (
            "SwitchName=l Nodes=n1\nSwitchName=a Switches=l\nSwitchName=b Switches=l\n",
            "switch 'l' hangs under 'a' and 'b'",
        ),
        ("BlockName=a Nodes=n1\nBlockName=a Nodes=n2\n", "'a' stands twice"),
        (
            "BlockName=a Nodes=n[1-4]\nBlockSizes=x\n",
            "expected a whole number, got 'x'",
        ),
        ("Switch=a Nodes=n1\n", "'Switch' begins no line of topology.conf"),
        ("SwitchName=a Node=n1\n", "'Node' is no key of a SwitchName line; did you mean 'Nodes'?"),
    ],
)
def test_a_topology_that_slurmctld_dies_of_is_refused(
    text: str, words: str, tmp_path: Path
) -> None:
    assert words in refused(tmp_path, NODES + TREE_PLUGIN, topology_conf=text)


def test_what_slurmctld_lives_with_is_told(tmp_path: Path) -> None:
    tree = (
        "SwitchName=a Nodes=n[1-2],x[1-2]\nSwitchName=b Nodes=n[2-3] LinkSpeed=9\n"
        "SwitchName=top Switches=a,b\n"
    )
    found = site(tmp_path, NODES + TREE_PLUGIN, topology_conf=tree)
    text = told(found)
    assert "1 mistake" in text
    assert "x[1-2] are no nodes of slurm.conf" in text
    assert "n2 under switch 'b' and under 'a'; kept under 'a', line 1" in text
    assert "n4 are under no switch" in text
    assert "LinkSpeed is left out" in text
    [fabric] = found.inventory.fabrics
    assert fabric.hosts == {"n1", "n2", "n3"}


def test_a_node_in_two_blocks_or_in_none_is_told(tmp_path: Path) -> None:
    blocks = "BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[2-3]\n"
    text = told(site(tmp_path, NODES + BLOCK_PLUGIN, topology_conf=blocks))
    assert "b: n2 are in another block too" in text
    assert "n4 are in no block" in text


def test_a_topology_that_no_plugin_reads_is_told(tmp_path: Path) -> None:
    assert "no TopologyPlugin: slurmctld does not read topology.conf" in told(
        site(tmp_path, NODES, topology_conf=BLOCKS)
    )


def test_topology_yaml_wins_over_topology_conf(tmp_path: Path) -> None:
    yaml = (
        "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n"
        "      - {switch: top, children: 'l[1-2]'}\n"
        "      - {switch: l1, nodes: 'n[1-2]'}\n      - {switch: l2, nodes: 'n[3-4]', speed: 9}\n"
        "- topology: k\n  block:\n    block_sizes: [2]\n    blocks:\n"
        "      - {block: b1, nodes: 'n[1-2]'}\n      - {block: pad}\n"
    )
    found = site(tmp_path, NODES, topology_conf=BLOCKS, topology_yaml=yaml)
    assert [item.name for item in found.inventory.supernodes] == ["b1"]
    [fabric] = found.inventory.fabrics
    assert {s.name: (s.members, s.hosts) for s in fabric.switches if not s.switches} == {
        "l1": (("b1",), ()),
        "l2": (("pool-a100",), ()),
    }
    assert "unknown key 'speed'" in told(found)


def test_switches_with_the_name_of_a_block_give_way(tmp_path: Path) -> None:
    tree = (
        "SwitchName=b1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\nSwitchName=top Switches=b1,l2\n"
        "BlockName=b1 Nodes=n[1-2]\n"
    )
    found = site(tmp_path, NODES + TREE_PLUGIN, topology_conf=tree)
    [fabric] = found.inventory.fabrics
    assert [switch.name for switch in fabric.switches] == ["b1-switch", "l2", "top"]


def test_separate_trees_stay_separate(tmp_path: Path) -> None:
    tree = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n"
    found = site(tmp_path, NODES + TREE_PLUGIN, topology_conf=tree)
    assert [fabric.name for fabric in found.inventory.fabrics] == ["a", "b"]
    assert [pool.name for pool in found.inventory.pools] == ["pool-a100-a", "pool-a100-b"]


# --- Other sources


def test_a_fabric_that_is_not_up_is_no_domain(tmp_path: Path) -> None:
    path = tmp_path / "uuids"
    path.write_text("n1: 5e79-1\nn2: 5e79-1\nn3: 00000000-0000-0000-0000-000000000000\nn4: N/A\n")
    (tmp_path / "slurm.conf").write_text(NODES)
    found = import_sources([str(tmp_path / "slurm.conf"), str(path)], {}, nobody)
    assert [item.hosts for item in found.inventory.supernodes] == [("n1", "n2")]
    assert "n4: 'N/A' names no scale-up fabric" in told(found)
    path.write_text("n1: a\nn1: b\n")
    with pytest.raises(ConfigError, match=r"n1 is in b and in a \(line 1\)"):
        import_sources([f"domains:{path}"], {}, nobody)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("blocks:\n- switch: a\n", "block 0 has no nodes"),
        ("blocks:\n- nodes: [n1]\n- nodes: [n1]\n", "node n1 is in two blocks"),
        ("switches: {a: {switches: [b]}}\nblocks:\n- {switch: c, nodes: [n1]}\n", "unknown switch"),
        ("blocks:\n- {nodes: [n1], labels: {}, size: 9}\n", "unknown key 'size'"),
        ("blocks: 7\n", "blocks: expected a list"),
    ],
)
def test_a_models_mistakes_are_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        import_sources([str(path)], {}, nobody)


# --- The command


def test_a_file_is_written_once_and_never_over_another(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(f"ClusterName=c\n{NODES}")
    target = tmp_path / "site.yaml"
    first = sn("import", str(tmp_path), "-o", str(target))
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout == f"{target}: 0 supernodes, 1 pools, 4 nodes, 0 partitions, 0 warnings\n"
    text = target.read_text()
    assert loads(text).cluster == "c"
    again = sn("import", str(tmp_path), "-o", str(target))
    assert isinstance(again.exception, ConfigError)
    assert "never writes over a file" in str(again.exception)
    assert target.read_text() == text
    nowhere = sn("import", str(tmp_path), "-o", str(tmp_path / "no/site.yaml"))
    assert "its directory does not exist" in str(nowhere.exception)


def test_json_holds_facts_with_origins_and_all_remarks(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=c\nNodeName=n1 CPUs=4 Gres=mps:100\n")
    found = json.loads(sn("import", str(tmp_path), "--json").stdout)
    facts = {item["path"]: item for item in found["facts"]}
    assert facts["pools[0].nodes.cores"]["value"] == 1
    assert facts["pools[0].nodes.cores"]["origin"][0]["line"] == 2
    assert facts["cluster"]["origin"][0]["column"] == 13
    assert {item["kind"] for item in found["remarks"]} == {"unsaid"}
    assert loads(found["inventory"]).cluster == "c"


def test_a_source_may_be_named_by_its_kind(tmp_path: Path) -> None:
    (tmp_path / "odd name").write_text(BLOCKS)
    found = import_sources([f"topology.conf:{tmp_path / 'odd name'}"], {}, nobody)
    assert len(found.inventory.supernodes) == 2
    with pytest.raises(UsageError, match="no kind of source is 'topology:'"):
        import_sources([f"topology:{tmp_path / 'odd name'}"], {}, nobody)
    with pytest.raises(UsageError, match="--accelerator"):
        import_sources([f"topology.conf:{tmp_path / 'odd name'}"], {"gpu": "abacus"}, nobody)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds nothing to import"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"Just a text.\n", "is no source"),
        (b"Port=7\n", "'Port' tells of no nodes"),
    ],
)
def test_what_is_no_source_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        import_sources([str(path)], {}, nobody)


def test_an_inventory_is_no_source(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("version: 1\ncluster: c\n")
    with pytest.raises(ConfigError, match="is an inventory already"):
        import_sources([str(path)], {}, nobody)


def test_a_directory_needs_a_slurm_conf(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no slurm\.conf"):
        import_sources([str(tmp_path)], {}, nobody)


def test_paths_may_be_odd(hostile_path: Path) -> None:
    found = site(hostile_path, NODES)
    assert found.inventory.cluster == "c"


TEXT = """
NodeName=n[1-3] NodeName=DEFAULT PartitionName=p Nodes=n[1-2] Nodes=ALL CPUs=4 Gres=gpu:a100:4
Gres=gpu:8,mps:3 Name=gpu Type=a100 Count=3 File=/dev/nvidia[0-3] SwitchName=a Switches=a,b
BlockName=n1 BlockSizes=2 Include \\ # " = Topology= State=CLOUD NodeAddr=[1-9] [ é topology: t
- blocks: nodes: [n1] tree: {} : { n1: x
"""
WORDS = TEXT.split()


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=8), st.booleans()
)
def test_any_text_is_imported_or_refused(tmp_path: Path, lines: list[str], is_yaml: bool) -> None:
    path = tmp_path / ("a.yaml" if is_yaml else "a.conf")
    path.write_text("\n".join(lines), encoding="utf-8")
    for source in (str(path), f"slurm.conf:{path}", f"gres.conf:{path}", f"topology.conf:{path}"):
        with contextlib.suppress(SupernodeError):
            found = import_sources([source], {}, nobody)
            assert loads(found.text).domains
