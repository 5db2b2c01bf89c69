"""What 'sn generate' wrote is imported such that it is written again, byte for byte."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from supernode_slurm.data import data_dir
from supernode_slurm.discovery import Imported, import_sources
from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import Inventory, gres_devices, load, loads
from supernode_slurm.slurm import CliClient
from supernode_slurm.slurmconf import RELEASES, Release, generate, write
from tests.test_slurmconf_properties import rooms

INVENTORIES = sorted((Path(str(data_dir("topology_conf"))) / "inventories").glob("*.yaml"))


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def imported(room: Inventory, release: Release, directory: Path) -> Imported:
    """Return what the files of a room, included into a slurm.conf, are imported as."""
    write(generate(room, release), directory)
    conf = f"ClusterName={room.cluster}\nInclude supernode.conf\n"
    (directory / "slurm.conf").write_text(conf, encoding="utf-8")
    return import_sources([str(directory)], {}, nobody)


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.name)
@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_files_are_written_again_byte_for_byte(
    path: Path, release: Release, tmp_path: Path
) -> None:
    room = load(path)
    found = imported(room, release, tmp_path)
    assert found.remarks == ()
    assert generate(found.inventory, release).files == generate(room, release).files


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_what_slurm_cannot_hold_comes_back_from_comments(path: Path, tmp_path: Path) -> None:
    room = load(path)
    again = imported(room, RELEASES["26.05"], tmp_path).inventory
    assert again.cluster == room.cluster
    assert again.slurm.slurmdbd == room.slurm.slurmdbd
    assert again.slurm.billing == room.slurm.billing
    assert [item.name for item in again.domains] == [item.name for item in room.domains]
    assert [item.hosts for item in again.domains] == [item.hosts for item in room.domains]
    assert {item.name: set(item.hosts) for item in again.foreign} == {
        item.name: set(item.hosts) for item in room.foreign
    }
    for one, other in zip(again.supernodes, room.supernodes, strict=True):
        assert (one.interconnect, one.spares) == (other.interconnect, other.spares)
    for mine, theirs in zip(again.node_classes, room.node_classes, strict=True):
        assert mine.devices == theirs.devices
        assert dict(mine.options) == dict(theirs.options)
        assert mine.features == theirs.features
    for fabric, origin in zip(again.fabrics, room.fabrics, strict=True):
        assert fabric.node_gbs == origin.node_gbs
        assert {s.name: set(s.switches) for s in fabric.switches} == {
            s.name: set(s.switches) for s in origin.switches
        }


@settings(max_examples=150)
@given(rooms(), st.sampled_from(list(RELEASES.values())))
def test_files_of_any_room_are_written_again(room: Inventory, release: Release) -> None:
    with tempfile.TemporaryDirectory() as folder:
        again = imported(room, release, Path(folder)).inventory
    assert generate(again, release).files == generate(room, release).files


CARDS = (
    "h100-sxm: 8",
    "h100-pcie: {count: 2, type: left}",
    "h100-sxm: {count: 4, files: '/dev/nvidia[4-7]', cores: ['0-7', '8-15']}",
    "h100-sxm: {count: 7, missing: [2]}",
    "a100-sxm-80g: {count: 4, shards: 3}",
    "a100-sxm-80g: {count: 2, links: ['-1,4', '4,-1']}",
    "a100-pcie-80g: {count: 2, mig: {1g.10gb: [7, 9], 3g.40gb: [1]}}",
    "ascend-910c: {count: 16, gres: npu}",
    "ascend-910b3: 8",
    "mi300x: {count: 8, gres: amd, type: mi}",
)
OTHERS = ("mps: 200", "tmpfs: 4", "'fpga:u50': {count: 2, files: '/dev/xfpga[0-1]'}")
EXTRAS = (
    "features: [a, b]",
    "options: {Weight: '7', NodeAddr: '10.0.0.[1-3]', State: DOWN, Reason: no power}",
    "gres: npu",
    "threads: 2",
    "cloud: true",
)


@st.composite
def nodes(draw: st.DrawFn) -> str:
    """Return a room whose nodes differ in their cards."""
    sections = []
    for number in range(draw(st.integers(1, 3))):
        cards = draw(st.lists(st.sampled_from(CARDS), max_size=2, unique=True))
        others = draw(st.lists(st.sampled_from(OTHERS), max_size=2, unique=True))
        extras = draw(st.lists(st.sampled_from(EXTRAS), max_size=2, unique=True))
        parts = [f"hosts: 'n{number}-[1-3]'", "sockets: 2", "cores: 8", "memory: 9 GiB", *extras]
        parts += [f"devices: {{{', '.join(cards)}}}"] if cards else []
        parts += [f"other_gres: {{{', '.join(others)}}}"] if others else []
        sections.append(f"      - {{{', '.join(parts)}}}")
    return "\n".join(
        [
            "version: 1\ncluster: c\npools:\n  - name: p\n    nodes:",
            *sections,
            "partitions: {p: {pools: [p]}}",
        ]
    )


@settings(max_examples=200)
@given(nodes(), st.sampled_from(("22.05", "26.05")))
def test_cards_of_any_shape_are_written_again(text: str, name: str) -> None:
    try:
        room = loads(text)
    except ConfigError:
        reject()  # two kinds that no node may have together
    release = RELEASES[name]
    with tempfile.TemporaryDirectory() as folder:
        again = imported(room, release, Path(folder)).inventory
    assert generate(again, release).files == generate(room, release).files
    for mine, theirs in zip(again.node_classes, room.node_classes, strict=True):
        assert gres_devices(mine.devices) == gres_devices(theirs.devices)
        assert mine.other_gres == theirs.other_gres


def test_an_import_of_an_import_says_the_same(tmp_path: Path) -> None:
    room = load(next(path for path in INVENTORIES if path.stem == "inference"))
    once = imported(room, RELEASES["24.11"], tmp_path)
    twice = imported(once.inventory, RELEASES["24.11"], tmp_path)
    assert twice.text == once.text
