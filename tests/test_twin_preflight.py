"""What is found by reading Slurm's files alone, release by release, with its place."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from supernode_slurm.slurmconf.release import RELEASES, find_release
from supernode_slurm.twin import Findings, check, preflight, read_site_conf, reading
from supernode_slurm.twin.schedulerkeys import scheduler_keys
from tests import twin_samples
from tests.twin_samples import changed

MAIN, NODES, PARTITIONS = "supernode.conf", "supernode-nodes.conf", "supernode-partitions.conf"
GRES, TOPOLOGY, YAML = "gres.conf", "topology.conf", "topology.yaml"


def found(files: Mapping[str, str], release: str = "24.11") -> list[str]:
    findings = check(files, find_release(release))
    return list(map(str, (*findings.errors, *findings.warnings)))


@pytest.mark.parametrize("release", RELEASES)
def test_sound_files_of_each_release_have_no_findings(release: str) -> None:
    row = find_release(release)
    assert check(twin_samples.files(), row).warnings == ()
    assert check(twin_samples.block(), row).errors == ()
    if row.yaml:
        assert found(twin_samples.with_yaml(), release) == []


def test_a_missing_topology_is_found_before_slurmctld_waits_for_it() -> None:
    files = twin_samples.files()
    del files[TOPOLOGY]
    words = "supernode.conf:2:16: topology/tree needs a topology.conf, which is not given"
    assert check(files, find_release("22.05")).errors[0].what in words
    assert found(files, "22.05") == [f"{words}; slurmctld would wait for it"]
    assert found({**files, YAML: twin_samples.YAML}, "26.05") == []
    assert found({**files, MAIN: files[MAIN].replace("/tree", "/default")}) == []


def test_all_missing_files_are_named_at_once() -> None:
    files = {MAIN: "Include a.conf\nGresTypes=gpu\nInclude /etc/slurm/b.conf\n", "../x": ""}
    assert found(files) == [
        "../x: is not a plain file name",
        "supernode.conf:1:9: includes a.conf, which is not given",
        "supernode.conf:3:9: includes /etc/slurm/b.conf, which is not given",
    ]
    assert found({}) == ["supernode.conf: missing; generate the configuration first"]


def test_another_root_may_include_the_generated_files() -> None:
    files = {**twin_samples.files(), "slurm.conf": "ClusterName=x\nInclude supernode.conf\n"}
    findings = check(files, find_release("24.11"), root="slurm.conf")
    assert findings == check(twin_samples.files(), find_release("24.11"))


def test_files_that_include_each_other_come_to_an_end() -> None:
    assert found({MAIN: "Include a.conf\n", "a.conf": "Include supernode.conf\n"}) == []


def test_foreign_nodes_are_no_strangers() -> None:
    files = changed(TOPOLOGY, "h1-[01-08]", "cpu[1-2],h1-[01-08]")
    assert found(files) == [
        "topology.conf:1:12: 'leaf1' names cpu[1-2], which no NodeName line has;"
        " delete or define them"
    ]
    assert check(files, find_release("24.11"), foreign=("cpu1", "cpu2")).warnings == ()


def test_nodes_outside_the_blocks_are_right_unless_a_partition_mixes_them() -> None:
    findings = check(twin_samples.block(), find_release("24.11"))
    assert findings.warnings == ()
    assert findings.covers("warning: blocks lack access to 6 nodes: a[001-004],b[1-2]")
    assert not findings.covers("warning: blocks lack access to 1 nodes: h1-01")
    assert not findings.covers("warning: blocks lack access to 1 nodes: a[001-")
    mixed = changed(PARTITIONS, "Nodes=h1-[01-08]", "Nodes=h1-[01-08],b1", plugin="block")
    assert found(mixed) == [
        "supernode-partitions.conf:1:15: partition 'h' holds b1, and no block of 'default' does;"
        " no job gets them together with the others"
    ]


def test_several_roots_are_several_fabrics() -> None:
    line = "warning: TOPOLOGY: no switch can reach all nodes through its descendants."
    whole = check(twin_samples.files(), find_release("24.11"))
    assert not whole.covers(line)
    parted = changed(TOPOLOGY, "SwitchName=top Switches=leaf[1-2]\n", "")
    assert check(parted, find_release("24.11")).covers(line)
    assert not Findings().covers(line)


def test_a_partition_is_held_against_its_own_topology() -> None:
    other = "- topology: t2\n  tree:\n    switches:\n      - {switch: s, nodes: 'a[001-004]'}\n"
    files = twin_samples.with_yaml(twin_samples.YAML + other)
    assert found(files, "26.05") == []
    bound = files[PARTITIONS].replace("b[1-2] State", "b[1-2] Topology=t2 State")
    assert found({**files, PARTITIONS: bound}, "26.05") == [
        "supernode-partitions.conf:2:15: partition 'a' holds b[1-2], and no switch of 't2' does;"
        " no job gets them together with the others"
    ]


def test_sets_of_nodes_and_defaults_are_followed() -> None:
    files = changed(TOPOLOGY, "b[1-2]", "b1")
    sets = "NodeSet=old Feature=a100\nNodeSet=some Nodes=b2\n"
    for nodes in ("old", "some,a001", "ALL", "b2"):
        lines = f"{sets}PartitionName=DEFAULT Nodes={nodes}\nPartitionName=p\n"
        texts = found({**files, PARTITIONS: lines})
        assert len(texts) == 1
        assert "partition 'p' holds b2, and no switch" in texts[0]
    assert found({**files, PARTITIONS: f"{sets}PartitionName=p Nodes=a[001-004],b1\n"}) == []


TORUS = """\
- topology: cube
  cluster_default: true
  torus3d:
    toruses:
      - name: t
        dims: {x: 2, y: 2, z: 2}
        regions:
          - {anchor: {x: 0, y: 0, z: 0}, dims: {x: 2, y: 2, z: 1}, nodes: "h1-[01-04]"}
          - {anchor: {x: 0, y: 0, z: 1}, dims: {x: 2, y: 2, z: 1}, nodes: "h1-[05-08]"}
        placements:
          - {dims: {x: 2, y: 2, z: 1}, anchor_sed: 1}
"""


def test_every_key_of_topology_yaml_is_known_and_no_other() -> None:
    assert found(twin_samples.with_yaml(TORUS), "26.05") == [
        "topology.yaml:11:40: unknown key 'anchor_sed': slurmctld passes over it without a word;"
        " did you mean 'anchor_seed'?"
    ]
    flat = "- topology: f\n  flat: true\n"
    assert found(twin_samples.with_yaml(flat), "26.05") == []


@pytest.mark.parametrize(
    ("gres", "lines"),
    [
        ("gpu:h100:8", "Name=gpu Type=h100 File=/dev/nvidia[0-3],/dev/nvidia[4-7]"),
        ("gpu:h100:8", "Name=gpu File=/dev/nvidia[0-7]"),
        ("gpu:8", "Name=gpu File=/dev/nvidia[0-7]"),
        ("gpu:h100:8(S:0-1)", "AutoDetect=off\nName=gpu Type=h100 Files=/dev/dri/render[0-7]"),
        ("gpu:h100:8", "AutoDetect=nvml"),
        ("gpu:h100:8", "NodeName=n1 AutoDetect=nvml Name=gpu Type=h100"),
        ("npu:910c:16", "Name=npu Type=910c Count=16"),
        ("npu:910c:16", ""),
        ("gpu:h100:1,shard:8", "Name=gpu Type=h100 File=/dev/nvidia0\nName=shard Count=8"),
        (
            "gpu:1g:2",
            "Name=gpu Type=1g MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/cap[1-2]\n"
            "Name=gpu Type=1g MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/cap[3-4]",
        ),
    ],
)
def test_gres_and_its_files_agree(gres: str, lines: str) -> None:
    files = {MAIN: f"GresTypes=gpu\nNodeName=n1 Gres={gres}\nPartitionName=p Nodes=n1\n"}
    assert found({**files, GRES: f"{lines}\n"}) == []


@pytest.mark.parametrize(
    ("gres", "lines", "there"),
    [
        ("gpu:h100:8", "Name=gpu Type=h100 File=/dev/nvidia[0-3]", "8 gpu:h100 here, 4"),
        ("gpu:h100:8", "Name=gpu Type=h100 Count=8", "8 gpu:h100 here, 0"),
        ("gpu:4", "NodeName=n1 Name=gpu File=/dev/nvidia[0-7]", "4 gpu here, 8"),
        ("npu:910c:16", "Name=npu Type=910c File=/dev/davinci[0-7]", "16 npu:910c here, 8"),
        ("gpu:a:b:1", "", "cannot read GRES 'gpu:a:b:1'"),
    ],
)
def test_gres_and_its_files_differ(gres: str, lines: str, there: str) -> None:
    files = {MAIN: f"NodeName=DEFAULT Gres={gres}\nNodeName=n1\nPartitionName=p Nodes=n1\n"}
    texts = found({**files, GRES: f"{lines}\n"})
    assert len(texts) == 1
    assert texts[0].startswith("supernode.conf:1:23: ")
    assert there in texts[0]


def test_scheduler_parameters_are_known_by_release_without_regard_to_case() -> None:
    files = {**twin_samples.files()}
    files[MAIN] += "SchedulerParameters=BF_Interval=3,defer,defer_batch,,max_rpc_cnt=7\n"
    assert found(files) == []
    assert "Slurm 22.05 has no SchedulerParameters 'defer_batch'" in found(files, "22.05")[0]


def test_a_release_between_knows_the_scheduler_parameters_of_both_neighbours() -> None:
    assert scheduler_keys("23.11") == scheduler_keys("22.05") | scheduler_keys("24.11")
    assert scheduler_keys("26.11") == scheduler_keys("26.05")
    assert scheduler_keys("21.08") == scheduler_keys("22.05")


def test_lines_of_the_site_that_ours_would_replace_are_named() -> None:
    ours = reading.read(
        {"supernode.conf": "GresTypes=gpu\nAccountingStorageTRES=gres/gpu\n"}, "supernode.conf"
    )
    site = "GresTypes=gpu,mps\nAccountingStorageType=accounting_storage/none\n"
    found = [str(item) for item in preflight.beside(ours, reading.read({"s": site}, "s"))]
    assert found[0].startswith("supernode.conf:2:23: tracks GRES, and slurm.conf has no Accounting")
    assert found[1:] == [
        "s:1:11: GresTypes=gpu,mps stands in supernode.conf too, as gpu;"
        " slurmctld takes the last of them: keep one"
    ]
    good = "GresTypes=gpu\nAccountingStorageType=accounting_storage/slurmdbd\n"
    assert not list(preflight.beside(ours, reading.read({"s": good}, "s")))


def test_our_own_file_is_no_include_of_the_sites() -> None:
    (dropped,) = read_site_conf("Include /etc/slurm/supernode.conf\n").dropped
    assert dropped.reason == "comes from the inventory"
