"""What a shell makes of ``sn import DIR/*``: files that include each other, and many others."""

from __future__ import annotations

from pathlib import Path

import pytest

from supernode_slurm.data import data_dir
from supernode_slurm.discovery import Imported, import_sources
from supernode_slurm.discovery.given import OTHER_FILES
from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import load
from supernode_slurm.slurm import CliClient
from supernode_slurm.slurmconf import find_release, generate

INVENTORIES = sorted((Path(str(data_dir("topology_conf"))) / "inventories").glob("*.yaml"))
NODES = "ClusterName=c\nNodeName=n[1-4] Sockets=2 CoresPerSocket=8 RealMemory=9000\n"
PARTS = "PartitionName=main Nodes=n[1-4]\n"


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def named(*paths: Path) -> Imported:
    return import_sources(list(map(str, paths)), {}, nobody)


def write(folder: Path, **files: str) -> list[Path]:
    """Write files, ``_`` for the dot of their names, and return their paths."""
    found = [folder / name.replace("_", ".") for name in files]
    for path, text in zip(found, files.values(), strict=True):
        path.write_text(text)
    return found


def refused(*paths: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        named(*paths)
    return str(caught.value)


# --- what sn generate wrote


@pytest.mark.parametrize("release", ["22.05", "26.05"])
@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_generated_files_are_read_from_their_folder_and_by_a_glob(
    path: Path, release: str, tmp_path: Path
) -> None:
    files = generate(load(path), find_release(release)).files
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for sources in ([tmp_path], sorted(tmp_path.iterdir())):
        found = named(*sources)
        assert generate(found.inventory, find_release(release)).files == files
        assert all(" it is " in str(remark) for remark in found.remarks)


def test_slurm_conf_comes_before_what_it_may_include(tmp_path: Path) -> None:
    write(tmp_path, slurm_conf=NODES, supernode_conf="ClusterName=d\n")
    assert named(tmp_path).inventory.cluster == "c"


def test_a_folder_without_either_says_so(tmp_path: Path) -> None:
    assert "holds no slurm.conf and no supernode.conf; name its" in refused(tmp_path)


# --- each file once


@pytest.mark.parametrize("turned", [False, True])
def test_a_file_that_is_named_and_included_is_read_where_it_is_included(
    turned: bool, tmp_path: Path
) -> None:
    files = write(
        tmp_path,
        parts_conf=PARTS,
        slurm_conf="ClusterName=C\nNodeName=DEFAULT Weight=7\nInclude %c.conf\nInclude more.conf\n",
        c_conf=f"{NODES}include parts.conf\n",
        more_conf="MessageTimeout=20\n",
    )
    found = named(*(reversed(files) if turned else files))
    assert found.remarks == ()
    assert found.text.startswith("# Imported from " + str(tmp_path / "slurm.conf\n"))
    assert [dict(item.options) for item in found.inventory.node_classes] == [{"Weight": "7"}]
    assert [item.name for item in found.inventory.partitions] == ["main"]


def test_what_two_named_files_include_is_read_once(tmp_path: Path) -> None:
    a, b, _ = write(
        tmp_path,
        a_conf="ClusterName=c\nInclude nodes.conf\n",
        b_conf=f"Include nodes.conf\n{PARTS}",
        nodes_conf=NODES,
    )
    assert named(a, b).inventory.partition("main").hosts == ("n1", "n2", "n3", "n4")


def test_what_one_file_includes_twice_stands_twice(tmp_path: Path) -> None:
    conf, _ = write(
        tmp_path, slurm_conf="Include nodes.conf\nInclude nodes.conf\n", nodes_conf=NODES
    )
    assert "NodeName n1 stands twice" in refused(conf)


def test_includes_of_gres_and_topology_are_read_once_too(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        slurm_conf=NODES.replace("=9000", "=9000 Gres=gpu:a100:2")
        + "TopologyPlugin=topology/block\n",
        gres_conf="Include gpu.conf\n",
        gpu_conf="NodeName=n[1-4] Name=gpu Type=a100 File=/dev/nvidia[0-1]\n",
        topology_conf="Include b.conf\n",
        b_conf="BlockName=b Nodes=n[1-4]\nBlockSizes=4\n",
    )
    found = named(*files)
    assert [item.name for item in found.inventory.supernodes] == ["b"]
    assert [remark.kind for remark in found.remarks] == []


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    files = write(tmp_path, a_conf=f"{NODES}Include b.conf\n", b_conf="Include a.conf\n")
    assert "the file includes itself" in refused(*files)


# --- what else lies there


@pytest.mark.parametrize("pattern", OTHER_FILES)
def test_another_file_of_slurm_is_skipped_and_told_or_refused_alone(
    pattern: str, tmp_path: Path
) -> None:
    [conf] = write(tmp_path, slurm_conf=NODES)
    other = tmp_path / pattern.replace("*", "x")
    other.write_bytes(b"\xff NodeName=n1")
    found = named(conf, other)
    [remark] = found.remarks
    assert (remark.kind, remark.problem.where.file) == ("lost", str(other))
    assert str(remark).endswith(f"{OTHER_FILES[pattern]}: skipped")
    text = refused(other)
    assert f"is no source: it is {OTHER_FILES[pattern]}; name slurm.conf or its" in text
    assert "no such file" in refused(tmp_path / "none.conf", other)


def test_a_file_of_another_name_is_still_refused(tmp_path: Path) -> None:
    files = write(tmp_path, slurm_conf=NODES, cgroup_conf="", nodes_txt="Just a text.\n")
    assert "nodes.txt:1:1: is no source" in refused(*files)


@pytest.mark.parametrize("name", ["slurm.conf.bak", "slurm.conf~", "slurm.conf.rpmsave"])
def test_a_copy_beside_its_original_is_skipped_and_told(name: str, tmp_path: Path) -> None:
    [conf] = write(tmp_path, slurm_conf=NODES)
    (tmp_path / name).write_text(NODES)
    [remark] = named(conf, tmp_path / name).remarks
    assert str(remark).endswith("it is a copy of slurm.conf: skipped")
    assert named(tmp_path / name).remarks == ()


def test_programs_and_folders_beside_are_skipped_and_told(tmp_path: Path) -> None:
    [conf] = write(tmp_path, slurm_conf=NODES)
    (tmp_path / "prolog").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "prolog.d").mkdir()
    found = named(*sorted(tmp_path.iterdir()))
    assert [str(item).rpartition("/")[2] for item in found.remarks] == [
        "prolog: it is a program: skipped",
        "prolog.d: it is a folder: skipped",
    ]
    elsewhere = tmp_path.parent / f"{tmp_path.name}-other"
    elsewhere.mkdir()
    assert "holds no slurm.conf" in refused(conf, elsewhere)


def test_a_topology_conf_beside_topology_yaml_is_skipped_and_told(tmp_path: Path) -> None:
    yaml = "- topology: t\n  block:\n    blocks:\n      - {block: b, nodes: 'n[1-4]'}\n"
    files = write(
        tmp_path,
        slurm_conf=NODES,
        topology_conf="SwitchName=s Nodes=n[1-4]\n",
        topology_yaml=yaml,
    )
    found = named(*files)
    assert [item.name for item in found.inventory.supernodes] == ["b"]
    assert any("does not read it: topology.yaml is there: skipped" in str(r) for r in found.remarks)


def test_a_file_of_comments_alone_is_no_obstacle(tmp_path: Path) -> None:
    files = write(tmp_path, slurm_conf=NODES, gres_conf="# none here\n", topology_conf="\n")
    assert named(*files).remarks == ()
    assert "no nodes: nothing to import" in refused(files[1])
