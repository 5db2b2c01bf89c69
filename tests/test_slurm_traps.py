"""What slurmctld dies of or silently misreads, and no other test of its files holds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import supernode_slurm
from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import load
from supernode_slurm.slurmconf import RELEASES, find_release, generate
from supernode_slurm.slurmconf.levels import MAX_LEVEL, choose_levels, top_level
from supernode_slurm.twin import daemons
from tests.proofs import INVENTORIES
from tests.test_topology import OLD, pods
from tests.topology_rooms import a_room, cloud_leaves, fabric, pool, supernodes

SOURCES = Path(supernode_slurm.__file__).parent


@pytest.mark.parametrize("release", RELEASES)
def test_autodetect_is_never_written(release: str) -> None:
    """BR027: slurmd may lack NVML. On cloud nodes slurmctld 22.05 dies of it, others complain."""
    rooms = [cloud_leaves(), *map(load, INVENTORIES)]
    for room in rooms:
        for text in generate(room, find_release(release)).files.values():
            assert "autodetect" not in text.lower()


@pytest.mark.parametrize("release", RELEASES)
def test_levels_are_written_by_the_word_that_the_release_knows(release: str) -> None:
    """23.11 has BlockLevels=, all of them where the line is not there; later ones BlockSizes=."""
    row = find_release(release)
    files = generate(pods(2), row).files
    text = "".join(files.values())
    assert "BlockLevels" not in text
    assert ("BlockSizes=" in text) == (release in ("24.05", "24.11"))
    assert ("block_sizes:" in text) == row.yaml


def test_no_level_is_higher_than_slurm_can_count() -> None:
    """slurmctld dies of a size that is more than 2 to the power of 15 times the base."""
    count = (1 << MAX_LEVEL) + 1
    assert (count - 1).bit_length() == MAX_LEVEL + 1
    assert top_level(count) == MAX_LEVEL == 15
    assert max(choose_levels(2, [(2,) * count], MAX_LEVEL)) == MAX_LEVEL


@pytest.mark.parametrize("release", RELEASES)
def test_a_tree_of_a_thousand_switches_is_told_to_take_time(release: str) -> None:
    """slurmctld's distances take cubic time at each reload."""

    def notes(leaves: int) -> tuple[str, ...]:
        below = {f"leaf{n}": f"h{n}" for n in range(1, leaves + 1)}
        net = fabric("ib", spine=f"'leaf[1-{leaves}]'", **below)
        room = a_room(net, pools=pool("p", f"h[1-{leaves}]"), every="pools: [p]")
        return generate(room, find_release(release)).notes

    assert notes(999) == ()
    assert notes(1000) == ("1001 switches: slurmctld takes seconds to load them",)


def test_slurmctld_is_run_by_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """22.05 looks at its program's name: as slurmctld-wlm it has Gres=(null) on all nodes."""
    real = tmp_path / "slurmctld-wlm"
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    (tmp_path / "slurmctld").symlink_to(real)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert daemons.program("slurmctld", "slurmctld") == str(tmp_path / "slurmctld")


def test_no_program_changes_the_topology_of_a_running_node() -> None:
    """BR011: the topology that a node has already, sent again, takes it out of its block."""
    told = []
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else ""
            if isinstance(text, str) and re.search(r"(?i)\btopology=", text):
                told.append(path.relative_to(SOURCES).as_posix())
    assert told
    allowed = {"slurmconf", "discovery", "twin"}
    assert {name.partition("/")[0] for name in told} <= allowed, "only files may say Topology="


@pytest.mark.parametrize("release", [name for name in OLD if "block" in RELEASES[name].topologies])
def test_a_wish_that_no_block_can_have_leaves_no_file_without_blocks(release: str) -> None:
    """BR018: block lines were commented out, and sizes without a block remained."""
    room = a_room(wide=supernodes("sn[1-4]", 18, 2), every="supernodes: ['sn[1-4]']")
    text = generate(room, find_release(release)).files["topology.conf"]
    sizes = re.search(r"^BlockSizes=([0-9]+)", text, re.M)
    assert len(re.findall(r"^BlockName=", text, re.M)) == 4
    assert sizes is None or int(sizes[1]) <= 18


@pytest.mark.parametrize("release", RELEASES)
def test_the_file_and_the_plugin_that_reads_it_are_written_together(release: str) -> None:
    """BR020: topology.conf was there, and nothing set TopologyPlugin."""
    files = generate(pods(2), find_release(release)).files
    said = re.findall(r"^TopologyPlugin=topology/(\w+)$", files["supernode.conf"], re.M)
    if RELEASES[release].yaml:
        assert said == []  # topology.yaml is read without it
        assert "topology.yaml" in files
    else:
        lead = {"tree": "SwitchName=", "block": "BlockName="}[said[0]]
        assert re.search(f"^{lead}", files["topology.conf"], re.M)


def test_a_switch_that_nobody_declared_is_an_error_with_the_nearest_name() -> None:
    """BR010: a parent named its children by names that were declared a little differently."""
    net = fabric("ib", **{"cf-sw01": "p", "spine": "cf-sw1"})
    with pytest.raises(ConfigError) as caught:
        a_room(net, pools=pool("p", "h[1-2]"), every="pools: [p]")
    said = str(caught.value)
    assert "switch 'spine': 'cf-sw1' is no switch, supernode, pool or host" in said
    assert "did you mean 'cf-sw01'" in said


@pytest.mark.parametrize("release", RELEASES)
def test_no_key_is_written_without_a_value(release: str) -> None:
    """BR021: an empty Topology= swallowed the next key of a node's line."""
    for room in (cloud_leaves(), pods(2)):
        for name, text in generate(room, find_release(release)).files.items():
            lines = [line for line in text.splitlines() if not line.startswith("#")]
            assert not re.search(r"=(\s|$)", "\n".join(lines)), name


def test_one_inventory_gives_the_tree_and_the_blocks_that_others_write_by_hand() -> None:
    """BR024: tree and block from one list of nodes, and sizes as numbers."""
    wide = "".join(
        f"  - name: b0{n}\n    interconnect: {{kind: switch, bandwidth: 900 GB/s}}\n"
        f"    nodes: {{hosts: 'c[{18 * n - 17:02d}-{18 * n}]', devices: {{gb200: 4}}, sockets: 2,"
        " cores: 72, memory: 900 GiB}\n"
        for n in (1, 2)
    )
    room = a_room(fabric("ib", spine="b01, b02"), wide, every="supernodes: [b01, b02]")
    conf = {name: generate(room, find_release(name)).files for name in ("22.05", "24.11")}
    tree, block = (files["topology.conf"] for files in conf.values())
    assert "SwitchName=b01 Nodes=c[01-18]\nSwitchName=b02 Nodes=c[19-36]\n" in tree
    assert "BlockName=b01 Nodes=c[01-18]\nBlockName=b02 Nodes=c[19-36]\n" in block
    assert "BlockSizes=18,36\n" in block
