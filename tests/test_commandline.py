"""sn-submit's command line: whose word is whose, in any order, shortened, misplaced."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from supernode_slurm.cli import submit as cli
from supernode_slurm.data import data_dir
from supernode_slurm.errors import ConfigError, UsageError
from supernode_slurm.slurm.run import run
from supernode_slurm.submission.commandline import argument_notes, located, parse
from supernode_slurm.submission.options import OWN
from supernode_slurm.submission.script import Script, find_script, read_script, unread_lines
from tests.fake_slurm import FakeSlurm

MIXED = Path(str(data_dir("topology_conf"))) / "inventories" / "mixed.yaml"


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        ("--cards h100:8 -V t.sh", "version"),
        ("-p train --usage", "usage"),
        ("-vV", "version"),
        ("--vers", "version"),
        ("-N 2 : -p x --hel", "help"),
        ("--autocomplete=--par", "autocomplete"),
        ("-J -V t.sh", ""),
        ("t.sh -V --help", ""),
        ("-- --help", ""),
        ("--wrap --help", ""),
    ],
)
def test_what_makes_sbatch_print_and_leave_is_seen_anywhere(words: str, asks: str) -> None:
    assert parse(words.split()).asks == asks


def test_such_options_are_answered_before_anything_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["--cards", "h100:8", "-V", "/no/such/script"]) == 0
    assert capsys.readouterr().out.startswith("sn-submit, version ")
    assert cli.run(["-N2", ":", "--usa"]) == 0
    assert capsys.readouterr().out == f"Usage: {cli.USAGE}\n"
    with pytest.raises(UsageError, match="run `sbatch --autocomplete"):
        cli.run(["--autocomplete=--par"])


def test_the_script_in_an_option_is_known_by_each_of_its_spellings() -> None:
    for words in (["--wrap", "a b"], ["--wrap=a b"], ["--wra", "a b"], ["--wr=a b"]):
        line = parse([*words, "-N2"])
        assert line.own == {"wrap": "a b"}
        assert line.components == (("-N2",),)


def test_shortened_options_of_sbatch_are_passed_on_and_take_their_values() -> None:
    line = parse(["--part", "train", "--nodel=n1", "--cards", "8", "t.sh", "--part", "x"])
    assert line.given == {"partition": "train", "nodelist": "n1"}
    assert line.components == (("--part", "train", "--nodel=n1"),)
    assert (line.own, line.script, line.arguments) == ({"cards": "8"}, "t.sh", ("--part", "x"))


@pytest.mark.parametrize("option", [option.name for option in OWN])
def test_our_options_are_written_in_full(option: str) -> None:
    with pytest.raises(UsageError, match=f"--{option}|ambiguous for sbatch"):
        parse([f"--{option[:-1]}", "x", "t.sh"])


def test_a_shortened_option_of_ours_is_refused_with_its_full_name() -> None:
    with pytest.raises(UsageError, match="write --dry-run in full, not --dry"):
        parse(["--dry", "t.sh"])
    with pytest.raises(UsageError, match="no option --modle; did you mean --model"):
        parse(["--modle=x", "t.sh"])


def test_ours_may_stand_in_any_component() -> None:
    words = "-p train : -p ascend --cards h100:8,ascend910c:16 --dry-run t.sh --cards x :"
    line = parse(words.split())
    assert line.components == (("-p", "train"), ("-p", "ascend"))
    assert line.own == {"cards": "h100:8,ascend910c:16", "dry-run": ""}
    assert (line.script, line.arguments) == ("t.sh", ("--cards", "x", ":"))


def script(text: str, first: str = "#!/bin/bash") -> Script:
    return Script("t.sh", f"{first}\n{text}\n", "t.sh")


def notes(words: str, text: str = "srun train", first: str = "#!/bin/bash") -> list[str]:
    return argument_notes(parse(words.split()), script(text, first))


@pytest.mark.parametrize(
    "word", ["--dry-run", "--pin", "--carry", "--json", "--inventory=x", "--keep-slurm-env"]
)
def test_an_option_of_ours_right_of_a_script_without_arguments_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"write it left of the script; .* put -- before t\.sh"):
        notes(f"t.sh {word}")
    assert notes(f"-- t.sh {word}") == []


@pytest.mark.parametrize("text", ['srun train "$@"', "train ${1:-x}", "shift; srun $*"])
def test_a_script_that_reads_its_arguments_may_mean_them(text: str) -> None:
    found = notes("t.sh --json --pin x", text)
    assert [note.partition(" right of")[0] for note in found] == ["'--json'", "'--pin'"]
    with pytest.raises(UsageError, match="'--dry-run' right of"):
        notes("t.sh --dry-run", text)
    assert len(notes("t.py --json", "main()", "#!/usr/bin/env python3")) == 1


def test_what_a_script_knows_itself_is_its_own() -> None:
    assert notes("t.sh --dry-run --json", "[[ $1 == --dry-run ]]; jq --json") == []
    assert notes("t.py --dry-run", "p.add_argument(dest='dry_run')", "#!/usr/bin/python3") == []
    assert notes("t.sh --model llama --cards 8 --sequence 1 pin json --pinned") == []


def write(path: Path, comment: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n#SBATCH --comment={comment}\n")


SEARCHED = [
    ("both.sh", "", "here"),
    ("both.sh", "job", "job"),
    ("path.sh", "", "path"),
    ("path.sh", "job", "path"),
    ("here.sh", "job", "here"),
    ("sub/deep.sh", "", "path"),
    ("./both.sh", "job", "here"),
    ("folder.sh", "", None),
    ("none.sh", "", None),
]
"""A script's name, the folder of --chdir, and where the file lies that sbatch takes."""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("here/both.sh", "job/both.sh", "path/both.sh", "path/path.sh", "here/here.sh"):
        write(tmp_path / name, name.partition("/")[0])
    write(tmp_path / "path/sub/deep.sh", "path")
    (tmp_path / "path/folder.sh").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.parametrize(("name", "folder", "place"), SEARCHED)
def test_a_script_is_sought_where_sbatch_seeks_it(
    name: str, folder: str, place: str | None, places: Path
) -> None:
    found = find_script(name, str(places / folder) if folder else "", f"/nosuch::{places}/path")
    if place is None:
        assert found == name
    else:
        assert read_script(found).text.endswith(f"={place}\n")


@pytest.mark.slurm
@pytest.mark.parametrize(("name", "folder", "place"), SEARCHED)
def test_sbatch_itself_seeks_a_script_there(
    name: str, folder: str, place: str | None, places: Path
) -> None:
    conf = places / "slurm.conf"
    conf.write_text(
        "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=9\nMessageTimeout=1\n"
        "NodeName=n1\nPartitionName=p Nodes=n1\n"
    )
    path = f"/nosuch::{places}/path:{os.environ['PATH']}"
    env = {"PATH": path, "SLURM_CONF": str(conf), "LC_ALL": "C"}
    chdir = [f"--chdir={places / folder}"] if folder else []
    said = run(["sbatch", "-vvv", *chdir, name], timeout_s=60, env=env).stderr
    assert ("Unable to open file" in said) == (place is None)
    assert f'argument "--comment={place}"' in said or place is None


def test_the_folder_of_any_component_counts_for_the_search(places: Path) -> None:
    line = located(parse(["-N1", ":", "-D", f"{places}/job", "both.sh"]), "")
    assert line.script == f"{places}/job/both.sh"
    assert located(parse(["-N1"]), "/bin").script is None


def text_stream(text: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()))


def test_a_job_from_standard_input_is_called_sbatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", text_stream("#!/bin/sh\ntrue\n"))
    found = read_script(None)
    assert (found.name, found.text) == ("sbatch", "#!/bin/sh\ntrue\n")


@pytest.mark.parametrize(
    ("raw", "said"), [(b"#!/bin/sh\n\0", "a NUL byte"), (b"#!/bin/sh\r\n", "DOS line ends")]
)
def test_what_slurm_refuses_in_a_script_is_refused_here(
    raw: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / "t.sh").write_bytes(raw)
    with pytest.raises(ConfigError, match=said):
        read_script(str(tmp_path / "t.sh"))


def test_lines_of_other_schedulers_that_sbatch_heeds_are_told() -> None:
    found = unread_lines(script("#PBS -l nodes=4\n# PBS -x\ntrue\n#BSUB -n 4"))
    assert found == ["t.sh:2: sbatch heeds this line, the plan does not: write #SBATCH"]


@pytest.mark.parametrize(
    ("words", "env", "lines"),
    [
        (["-M", "a,b"], {}, ""),
        ([], {"SLURM_CLUSTERS": "all"}, ""),
        ([], {}, "#SBATCH --clusters=a,b\n"),
    ],
)
def test_several_clusters_are_refused(
    words: list[str], env: dict[str, str], lines: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = tmp_path / "t.sh"
    path.write_text(f"#!/bin/sh\n{lines}true\n")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="a plan is for the nodes of one cluster"):
        cli.run(["--inventory", str(MIXED), "--cards", "h100:8", *words, str(path)])


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Return the controller that the program talks to."""
    from supernode_slurm import slurm as door
    from supernode_slurm.inventory import load

    fake = FakeSlurm(load(MIXED))
    monkeypatch.setattr(door, "CliClient", lambda *_, **given: fake)
    monkeypatch.setattr(fake, "scrubbed", [], raising=False)
    return fake


def test_what_the_script_says_of_the_output_counts(
    slurm: FakeSlurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.sh"
    path.write_text("#!/bin/sh\n#SBATCH --parsable\ntrue\n")
    assert cli.run(["--inventory", str(MIXED), "--cards", "h100:8", str(path)]) == 0
    assert capsys.readouterr().out.strip().isdecimal()
    path.write_text("#!/bin/sh\n#SBATCH --test-only\ntrue\n")
    assert cli.run(["--inventory", str(MIXED), "--json", "--cards", "h100:8", str(path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["job"] is None
    assert "to start at" in shown["estimate"]
