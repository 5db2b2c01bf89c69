"""Odd, broken and hostile sources: each ends in a message with its place, none in a crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supernode_slurm.discovery import Imported, import_sources
from supernode_slurm.discovery.live import read_live
from supernode_slurm.discovery.room import Room
from supernode_slurm.errors import ConfigError, SlurmError
from supernode_slurm.inventory import Interconnect
from supernode_slurm.inventory.cards import mig_instance
from supernode_slurm.slurm import parse
from supernode_slurm.slurmconf.facts import read_domain_comment, read_fabric_comment, spoilt
from supernode_slurm.units import latency_ns, whole_number

OURS = "# Written by 'sn generate' for cluster c and Slurm 24.11.\n"
NODES = "NodeName=n[1-4] Sockets=2 CoresPerSocket=8 RealMemory=9000 Gres=gpu:a100:4\n"
LONG = "9" * 5000


def site(folder: Path, conf: str, **files: str) -> Imported:
    """Return what a slurm.conf, and what lies beside it, is imported as."""
    (folder / "slurm.conf").write_text(conf, encoding="utf-8")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return import_sources([str(folder)], {}, nobody)


def nobody() -> Live:
    raise AssertionError("files need no Slurm")


class Live:
    """What ``scontrol show`` prints."""

    def __init__(self, **said: str) -> None:
        self._said = {"config": "TopologyPlugin = topology/block\n", **said}

    def show(self, *words: str) -> str:
        return self._said.get(words[0], "")


def refused(folder: Path, conf: str, **files: str) -> str:
    with pytest.raises(ConfigError) as caught:
        site(folder, conf, **files)
    return str(caught.value)


def told(found: Imported) -> str:
    return "\n".join(map(str, found.remarks))


def sn(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from supernode_slurm.cli.main import main; main()", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("text", ["²", "٣", "", " 1", "1\n", "-1", "1e3", LONG])
def test_a_number_is_a_few_plain_digits(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        whole_number(text)


@pytest.mark.parametrize("text", ["2²", "٣", LONG])
def test_numbers_that_are_none_are_told_with_their_place(text: str, tmp_path: Path) -> None:
    conf = f"NodeName=n[1-4] Sockets={text} Gres=gpu:a100:4\n"
    assert "slurm.conf:1:" in refused(tmp_path, conf)
    blocks = f"BlockName=b1 Nodes=n[1-4]\nBlockSizes={text}\n"
    assert "topology.conf:2:" in refused(tmp_path, NODES, topology_conf=blocks)
    gres = f"NodeName=n1 Name=gpu Type=a100 Count={text}\n"
    assert "gres.conf:1:" in refused(tmp_path, NODES, topology_conf="", gres_conf=gres)
    topology = (
        "- topology: t\n  block:\n    block_sizes:\n"
        f"    - '{text}'\n    blocks:\n    - block: b1\n      nodes: n[1-4]\n"
    )
    assert "topology.yaml:4:" in refused(tmp_path, NODES, topology_yaml=topology)


def test_a_count_of_gres_without_end_is_refused() -> None:
    with pytest.raises(SlurmError, match="cannot read GRES"):
        parse.gres(f"gpu:{LONG}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=2²", "BlockSize: expected a whole"),
        ("BlockName=b1 BlockIndex=0 Nodes=n[1-\x07] BlockSize=4", "is not a number or a range"),
    ],
)
def test_what_a_running_slurm_prints_is_checked_as_files_are(line: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_live(Live(topology=f"{line}\n"), Room())


def test_a_time_limit_that_is_none_is_told_beside_a_running_slurm(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(f"ClusterName=c\n{NODES}PartitionName=p Nodes=n1 MaxTime=lots\n")
    live = Live(
        config=f"SLURM_CONF = {conf}\n",
        node="NodeName=n1 CPUTot=16 RealMemory=9000\n",
        partition="PartitionName=p Nodes=n1 MaxTime=60\n",
    )
    found = import_sources(["slurm:"], {}, lambda: live)
    assert "partition p" in told(found)


@pytest.mark.parametrize("speed", ["1e-05", "0.001", "450", "1e+06"])
def test_comments_read_back_the_numbers_that_are_written(speed: str) -> None:
    found = read_domain_comment(f"# supernode s: nvlink of {speed} GB/s, {speed} ns")
    assert found is not None
    assert found.interconnect == Interconnect("nvlink", float(speed), float(speed))
    fabric = read_fabric_comment(
        f"# fabric f: fat-tree, 4 rails of {speed} GB/s, oversubscription 1"
    )
    assert fabric is not None and fabric.rail_gbs == float(speed)
    assert latency_ns(f"{speed} ns") == pytest.approx(float(speed))


SPOILT = (
    "# supernode s: switch of 9..9 GB/s, 700 ns",
    "# supernode s: switch of 450 GB/s, 7.0.0 ns",
    "# supernode s: switch of 450 GB/s, 1e999 ns",
    "# supernode s: switch of 450 GB/s, 700 ns; 8 nonesuch as foo per node",
    f"# supernode s: switch of 450 GB/s, 700 ns; {LONG} of 4 nodes spare",
    "# pool p: some cards",
    "# fabric f: fat-tree, 8 rails of 4.0.0 GB/s, oversubscription 1",
    f"# fabric f: fat-tree, {LONG} rails of 4 GB/s, oversubscription 1",
    "# fabric f: fat-tree, oversubscription .",
    "# foreign cpu: cpu[001-\x0764]",
    "# foreign cpu: cpu[9-1]",
    "# switch s1: n[1-",
)


@pytest.mark.parametrize("comment", SPOILT)
def test_a_comment_that_was_spoilt_by_hand_is_passed_over_and_told(
    comment: str, tmp_path: Path
) -> None:
    assert spoilt(comment)
    found = site(tmp_path, f"{OURS}{comment}\n{NODES}")
    assert "slurm.conf:3:1: the comment above" in told(found)
    theirs = site(tmp_path, f"ClusterName=c\n{comment}\n{NODES}")
    assert "the comment above" not in told(theirs)


def test_nodes_under_a_spoilt_comment_are_not_of_the_supernode_before_it(tmp_path: Path) -> None:
    first = "# supernode a: switch of 450 GB/s, 700 ns\n"
    second = NODES.replace("n[1-4]", "m[1-4]")
    found = site(tmp_path, f"{OURS}{first}{NODES}# supernode b: switch, x ns\n{second}")
    assert [item.hosts for item in found.inventory.supernodes] == [("n1", "n2", "n3", "n4")]
    assert "# supernode b: switch, x ns" in told(found)


def test_a_spoilt_comment_of_a_topology_is_told(tmp_path: Path) -> None:
    topology = f"{OURS}# fabric f: fat-tree, oversubscription 1..5\nSwitchName=s Nodes=n[1-4]\n"
    conf = f"{OURS}TopologyPlugin=topology/tree\n{NODES}"
    assert "topology.conf:3:1: the comment above" in told(
        site(tmp_path, conf, topology_conf=topology)
    )


def test_a_mig_file_without_a_number_is_of_no_instance(tmp_path: Path) -> None:
    assert mig_instance(("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap")) is None
    conf = "NodeName=n1 RealMemory=9000 Sockets=1 Gres=gpu:a100_1g.5gb:1\n"
    files = "/dev/nvidia0,/dev/nvidia-caps/nvidia-cap"
    gres = f"NodeName=n1 Name=gpu Type=a100_1g.5gb MultipleFiles={files}\n"
    assert "no source says of which cards" in told(site(tmp_path, conf, gres_conf=gres))


@pytest.mark.parametrize("kind", ["", "slurm.conf:", "topology.yaml:", "domains:"])
def test_a_pipe_is_refused_and_not_waited_for(kind: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = sn("import", f"{kind}{tmp_path / 'pipe'}")
    assert found.returncode == 4
    assert "pipe: is no regular file; save what it gives to a file" in found.stderr


def test_a_device_is_refused(tmp_path: Path) -> None:
    found = sn("import", "/dev/zero")
    assert (found.returncode, "/dev/zero: is no regular file" in found.stderr) == (4, True)


@pytest.mark.parametrize(
    "argv", [("import", ""), ("import", "slurm.conf:"), ("import", "x", "-o", "")]
)
def test_an_empty_name_is_a_mistake_of_the_command_line(argv: tuple[str, ...]) -> None:
    found = sn(*argv)
    assert found.returncode == 2
    assert "no file" in found.stderr or "name is empty" in found.stderr


@pytest.mark.parametrize("kind", ["", "slurm.conf:"])
def test_a_name_that_no_file_can_have_is_refused(kind: str) -> None:
    found = sn("import", f"{kind}{'a' * 300}")
    assert (found.returncode, "File name too long" in found.stderr) == (4, True)


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(NODES)
    found = sn("import", str(tmp_path), "-o", "/proc/x")
    assert found.returncode == 1
    assert "sn: error: /proc/x: " in found.stderr


@pytest.mark.parametrize("name", ["a" * 300, f"{'a' * 300}*", "a**b", "x[z-a]", "a\0b", "pipe"])
def test_an_include_of_what_is_no_file_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "slurm.conf:2:9: Include" in refused(tmp_path, f"ClusterName=c\nInclude {name}\n")
