"""Updates by probes, domains and fabrics, of inventories in any hand; and how the file is kept."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from supernode_slurm.discovery import refresh
from supernode_slurm.discovery.refresh import Options, Updated, update
from supernode_slurm.errors import ConfigError, SupernodeError
from supernode_slurm.inventory import load, loads
from supernode_slurm.slurm import CliClient
from tests.test_import_update import DAY, HOSTS, SITE, lines, node_of, slurm_conf

REPOSITORY = Path(__file__).resolve().parents[1]


def nobody() -> CliClient:
    raise AssertionError("files need no Slurm")


def updated(text: str, *sources: Path, complete: bool = False) -> Updated:
    options = Options(DAY, {}, complete)
    found = update(text, "site.yaml", [str(item) for item in sources], options, nobody)
    again = update(found.new, "site.yaml", [str(item) for item in sources], options, nobody)
    assert (again.new, again.changes) == (found.new, ())
    return found


# Probes


def answer(host: str, count: int = 8, **more: Any) -> dict[str, Any]:
    """Return what sn-probe prints on a node with H100."""
    node = {"sockets": 2, "cores": 48, "threads": 1, "memory_mib": 2003000}
    cards = [
        {"index": n, "minor": n, "name": "NVIDIA H100 80GB HBM3", "vendor": "nvidia",
         "memory_mib": 81559}
        for n in range(8)
    ][:count]  # fmt: skip
    return {"sn_probe": 1, "host": host, "node": node, "devices": cards, **more}


def answers(folder: Path, *records: Mapping[str, Any]) -> Path:
    path = folder / "answers"
    path.write_text("".join(f"{record['host']}: {json.dumps(record)}\n" for record in records))
    return path


ROOM = """\
version: 1
cluster: site
pools:
  - name: p
    nodes:
      hosts: "n[1-4]"
      devices: {h100-sxm: 8}
      gres: gpu
      type: hopper      # what users ask for
      sockets: 2
      cores: 48
      memory: 1900 GiB  # 56 GiB are kept back
      features: [fast]
      options: {Weight: "10"}
      network: {hcas: [mlx5_0, mlx5_1]}
partitions:
  main: {pools: [p], default: true, max_time: 1-00:00:00}
versions:
  driver: {"550.54": "n[1-4]"}
"""


def test_a_probe_says_nothing_of_what_only_slurm_has(tmp_path: Path) -> None:
    source = answers(tmp_path, *(answer(f"n{n}") for n in range(1, 5)))
    assert updated(ROOM, source).new == ROOM
    assert updated(ROOM, source, complete=True).new == ROOM


def test_a_probe_of_some_nodes_changes_those_alone(tmp_path: Path) -> None:
    gap = answer("n2")
    del gap["devices"][3]
    versions = {"driver": "560.10"}
    source = answers(tmp_path, gap, answer("n3", versions=versions), answer("n1", 7))
    found = updated(ROOM, source)
    room = loads(found.new)
    one, two = node_of(room, "n1").devices[0], node_of(room, "n2").devices[0]
    assert (one.count, one.missing, one.type) == (7, (), "hopper")
    assert (two.count, two.missing, two.type) == (7, (3,), "hopper")
    assert node_of(room, "n4").hosts == ("n3", "n4")
    assert node_of(room, "n2").features == ("fast",)
    assert dict(node_of(room, "n2").options) == {"Weight": "10"}
    assert room.upkeep.absent == ()
    assert found.new.count("# what users ask for") == 1
    assert 'driver: {"550.54": "n[1-2,4]", "560.10": n3}' in found.new


def test_nodes_that_did_not_answer_are_absent_where_all_were_asked(tmp_path: Path) -> None:
    source = answers(tmp_path, answer("n1"), answer("n2"), answer("n4"))
    assert updated(ROOM, source).new == ROOM
    found = updated(ROOM, source, complete=True)
    assert lines(found) == ["+absent:", '+  - {hosts: n3, since: "2026-08-22"}']
    back = updated(found.new, answers(tmp_path, answer("n3")))
    assert back.new == ROOM


def test_memory_that_a_site_keeps_back_is_left_alone(tmp_path: Path) -> None:
    def with_memory(mib: int) -> Path:
        records = [answer(f"n{n}") for n in range(1, 5)]
        for record in records:
            record["node"] = {**record["node"], "memory_mib": mib}
        return answers(tmp_path, *records)

    assert updated(ROOM, with_memory(1900 * 1024)).new == ROOM
    assert updated(ROOM, with_memory(2000 * 1024)).new == ROOM
    assert "memory: 1800 GiB  # 56 GiB" in updated(ROOM, with_memory(1800 * 1024 + 300)).new
    assert "memory: 3900 GiB  # 56 GiB" in updated(ROOM, with_memory(3900 * 1024)).new


def test_a_new_node_that_answers_joins_the_pool_it_fits(tmp_path: Path) -> None:
    found = updated(ROOM, answers(tmp_path, answer("n5"), answer("n6")))
    assert lines(found) == [
        '-      hosts: "n[1-4]"',
        '+      hosts: "n[1-6]"',
    ]
    other = updated(ROOM, answers(tmp_path, answer("z1", 4)))
    assert loads(other.new).domain("pool-h100").hosts == ("z1",)


def test_addresses_go_with_their_hosts(tmp_path: Path) -> None:
    text = ROOM.replace('Weight: "10"', 'Weight: "10", NodeAddr: "10.0.0.[1-4]", Port: "7000"')
    found = updated(text, answers(tmp_path, answer("n2", 7), answer("n5")))
    by_host = {h: dict(n.options) for n in loads(found.new).node_classes for h in n.hosts}
    assert by_host["n2"] == {"Weight": "10", "NodeAddr": "10.0.0.2", "Port": "7000"}
    assert by_host["n5"]["NodeAddr"] == "10.0.0.[1,3-4],n5"
    healed = updated(text, answers(tmp_path, *(answer(f"n{n}") for n in range(1, 5))))
    assert healed.new == text
    one = updated(text, answers(tmp_path, answer("n2", 7)))
    back = updated(one.new, answers(tmp_path, answer("n2")))
    assert 'NodeAddr: "10.0.0.[1-4]"' in back.new


# Hand-written in any way


ANCHORS = """\
version: 1
cluster: site
pools:
  - name: p
    nodes: &shape
      hosts: n[1-4]
      devices: &cards {h100-sxm: 8}   # eight
      sockets: 2
      cores: 48
      memory: &memory 1900 GiB
  - {name: q, nodes: [{hosts: m1, devices: *cards, sockets: 2, cores: 48, memory: *memory},
      {hosts: 'm2', devices: {h100-sxm: 8}, sockets: 2, cores: 48,
       memory: *memory # as the others
      }]}
partitions: {main: {pools: [p, q], default: true}}
"""


def test_what_aliases_stand_for_changes_where_it_changed_alone(tmp_path: Path) -> None:
    found = updated(ANCHORS, answers(tmp_path, answer("m1", 7)))
    assert "{hosts: m1, devices: {h100-sxm: 7}, sockets: 2" in found.new
    assert "devices: &cards {h100-sxm: 8}   # eight" in found.new
    all_of_p = answers(tmp_path, *(answer(f"n{n}", 7) for n in range(1, 5)))
    found = updated(ANCHORS, all_of_p)
    assert "devices: &cards {h100-sxm: 7}   # eight" in found.new
    assert "{hosts: m1, devices: {h100-sxm: 8}, sockets: 2" in found.new
    room = loads(found.new)
    assert node_of(room, "m2").devices[0].count == 8
    found = updated(ANCHORS, answers(tmp_path, answer("n2", 7)))
    assert [len(item.nodes) for item in loads(found.new).pools] == [2, 2]


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
@pytest.mark.parametrize("head", ["", "\ufeff", "---\n", "# 机房\n\n"])
def test_marks_ends_of_lines_and_heads_stay(tmp_path: Path, head: str, eol: str) -> None:
    text = f"{head}{ANCHORS}".replace("\n", eol)
    found = updated(text, answers(tmp_path, answer("n2", 7), answer("n5")))
    assert found.new.startswith(head.replace("\n", eol))
    assert found.new.count("\n") == found.new.count(eol)
    assert loads(found.new.removeprefix("\ufeff")).domain("p").hosts == (
        "n1",
        "n3",
        "n4",
        "n5",
        "n2",
    )


def test_an_inventory_in_json_stays_json(tmp_path: Path) -> None:
    text = json.dumps(
        {
            "version": 1,
            "cluster": "site",
            "pools": [
                {
                    "name": "p",
                    "nodes": {"hosts": "n[1-4]", "devices": {"h100-sxm": 8}, "sockets": 2,
                              "cores": 48, "memory": "1900 GiB"},
                }
            ],
            "partitions": {"main": {"pools": ["p"], "default": True}},
        },
        indent=2,
    )  # fmt: skip
    source = answers(tmp_path, answer("n2", 7), answer("n1"))
    found = updated(text, source, complete=True)
    document = json.loads(found.new)
    assert document["pools"][0]["nodes"][1]["devices"] == {"h100-sxm": 7}
    assert document["absent"] == [{"hosts": "n[3-4]", "since": "2026-08-22"}]


RING = """\
version: 1
cluster: site
supernodes:
  - name: ring
    interconnect: {kind: ring, bandwidth: 50 GB/s}
    nodes: {hosts: "n[1-6]", devices: {h100-sxm: 8}, sockets: 2, cores: 48, memory: 1900 GiB}
partitions: {main: {supernodes: [ring], default: true}}
"""


def test_hosts_of_a_ring_keep_their_order(tmp_path: Path) -> None:
    found = updated(RING, answers(tmp_path, answer("n3", 7)))
    room = loads(found.new)
    assert room.domain("ring").hosts == ("n1", "n2", "n3", "n4", "n5", "n6")
    assert [nodes.hosts for nodes in room.supernodes[0].nodes] == [
        ("n1", "n2"), ("n3",), ("n4", "n5", "n6"),
    ]  # fmt: skip
    healed = updated(found.new, answers(tmp_path, answer("n3")))
    assert loads(healed.new).domain("ring").hosts == room.domain("ring").hosts
    refused = updated(RING, answers(tmp_path, answer("n7")))
    assert "n7" not in [host for item in loads(refused.new).supernodes for host in item.hosts]


def domains(folder: Path, of_host: Mapping[str, str]) -> Path:
    path = folder / "domains"
    path.write_text("".join(f"{host}: {domain}\n" for host, domain in of_host.items()))
    return path


def test_a_node_that_was_wired_to_another_supernode_moves_there(tmp_path: Path) -> None:
    wires = {f"h{n}-0{i}": f"cluster-{n}" for n in (1, 2, 3) for i in (1, 2, 3, 4)}
    assert updated(SITE, domains(tmp_path, wires)).new == SITE
    found = updated(SITE, domains(tmp_path, {**wires, "h3-04": "cluster-1"}))
    room = loads(found.new)
    assert room.domain("sn1").hosts == ("h1-01", "h1-02", "h1-03", "h1-04", "h3-04")
    assert room.domain("sn2").hosts == ("h2-01", "h2-02", "h2-03", "h2-04")
    assert room.domain("sn3").hosts == ("h3-01", "h3-02", "h3-03")
    assert [str(change) for change in found.changes] == [
        "hosts.h3-04.domain: sn3 -> sn1 (domains:1)"
    ]
    healed = updated(found.new, domains(tmp_path, wires))
    assert healed.new == SITE


def test_nodes_of_one_domain_in_two_places_are_told(tmp_path: Path) -> None:
    wires = {f"h{n}-0{i}": f"cluster-{n % 2}" for n in (1, 2, 3) for i in (1, 2, 3, 4)}
    found = updated(SITE, domains(tmp_path, wires))
    assert found.new == SITE
    assert [problem.what for problem in found.problems] == [
        "nodes of sn1, sn3 are in one scale-up fabric (cluster-1)"
    ]


# The file


def run(
    folder: Path, *argv: str, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from supernode_slurm.cli.main import main; main()", *argv],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(SITE, encoding="utf-8")
    path.chmod(0o640)
    slurm_conf(tmp_path, {host: kind for host, kind in HOSTS.items() if host != "a08"})
    return path


def test_without_a_terminal_nothing_is_written_unless_asked(site: Path) -> None:
    words = ("import", "slurm.conf", "--update", "site.yaml", "--date", "2026-08-22")
    done = run(site.parent, *words)
    assert done.returncode == 5
    assert '+  - {hosts: a08, since: "2026-08-22"}' in done.stdout
    assert done.stdout.endswith(
        "hosts.a08.absent: since 2026-08-22\nsite.yaml: 1 change, not written: --yes writes them\n"
    )
    assert site.read_text(encoding="utf-8") == SITE
    done = run(site.parent, *words, "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "site.yaml: 1 change, written")
    assert site.stat().st_mode & 0o777 == 0o640
    assert load(site).upkeep.absent[0].hosts == ("a08",)
    done = run(site.parent, *words)
    assert (done.returncode, done.stdout) == (0, "site.yaml: no changes, nothing to write\n")


def test_changes_are_listed_for_programs(site: Path) -> None:
    words = ("import", "slurm.conf", "--update", "site.yaml", "--date", "2026-08-22", "--json")
    done = run(site.parent, *words)
    assert done.returncode == 5
    found = json.loads(done.stdout)
    assert (found["differs"], found["written"]) == (True, False)
    assert found["changes"] == [
        {"path": "hosts.a08.absent", "old": None, "new": "since 2026-08-22", "origin": []}
    ]
    done = run(site.parent, *words, "--yes")
    assert (done.returncode, json.loads(done.stdout)["written"]) == (0, True)


@pytest.mark.parametrize(("said", "code"), [("y\n", 0), ("n\n", 5), ("\n", 5)])
def test_on_a_terminal_it_is_asked(site: Path, said: str, code: int) -> None:
    ours, theirs = pty.openpty()
    argv = ["import", "slurm.conf", "--update", "site.yaml"]
    with subprocess.Popen(
        [sys.executable, "-c", "from supernode_slurm.cli.main import main; main()", *argv],
        cwd=site.parent,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        os.write(ours, said.encode())
        shown = b""
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:
                break
        assert process.wait(60) == code
    os.close(ours)
    assert b"Write site.yaml? [y/N]" in shown
    assert ("absent" in site.read_text(encoding="utf-8")) == (code == 0)


def test_a_link_stays_a_link(site: Path) -> None:
    link = site.parent / "link.yaml"
    link.symlink_to(site)
    done = run(site.parent, "import", "slurm.conf", "--update", "link.yaml", "--yes")
    assert done.returncode == 0, done.stderr
    assert link.is_symlink()
    assert "absent:" in site.read_text(encoding="utf-8")


def test_a_file_that_somebody_changed_meanwhile_is_not_written(site: Path) -> None:
    was = refresh.read(site)
    site.write_text(SITE + "# a person was faster\n", encoding="utf-8")
    with pytest.raises(SupernodeError, match="changed by somebody meanwhile; nothing was written"):
        refresh.write(was, "version: 1\n")
    assert site.read_text(encoding="utf-8").endswith("# a person was faster\n")


def test_a_text_that_cannot_be_written_leaves_the_old_one(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = refresh.read(site)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(site))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        refresh.write(was, SITE + "# more\n")
    assert site.read_text(encoding="utf-8") == SITE
    assert sorted(path.name for path in site.parent.iterdir()) == ["site.yaml", "slurm.conf"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--update", "none.yaml"], 4, "cannot read the inventory"),
        (["--update", "bad.yaml"], 4, "bad.yaml:1:1"),
        (["--update", "site.yaml", "-o", "x.yaml"], 2, "give one"),
        (["--yes"], 2, "are for --update"),
    ],
)
def test_a_wrong_command_line_or_file_is_told(
    site: Path, words: list[str], code: int, said: str
) -> None:
    (site.parent / "bad.yaml").write_text("pools: 3\n")
    done = run(site.parent, "import", "slurm.conf", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_probes_come_by_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(ROOM)
    text = answers(tmp_path, *(answer(f"n{n}", 8 - (n == 2)) for n in (1, 2, 4))).read_text()
    words = ("import", "-", "--update", "site.yaml", "--complete", "--yes", "--date", "2026-08-22")
    done = run(tmp_path, *words, stdin=text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == [
        "hosts.n2.devices: 8 h100-sxm -> 7 h100-sxm (probe of n2)",
        "hosts.n3.absent: since 2026-08-22",
        "site.yaml: 2 changes, written",
    ]


def test_an_inventory_that_is_none_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"site.yaml:1:1"):
        updated("version: 1\n", answers(tmp_path, answer("n1")))


def test_dates_are_arguments(tmp_path: Path) -> None:
    source = answers(tmp_path, answer("n1"))
    options = Options(date(2027, 1, 2), {}, True)
    found = update(ROOM, "site.yaml", [str(source)], options, nobody)
    assert 'since: "2027-01-02"' in found.new
