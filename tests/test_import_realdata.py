"""Every file of the collected configurations: imported, or one clear error with its line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from supernode_slurm.discovery import Imported, import_sources
from supernode_slurm.errors import ConfigError
from supernode_slurm.slurm import CliClient

FOLDER = Path(__file__).resolve().parents[2] / "shared/realdata/slurm_configs"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the collected files are not beside the repository"
)

# What becomes of each file alone: nodes, supernodes, pools, fabrics and partitions, or the
# line and the words of the error. 'no source': it tells of no nodes, or is of another program.
AWS = "aws_parallelcluster/aws_slurm_config_"
SPOT = "slurm_parallelcluster_multiple_spot_partition"
IMPORTED = {
    f"{AWS}files_memory_scheduling__slurm_parallelcluster_efa_partition.conf": (5, 0, 1, 0, 1),
    f"{AWS}files_memory_scheduling__slurm_parallelcluster_efa_partition_mem_sched.conf": (
        *(5, 0, 1, 0, 1),
    ),
    f"{AWS}files_memory_scheduling__slurm_parallelcluster_gpu_partition.conf": (15, 0, 2, 1, 1),
    f"{AWS}files_memory_scheduling__{SPOT}.conf": (15, 0, 1, 0, 1),
    f"{AWS}files_memory_scheduling__{SPOT}_mem_sched.conf": (15, 0, 1, 0, 1),
    f"{AWS}files_nogpu__slurm_parallelcluster_efa_partition.conf": (5, 0, 1, 0, 1),
    f"{AWS}files_nogpu__slurm_parallelcluster_gpu_partition.conf": (15, 0, 2, 1, 1),
    f"{AWS}files_nogpu__slurm_parallelcluster_gpu_partition_no_gpu.conf": (15, 0, 1, 0, 1),
    f"{AWS}flexible_instance_types__slurm_parallelcluster_queue1_partition.conf": (20, 0, 1, 0, 1),
    f"{AWS}flexible_instance_types__slurm_parallelcluster_queue2_partition.conf": (20, 0, 1, 0, 1),
    f"{AWS}flexible_instance_types__slurm_parallelcluster_queue3_partition.conf": (10, 0, 1, 0, 1),
    f"{AWS}flexible_instance_types__slurm_parallelcluster_queue4_partition.conf": (10, 0, 1, 0, 1),
    f"{AWS}flexible_instance_types__slurm_parallelcluster_queue6_gres.conf": (5, 0, 1, 0, 0),
    f"{AWS}flexible_instance_types__slurm_parallelcluster_queue6_partition.conf": (5, 0, 1, 0, 1),
    f"{AWS}flexible_instance_types__slurm_parallelcluster_queue7_partition.conf": (5, 0, 1, 0, 1),
    f"{AWS}with_custom_settings__{SPOT}.conf": (15, 0, 1, 0, 1),
    f"{AWS}with_job_exc_alloc__slurm_parallelcluster_queue_jls_default_partition.conf": (
        *(10, 0, 1, 0, 1),
    ),
    f"{AWS}with_job_exc_alloc__slurm_parallelcluster_queue_jls_disabled_partition.conf": (
        *(10, 0, 1, 0, 1),
    ),
    f"{AWS}with_job_exc_alloc__slurm_parallelcluster_queue_jls_enabled_partition.conf": (
        *(10, 0, 1, 0, 1),
    ),
    "azure_block_topology.txt": (72, 4, 0, 1, 0),
    "azure_slurm_topology.txt": (16, 0, 1, 1, 0),
    "index_continuation_nodes_custom.conf": (1, 0, 1, 0, 0),
    "schedmd_backfill_slurm.conf": (32, 0, 1, 0, 0),
    "schedmd_check_topology_block.conf": (32, 8, 0, 1, 0),
    "schedmd_check_topology_slurm.conf": (32, 0, 1, 0, 0),
    "schedmd_man_topology_yaml_examples.txt": (32, 4, 1, 1, 0),
    "schedmd_slurm.conf.example": (32, 0, 1, 0, 1),
    "schedmd_test133_tc1_topology_tree_large.conf": (10_000, 0, 1, 1, 0),
    "schedmd_test133_tc3_slurm.conf": (400, 0, 1, 0, 1),
    "schedmd_test133_tc3_topology_tree.conf": (400, 0, 1, 1, 0),
    "schedmd_test7.17.1_slurm.conf": (10, 0, 1, 0, 0),
    "schedmd_test7.17.2_slurm.conf": (10, 0, 1, 0, 0),
    "schedmd_test7.17.3_slurm.conf": (10, 0, 1, 0, 0),
    "schedmd_test7.17.7_slurm.conf": (10, 0, 1, 0, 0),
    "site_5node_gres.conf": (5, 0, 1, 0, 0),
    "site_8gpu_slurm.conf": (5, 0, 2, 1, 2),
    "site_circe_slurm.conf": (98, 0, 1, 0, 8),
    "site_circe_slurm_20181220.conf": (37, 0, 1, 0, 1),
    "site_circe_topology_tree.conf": (79, 0, 5, 5, 0),
    "site_dockertest_topology_multilevel.conf": (8, 0, 1, 1, 0),
    "site_ibnodo_gres.conf": (5, 0, 4, 0, 0),
    "site_ibnodo_slurm.conf": (29, 0, 5, 1, 4),
    "site_lab_mixed_gres.conf": (4, 0, 4, 0, 0),
    "site_lab_mixed_slurm.conf": (4, 0, 4, 1, 5),
    "site_slinkyfake_gres.conf": (3, 0, 1, 0, 0),
    "site_tara_slurm.conf": (10, 0, 1, 0, 5),
    "site_tara_topology_tree.conf": (10, 0, 1, 1, 0),
}
REFUSED = {
    f"{AWS}generator__slurm_parallelcluster.conf": (11, "there is no such file"),
    f"{AWS}generator__slurm_parallelcluster_gres_mem_sched.conf": (4, "there is no such file"),
    f"{AWS}generator__slurm_parallelcluster_mem_sched.conf": (11, "there is no such file"),
    "azure_slurm_illegal_block_topology.txt": (17, "BlockSizes=20, but no block"),
    "azure_topology.txt": (14, "hang under each other: ibsw14 > ibsw47 > ibsw14"),
    "index_cf_topology_wrong_child.conf": (8, "did you mean 'cf-ibswitch[01-02]'?"),
    # Several examples in one text, which no Slurm reads: parted, they import (below).
    "schedmd_man_gres_conf_examples.txt": (12, "expected Key=value"),
    "schedmd_man_topology_conf_examples.txt": (11, "expected Key=value"),
    "schedmd_test150.9_block_blocks_not_list.yaml": (16, "expected a list of mappings"),
    "schedmd_test150.9_block_not_dict.yaml": (9, "expected a mapping with block_sizes"),
    "schedmd_test150.9_flat_bad_options.yaml": (8, "flat: expected true"),
    "schedmd_test150.9_torus3d_placements_not_list.yaml": (19, "placements: expected a list"),
    "schedmd_test150.9_tree_bad_options.yaml": (10, "undefined children s3"),
    "schedmd_test150.9_tree_switches_not_list.yaml": (9, "switches: expected a list"),
    # Lines for the node that reads the file, whichever it is: they need slurm.conf (below).
    "schedmd_test7.17.1_gres.conf": (4, "no line names a node"),
    "schedmd_test7.17.2_gres.conf": (4, "no line names a node"),
    "schedmd_test7.17.3_gres.conf": (4, "no line names a node"),
    "schedmd_test7.17.7_gres.conf": (4, "no line names a node"),
    "site_8gpu_cpus_gres.conf": (1, "no line names a node"),
    "site_dockertest_gres.conf": (5, "no line names a node"),
}
NO_SOURCE = {
    "alibaba_gpu2023_node_list.csv": 1,  # a table of a trace
    "deepops_nvml_node_lines.txt": 2,  # lines before and after a change, and a prompt
    "flagscale_hetero_hostfile.txt": 3,  # a launcher's host file
    "slinky_topology_doc.md.txt": 5,  # prose
    "soperator_e2e_topology.feature": 1,  # a test's steps
    "soperator_nodesets_node_config_test.yaml": 1,  # a test of charts
    "stackhpc_mig_partitions.md.txt": 3,  # prose
}


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def read(*names: str, **accelerators: str) -> Imported:
    return import_sources([str(FOLDER / name) for name in names], accelerators, nobody)


def said(*names: str) -> str:
    """Return all remarks on these files, each on a line."""
    return "\n".join(map(str, read(*names).remarks))


def test_every_file_has_its_verdict() -> None:
    there = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    verdicts = Counter([*IMPORTED, *REFUSED, *NO_SOURCE])
    assert there == verdicts.keys()
    assert set(verdicts.values()) == {1}


@pytest.mark.parametrize("name", IMPORTED)
def test_a_source_is_imported(name: str) -> None:
    found = read(name)
    room = found.inventory
    nodes = sum(len(domain.hosts) for domain in room.domains)
    counts = (len(room.supernodes), len(room.pools), len(room.fabrics), len(room.partitions))
    assert (nodes, *counts) == IMPORTED[name]
    assert all(leaf.origin or leaf.remark for path, leaf in found.facts if path != "version")


@pytest.mark.parametrize("name", REFUSED)
def test_what_slurm_would_refuse_is_one_error_with_its_line(name: str) -> None:
    line, words = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        read(name)
    [problem] = caught.value.problems
    assert problem.where.line == line
    assert words in str(problem)


@pytest.mark.parametrize("name", NO_SOURCE)
def test_what_is_no_source_says_so(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(name)
    [problem] = caught.value.problems
    assert problem.where.line == NO_SOURCE[name]
    assert "is no source" in problem.what or "no topology.yaml and no model" in problem.what
    assert "slurm.conf" in problem.todo or "topology.yaml:" in problem.todo


def test_examples_of_a_manual_import_one_by_one(tmp_path: Path) -> None:
    texts = (
        (FOLDER / "schedmd_man_topology_conf_examples.txt").read_text().split("---- example ----")
    )
    for text, count in zip(texts, (18, 128, 16), strict=True):
        path = tmp_path / "topology.conf"
        path.write_text(text)
        room = import_sources([str(path)], {}, nobody).inventory
        assert sum(len(domain.hosts) for domain in room.domains) == count


def test_a_device_out_of_service_is_a_missing_card(tmp_path: Path) -> None:
    text = (FOLDER / "schedmd_man_gres_conf_examples.txt").read_text()
    (tmp_path / "gres.conf").write_text(text.split("---- example ----")[2])
    (tmp_path / "slurm.conf").write_text(
        "GresTypes=gpu\nNodeName=DEFAULT CPUs=8 RealMemory=9000 Gres=gpu:4\n"
        "NodeName=tux[0-2,4-15]\nNodeName=tux3 Gres=gpu:3\n"
    )
    found = import_sources([str(tmp_path)], {"gpu": "a100"}, nobody)
    [whole, worn] = found.inventory.node_classes
    assert (whole.devices[0].count, whole.devices[0].missing) == (4, ())
    assert (worn.hosts, worn.devices[0].missing) == (("tux3",), (1,))


def test_spares_follow_from_the_base_block_of_the_manual(tmp_path: Path) -> None:
    text = (FOLDER / "schedmd_man_topology_conf_examples.txt").read_text()
    (tmp_path / "topology.conf").write_text(text.split("---- example ----")[1])
    room = import_sources([str(tmp_path / "topology.conf")], {}, nobody).inventory
    assert [(item.name, item.spares) for item in room.supernodes] == [
        (f"block{number}", 2) for number in (1, 2, 3, 4)
    ]


def test_a_forgotten_prefix_is_told_with_the_real_names() -> None:
    text = said("site_circe_slurm.conf", "site_circe_topology_tree.conf")
    assert "n[019-020] are no nodes of slurm.conf; did you mean 'circe-n[019-020]'?" in text
    assert "circe-n051 under switch 's4' and under 's2'" in text
    assert "circe-n[019-020,059,081-098] are under no switch" in text
    assert "5 switches without a common one above" in text
    assert "no TopologyPlugin: slurmctld does not read" in text


def test_a_tree_and_its_nodes_fit_without_a_word() -> None:
    found = read("site_tara_slurm.conf", "site_tara_topology_tree.conf")
    assert all("REDACTED" in str(remark) for remark in found.remarks)
    [fabric] = found.inventory.fabrics
    assert {switch.name for switch in fabric.switches} == {"s0", "s1", "s2", "s3", "s4"}
    [biobank] = [item for item in found.inventory.partitions if item.name == "biobank"]
    assert biobank.hosts == ("tara-dgx1-001",)
    assert dict(biobank.options)["OverSubscribe"] == "EXCLUSIVE"


def test_cards_of_one_node_keep_their_kinds_and_files() -> None:
    cards = {"gtx970": "h20", "gtx1060": "h100", "rtx2080": "h200", "v100": "b200"}
    found = read("site_ibnodo_slurm.conf", "site_ibnodo_gres.conf", **cards)
    by_host = {host: nodes for nodes in found.inventory.node_classes for host in nodes.hosts}
    kinds = [(item.type, item.count) for item in by_host["visualizacion1"].devices]
    assert kinds == [("gtx970", 1), ("gtx1060", 1)]
    assert [item.count for item in by_host["ibtesla"].devices] == [4]
    assert by_host["ibtesla"].features == ("skylake", "v100")
    assert by_host["ibnodo1"].sockets == 8


def test_cards_that_the_catalogue_does_not_know_stay_for_slurm() -> None:
    found = read("site_lab_mixed_slurm.conf", "site_lab_mixed_gres.conf")
    by_host = {host: nodes for nodes in found.inventory.node_classes for host in nodes.hosts}
    others = {item.name: item for item in by_host["goedel"].other_gres}
    assert others["mps"].count == 192
    assert len(others["mps"].files) == 8
    assert "mps:192 of goedel: no card" in said("site_lab_mixed_slurm.conf")


def test_cores_that_slurmd_would_refuse_are_told() -> None:
    names = ("schedmd_test7.17.7_slurm.conf", "schedmd_test7.17.7_gres.conf")
    text = "\n".join(map(str, read(*names, gpu="a100").remarks))
    assert "0-10000 of a node with cores 0-3" in text


def test_node_local_lines_of_gres_conf_are_for_every_node() -> None:
    found = read("site_8gpu_slurm.conf", "site_8gpu_cpus_gres.conf", gpu="a100")
    [dgx] = [item for item in found.inventory.node_classes if "dgx1" in item.hosts]
    assert [(item.count, item.gres) for item in dgx.devices] == [(8, "gpu")]
    assert "0-9 end inside a socket of 20" in "\n".join(map(str, found.remarks))


def test_nodes_that_slurm_may_join_stay_joined() -> None:
    found = read("site_lab_mixed_slurm.conf", "site_lab_mixed_gres.conf")
    [fabric] = found.inventory.fabrics
    assert fabric.hosts == {"goedel", "turing", "hydra", "fear"}
    assert "how the nodes are wired: no source says" in "\n".join(map(str, found.remarks))


def test_a_missing_topology_is_told() -> None:
    assert "no source holds the topology" in said("site_tara_slurm.conf")


def test_keys_that_slurm_does_not_know_are_told() -> None:
    text = said(f"{AWS}with_custom_settings__{SPOT}.conf")
    assert "is no key of a NodeName line" in text
    assert "is no key of a PartitionName line" in text
