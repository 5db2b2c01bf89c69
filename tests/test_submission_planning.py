"""What the planner is told by every door, and for which framework it plans."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from supernode_slurm.catalogue import accelerators
from supernode_slurm.cli import plan as sn_plan
from supernode_slurm.cli import submit as cli
from supernode_slurm.data import data_dir
from supernode_slurm.errors import PlanError, UsageError
from supernode_slurm.frameworks import assumed, known_on, names
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.placement import choose, settled
from supernode_slurm.submission.commandline import parse
from supernode_slurm.submission.options import PLANNING, VARIABLES, variable
from supernode_slurm.submission.submit import Prepared, prepare
from supernode_slurm.submission.templates import templates
from tests.fake_slurm import FakeSlurm
from tests.test_sizing import ask_of, room_of

INVENTORIES = Path(str(data_dir("topology_conf"))) / "inventories"
PACKAGE = Path(cli.__file__).parents[1]


def prepared(words: str, inventory: Inventory | str = "mixed", **env: str) -> Prepared:
    if isinstance(inventory, str):
        inventory = load(INVENTORIES / f"{inventory}.yaml")
    return prepare(parse(shlex.split(words)), env, inventory, FakeSlurm(inventory))


def written(folder: Path, *lines: str) -> Path:
    path = folder / "train.sh"
    path.write_text("\n".join(["#!/bin/bash", *lines, ""]))
    return path


def test_what_sn_plan_is_told_of_a_job_every_door_takes() -> None:
    shown = {name.lstrip("-") for item in sn_plan.command.params for name in item.opts}
    assert shown >= {option.name for option in PLANNING}
    # What is left asks for another answer, or for a place, which sbatch's own options do.
    assert shown - {option.name for option in PLANNING} == {
        *("inventory", "i", "json", "here", "emit", "top", "n", "tokens", "explain", "from"),
        *("interconnect", "oversubscription", "free", "partition"),
    }


@pytest.mark.parametrize("door", ["command line", "SN_PRECISION", "#SN", "config"])
def test_a_precision_that_sn_plan_recommends_can_be_submitted(door: str, tmp_path: Path) -> None:
    line = "#SN --precision=fp8 --data-time 100" if door == "#SN" else "# nothing"
    path = written(tmp_path, line, "true")
    words, env = f"--model llama-3-8b --cards h100:8 {path}", {}
    if door == "command line":
        words = f"--precision fp8 --data-time=100 {words}"
    elif door == "config":
        (tmp_path / "config.yaml").write_text("precision: fp8\ndata-time: 100\n")
        env = {"SN_CONFIG": str(tmp_path / "config.yaml")}
    elif door == "SN_PRECISION":
        env = {"SN_PRECISION": "fp8", "SN_DATA_TIME": "100"}
    job = prepared(words, **env)
    assert job.choice.plan.precision == "fp8"
    assert job.choice.plan.predicted is not None
    assert job.choice.plan.predicted.step_time_s == pytest.approx(100, rel=0.05)
    assert "--fp8-format" in job.choice.plan.arguments


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--precision fp9", "--precision=fp9 (command line): bf16, fp16, fp8, mxfp8, nvfp4 are"),
        ("--data-time soon", "--data-time=soon (command line): expected seconds, like 0.5"),
        ("--data-time=-1", "--data-time=-1 (command line): expected seconds"),
    ],
)
def test_a_wrong_word_of_planning_is_refused(words: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        prepared(f"--model llama-3-8b --cards h100:8 {words} --wrap true")
    assert reason in str(caught.value)


def test_a_precision_that_the_framework_lacks_is_refused() -> None:
    with pytest.raises((PlanError, UsageError), match="torch does not train in fp8"):
        prepared("--framework torch --precision fp8 --model llama-3-8b --cards h100:8 --wrap true")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SN_PRECISON", "did you mean 'SN_PRECISION'"),
        ("SN_DRY_RUN", "write --dry-run on the command line"),
        ("SN_PARTITION", "no planning option has this variable"),
    ],
)
def test_a_variable_that_nobody_reads_is_told(name: str, hint: str) -> None:
    job = prepared("--cards h100:8 --wrap true", **{name: "1"})
    (note,) = (note for note in job.notes if note.startswith(name))
    assert hint in note


def test_variables_that_mean_something_else_are_known() -> None:
    found = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"\bSN_[A-Z_]+\b", path.read_text("utf-8"))
    }
    assert found <= VARIABLES | {variable(option.name) for option in PLANNING}
    job = prepared("--cards h100:8 --wrap true", **dict.fromkeys(VARIABLES - {"SN_CONFIG"}, "1"))
    assert not any("is not read" in note for note in job.notes)


TRAINED = (
    "srun python pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
    "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --bf16 "
    "--tensor-model-parallel-size 2"
)


def test_a_value_that_the_script_contradicts_is_told_with_both_places(tmp_path: Path) -> None:
    path = written(tmp_path, TRAINED)
    words = f"--model llama-3-8b --cards h100:8 --precision fp8 --sequence 8192 {path}"
    job = prepared(words)
    assert (job.choice.plan.precision, job.choice.plan.sequence) == ("fp8", 8192)
    told = [note for note in job.notes if "the script itself says" in note]
    assert len(told) == 2
    assert any(
        "--precision=fp8 (command line) is planned, the script itself says bf16" in note
        and "train.sh:2" in note
        for note in told
    )
    # With {plan} the framework is told the precision of the plan.
    path = written(tmp_path, f"{TRAINED} {{plan}}")
    told = [note for note in prepared(words).notes if "the script itself says" in note]
    assert [note.split()[0] for note in told] == ["--sequence=8192"]


@pytest.mark.parametrize(
    ("words", "contradicted"),
    [("{plan}", False), ("--bf16", True), ("--deepspeed zero3 {plan}", True)],
)
def test_a_trainer_stands_on_what_the_words_of_the_plan_say(
    tmp_path: Path, words: str, contradicted: bool
) -> None:
    trainer = "sn-launch python t.py --per_device_train_batch_size 1 --model_name_or_path"
    path = written(tmp_path, f"{trainer} Qwen/Qwen2.5-7B {words}")
    job = prepared(f"--framework hf-fsdp --cards h100:8 {path}")
    assert job.choice.plan.framework == "hf-fsdp"
    assert any("the script itself says hf" in note for note in job.notes) == contradicted


USUAL = {
    "nvidia": "megatron",
    "amd": "megatron",
    "huawei": "mindspeed",
    "cambricon": "flagscale",
    "hygon": "flagscale",
    "mthreads": "flagscale",
    "metax": "flagscale",
    "iluvatar": "flagscale",
    "kunlunxin": "flagscale",
    "enflame": "flagscale",
    "biren": "deepspeed",
}


def test_each_maker_of_the_catalogue_has_its_usual_framework() -> None:
    makers = {item.vendor for item in accelerators()}
    assert makers == set(USUAL)
    for maker in makers:
        assert [able.name for able in assumed([maker], mixed=False)] == [USUAL[maker]]
        assert set(known_on(maker)) <= set(names())
        assert "torch" in known_on(maker)
    assert [maker for maker in sorted(makers) if "mindspeed" in known_on(maker)] == ["huawei"]


@pytest.mark.parametrize(
    ("inventory", "cards", "framework"),
    [
        ("hgx-h100", "64", "megatron"),
        ("cm384", "64", "mindspeed"),
        ("mixed", "ascend910c:16", "mindspeed"),
        ("ring", "16", "flagscale"),
        ("torus", "64", "flagscale"),
        ("fullmesh64", "64", "flagscale"),
        ("mixed", "h100:8,a100:8", "megatron"),
        ("mixed", "h100:8,ascend910c:8", "flagscale"),
    ],
)
def test_the_default_framework_follows_the_cards(
    inventory: str, cards: str, framework: str
) -> None:
    job = prepared(f"--model llama-3-8b --cards {cards} --wrap true", inventory)
    assert job.choice.plan.framework == framework
    assert (job.asked.values["framework"], job.asked.origins["framework"]) == (framework, "default")
    assert not any("is not known to run" in note for note in job.notes)


def test_an_open_kind_is_planned_for_the_framework_of_the_cards_it_gets() -> None:
    job = prepared("--model llama-3-8b --cards 16 -p ascend --wrap true")
    assert (job.choice.plan.framework, job.asked.values["framework"]) == ("mindspeed",) * 2
    job = prepared("--model llama-3-8b --cards 64 --wrap true")
    assert (job.choice.plan.groups[0].name, job.choice.plan.framework) == ("h100", "megatron")
    # The plans of sn plan compare both, each for its own.
    room = room_of("mixed")
    ask = ask_of(room.inventory, model="llama-3-8b", cards="16")
    found = choose(room, replace(ask, prefer=None))
    assert {(item.plan.groups[0].name, item.plan.framework) for item in found} == {
        ("h100", "megatron"),
        ("a100", "megatron"),
        ("ascend910c", "mindspeed"),
    }


def test_a_framework_gets_cards_that_it_is_known_to_run_on() -> None:
    words = "--model llama-3-8b --cards 16 --framework mindspeed --wrap true"
    job = prepared(words)
    assert job.choice.plan.groups[0].name == "ascend910c"
    assert not any("is not known to run" in note for note in job.notes)
    job = prepared(f"-p train {words}")
    assert "mindspeed is not known to run on nvidia cards, though a fork may; known there: " in str(
        job.notes
    )


def test_a_framework_that_is_not_known_on_the_cards_is_told_with_those_that_are() -> None:
    job = prepared("--model llama-3-8b --cards 64 --framework torchtitan --wrap true", "cm384")
    assert job.choice.plan.framework == "torchtitan"
    (note,) = (note for note in job.notes if "is not known to run" in note)
    assert note == (
        "torchtitan is not known to run on huawei cards, though a fork may; known there: "
        "mindspeed, flagscale, deepspeed, hf, llamafactory, swift, hf-fsdp, torch"
    )


def test_unlike_cards_are_planned_for_the_fastest_framework_that_can() -> None:
    job = prepared("--model llama-3-70b --cards h100:64,a100:32 --wrap true")
    assert job.choice.plan.framework == job.asked.values["framework"] == "megatron"
    (note,) = (note for note in job.notes if "no --framework" in note)
    assert re.fullmatch(
        r"planned for megatron: no --framework was named; flagscale 5\d\.\d\d s; torch 7\d\.\d\d s",
        note,
    )
    named = prepared("--framework megatron --model llama-3-70b --cards h100:64,a100:32 --wrap true")
    assert job.choice.plan == named.choice.plan
    assert not any("no --framework" in note for note in named.notes)
    room = room_of("mixed")
    ask = settled(room, ask_of(room.inventory, model="llama-3-70b", cards="h100:64,a100:32"))
    assert ask.able.name == "megatron"


def test_where_no_framework_can_each_is_named_with_its_limit() -> None:
    with pytest.raises(PlanError) as caught:
        prepared("--model llama-3.1-405b --cards h100:8,a100:8 --wrap true")
    lines = str(caught.value).split("\n")
    assert [line.split(":")[0] for line in lines] == ["torch", "megatron", "flagscale"]
    assert "does not fit on 8 x h100-sxm: every layout needs at least" in lines[0]
    assert "in any split over stages" in lines[1]


def test_a_tight_plan_is_told_with_its_memory_and_its_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = INVENTORIES / "hgx-h100.yaml"
    words = ["--inventory", str(path), "--dry-run", "--wrap", "true", "--cards", "64"]
    assert cli.run([*words, "--model", "llama-3-70b"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"s a step \(\+-\d+%\), MFU \d+%, [4-7]\d/77 GiB$", out, re.MULTILINE)
    assert "tight" not in err
    assert cli.run([*words, "--model", "llama-3-70b", "--spare-memory", "0"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"s a step \(\+-\d+%\), MFU \d+%, !7[4-7]/77 GiB$", out, re.MULTILINE)
    assert "sn: warning: tight: less than 5% of the memory that training gets is left" in err
    assert cli.run([*words, "--model", "llama-3-8b"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r", MFU \d+%, \d+/77 GiB$", out, re.MULTILINE)
    assert "tight" not in err


def unsaid_notes(command: str, cards: str, framework: str) -> list[str]:
    words = f"--framework {framework} --model llama-2-7b --global-batch 96 --cards {cards}"
    job = prepared(f"{words} --wrap {shlex.quote(command)}")
    return [note for note in job.notes if "has no {plan}" in note]


@pytest.mark.parametrize("framework", ["megatron", "flagscale", "torchtitan", "deepspeed", "hf"])
def test_a_command_that_does_not_say_the_plan_is_noted_once(framework: str) -> None:
    cards = "h100:8" if framework in ("deepspeed", "hf", "torchtitan") else "h100:8,a100:8"
    (note,) = unsaid_notes("sn-launch python3 train.py", cards, framework)
    assert f"--wrap has no {{plan}}: {framework} does what the script" in note
    assert f"(sn plan --emit {framework}), as " in note
    assert unsaid_notes("sn-launch python3 train.py {plan}", cards, framework) == []
    assert unsaid_notes("bash train.sh", cards, framework) == []
    assert unsaid_notes("SN_PLAN= sn-launch python3 train.py", cards, framework) == []


def test_the_words_that_a_command_lacks_are_named() -> None:
    (note,) = unsaid_notes("sn-launch python3 train.py", "h100:8,a100:8", "megatron")
    assert ", as --pipeline-model-parallel-layout, --tensor-model-parallel-size, " in note
    asks = "--framework megatron --model llama-2-7b --global-batch 96 --cards h100:8,a100:8"
    job = prepared(f"{asks} --wrap true")
    own = shlex.join(job.choice.plan.arguments)
    less = own.replace("--micro-batch-size 1", "")
    (note,) = unsaid_notes(f"sn-launch python3 train.py {less}", "h100:8,a100:8", "megatron")
    assert ", as --micro-batch-size; or write {plan}" in note
    # What says all of it, by its words or by the plan's numbers, is no matter.
    for words in (own, f"{less} --micro-batch-size {{micro_batch}}"):
        assert unsaid_notes(f"sn-launch train.py {words}", "h100:8,a100:8", "megatron") == []


@pytest.mark.parametrize("model", ["", "--model llama-3-8b"])
def test_a_loop_that_reads_its_variables_needs_no_words_of_the_plan(model: str) -> None:
    words = f"--framework torch {model} --global-batch 96 --cards h100:8,a100:8"
    job = prepared(f"{words} --wrap 'sn-launch python3 train.py'")
    assert not any("{plan}" in note for note in job.notes)


def test_no_template_is_told_to_say_the_plan() -> None:
    for item in templates():
        site = "cm384" if "ascend" in item.asks and "h100" not in item.asks else "mixed"
        cards = "" if "--cards" in item.asks else "--cards h100:8"
        job = prepared(f"{cards} {item.path}", site)
        assert not any("has no {plan}" in note for note in job.notes), item.name
