"""``sn plan`` as a user meets it: readable at 80 columns, in a pipe, in any locale."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from supernode_slurm.cli import main, plan
from supernode_slurm.cli.plan_text import LETTERS, Bar, Sheet, chart
from tests.test_cli import MIXED, run

LLAMA = ("plan", "-i", str(MIXED), "--model", "llama-3-70b", "--cards")
QUESTIONS = {
    "plans": ("h100:64",),
    "mixed": ("h100:64,ascend910c:32",),
    "explain": ("h100:64", "--explain", "tp=8,pp=2"),
    "explained mix": ("h100:64,ascend910c:32", "--explain", "micro-batch=2"),
    "curve": ("h100:64:512", "--tokens", "1T"),
    "wiring": ("h100:128", "--interconnect", "torus,ring", "--oversubscription", "1,4"),
    "move": ("h100:64", "--from", "tp=8,pp=4,dp=2"),
}
"""One command line for each answer."""


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_answer_fits_80_columns_in_a_pipe(question: str) -> None:
    shown = run(*LLAMA, *QUESTIONS[question])
    assert shown.returncode == 0, shown.stderr
    table = shown.stdout.splitlines()
    assert [line for line in table if len(line) > 80] == []
    assert not re.search(r"\x1b", shown.stdout)
    assert all(line == line.rstrip() for line in table)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_answer_is_plain_ascii_in_the_c_locale(question: str) -> None:
    shown = run(*LLAMA, *QUESTIONS[question], LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.isascii()
    assert "\\x" not in shown.stdout


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_answer_is_json_of_a_version(question: str) -> None:
    shown = json.loads(run(*LLAMA, *QUESTIONS[question], "--json").stdout)
    answers = {"curve": "curve", "wiring": "variants", "move": "move"}
    assert (shown["version"], shown["answer"]) == (1, answers.get(question, "plans"))


@pytest.mark.parametrize(
    "words",
    [
        "mixed.yaml --model qwen3-235b-a22b --cards h100:128 --explain tp=2,ep=16,etp=2",
        "mixed.yaml --model qwen3-235b-a22b --cards h100:64 --framework torchtitan --explain tp=2",
        "nvl72.yaml --model deepseek-v3 --cards 144 --precision fp8",
        "cm384.yaml --model deepseek-v3 --cards 192 --framework mindspeed",
    ],
)
def test_plans_of_mixtures_fit_80_columns(words: str) -> None:
    name, *rest = words.split()
    shown = run("plan", "-i", str(MIXED.parent / name), *rest)
    assert shown.returncode == 0, shown.stderr
    assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []
    head = next(line for line in shown.stdout.splitlines() if line.endswith(("goes", "time")))
    assert {"TP", "EP", "PP", "DP", "mbs"} < set(head.split())


def test_sizes_that_are_as_usual_have_no_column() -> None:
    def columns(*words: str) -> set[str]:
        text = run("plan", "-i", str(MIXED), *words).stdout
        return set(next(line for line in text.splitlines() if "step s" in line).split())

    job = ("--model", "llama-3.2-1b", "--cards", "h100:8", "-n", "1")
    hidden = {"CP", "EP", "ETP", "VPP", "rec.", "ZeRO"}
    assert not columns(*job, "--framework", "torch") & hidden
    own = columns(*job, "--explain", "pp=1,cp=2,recompute=full,zero=0")
    assert own >= {"CP", "rec.", "ZeRO"}


def test_tight_plans_are_marked_and_the_mark_is_explained() -> None:
    text = run(*LLAMA, "h100:64", "--spare-memory", "0").stdout
    assert re.search(r"^ *1 .* !\d+/\d+ ", text, re.MULTILINE)
    assert "\n!: tight: less than 5% of the memory" in text
    roomy = run(*LLAMA, "h100:64").stdout
    assert re.search(r"^ *1 .* \d+/\d+ ", roomy, re.MULTILINE)
    assert "tight" not in roomy
    (change,) = re.findall(
        r"^one change, \+(\d+)%: no memory left \(--spare-memory 0\)", roomy, re.M
    )
    assert int(change) >= 1


def test_a_wide_table_is_set_closer_before_it_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    for width, gap in ((20, "  "), (23, " ")):
        sheet = Sheet(["a" * width, "b" * width, "c" * width], bar_title="time")
        sheet.rows.append(["1", "2", "3"])
        sheet.bars.append(Bar({"compute": 1.0}))
        sheet.print()
        head, rule, _ = capsys.readouterr().out.splitlines()
        assert gap.join(sheet.columns) in head
        assert len(rule) <= 80


def test_places_are_named_by_letters_where_they_differ() -> None:
    lab = MIXED.parent / "lab.yaml"
    words = ("--model", "llama-2-7b", "--cards", "h100:4,a100:4", "--framework", "flagscale")
    text = run("plan", "-i", str(lab), *words).stdout
    named = re.findall(r"^([a-z]): .*(?:bench|pool-a100)", text, re.MULTILINE)
    assert named == ["a", "b"]
    assert set(re.findall(r"^[0-9]+ *~? +([a-z]) ", text, re.MULTILINE)) == {"a", "b"}
    assert max(map(len, text.splitlines())) <= 80


def test_json_holds_what_the_text_says() -> None:
    shown = json.loads(run(*LLAMA, *QUESTIONS["explain"], "--tokens", "1B", "--json").stdout)
    assert {"plans", "expected", "limit", "changes", "rejected", "stages", "explained"} <= set(
        shown
    )
    assert shown["stages"][0]["memory_gib"] > 0
    assert "remarks" in shown
    first = shown["plans"][0]
    assert {"where", "tie", "tight", "usable_gib", "cost", "training", "plan"} == set(first)
    assert shown["explained"]["predicted"]["step_time_s"] > 0
    curve = json.loads(run(*LLAMA, *QUESTIONS["curve"], "--json").stdout)
    assert [point["cards"] for point in curve["points"]] == [64, 128, 256, 512]
    assert all("training" in point for point in curve["points"])
    assert curve["owned"] == 128


def test_the_text_says_how_sure_what_limits_and_what_would_help() -> None:
    text = run(*LLAMA, "h100:64", "--explain", "tp=8,pp=2").stdout
    for name in (
        "expected error",
        "limit",
        "one change, +",
        "refused",
        "layers of the first",
        "yours",
    ):
        assert re.search(rf"^{re.escape(name)}", text, re.MULTILINE), name
    assert "where the time goes" in text


def test_bars_need_no_colour_to_be_read() -> None:
    text = run(*LLAMA, "h100:64", NO_COLOR="1").stdout
    bars = re.findall(r"  (=+[A-Z]*)$", text, re.MULTILINE)
    assert len(bars) == 5
    used = {letter for bar in bars for letter in bar if letter != "="}
    legend = next(line for line in text.splitlines() if line.startswith("= compute"))
    assert all(f"{letter} " in legend for letter in used)


def test_bars_add_up_to_the_length_of_the_whole() -> None:
    bar = Bar({"compute": 5.0, "tp": 2.5, "bubble": 0.3, "dp": 0.0})
    assert sum(count for _, count in bar.drawn(40, bar.total)) == 40
    assert sum(count for _, count in bar.drawn(40, 2 * bar.total)) == 20
    assert [name for name, _ in bar.drawn(40, bar.total)] == ["compute", "tp", "bubble"]
    assert Bar({}).drawn(40, 1.0) == []
    assert len(set(LETTERS.values())) == len(LETTERS)


def test_the_drawn_curve_shows_each_number_and_the_ideal() -> None:
    lines = chart([(8, 1.0), (16, 2.0), (32, 2.0), (64, 1.9)])
    body = lines[:-2]
    assert sum(line.count("o") for line in body) == 4
    assert sum(line.count(".") for line in (line.split("|")[1] for line in body)) == 2
    assert lines[-1].split()[:4] == ["8", "16", "32", "64"]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("h100:64", "--explain", "tp=8", "--from", "tp=8"), 2, "one question at a time"),
        (("h100:8:64", "--explain", "tp=8"), 2, "one question at a time"),
        (("h100:8:64", "--emit", "megatron"), 2, "one question at a time"),
        (("h100:64:8",), 2, "a range rises"),
        (("h100:64", "--from", "tp=8", "--tokens", "1T"), 2, "--tokens costs a training"),
        (("h100:64", "--explain", "tp"), 2, "--explain: tp is a number"),
        (("h100:64", "--from", "tp=0"), 2, "--from: tp is a number"),
        (("h100:64", "--tokens", "many"), 2, "--tokens"),
        (("h100:64", "--interconnect", "mesh"), 2, "did you mean 'full-mesh'?"),
        (("h100:64", "--oversubscription", "0"), 2, "numbers from 1 on"),
        (("h100:64", "--data-time", "-1"), 2, "--data-time"),
        (("h100:64", "--data-time", "nan"), 2, "--data-time"),
        (("h100:64", "--data-time", "inf"), 2, "--data-time"),
        (("h100:64", "--explain", ""), 2, "--explain is empty"),
        (("h100:64", "--from", " "), 2, "--from is empty"),
        (("h100:64", "--precision", ""), 2, "--precision is empty"),
        (("h100:64", "--emit", "megatron", "--tokens", "1T"), 2, "--tokens costs a training"),
        (("h100:64", "--sequence", "1000003"), 3, "a sequence of 1000064 fits"),
        (("a100:32", "--interconnect", "torus"), 3, "no supernode"),
    ],
)
def test_wrong_questions_are_told(words: tuple[str, ...], code: int, why: str) -> None:
    shown = run(*LLAMA, *words)
    assert (shown.returncode, shown.stdout) == (code, "")
    assert why in shown.stderr
    assert "Traceback" not in shown.stderr


def test_a_room_without_cards_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "room.yaml"
    path.write_text(
        "version: 1\ncluster: t\npools:\n  - name: cpu\n    nodes: "
        "{hosts: 'c[1-4]', sockets: 2, cores: 8, memory: 64 GiB}\n"
        "partitions: {batch: {pools: [cpu], default: true}}\n"
    )
    asked = ("--model", "llama-2-7b", "--cards", "16", "--global-batch", "64")
    shown = run("plan", "-i", str(path), *asked)
    assert shown.returncode == 3
    assert "no node that may be used has a card of the catalogue" in shown.stderr


def test_no_option_takes_what_click_reads_as_a_float() -> None:
    # nan and inf pass its FloatRange, and compare with nothing.
    commands = [main.cli.get_command(click.Context(main.cli), name) for name in main.COMMANDS]
    options = [option for command in commands if command for option in command.params]
    assert len(options) > 20
    assert not [item.name for item in options if isinstance(item.type, click.types.FloatParamType)]


@pytest.mark.parametrize("width", [40, 60])
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_answer_fits_a_narrow_terminal(question: str, width: int) -> None:
    shown = run(*LLAMA, *QUESTIONS[question], COLUMNS=str(width))
    assert shown.returncode == 0, shown.stderr
    assert [line for line in shown.stdout.splitlines() if len(line) > width] == []
    told = re.search(r"^left out: ([^:]*): there", shown.stdout.replace("\n  ", " "), re.MULTILINE)
    heads = next((line for line in shown.stdout.splitlines() if "step s" in line), "")
    for name in told[1].split(", ") if told else ():
        assert name not in heads.split()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("question", ["plans", "mixed", "wiring"])
def test_the_legend_names_the_letters_of_the_bars_and_no_others(question: str, width: int) -> None:
    text = run(*LLAMA, *QUESTIONS[question], COLUMNS=str(width)).stdout
    bars = re.findall(r" (=+[A-Z]*)$", text, re.MULTILINE)
    used = {letter for bar in bars for letter in bar}
    found = re.search(r"^(= compute.*?)(; GiB|\n[a-z!~])", text, re.MULTILINE | re.DOTALL)
    named = re.findall(r"(?:^|, )([=A-Z]) ", re.sub(r"\s+", " ", found[1])) if found else []
    assert set(named) == used
    assert bars or "where the time goes" in text.split("left out", 1)[1]


def test_the_price_of_each_wiring_is_shown_and_json_agrees_with_the_text(tmp_path: Path) -> None:
    site = tmp_path / "priced.yaml"
    site.write_text(
        MIXED.read_text("utf-8").replace("policy: {", "policy: {price: {h100-sxm: 20 CNY/h}, ")
    )
    words = ("plan", "-i", str(site), "--model", "llama-3-70b", "--cards", "h100:128")
    asked = (*words, "--oversubscription", "1,8", "--tokens", "1T")
    text = run(*asked, COLUMNS="120").stdout
    assert len(re.findall(r"[0-9kM] CNY", text)) == 4
    assert re.search(r"^1T tokens on 128 cards, switch, 2:1: .* days, .* CNY$", text, re.MULTILINE)
    assert "what is here, switch, 2:1" in text
    found = json.loads(run(*asked, "--json").stdout)
    assert found["best"] == 0
    for item in found["variants"]:
        steps = 1e12 / (1024 * 4096)
        assert item["training"]["price"]["amount"] == pytest.approx(
            steps * item["cost"]["price"]["amount"]
        )


def test_notes_on_how_the_words_were_read_are_in_the_json() -> None:
    words = ("--model", "llama-3-8b", "--cards", "ascend910c:8", "--json")
    shown = run("plan", "-i", str(MIXED), *words)
    notes = json.loads(shown.stdout)["notes"]
    assert any("16 devices" in note for note in notes)
    assert all(f"sn: note: {note}" in shown.stderr for note in notes)


@pytest.mark.parametrize("cards", ["h100:64", "h100:64:128"])
def test_the_peak_that_an_mfu_below_16_bit_is_of_is_said(cards: str) -> None:
    def text(precision: str) -> str:
        return " ".join(run(*LLAMA, cards, "--precision", precision).stdout.split())

    assert "fp8 (MFU: of the bf16 peak)" in text("fp8")
    assert "MFU: of" not in text("bf16")


def test_a_row_that_cannot_run_is_marked() -> None:
    text = run(*LLAMA, "h100:64", "--explain", "zero=3").stdout
    assert re.search(r"^yours x ", text, re.MULTILINE)
    assert "\nx: cannot run" in text
    assert "megatron can have zero 0, 1 here" in " ".join(text.split())
    runs = run(*LLAMA, "h100:64", "--explain", "tp=8").stdout
    assert re.search(r"^yours  ", runs, re.MULTILINE)
    assert "cannot run" not in runs


def test_a_curve_that_does_not_reach_its_sweet_spot_says_so() -> None:
    text = run(*LLAMA, "h100:256:1000").stdout  # No layout has 1000 cards.
    assert "sweet spot: not reached by 512 cards" in text
    assert "* sweet spot" not in text
    found = json.loads(run(*LLAMA, "h100:256:1000", "--json").stdout)
    assert (found["sweet"], found["points"][-1]["plan"]) == (None, None)
    bound = run(*LLAMA, "h100:64:256", "--data-time", "32").stdout
    assert "limit: loading of data, from 128 cards on" in bound
    assert "sweet spot: 128 cards" in bound


def test_a_layout_is_explained_though_no_plan_fits() -> None:
    shown = run(*LLAMA, "h100:8", "--explain", "tp=8")
    assert shown.returncode == 3
    assert shown.stdout.startswith("yours cannot run: tp=8")
    assert "GiB" in shown.stdout
    assert "does not fit" in shown.stderr
    found = json.loads(run(*LLAMA, "h100:8", "--explain", "tp=8", "--json").stdout)
    assert found["plans"] == []
    assert found["explained"]["problems"]


def test_a_batch_beyond_twice_the_present_one_is_warned_of() -> None:
    words = ("h100:64", "--from", "tp=8,pp=4,dp=2,global-batch=128")
    twice = run(*LLAMA, *words, "--global-batch", "256")
    assert "sn: warning" not in twice.stderr
    assert re.search(r"^batch to start with: 256 sequences, twice", twice.stdout, re.MULTILINE)
    shown = run(*LLAMA, *words, "--global-batch", "1024")
    assert "sn: warning: a batch of 1024 is 8 times the present one" in shown.stderr


def test_data_time_is_the_limit_named_first() -> None:
    words = ("plan", "-i", str(MIXED), "--model", "llama-3-8b", "--cards", "h100:8")
    shown = run(*words, "--data-time", "500").stdout
    assert re.search(r"^limit: loading of data", shown, re.MULTILINE)
    assert "L loading of data" in shown


def test_help_shows_examples_that_run() -> None:
    shown = CliRunner().invoke(plan.command, ["--help"]).output
    examples = re.findall(r"^ +sn (plan .*)$", shown, re.MULTILINE)
    assert len(examples) == 5
    for line in examples:
        assert run(*line.split(), SN_INVENTORY=str(MIXED)).returncode == 0, line


def test_long_work_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SILENT_S", -1.0)
    words = [*LLAMA[1:], "h100:64:256"]
    result = CliRunner().invoke(plan.command, words, standalone_mode=False)
    assert "sn: note: planning 128 cards (2 of 3)" in result.stderr
    assert "planning" not in result.stdout
    result = CliRunner().invoke(plan.command, [*LLAMA[1:], "h100:64"], standalone_mode=False)
    assert "sn: note: planning cards with twice the memory" in result.stderr
