"""Slurm's files: byte for byte as reviewed, legal for their release, what it loses is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from supernode_slurm import hostlist
from supernode_slurm.data import data_dir
from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import load, loads
from supernode_slurm.slurmconf import RELEASES, difference, find_release, generate, write
from tests.test_inventory import SMALL

FOLDER = Path(str(data_dir("topology_conf")))
NAMES = sorted(path.stem for path in (FOLDER / "inventories").glob("*.yaml"))


# The oldest, the newest, and the one between that Debian stable carries.
REVIEWED = ("22.05", "24.11", "26.05")


@pytest.mark.parametrize("release", REVIEWED)
@pytest.mark.parametrize("name", NAMES)
def test_files_are_the_reviewed_ones(
    name: str, release: str, golden: Callable[[Path, str], None]
) -> None:
    generated = generate(load(FOLDER / "inventories" / f"{name}.yaml"), find_release(release))
    for file, text in generated.files.items():
        golden(FOLDER / "expected" / name / release / file, text)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", NAMES)
def test_files_hold_every_node_once(name: str, release: str) -> None:
    room = load(FOLDER / "inventories" / f"{name}.yaml")
    hosts = sorted(host for domain in room.domains for host in domain.hosts)
    foreign = [host for item in room.foreign for host in item.hosts]
    generated = generate(room, find_release(release))
    nodes = generated.files["supernode-nodes.conf"]
    assert sorted(listed(nodes, "NodeName=")) == hosts
    file = "topology.yaml" if find_release(release).yaml else "topology.conf"
    if generated.topology == "tree":
        text = generated.files[file].partition("cluster_default: false")[0]
        assert sorted(listed(text, "Nodes=", "nodes: ")) == sorted([*hosts, *foreign])
    for file, text in generated.files.items():
        if file.endswith(".conf"):
            assert not any(w.endswith("=") for w in text.split()), "an empty value kills slurmd"
        assert text.endswith("\n")
        assert max(map(len, text.splitlines())) < 1 << 16


def listed(text: str, *keys: str) -> list[str]:
    """Return the hosts after a key, in Slurm's form or in YAML."""
    found = []
    for line in text.splitlines():
        for key in keys:
            _, has, rest = line.partition(key)
            if has and not line.lstrip().startswith("#"):
                found += hostlist.expand(rest.split()[0].strip('"'))
    return found


def test_blocks_are_written_where_the_release_has_them() -> None:
    nvl72 = load(FOLDER / "inventories" / "nvl72.yaml")
    old = generate(nvl72, find_release("22.05"))
    new = generate(nvl72, find_release("24.11"))
    assert (old.topology, new.topology) == ("tree", "block")
    assert "has no topology/block" in old.notes[0]
    assert new.notes == ()
    assert "BlockSizes=16,32,64\n" in new.files["topology.conf"]
    assert "TopologyPlugin=topology/block\n" in new.files["supernode.conf"]


def test_unequal_supernodes_fall_back_to_a_tree_and_say_what_is_lost() -> None:
    mixed = generate(load(FOLDER / "inventories" / "mixed.yaml"), find_release("24.11"))
    assert mixed.topology == "tree"
    assert "unequal size (4, 8 nodes)" in mixed.notes[0]
    assert "lost: --segment" in mixed.notes[0]


def test_a_torus_is_no_block() -> None:
    room = loads(SMALL.replace("kind: switch", "kind: torus"))
    generated = generate(room, find_release("24.11"))
    assert generated.topology == "tree"
    assert "torus is not a block" in generated.notes[0]


def test_a_pool_too_small_for_a_block_is_left_out_and_told() -> None:
    generated = generate(loads(SMALL), find_release("24.11"))
    assert generated.topology == "block"
    assert "'p' has 2 nodes, fewer than the base block of 4" in generated.notes[0]
    assert "a[1-2]" not in generated.files["topology.conf"]


def test_fabrics_that_do_not_meet_keep_their_roots() -> None:
    text = SMALL.replace('[sn1, "sn[2]", p]', "[sn1, sn2]").replace("kind: switch", "kind: torus")
    lines = generate(loads(text), find_release("24.11")).files["topology.conf"]
    assert "SwitchName=spine Switches=leaf\n" in lines
    assert "SwitchName=p Nodes=a[1-2]\n" in lines


def test_a_block_never_joins_fabrics_that_do_not_meet() -> None:
    other = """  - name: second
    kind: ethernet
    rails: {count: 1, bandwidth: 100 Gb/s}
    switches: {eth: [sn2]}
supernodes:"""
    text = SMALL.replace("supernodes:", other, 1).replace('"sn[2]", ', "")
    generated = generate(loads(text), find_release("24.11"))
    assert generated.topology == "tree"
    assert "2 fabrics that do not meet" in generated.notes[0]


def test_names_we_make_are_free_and_short() -> None:
    long = "l" * 60
    text = SMALL.replace('leaf: [sn1, "sn[2]", p]', f'{long}: [sn1, sn2, "a[1-2]"]')
    text = text.replace(
        "spine: [leaf]", f"spine: [{long}, {'l' * 50}-nodes], {'l' * 50}-nodes: [q]"
    )
    text = text.replace("kind: switch", "kind: torus").replace(
        "partitions:",
        """  - name: q
    nodes: {hosts: q1, sockets: 1, cores: 1, memory: 9 GiB}
partitions:""",
    )
    lines = generate(loads(text), find_release("24.11")).files["topology.conf"].splitlines()
    names = [line.split()[0].removeprefix("SwitchName=") for line in lines if "SwitchName" in line]
    assert len(set(names)) == len(names) == 6
    assert f"{'l' * 50}-nodes2" in names
    assert max(map(len, names)) <= 63


def test_two_kinds_on_a_node_share_no_device_file() -> None:
    lab = generate(load(FOLDER / "inventories" / "lab.yaml"), find_release("24.11"))
    assert (
        "NodeName=x[01-02] Name=gpu Type=a100 File=/dev/nvidia[0-1] Flags=nvidia_gpu_env\n"
        "NodeName=x[01-02] Name=gpu Type=h100 File=/dev/nvidia[2-3] Flags=nvidia_gpu_env\n"
    ) in lab.files["gres.conf"]
    assert "Gres=gpu:a100:2,gpu:h100:2" in lab.files["supernode-nodes.conf"]


def test_a_site_may_name_the_gres() -> None:
    text = SMALL.replace("devices: {a100: 8}", "devices: {ascend910c: 16}, gres: npu")
    generated = generate(loads(text), find_release("22.05"))
    assert "GresTypes=gpu,npu\n" in generated.files["supernode.conf"]
    assert (
        "NodeName=a[1-2] Name=npu Type=ascend910c File=/dev/davinci[0-15]\n"
        in generated.files["gres.conf"]
    )


def test_an_unknown_release_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"Slurm 21.08 .* known releases: 22.05, 23.02, 23.11"):
        find_release("21.08")


@pytest.mark.parametrize(
    ("cut", "reason"), [("partitions:", "no partitions"), ("supernodes:", "nothing to generate")]
)
def test_an_empty_room_is_an_error(cut: str, reason: str) -> None:
    head = SMALL[: SMALL.index(cut)].replace(
        'switches: {spine: [leaf], leaf: [sn1, "sn[2]", p]}', ""
    )
    with pytest.raises(ConfigError, match=reason):
        generate(loads(head), find_release("24.11"))


def test_files_are_written_once_and_compared(tmp_path: Path) -> None:
    generated = generate(loads(SMALL), find_release("24.11"))
    target = tmp_path / "slurm"
    assert set(write(generated, target)) == set(generated.files)
    assert write(generated, target) == []
    assert difference(generated, target) == ""
    (target / "gres.conf").write_text(generated.files["gres.conf"].replace("h100", "h200"))
    shown = difference(generated, target)
    assert "-NodeName=h1-[1-4] Name=gpu Type=h200" in shown
    assert "+NodeName=h1-[1-4] Name=gpu Type=h100" in shown
    assert write(generated, target) == ["gres.conf"]


def test_what_a_person_wrote_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text("# by hand\nSwitchName=s Nodes=n1\n")
    with pytest.raises(ConfigError, match="was not written by 'sn generate'"):
        write(generate(loads(SMALL), find_release("24.11")), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["topology.conf"]
    (tmp_path / "topology.conf").write_text("")
    with pytest.raises(ConfigError, match="was not written by 'sn generate'"):
        write(generate(loads(SMALL), find_release("24.11")), tmp_path)
    (tmp_path / "topology.conf").unlink()
    (tmp_path / "topology.conf").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a symbolic link"):
        write(generate(loads(SMALL), find_release("24.11")), tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_all_files_are_new_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generated = generate(loads(SMALL), find_release("24.11"))
    write(generate(loads(SMALL), find_release("22.05")), tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    calls = []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(generated, tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    write(generate(loads(SMALL), find_release("22.05")), tmp_path)
    (tmp_path / "gres.conf").chmod(0o600)
    write(generate(loads(SMALL), find_release("24.11")), tmp_path)
    assert (tmp_path / "gres.conf").stat().st_mode & 0o777 == 0o600
