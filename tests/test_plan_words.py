"""What the commands say of a plan over several kinds of cards: shares, and what to know of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from supernode_slurm.cli import submit as cli
from supernode_slurm.data import data_dir
from supernode_slurm.frameworks import plan_notes
from supernode_slurm.plan import dealt, devices
from supernode_slurm.sizing import leading
from supernode_slurm.sizing.changes import Change
from supernode_slurm.sizing.question import predicted_of
from tests.test_cli import run
from tests.test_sizing import studied

INVENTORIES = Path(str(data_dir("topology_conf"))) / "inventories"
MIXED = INVENTORIES / "mixed.yaml"
TWO = ("--model", "llama-2-7b", "--cards", "h100:8,a100:8", "--global-batch", "96")
STRANGE = ("--model", "llama-2-7b", "--cards", "h100:8", "--framework", "mindspeed")
FOLLOWS = "shares follow measured step times from these on (SN_REBALANCE=1, docs/training.md)"
STAGED = "between a100 and ascend910c 1 GB/s a device is taken"


def planned(*words: str, room: Path = MIXED) -> str:
    """Return what ``sn plan`` prints, each answer in one line."""
    shown = run("plan", "-i", str(room), *words)
    assert shown.returncode == 0, shown.stderr
    return re.sub(r"\n +", " ", shown.stdout)


def submitted(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Return the plan's line of ``sn-submit``, and its notes."""
    argv = ["--inventory", str(MIXED), "--dry-run", "--wrap", "true {plan}", *words]
    assert cli.run(argv) == 0
    out, err = capsys.readouterr()
    return next(line for line in out.splitlines() if line.startswith("plan ")), err


@pytest.mark.parametrize(
    ("framework", "strategy", "shares"),
    [
        ("torch", "mixed", "samples: h100 72, a100 24"),
        ("megatron", "auto", "layers: h100 24, a100 8"),
    ],
)
def test_both_commands_name_the_kind_of_each_share(
    framework: str, strategy: str, shares: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*TWO, "--framework", framework, "--strategy", strategy)
    what, _, each = shares.partition(": ")
    assert f"\n{what} of the first: {each}\n" in planned(*words)
    line, _ = submitted(capsys, *words)
    assert f"; {shares}; predicted" in line
    assert "96 of 96" not in line


def test_stages_of_a_kind_are_joined_and_one_kind_alone_has_no_shares() -> None:
    plan = studied(
        cards="h100:32,a100:32", model="llama-2-70b", framework="megatron", global_batch=256
    ).best.choice.plan
    layers = [int(text) for text in re.findall(r"[0-9]+(?=[+,]|$)", dealt(plan))]
    assert sum(layers) == 80
    assert re.fullmatch(r"layers: a100 \d+(\+\d+)*, h100 \d+(\+\d+)*", dealt(plan))
    assert sorted(devices(plan).split(" + ")) == ["32 a100", "32 h100"]
    alone = studied(cards="h100:8", model="llama-3-8b").best.choice.plan
    assert (dealt(alone), devices(alone)) == ("", "8 h100")


def test_dynamic_says_what_mixed_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    for strategy in ("mixed", "dynamic"):
        words = (*TWO, "--framework", "torch", "--strategy", strategy)
        follows = strategy == "dynamic"
        assert (FOLLOWS in planned(*words)) == follows
        assert (FOLLOWS in submitted(capsys, *words)[1]) == follows


def test_a_crossing_that_nobody_measured_is_said_of_each_plan_that_has_one() -> None:
    three = (*TWO[:3], "h100:8,a100:8,ascend-910c:8", *TWO[4:])
    assert STAGED in planned(*three, "--framework", "flagscale")
    assert STAGED in run("plan", "-i", str(MIXED), *three, "--emit", "flagscale").stderr
    assert "a device is taken" not in planned(*TWO, "--framework", "flagscale")
    plan = studied(cards="h100:8,a100:8", model="llama-2-7b", framework="flagscale").best
    assert plan_notes(plan.choice.plan) == ()


def test_what_is_emitted_says_on_which_cards_it_may_not_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = "mindspeed is not known to run on nvidia cards, though a fork may; known there: "
    assert said in planned(*STRANGE)
    assert said in submitted(capsys, *STRANGE)[1]
    emitted = run("plan", "-i", str(MIXED), *STRANGE[:4], "--emit", "mindspeed").stderr
    assert emitted.count(said) == 1
    here = run("plan", "-i", str(MIXED), *STRANGE[:4], "--emit", "megatron").stderr
    assert "not known to run" not in here


def test_changes_that_an_option_makes_are_shown_beside_the_largest() -> None:
    names = ("overlap", "network", "domain", "reduce-bf16", "batch", "reduce-int8", "spare")
    found = [Change(name, "", 0.1, None) for name in names]
    shown = [item.name for item in leading(found, 2)]
    assert shown == ["overlap", "network", "reduce-bf16", "reduce-int8", "spare"]
    lab = INVENTORIES / "lab.yaml"
    job = ("--model", "llama-3.2-3b", "--cards", "a100:8,h100-pcie:4", "--framework", "torch")
    text = planned(*job, "--global-batch", "96", room=lab)
    gains = re.findall(r"^one change, \+(\d+)%: gradients summed in bf16", text, re.MULTILINE)
    assert [int(gain) > 10 for gain in gains] == [True]


@pytest.mark.parametrize(
    ("cards", "framework"), [("a100:32", "megatron"), ("h100:8,a100:8", "torch")]
)
def test_what_overlap_saves_already_is_said(cards: str, framework: str) -> None:
    found = studied(
        cards=cards, model="llama-3-8b", framework=framework, global_batch=64, strategy="mixed"
    )
    step_s = predicted_of(found.best.choice.plan).step_time_s
    assert 0.01 * step_s < found.overlap_saves_s < step_s
    job = ("--model", "llama-3-8b", "--cards", cards, "--framework", framework)
    words = (*job, "--global-batch", "64", "--strategy", "mixed")
    share = f"{found.overlap_saves_s / step_s:+.0%}"
    assert f"\noverlap, {share}: gradients that travel" in planned(*words)
    told = json.loads(planned(*words, "--json"))
    assert told["overlap_saves_s"] == pytest.approx(found.overlap_saves_s)


def test_what_a_framework_does_not_overlap_saves_nothing() -> None:
    found = studied(cards="a100:32", model="llama-3-8b", global_batch=64, framework="flagscale")
    assert predicted_of(found.best.choice.plan).breakdown_s["dp"] > 0
    assert found.overlap_saves_s == 0.0
    assert studied(cards="h100:1", model="llama-3.2-1b").overlap_saves_s == 0.0
