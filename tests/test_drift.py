"""How an inventory and files, probes or a running Slurm differ, said in words."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from supernode_slurm.discovery.drift import LIVE, RULES, Against, Drift, drift
from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import load, loads
from supernode_slurm.slurm import CliClient
from supernode_slurm.slurmconf import RELEASES
from tests.test_import_update import HOSTS, INVENTORIES, SITE, files_of, slurm_conf
from tests.test_import_update_sources import ROOM, answer, answers, run

DAY = date(2026, 8, 22)


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def against(text: str, source: Path) -> Drift:
    return drift(loads(text, "site.yaml"), Against(str(source), nobody), DAY)


def said(found: Drift) -> list[tuple[str, str]]:
    return [(item.rule, item.what) for item in found.findings]


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_files_that_an_inventory_gives_have_not_drifted(
    path: Path, release: str, tmp_path: Path
) -> None:
    text = path.read_text(encoding="utf-8")
    room = load(path)
    files_of(room, RELEASES[release], tmp_path)
    found = against(text, tmp_path)
    assert {item.rule for item in found.findings} <= {"drift-release"}
    assert bool(found.findings) == (room.slurm.release not in ("auto", release))


def test_a_site_that_wrote_its_own_files_is_compared_by_what_they_mean(tmp_path: Path) -> None:
    hosts = dict(HOSTS)
    hosts["h1-02"] = replace(hosts["h1-02"], count=7, features=("old", "sn1", "h100"))
    hosts["a03"] = replace(hosts["a03"], memory_gib=900, cores=32)
    del hosts["a08"]
    hosts["z1"] = hosts["a01"]
    assert said(against(SITE, slurm_conf(tmp_path, hosts))) == [
        ("drift-node-missing", "a08 of p: Slurm does not know them"),
        ("drift-node-unknown", "z1: Slurm knows them, the inventory does not have them"),
        ("drift-features", "features of h1-02: none here, old is there"),
        ("drift-gres", "devices of h1-02: 8 h100-sxm here, 7 h100-sxm is there"),
        ("drift-cpus", "cores of a03: 64 here, 32 is there"),
        ("drift-memory", "memory of a03: 1000 GiB here, 900 GiB is there"),
        ("drift-topology", "topology: tree by the inventory, none in Slurm"),
    ]


def test_partitions_are_compared_by_nodes_and_limits(tmp_path: Path) -> None:
    conf = slurm_conf(tmp_path, HOSTS) / "slurm.conf"
    text = conf.read_text().replace(
        "PartitionName=main Nodes=a[01-08],", "PartitionName=main Nodes=a[01-07],"
    )
    text = text.replace("Default=YES", "MaxTime=60 AllowAccounts=x")
    conf.write_text(text + "PartitionName=more Nodes=a[01-02]\n")
    found = dict(said(against(SITE, tmp_path)))
    assert found["drift-partition-nodes"] == "partition main in Slurm does not hold a08"
    assert found["drift-partition-unknown"] == "Slurm has partition more over a[01-02]"
    limits = [
        what for rule, what in said(against(SITE, tmp_path)) if rule == "drift-partition-limits"
    ]
    assert limits == [
        "maxtime of partition main: none here, 60 in Slurm",
        "default of partition main: YES here, none in Slurm",
        "allowaccounts of partition main: none here, x in Slurm",
    ]
    conf.write_text(conf.read_text().replace("PartitionName=main", "PartitionName=other"))
    found = dict(said(against(SITE, tmp_path)))
    assert found["drift-partition-missing"] == "partition main is here, Slurm does not have it"


def test_what_was_not_installed_yet_wants_an_apply(tmp_path: Path) -> None:
    files_of(loads(SITE), RELEASES["24.11"], tmp_path)
    newer = SITE.replace("memory: 1000 GiB", "memory: 900 GiB").replace("a[01-08]", "a[01-07]")
    found = against(newer, tmp_path)
    rules = {"drift-node-unknown", "drift-memory", "drift-topology", "drift-files"}
    assert {item.rule for item in found.findings} == rules
    for item in found.findings:
        assert "sn apply" in item.todo
        assert "sn import" not in item.todo


def test_probes_are_held_against_what_an_inventory_says(tmp_path: Path) -> None:
    records = [answer(f"n{n}", versions={"driver": "550.54"}) for n in (1, 2)]
    assert said(against(ROOM, answers(tmp_path, *records))) == []
    records = [answer("n1", 7, versions={"driver": "560.10"}), answer("z9")]
    found = against(ROOM, answers(tmp_path, *records))
    assert said(found) == [
        ("drift-node-unknown", "z9: they answer, the inventory does not have them"),
        ("drift-gres", "devices of n1: 8 h100-sxm here, 7 h100-sxm is there"),
        ("drift-versions", "driver of n1: 550.54 here, 560.10 is there"),
    ]


def test_what_a_site_accepts_does_not_count(tmp_path: Path) -> None:
    source = answers(tmp_path, answer("n1", 7), answer("n2", 6))
    accepted = ROOM + 'accept:\n  - {rule: drift-gres, on: n1, why: ordered, until: "2026-09-01"}\n'
    found = against(accepted, source)
    assert [item.accepted is not None for item in found.findings] == [True, False]
    later = drift(loads(accepted, "site.yaml"), Against(str(source), nobody), date(2026, 9, 2))
    assert [item.accepted for item in later.findings] == [None, None]


def test_a_room_without_partitions_is_compared_by_its_nodes(tmp_path: Path) -> None:
    bare = SITE[: SITE.index("partitions:")]
    changed = {**HOSTS, "a01": replace(HOSTS["a01"], count=4)}
    found = against(bare, slurm_conf(tmp_path, changed))
    assert said(found) == [
        ("drift-gres", "devices of a01: 8 a100-sxm-80g here, 4 a100-sxm-80g is there")
    ]


def test_absent_nodes_that_answer_are_told(tmp_path: Path) -> None:
    text = ROOM + 'absent:\n  - {hosts: "n[3-4]", since: "2026-08-01"}\n'
    found = against(text, answers(tmp_path, answer("n3")))
    assert said(found) == [("drift-absent", "n3 are absent since 2026-08-01, and answer")]


def test_rules_have_a_reason_and_names_of_one_kind() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.name.startswith("drift-")
        assert rule.reason
        assert rule.severity in ("error", "warning", "note")


def test_the_rules_are_listed(tmp_path: Path) -> None:
    done = run(tmp_path, "check", "--against", "live", "--rules", "--json")
    assert [rule["name"] for rule in json.loads(done.stdout)["rules"]] == [r.name for r in RULES]


def test_the_command_says_it_and_ends_with_5(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(ROOM)
    answers(tmp_path, answer("n1", 7))
    done = run(tmp_path, "check", "-i", "site.yaml", "--against", "answers")
    assert done.returncode == 5
    assert "error drift-gres" in done.stdout
    assert "site.yaml:6:14: devices of n1: 8 h100-sxm here, 7 h100-sxm is there" in done.stdout
    assert "sn import answers --update site.yaml" in " ".join(done.stdout.split())
    done = run(tmp_path, "check", "-i", "site.yaml", "--against", "answers", "--json")
    assert done.returncode == 5
    [finding] = json.loads(done.stdout)["findings"]
    assert (finding["rule"], finding["hosts"]) == ("drift-gres", "n1")
    answers(tmp_path, answer("n1"))
    done = run(tmp_path, "check", "-i", "site.yaml", "--against", "answers")
    assert (done.returncode, done.stdout) == (0, "site.yaml: 4 nodes, nothing found\n")


def test_what_is_no_source_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("hello there, this is nothing\n")
    with pytest.raises(ConfigError, match="is no source"):
        against(ROOM, path)
    with pytest.raises(ConfigError, match="no such file"):
        against(ROOM, tmp_path / "none")
    assert LIVE == "live"
