"""The commands as a user meets them: results on stdout, messages on stderr, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from supernode_slurm.cli import main as sn
from supernode_slurm.cli.guard import guarded
from supernode_slurm.data import data_dir
from supernode_slurm.errors import CheckFound, ConfigError, PlanError, SupernodeError, UsageError
from supernode_slurm.slurmconf import RELEASES
from tests.test_inventory import SMALL

REPOSITORY = Path(__file__).resolve().parents[1]
MIXED = Path(str(data_dir("topology_conf"))) / "inventories" / "mixed.yaml"
Run = subprocess.CompletedProcess[str]


def run(*argv: str, program: str = "main", **env: str) -> Run:
    code = f"from supernode_slurm.cli.{program} import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **env},
    )


@pytest.mark.parametrize("name", sn.COMMANDS)
def test_each_command_says_what_the_table_says(name: str) -> None:
    command = sn.cli.get_command(click.Context(sn.cli), name)
    assert command is not None
    assert command.get_short_help_str(200) == sn.COMMANDS[name]
    shown = CliRunner().invoke(command, ["--help"])
    assert shown.exit_code == 0
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help


@pytest.mark.parametrize("name", [*sn.COMMANDS, "sn-submit"])
def test_each_command_is_in_the_readme(name: str) -> None:
    for file in ("README.md", "README.zh-CN.md"):
        text = (REPOSITORY / file).read_text(encoding="utf-8")
        assert (name if name == "sn-submit" else f"sn {name}") in text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SupernodeError("x"), 1),
        (UsageError("x"), 2),
        (PlanError("x"), 3),
        (ConfigError.one("f", "x"), 4),
        (CheckFound("x"), 5),
        (KeyboardInterrupt(), 130),
        (click.UsageError("x"), 2),
    ],
)
def test_errors_become_exit_codes(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise error

    assert guarded(fail) == code
    assert ("x" in capsys.readouterr().err) == (code != 130)


def test_an_unknown_command_offers_the_nearest() -> None:
    shown = run("chek")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "no command 'chek'; did you mean 'check'?" in shown.stderr


def test_check_reports_and_its_exit_code_is_a_verdict(tmp_path: Path) -> None:
    good = run("check", "-i", str(MIXED))
    assert (good.returncode, good.stderr) == (0, "")
    assert "warning vendor-variable" in good.stdout
    assert "add task_prolog under slurm" in good.stdout
    assert good.stdout.splitlines()[-1] == f"{MIXED}: 24 nodes, 1 warning, 1 note"
    path = tmp_path / "i.yaml"
    path.write_text(SMALL.replace("kind: fat-tree", "kind: fat-tree\n    oversubscription: 3"))
    unwise = run("check", "--json", "-i", str(path))
    assert unwise.returncode == 5
    assert json.loads(unwise.stdout)["findings"][0]["rule"] == "oversubscription"
    path.write_text(SMALL.replace("cores: 48", "cors: 48"))
    broken = run("check", "-i", str(path))
    assert (broken.returncode, broken.stdout) == (4, "")
    assert f"sn: error: {path}:11:" in broken.stderr
    assert "did you mean 'cores'?" in broken.stderr
    assert "Traceback" not in broken.stderr


def test_an_absent_inventory_says_how_to_name_one(tmp_path: Path) -> None:
    shown = run("check", SN_INVENTORY=str(tmp_path / "none.yaml"))
    assert shown.returncode == 4
    assert "name the inventory with --inventory FILE or SN_INVENTORY" in shown.stderr


def test_generate_writes_checks_and_prints(tmp_path: Path) -> None:
    target = str(tmp_path / "slurm")
    words = ("generate", "-i", str(MIXED), "--release", "24.11")
    assert len(run(*words, "-o", target).stdout.splitlines()) == 5
    same = run(*words, "-o", target, "--check")
    assert (same.returncode, same.stdout) == (0, "")
    assert "sn: warning: supernodes of unequal size" in same.stderr
    other = run("generate", "-i", str(MIXED), "--release", "22.05", "-o", target, "--check")
    assert other.returncode == 5
    assert "+# Written by 'sn generate' for cluster mixed and Slurm 22.05." in other.stdout
    assert "NodeName=h1-[01-08]" in run(*words).stdout
    assert set(json.loads(run(*words, "--json").stdout)) == {p.name for p in Path(target).iterdir()}
    assert run("generate", "-i", str(MIXED), "--check").returncode == 2
    assert "known releases" in run("generate", "-i", str(MIXED), "--release", "9.99").stderr


@pytest.mark.parametrize("what", ["room", "accelerators", "models", "templates"])
def test_show_lists_as_a_table_and_as_json(what: str) -> None:
    words = ("show", what, "-i", str(MIXED))
    rows = json.loads(run(*words, "--json").stdout)
    table = run(*words)
    assert table.returncode == 0
    first = rows[0].get("name") or rows[0]["id"]
    assert first in table.stdout
    assert len(table.stdout.splitlines()) >= len(rows)


def test_errors_of_the_system_are_messages(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = ("generate", "-i", str(MIXED), "--release", "24.11")
    for target, wanted in (("file", 4), ("file/below", 1)):
        shown = run(*words, "-o", str(tmp_path / target))
        assert shown.returncode == wanted
        assert f"sn: error: {tmp_path}/file" in shown.stderr
        assert "Traceback" not in shown.stderr
    code = "from supernode_slurm.cli.main import main; main()"
    for redirect in ("> /dev/full", ">&-"):
        full = subprocess.run(
            ["sh", "-c", f'exec "$0" -c "$1" show models {redirect}', sys.executable, code],
            capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY,
        )  # fmt: skip
        assert "Traceback" not in full.stderr


def test_check_knows_the_release(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    path.write_text('slurm: {release: "21.08"}\n' + SMALL)
    shown = run("check", "-i", str(path))
    assert (shown.returncode, shown.stdout) == (4, "")
    assert "Slurm 21.08 is not known; known releases: 22.05, 23.02" in shown.stderr


def test_show_schema_is_a_json_schema() -> None:
    assert json.loads(run("show", "schema").stdout)["properties"]["supernodes"]["type"] == "array"


def test_plan_ranks_and_says_how_sure_it_is() -> None:
    words = ("plan", "-i", str(MIXED), "--model", "llama-3-70b", "--cards", "64")
    shown = run(*words)
    assert shown.returncode == 0
    assert "docs/accuracy.md" in shown.stdout
    plans = json.loads(run(*words, "--json", "-n", "3").stdout)["plans"]
    times = [item["plan"]["predicted"]["step_time_s"] for item in plans]
    assert len(plans) == 3
    assert times == sorted(times)
    for item in plans:
        predicted = item["plan"]["predicted"]
        assert sum(predicted["breakdown_s"].values()) == pytest.approx(predicted["step_time_s"])
    assert "--tensor-model-parallel-size" in run(*words, "--emit", "megatron").stdout


def test_what_is_emitted_of_several_kinds_says_who_is_in_it() -> None:
    mixed = ("plan", "-i", str(MIXED), "--cards", "h100:8,a100:8")
    words = (*mixed, "--model", "llama-2-7b", "--global-batch", "96")
    torch = run(*words, "--emit", "torch")
    assert "# environment of rank 8, the first of a100\n" in torch.stdout
    assert "sn: note: ranks: h100 0-7, a100 8-15; sn-launch starts them so" in torch.stderr
    alone = run(*words, "--emit", "deepspeed")
    assert '"train_batch_size": 96' in alone.stdout
    assert "sn: note: a100 x 8 dropped: " in alone.stderr
    assert " s without it, no plan with it: " in alone.stderr
    assert "ranks:" not in alone.stderr


@pytest.mark.parametrize(
    ("cards", "code", "reason"),
    [
        ("h100:8", 3, "needs"),
        ("h100:7000", 3, "no place for 7000 h100"),
        ("h101:8", 2, "did you mean 'h100'?"),
        ("8,8", 2, "several groups of cards need their kinds"),
        ("8,h100:8", 2, "several groups of cards need their kinds"),
        ("h100:4,a100:4", 3, "sn: error: flagscale: "),
    ],
)
def test_plan_says_why_there_is_none(cards: str, code: int, reason: str) -> None:
    shown = run("plan", "-i", str(MIXED), "--model", "llama-3-70b", "--cards", cards)
    assert (shown.returncode, shown.stdout) == (code, "")
    assert reason in shown.stderr
    assert "Traceback" not in shown.stderr


def test_sn_submit_explains_itself() -> None:
    assert run("--help", program="submit").stdout.startswith("Usage: sn-submit")
    shown = run("--cards", "8", "-h", "x.sh", program="submit")
    assert shown.stdout.startswith("Usage: sn-submit")
    assert run(program="submit", SN_INVENTORY=str(MIXED)).returncode == 4
    assert "0.1.0" in run("--version", program="submit").stdout


def test_help_of_sn_submit_loads_no_planner() -> None:
    code = "import sys; from supernode_slurm.cli.submit import run; run(['--help']);"
    code += (
        "print([m for m in sys.modules if m.startswith(('numpy', 'yaml', 'supernode_slurm.pl'))])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert shown.stdout.splitlines()[-1] == "[]"


def test_without_slurm_the_message_says_what_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    words = ("--inventory", str(MIXED), "--cards", "h100:8", str(script))
    python = str(Path(sys.executable).parent)
    shown = run(*words, program="submit", PATH=f"{python}:/nonexistent")
    assert shown.returncode == 1
    assert "scontrol: not found on PATH" in shown.stderr


def test_a_closed_pipe_brings_no_traceback() -> None:
    code = "from supernode_slurm.cli.main import main; main()"
    words = [sys.executable, "-c", code, "show", "models", "--json"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == ""
        child.wait(30)


def test_releases_are_shown_with_what_is_proven() -> None:
    rows = json.loads(run("show", "releases", "--json").stdout)
    proven = {row["release"]: row["proven on"] for row in rows}
    assert list(proven) == list(RELEASES)
    assert proven["24.11"] == "Debian trixie"
    assert proven["25.05"] is None


def test_foreign_nodes_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    path.write_text(
        SMALL.replace("partitions:", 'foreign: [{name: cpu, hosts: "c[1-4]"}]\npartitions:')
    )
    rows = json.loads(run("show", "-i", str(path), "--json").stdout)
    assert [row["kind"] for row in rows] == ["switch", "switch", "pool", "foreign"]
    assert rows[-1]["hosts"] == "c[1-4]"
