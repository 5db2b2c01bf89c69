"""Job templates without Slurm: read, planned, shown; and how strict their stand-ins are."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from supernode_slurm.cli import submit
from supernode_slurm.cli.show import command as show
from supernode_slurm.errors import UsageError
from supernode_slurm.frameworks import emit
from supernode_slurm.frameworks.reading import find_workload
from supernode_slurm.inventory import load
from supernode_slurm.plan import Plan, dumps, loads
from supernode_slurm.slurm import options as sbatch
from supernode_slurm.slurm.option_table import TABLES
from supernode_slurm.submission.commandline import parse
from supernode_slurm.submission.script import read_script, sn_lines, unread_lines
from supernode_slurm.submission.submit import prepare
from supernode_slurm.submission.templates import template, templates
from tests.templates import ALL, MIXED, STANDINS, TEMPLATES, Template, edited, room

EVERY = pytest.mark.parametrize("item", ALL, ids=lambda item: item.name)
LLAMA, QWEN = (
    "layers=32,hidden=4096,heads=32,kv-heads=8",
    "layers=28,hidden=3584,heads=28,kv-heads=4",
)


def test_every_template_is_tested() -> None:
    there = {path.stem for path in TEMPLATES.glob("*.sh")}
    assert there == {item.name for item in ALL} | {"pytorch-loop"}


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.sh")), ids=lambda path: path.stem)
def test_a_template_is_a_short_strict_shell_script(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for shell in ("sh", "bash"):
        subprocess.run([shell, "-n", str(path)], check=True, timeout=10)
    assert len(text.splitlines()) <= 40
    assert text.startswith("#!/bin/bash\n# ")
    assert "\nset -eu\n" in text
    for name in re.findall(r"^([A-Z]+)=", text, re.MULTILINE):
        assert name == "PATH" or re.search(rf'"\${name}["/]', text), f"{name} is not used"


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.sh")), ids=lambda path: path.stem)
def test_every_line_for_slurm_and_for_us_is_read(path: Path) -> None:
    script = read_script(str(path))
    assert unread_lines(script) == []
    assert {where.line for _, where in sn_lines(script)} == {
        number
        for number, line in enumerate(script.text.splitlines(), start=1)
        if line.startswith("#SN")
    }
    words = sbatch.directives(script.text)
    assert len(words) == len(re.findall(r"^#SBATCH", script.text, re.MULTILINE))
    for release in TABLES:
        assert "time" in sbatch.values(words, release)


@EVERY
def test_a_template_is_planned_for_its_framework(
    item: Template,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SN_INVENTORY", str(room(tmp_path)))
    assert submit.run(["--dry-run", "--json", str(edited(item, tmp_path))]) == 0
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    plan = loads(json.dumps(said["plan"]))
    assert plan.devices == item.ranks
    if item.framework is None:
        assert plan.pipelines == ()
        return
    assert plan.framework == item.framework
    assert plan.pipelines
    assert bool(plan.arguments) == (item.framework != "torch")
    named = {name for word in plan.arguments for name in re.findall(r"\{([\w.]+)\}", word)}
    assert named <= plan.files.keys()
    assert plan.training == ("lora" if item.name == "ms-swift" else "full")


def test_the_ascend_template_is_planned_where_devices_are_called_npu(tmp_path: Path) -> None:
    item = next(item for item in ALL if item.name == "mindspeed-llm")
    inventory = load(MIXED.with_name("cm384.yaml"))
    prepared = prepare(parse([str(edited(item, tmp_path))]), {}, inventory, None)
    group = prepared.choice.plan.groups[0]
    assert (group.gres, group.devices) == ("npu", item.ranks)
    assert "--gres=npu:ascend910c:16" in prepared.options


@pytest.mark.parametrize(
    ("name", "model", "sequence", "batch", "training"),
    [
        ("megatron-lm", LLAMA, "8192", "512", "full"),
        ("mindspeed-llm", QWEN, "4096", "256", "full"),
        ("flagscale", LLAMA, "8192", "256", "full"),
        ("hf-trainer", "Qwen/Qwen2.5-7B", "4096", None, None),
        ("llama-factory", "Qwen/Qwen2.5-7B", "4096", None, "full"),
        ("ms-swift", "Qwen/Qwen2.5-7B", "4096", None, "lora"),
    ],
)
def test_what_a_template_trains_is_read_in_its_arguments(
    name: str, model: str, sequence: str, batch: str | None, training: str | None, tmp_path: Path
) -> None:
    item = next(item for item in ALL if item.name == name)
    text = edited(item, tmp_path).read_text(encoding="utf-8")
    found = find_workload(text, name, (), tmp_path)
    assert found.values["model"].startswith(model)
    assert found.values["sequence"] == sequence
    assert found.values.get("global-batch") == batch
    assert found.values.get("train") == training


def test_templates_are_shown() -> None:
    rows = json.loads(CliRunner().invoke(show, ["templates", "--json"]).stdout)
    assert [row["name"] for row in rows] == [item.name for item in templates()]
    by_name = {row["name"]: row for row in rows}
    assert by_name["deepspeed"]["framework"] == "deepspeed"
    assert by_name["nccl-test"]["framework"] is None
    for row in rows:
        text = Path(row["path"]).read_text(encoding="utf-8")
        assert f"\n{row['asks']}\n" in text
        assert f"\n# {row['trains']}\n" in text
        assert CliRunner().invoke(show, ["templates", row["name"]]).stdout == text
        assert CliRunner().invoke(show, ["templates", f"{row['name']}.sh"]).stdout == text


def test_an_unknown_template_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="no template 'megatron'; did you mean 'megatron-lm'"):
        template("megatron")
    assert CliRunner().invoke(show, ["models", "megatron-lm"]).exit_code == 2


MODEL = """--num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192 --num-attention-heads 32
    --group-query-attention --num-query-groups 8 --seq-length 4096 --max-position-embeddings 4096"""


def alone(framework: str, **changes: str) -> tuple[Plan, dict[str, str]]:
    """Return the plan of a job of one device, and the environment of its only rank."""
    words = ["--model=llama-3.2-1b", "--cards=h100:1", "--global-batch=8", "--wrap=true"]
    plan = prepare(parse([f"--framework={framework}", *words]), {}, load(MIXED), None).choice.plan
    groups = tuple(replace(group, environment={"NCCL_IB_HCA": "x"}) for group in plan.groups)
    plan = replace(plan, groups=groups)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    env = {
        "PATH": f"{STANDINS}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "CUDA_VISIBLE_DEVICES": "0", "NCCL_IB_HCA": "x", "SN_GROUP": "h100",
        "SN_PLAN": dumps(plan), **changes,
    }  # fmt: skip
    return plan, env


def stand_in(words: Sequence[str], env: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run a stand-in; return its exit code and what it said."""
    done = subprocess.run(
        words, env={**env, "STANDINS": str(folder)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def megatron_words(plan: Plan) -> list[str]:
    return ["python3", f"{STANDINS}/pretrain_gpt.py", *MODEL.split(), *plan.arguments]


def test_a_stand_in_runs_what_is_right(tmp_path: Path) -> None:
    plan, env = alone("megatron")
    assert stand_in(megatron_words(plan), env, tmp_path) == (0, "")
    (line,) = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert (line["rank"], line["world"], line["layers"]) == (0, 1, [16])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE: planned 1, given 2"),
        ({"RANK": "1"}, "RANK 1 of WORLD_SIZE 1"),
        ({"MASTER_PORT": ""}, "MASTER_PORT: no number ''"),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, "devices in CUDA_VISIBLE_DEVICES: planned 1, given 2"),
        ({"NCCL_IB_HCA": "y"}, "NCCL_IB_HCA: planned 'x', given 'y'"),
        ({"SN_GROUP": "a100"}, "SN_GROUP 'a100' is no group of the plan"),
    ],
)
def test_a_stand_in_refuses_a_wrong_environment(
    changes: dict[str, str], reason: str, tmp_path: Path
) -> None:
    plan, env = alone("megatron", **changes)
    code, said = stand_in(megatron_words(plan), env, tmp_path)
    assert (code, reason in said) == (3, True), said


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("--micro-batch-size 3", "global batch over micro-batch x DP leaves: planned 0, given 2"),
        ("--tensor-model-parallel-size 2", "WORLD_SIZE over TP 2 x CP 1 x PP 1 leaves"),
        ("--global-batch-size 16", "global batch: planned 8, given 16"),
        ("--sequence-parallel", "sequence parallelism without tensor parallelism"),
        ("--num-layers 15", "layers of each stage: planned [16], given [15]"),
        ("--pipeline-model-parallel-layout Et*15L", "layers of all stages: planned 16, given 15"),
        ("--micro-batch 1", "unrecognized arguments: --micro-batch 1"),
    ],
)
def test_a_stand_in_refuses_wrong_arguments(more: str, reason: str, tmp_path: Path) -> None:
    plan, env = alone("megatron")
    code, said = stand_in([*megatron_words(plan), *more.split()], env, tmp_path)
    assert (code, reason in said) == (3, True), said


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"train_batch_size": 8', '"train_batch_size": 9', "train_batch_size: planned 8, given 9"),
        ('"stage": 0', '"stage": 2', "ZeRO stage: planned 0, given 2"),
        ("{", "", "DeepSpeed's file"),
    ],
)
def test_a_stand_in_refuses_a_wrong_file(old: str, new: str, reason: str, tmp_path: Path) -> None:
    plan, env = alone("deepspeed")
    assert plan.pipelines[0].meshes[0].zero == 0
    text = plan.files["deepspeed.json"]
    assert old in text
    path = tmp_path / "deepspeed.json"
    words = ["python3", f"{STANDINS}/train_deepspeed.py", "--data=x", "--checkpoint=x",
             "--sequence=4096", *(word.replace("{deepspeed.json}", str(path))
                                  for word in plan.arguments)]  # fmt: skip
    path.write_text(text)
    assert stand_in(words, env, tmp_path) == (0, "")
    path.write_text(text.replace(old, new, 1))
    code, said = stand_in(words, env, tmp_path)
    assert (code, reason in said) == (3, True), said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["torchrun", "--nnodes=1", "train.py"], "no --node_rank"),
        (["torchrun", "--nodes=1"], "unknown option --nodes"),
        (["llamafactory-cli", "train", "x.yaml"], "without FORCE_TORCHRUN"),
        (["swift", "sft"], "no NNODES: every node would train alone"),
        (["all_reduce_perf", "-g", "1"], "a plan for what trains nothing"),
    ],
)
def test_a_stand_in_of_a_launcher_refuses_what_would_not_work(
    words: list[str], reason: str, tmp_path: Path
) -> None:
    code, said = stand_in(words, alone("torch")[1], tmp_path)
    assert (code, reason in said) == (3, True), said


def looped(layers: Sequence[int], virtual: int) -> tuple[Plan, dict[str, str]]:
    """Return a plan of virtual stages, told to Megatron-LM, and the environment of rank 0."""
    plan, env = alone("megatron")
    pipeline, group = plan.pipelines[0], replace(plan.groups[0], devices_per_node=len(layers))
    mesh = replace(pipeline.meshes[0], pp=len(layers), micro_batch=1)
    stages = tuple(replace(pipeline.stages[0], layers=count) for count in layers)
    pipeline = replace(pipeline, meshes=(mesh,), stages=stages, virtual_stages=virtual)
    plan = replace(plan, groups=(group,), pipelines=(pipeline,))
    plan = replace(plan, arguments=emit(plan).arguments)
    devices = ",".join(map(str, range(len(layers))))
    return plan, {
        **env,
        "WORLD_SIZE": str(len(layers)),
        "CUDA_VISIBLE_DEVICES": devices,
        "SN_PLAN": dumps(plan),
    }


@pytest.mark.parametrize(("layers", "virtual"), [((8, 8), 2), ((9, 7), 3), ((3, 5, 5, 3), 1)])
def test_a_stand_in_counts_virtual_stages_as_the_plan_does(
    layers: tuple[int, ...], virtual: int, tmp_path: Path
) -> None:
    plan, env = looped(layers, virtual)
    # With the right number it would wait for the other ranks.
    other = replace(plan.pipelines[0], virtual_stages=virtual + 1)
    env["SN_PLAN"] = dumps(replace(plan, pipelines=(other,)))
    code, said = stand_in(megatron_words(plan), env, tmp_path)
    assert (code, f"virtual stages: planned {virtual + 1}, given {virtual}" in said) == (3, True)
