"""The example inventories: each is one to copy from, for every release, with its arithmetic."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
import yaml

from supernode_slurm.inventory import load
from supernode_slurm.slurmconf import RELEASES, find_release, generate
from supernode_slurm.slurmconf.lint import lint
from tests.proofs import INVENTORIES, groups, is_wide

# Nodes of the planning block, nodes, and devices in a node, of each supernode.
SUPERNODES = {
    "campus": {"nvl1": (16, 18, 4), "nvl2": (16, 18, 4), "cm": (46, 48, 16)},
    "cloud": {f"ultraserver{n}": (17, 18, 4) for n in (1, 2, 3)},
    "cm384": {"cm1": (46, 48, 16), "cm2": (46, 48, 16)},
    "degraded": {"nvl-s03": (15, 18, 4), "nvl-s04": (15, 18, 4)},
    "fullmesh64": {f"mesh{n}": (7, 8, 8) for n in (1, 2, 3, 4, 5)},
    "hgx-h100": {},
    "inference": {},
    "lab": {},
    "mixed": {"sn1": (8, 8, 8), "sn2": (8, 8, 8), "ascend": (4, 4, 16)},
    "nvl72": {f"nvl{n}": (16, 18, 4) for n in (1, 2, 3, 4)},
    "ring": {f"ring{n}": (8, 8, 8) for n in (1, 2, 3, 4)},
    "split-racks": {
        **{f"half{n}": (16, 16, 4) for n in (1, 2, 3, 4)},
        **{f"wide{n}": (16, 18, 4) for n in (1, 2)},
    },
    "torus": {"cube": (64, 64, 8)},
}
# What 26.05 is told of the sizes of blocks.
BLOCK_SIZES = {
    "campus": {"nvl": [16, 32], "cm": [46]},
    "cloud": {"ultraserver": [17, 34, 68]},
    "cm384": {"cm": [46, 92]},
    "degraded": {"nvl-s": [15, 30]},
    "fullmesh64": {"mesh": [7, 14, 56]},
    "mixed": {"ascend": [4]},
    "nvl72": {"nvl": [16, 32, 64]},
    "split-racks": {"half1": [16, 32, 64, 128]},
}

each = pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)


def test_no_inventory_is_without_its_arithmetic() -> None:
    assert [path.stem for path in INVENTORIES] == sorted(SUPERNODES)


@each
def test_an_inventory_is_short_clean_and_names_the_sources_of_its_figures(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head = re.match(r"(?:#.*\n)+", text)
    assert head is not None
    assert "Figures" in head[0] or "invented" in head[0]
    assert len(text.splitlines()) < 100
    assert max(map(len, text.splitlines())) <= 100
    found = [finding for finding in lint(load(path), date(2026, 12, 1)) if not finding.accepted]
    warned = {finding.rule for finding in found if finding.severity != "note"}
    assert warned <= {"vendor-variable", "cloud-blocks"}


@each
def test_the_planning_block_leaves_the_spares_out(path: Path) -> None:
    room = load(path)
    assert all(is_wide(item) for item in room.supernodes)
    assert SUPERNODES[path.stem] == {
        item.name: (item.planning_nodes, len(item.hosts), item.nodes[0].device_count)
        for item in room.supernodes
    }


@each
def test_blocks_are_as_large_as_the_planning_block_and_twice_that(path: Path) -> None:
    generated = generate(load(path), find_release("26.05"))
    found = {
        item["topology"]: item["block"]["block_sizes"]
        for item in yaml.safe_load(generated.files["topology.yaml"])
        if "block" in item
    }
    assert found == BLOCK_SIZES.get(path.stem, {})


@pytest.mark.parametrize("release", RELEASES)
@each
def test_every_release_gets_files_that_place_each_partition(path: Path, release: str) -> None:
    room = load(path)
    generated = generate(room, find_release(release))
    assert generated.kinds.keys() == {partition.name for partition in room.partitions}
    assert set(generated.kinds.values()) <= set(find_release(release).topologies)
    for group in groups(room, generated):
        assert group.size >= 1
        assert sum(map(len, group.units.values())) == len(group.hosts), "a node in two units"
