"""ClusterShell's groups, from the same truth."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from supernode_slurm import hostlist
from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import load
from supernode_slurm.slurmconf.groups import groups_yaml, write_groups
from tests.proofs import INVENTORIES


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_each_group_holds_the_hosts_of_the_inventory(path: Path) -> None:
    room = load(path)
    found = yaml.safe_load(groups_yaml(room))
    for source, items in (("supernode", room.supernodes), ("pool", room.pools)):
        wanted = {item.name: set(item.hosts) for item in items}
        assert {k: set(hostlist.expand(v)) for k, v in found.get(source, {}).items()} == wanted
    cards = {
        host
        for nodes in room.node_classes
        for item in nodes.devices
        for host in nodes.hosts
        if item.count
    }
    named = {h for text in found.get("accelerator", {}).values() for h in hostlist.expand(text)}
    assert named >= cards


def test_names_that_yaml_would_take_for_something_else_stay_names(tmp_path: Path) -> None:
    text = INVENTORIES[0].read_text()
    room = load(INVENTORIES[0])
    assert room.partitions
    name = room.partitions[0].name
    path = tmp_path / "inventory.yaml"
    path.write_text(text.replace(f"  {name}:", '  "no":', 1))
    assert "no" in yaml.safe_load(groups_yaml(load(path)))["partition"]


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_clustershell_reads_them(path: Path, tmp_path: Path) -> None:
    missing = "ClusterShell is not installed"
    node_set = pytest.importorskip("ClusterShell.NodeSet", reason=missing).NodeSet
    loader = pytest.importorskip("ClusterShell.NodeUtils", reason=missing).YAMLGroupLoader
    room = load(path)
    write_groups(room, tmp_path / "supernode.yaml")
    sources = {item.name: item for item in loader(str(tmp_path / "supernode.yaml"))}
    for item in room.domains:
        source = sources["supernode" if item in room.supernodes else "pool"]
        assert set(node_set(source.resolv_map(item.name))) == set(item.hosts)


def test_a_file_is_written_once_and_never_over_a_persons(tmp_path: Path) -> None:
    room = load(INVENTORIES[0])
    path = tmp_path / "supernode.yaml"
    assert write_groups(room, path)
    assert not write_groups(room, path)
    path.write_text("roles:\n  adm: example0\n")
    with pytest.raises(ConfigError, match="was not written by 'sn generate'"):
        write_groups(room, path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is no regular file"):
        write_groups(room, path)
