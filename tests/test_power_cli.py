"""``sn power`` as a person and a hook of the building meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supernode_slurm.data import data_dir
from tests.test_cli import Run, run

INVENTORIES = Path(str(data_dir("topology_conf"))) / "inventories"
NVL72 = INVENTORIES / "nvl72.yaml"

DPS = """\
version: 1
cluster: dps
feeds:
  - {name: utility, power: 750 kW}
  - {name: board, power: 1.6 MW, source: utility}
  - {name: "pdu[1-4]", power: 450 kW, source: board}
racks:
RACKSsupernodes:
  - name: sn[1-8]
    interconnect: {kind: switch}
    nodes:
      {hosts: "sn{n}-[01-18]", devices: {gb300: 4}, sockets: 2, cores: 72, memory: 940 GiB,
       power: POWER}
"""
"""NVIDIA's sample of eight racks: each passes, and the feed of the room does not."""


def dps(folder: Path, power: str) -> Path:
    racks = "".join(
        f"  - {{name: r{n}, hosts: 'sn{n}-[01-18]', power: 132 kW, feeds: pdu{(n + 1) // 2}}}\n"
        for n in range(1, 9)
    )
    path = folder / "dps.yaml"
    path.write_text(DPS.replace("RACKS", racks).replace("POWER", power))
    return path


def power(path: Path, *words: str, **env: str) -> Run:
    return run("power", "-i", str(path), *words, **env)


def test_racks_that_pass_under_a_feed_that_does_not(tmp_path: Path) -> None:
    done = power(dps(tmp_path, "5.6 kW"))
    assert (done.returncode, done.stderr) == (5, "")
    assert "over: feed utility carries 806.4 of 750 kW" in done.stdout
    assert "over: r" not in done.stdout
    assert "doubt: pdu[1-4] rated 1800 kW, more than their source board, 1600" in done.stdout
    assert "doubt: board rated 1600 kW, more than their source utility, 750" in done.stdout
    assert power(dps(tmp_path, "3.2 kW")).returncode == 0


def test_equal_racks_and_feeds_are_one_row_and_feeds_a_tree(tmp_path: Path) -> None:
    lines = power(dps(tmp_path, "5.6 kW")).stdout.splitlines()
    (racks,) = [line for line in lines if line.startswith("r[1-8]")]
    assert racks.split()[1:6] == ["18", "132", "100.8", "31.2", "###############....."]
    utility = lines.index(next(line for line in lines if line.startswith("utility")))
    assert lines[utility].split()[4] == "#" * 20 + "!"
    assert lines[utility + 1].startswith("  board")
    assert lines[utility + 2].startswith("    pdu[1-4]")


@pytest.mark.parametrize("name", sorted(path.stem for path in INVENTORIES.glob("*.yaml")))
def test_every_example_is_shown_within_a_terminal(name: str) -> None:
    done = power(INVENTORIES / f"{name}.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= 80


def test_what_is_unknown_is_said_and_never_zero(tmp_path: Path) -> None:
    path = tmp_path / "room.yaml"
    text = dps(tmp_path, "5.6 kW").read_text()
    text = text.replace(",\n       power: 5.6 kW", "").replace("power: 132 kW, ", "")
    text = text.replace("750 kW", "1.6 MW")
    path.write_text(text)
    done = power(path)
    assert done.returncode == 0
    (racks,) = [line for line in done.stdout.splitlines() if line.startswith("r[1-8]")]
    assert racks.split()[1:] == ["18", "-", "100.8+", "-", "-"]
    assert "unknown (+): power of the host without cards, 144 nodes" in done.stdout
    path.write_text(text.replace("gb300: 4", "ascend910c: 16"))
    silent = power(path)
    assert "all racks: - kW" in silent.stdout
    shown = json.loads(power(path, "--json").stdout)
    assert shown["racks"][0]["draw"]["w"] is None
    assert shown["feeds"][0]["worst"]["w"] is None


def test_json_has_every_rack_feed_and_failure(tmp_path: Path) -> None:
    done = power(dps(tmp_path, "5.6 kW"), "--json")
    assert done.returncode == 5
    shown = json.loads(done.stdout)
    assert shown["over"]
    assert [rack["draw"]["w"] for rack in shown["racks"]] == [100_800] * 8
    assert [feed["name"] for feed in shown["feeds"]][:2] == ["utility", "board"]
    dark = {case["failed"]: case["dark_racks"] for case in shown["failures"]}
    assert dark["pdu2"] == ["r3", "r4"]
    assert len(dark["utility"]) == 8


def test_a_plan_for_lost_cooling_names_caps_drained_nodes_and_what_is_left() -> None:
    done = power(NVL72, "--derate", "nvl1", "--offline")
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert "on nvl1-[01-04]: nvidia-smi -pm 1 && nvidia-smi -pl 258" in text
    assert "scontrol update 'NodeName=nvl1-[05-18]' State=DRAIN" in text
    assert "derated: [{on: nvl1, cap: 258 W}]" in text
    assert "peak left: 24 of 180 PFLOPS in bf16, 13%" in text
    assert "jobs: not known" in text
    shown = json.loads(power(NVL72, "--derate", "nvl1", "--offline", "--json").stdout)
    assert shown["enough"]
    assert len(shown["racks"][0]["drain"]) == 14
    assert shown["racks"][0]["meanwhile_w"] > shown["racks"][0]["air_w"]
    assert shown["derated"] == [{"on": "nvl1", "cap_w": 258}]


def test_a_rack_can_be_named_too() -> None:
    by_rack = power(NVL72, "--derate", "r2", "--offline", "--json")
    by_name = power(NVL72, "--derate", "nvl2", "--offline", "--json")
    assert json.loads(by_rack.stdout)["racks"] == json.loads(by_name.stdout)["racks"]


def test_a_plan_that_is_not_enough_is_found_with_5(tmp_path: Path) -> None:
    path = tmp_path / "room.yaml"
    path.write_text(
        NVL72.read_text().replace("cooling: cold-plate", "cooling: {kind: cold-plate, air: 17 kW}")
    )
    done = power(path, "--derate", "nvl1", "--offline")
    assert done.returncode == 5
    assert "not enough: r1 draws 22.4 kW with every node drained" in " ".join(done.stdout.split())
    script = power(path, "--derate", "nvl1", "--offline", "--emit", "sh")
    assert script.returncode == 5
    assert script.stdout.startswith("#!/bin/sh\n")
    assert "sn: warning: not enough: r1" in script.stderr
    assert power(path, "--derate", "nvl1", "--offline", "--emit", "undo").returncode == 0
    assert power(path, "--derate", "nvl1", "--offline", "--off").returncode == 0


def test_where_no_slurm_answers_the_plan_is_made_without(tmp_path: Path) -> None:
    done = power(NVL72, "--derate", "nvl1", PATH=str(tmp_path))
    assert done.returncode == 0
    assert "sn: note: Slurm does not say what runs (scontrol: not found on PATH" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["--derate", "nvl9", "--offline"], 2, "no supernode, pool or rack 'nvl9'; did you mean"),
        (["--emit", "sh"], 2, "belong to --derate NAME"),
        (["--off"], 2, "belong to --derate NAME"),
        (["--derate", "nvl1", "--offline", "--emit", "sh", "--json"], 2, "--emit or --json"),
        (["--derate", "nvl1", "--emit", "bash"], 2, "'bash' is not one of 'sh', 'undo'"),
        (["--derate", "", "--offline"], 2, "no supernode, pool or rack ''"),
    ],
)
def test_wrong_words_are_refused(words: list[str], code: int, what: str) -> None:
    done = power(NVL72, *words)
    assert done.returncode == code
    assert what in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
