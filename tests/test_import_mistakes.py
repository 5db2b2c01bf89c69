"""Mistakes in topologies and lists of domains that nothing else speaks of."""

from __future__ import annotations

from pathlib import Path

import pytest

from supernode_slurm.discovery import Imported, import_sources
from supernode_slurm.errors import ConfigError, nearest
from supernode_slurm.inventory import loads
from supernode_slurm.slurm import CliClient

SHARED = Path(__file__).resolve().parents[2] / "shared"
CIRCE = SHARED / "realdata/slurm_configs/site_circe_topology_tree.conf"
AZURE = SHARED / "peer_suite/azure"


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def read(folder: Path, text: str, *others: Path) -> Imported:
    """Return what a topology.conf, and files beside it, are imported as."""
    path = folder / "topology.conf"
    path.write_text(text)
    return import_sources([str(path), *map(str, others)], {}, nobody)


def mistakes(found: Imported) -> list[str]:
    return [str(item) for item in found.remarks if item.kind == "mistake"]


def given(path: Path) -> Imported:
    if not path.is_file():
        pytest.skip(f"{path.name} is not beside the repository")
    return import_sources([str(path)], {}, nobody)


@pytest.mark.parametrize(
    ("text", "spares"),
    [
        ("BlockName=a Nodes=c[01-17]\nBlockName=b Nodes=c[17-34]\nBlockSizes=16\n", [1, 1]),
        ("BlockName=a Nodes=h[1-4]\nBlockName=b Nodes=h[4-8]\nBlockSizes=4\n", [0, 0]),
        ("BlockName=a Nodes=h[1-5]\nBlockName=b Nodes=h[6-10]\nBlockSizes=4\n", [1, 1]),
    ],
)  # fmt: skip
def test_spares_are_of_the_nodes_that_a_block_keeps(
    text: str, spares: list[int], tmp_path: Path
) -> None:
    assert [part.spares for part in read(tmp_path, text).inventory.supernodes] == spares


# --- a forgotten prefix

TREE = "SwitchName=s0 Nodes={}\nSwitchName=s1 Nodes=circe-n[017-018,021-036]\n"
TREE += "SwitchName=top Switches=s[0-1]\n"


@pytest.mark.parametrize(
    ("nodes", "hint"),
    [
        ("circe-n[001-016],n[019-020]", "n[019-020] beside circe-n[001-016]; did you mean"
         " circe-n[019-020]?"),
        ("n[001-016],020", "020 beside n[001-016]; did you mean n020?"),
    ],
)  # fmt: skip
def test_a_name_without_the_prefix_of_its_neighbours_is_told(
    nodes: str, hint: str, tmp_path: Path
) -> None:
    assert mistakes(read(tmp_path, TREE.format(nodes)))[0].endswith(f":1:1: {hint}")


@pytest.mark.parametrize(
    "nodes",
    [
        "circe-n[001-016],n[017-018]",  # these numbers are taken
        "circe-n[001-002],n[019-036]",  # more of them than of the others
        "circe-n[001-016],n[19-20]",  # written in another way
        "circe-n[001-016],login",
        "circen[001-016],n[019-020]",
    ],
)
def test_names_of_two_kinds_are_no_mistake(nodes: str, tmp_path: Path) -> None:
    assert not mistakes(read(tmp_path, TREE.format(nodes)))


def test_with_a_slurm_conf_its_nodes_count(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=circe-n[001-036],n[019-020]\nTopologyPlugin=topology/tree\n")
    found = read(tmp_path, TREE.format("circe-n[001-016],n[019-020]"), conf)
    assert not any("did you mean" in line for line in mistakes(found))


def test_the_forgotten_prefix_of_a_real_site_is_told() -> None:
    told = mistakes(given(CIRCE))
    assert sum("did you mean circe-n[019-020]?" in line for line in told) == 1


# --- lines that are comments


def test_nodes_that_only_a_comment_names_are_told(tmp_path: Path) -> None:
    text = "BlockName=a Nodes=n[1-2]\nBlockSizes=2\n#BlockName=b Nodes=n[2-4]\n"
    (told,) = mistakes(read(tmp_path, text))
    assert ":3:1: BlockName=b is a comment: n[3-4] stand nowhere else; take the '#' away" in told


@pytest.mark.parametrize(
    "comment",
    ["# BlockName=b Nodes=n[1-2]", "# BlockName=b", "# BlockName=b Nodes=n[", "# BlockName= is"],
)
def test_a_comment_that_loses_no_nodes_is_left_alone(comment: str, tmp_path: Path) -> None:
    assert not mistakes(read(tmp_path, f"{comment}\nBlockName=a Nodes=n[1-2]\nBlockSizes=2\n"))


def test_the_block_that_a_real_tool_comments_out_is_told() -> None:
    told = mistakes(given(AZURE / "slurm_illegal_block_topology_2.txt"))
    assert any(":13:1: BlockName=block4 is a comment: hpcbench-hpc-[18,22,26" in it for it in told)


# --- lists of domains


def refused(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        given(path)
    return [str(problem) for problem in caught.value.problems]


def test_ids_of_ports_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    path.write_text("a: 0x1\na: 0x2\nb: 0x3\nb: 0x4\n")
    (told,) = refused(path)
    assert ":2:1: each of the 2 hosts has several ids: these name ports, not domains" in told
    path.write_text("a: 0x1\na: 0x2\nb: 0x1\n")
    (told,) = refused(path)
    assert "a is in 0x2 and in 0x1 (line 1)" in told


def test_the_port_guids_of_a_real_site_are_told_once() -> None:
    assert len(refused(AZURE / "nodes_guids.txt")) == 1


# --- words


def test_a_list_of_known_names_that_is_cut_says_so() -> None:
    names = [f"n{number:02}" for number in range(13)]
    assert nearest("zzz", names).endswith(", n11, ...")
    assert nearest("zzz", names[:12]).endswith(", n11")


def test_an_unknown_option_is_named_once() -> None:
    text = "version: 1\ncluster: c\npools:\n  - name: p\n    nodes: {hosts: n1, sockets: 1,"
    text += " cores: 1, memory: 1 GiB, options: {Foo: 1}}\n"
    with pytest.raises(ConfigError) as caught:
        loads(text)
    assert str(caught.value).count("Foo") == 1
    assert str(caught.value).endswith(", ...")
