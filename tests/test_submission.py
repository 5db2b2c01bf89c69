"""sn-submit without Slurm: command lines, precedence, scripts, what sbatch is given."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supernode_slurm.catalogue import find_accelerator
from supernode_slurm.cli import submit as cli
from supernode_slurm.data import data_dir
from supernode_slurm.errors import ConfigError, PlanError, SupernodeError, UsageError
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.inventory import loads as loads_inventory
from supernode_slurm.plan import loads
from supernode_slurm.slurm import options as sbatch
from supernode_slurm.slurm.option_table import TABLES
from supernode_slurm.slurmconf import block_partitions, find_release
from supernode_slurm.submission.commandline import parse
from supernode_slurm.submission.options import OWN
from supernode_slurm.submission.submit import Prepared, prepare, submit
from tests.fake_slurm import FakeSlurm

INVENTORIES = Path(str(data_dir("topology_conf"))) / "inventories"
SCRIPT = "#!/bin/bash\n#SBATCH --time=1:00:00\n\nsn-launch python3 train.py\n"


@pytest.fixture
def mixed() -> Inventory:
    return load(INVENTORIES / "mixed.yaml")


@pytest.fixture
def featured() -> Inventory:
    text = (INVENTORIES / "mixed.yaml").read_text()
    return loads_inventory(
        text.replace("      memory:", "      features: [fast, new]\n      memory:")
    )


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return str(path)


def prepared(words: str, inventory: Inventory, **env: str) -> Prepared:
    return prepare(parse(shlex.split(words)), env, inventory, FakeSlurm(inventory))


def options(job: Prepared) -> dict[str, str | None]:
    return sbatch.values(job.options)


def test_no_option_of_ours_is_one_of_sbatchs() -> None:
    ours = {option.name for option in OWN}
    for table in TABLES.values():
        assert not ours & set(table)
        assert not any(name.startswith(option) for name in table for option in ours)


def test_a_job_goes_to_one_supernode(mixed: Inventory, script: str) -> None:
    job = prepared(f"--model llama-3-70b --cards h100:64 {script}", mixed)
    assert options(job) == {
        "partition": "train",
        "nodes": "8",
        "ntasks-per-node": "8",
        "gres": "gpu:h100:8",
        "cpus-per-task": "12",
        "mem": "0",
        "constraint": "[sn1|sn2]",
        "comment": "sn-submit",
    }
    assert job.choice.plan.devices == 64


def test_the_fuller_supernode_is_asked_first(mixed: Inventory, script: str) -> None:
    slurm = FakeSlurm(mixed)
    slurm.change(["h1-01"], "ALLOCATED", cpus_allocated=96)
    line = parse(["--model", "llama-3-8b", "--cards", "h100:32", script])
    assert options(prepare(line, {}, mixed, slurm))["constraint"] == "[sn1|sn2]"
    line = parse(["--model", "llama-3-70b", "--cards", "h100:64", script])
    assert options(prepare(line, {}, mixed, slurm))["constraint"] == "[sn2|sn1]"
    slurm.change(["h1-02", "h1-03"], "DOWN")
    assert options(prepare(line, {}, mixed, slurm))["constraint"] == "sn2"


def test_two_kinds_in_one_partition_are_one_ordinary_job(mixed: Inventory, script: str) -> None:
    job = prepared(f"--model llama-3-8b --cards h100:8,a100:8 --global-batch 96 {script}", mixed)
    # In the order of the plan, whose first stages are those with few layers.
    assert options(job)["constraint"] == "[pool-a100*1&sn1*1]"
    assert (options(job)["nodes"], options(job)["gres"]) == ("2", "gpu:8")
    assert sum(pipeline.samples for pipeline in job.choice.plan.pipelines) == 96
    said = [note.split(":")[0] for note in job.notes]
    assert said[:4] == ["planned for megatron", "8 h100 alone", "8 a100 alone", "auto"]
    assert said[4].endswith("samples/s")


def test_two_vendors_are_a_heterogeneous_job(mixed: Inventory, script: str) -> None:
    words = f"--model llama-3-70b --cards h100:64,ascend910c:32 --mem 10G {script}"
    job = prepared(words, mixed)
    parts = sbatch.split([*job.options, script]).components
    assert len(parts) == 2
    found = [sbatch.values(part) for part in parts]
    assert [item["gres"] for item in found] == ["gpu:ascend910c:16", "gpu:h100:8"]
    assert [item["partition"] for item in found] == ["ascend", "train"]
    assert [item["mem"] for item in found] == ["10G", "10G"]
    assert job.choice.plan.framework == "flagscale"
    with pytest.raises(PlanError, match="takes no --array"):
        prepared(words.replace("--mem 10G", "--array=1-2"), mixed)


def test_a_block_topology_chooses_the_supernode_itself(script: str) -> None:
    nvl72 = load(INVENTORIES / "nvl72.yaml")
    assert "constraint" not in options(prepared(f"--model llama-3-70b --cards 64 {script}", nvl72))
    job = prepared(f"--model llama-3-70b --cards 128 {script}", nvl72)
    wide = options(job)
    assert (wide["nodes"], wide["segment"]) == ("32", "16")
    assert "constraint" not in wide
    assert job.choice.slots[0].offer.domain_nodes == 16
    assert job.choice.plan.groups[0].together == 16
    # 66 nodes in segments of 11 are one to a rack: four racks hold only 44 of them.
    odd = options(prepared(f"--cards 264 {script}", nvl72))
    assert (odd["nodes"], odd["segment"]) == ("66", "6")
    whole = options(prepared(f"--model llama-3-8b --cards 72 {script}", nvl72))
    assert (whole["nodes"], whole["constraint"]) == ("18", "[nvl1|nvl2|nvl3|nvl4]")


def test_without_a_model_a_job_is_placed_and_told(mixed: Inventory, script: str) -> None:
    job = prepared(f"--cards a100:16 {script}", mixed)
    assert job.choice.plan.pipelines == ()
    assert cli.summary(job) == "placed, not planned"
    assert "placed, not planned: no model was named" in job.notes


def test_a_tree_holds_a_spanning_job_by_counts(mixed: Inventory, script: str) -> None:
    job = prepared(f"--model llama-3-70b --cards h100:128 {script}", mixed)
    assert options(job)["constraint"] == "[sn1*8&sn2*8]"
    assert job.choice.slots[0].offer.domain_nodes == 8
    assert "each 8 in a row within one" in job.request.why


def test_nodes_of_another_class_are_kept_out(script: str, tmp_path: Path) -> None:
    text = (INVENTORIES / "mixed.yaml").read_text()
    small = """
  - name: sn3
    interconnect: {kind: switch, bandwidth: 450 GB/s}
    nodes: {hosts: "s-[1-8]", devices: {h100-sxm: 8}, sockets: 2, cores: 16, memory: 900 GiB}
"""
    text = text.replace("\npools:", small + "\npools:", 1)
    text = text.replace("[sn1, sn2], pools", "[sn1, sn2, sn3], pools")
    text = text.replace("leaf1: [sn1, sn2]", "leaf1: [sn1, sn2, sn3]").replace("04]", "08]")
    room = loads_inventory(text)
    assert block_partitions(room, find_release("24.11"))
    found = prepared(f"--model llama-3-70b --cards h100:64 {script}", room)
    where = str(options(found)["constraint"])
    assert options(found)["cpus-per-task"] == {"[sn1|sn2]": "12", "sn3": "4"}[where]
    wide = options(prepared(f"--cards h100:128 {script}", room))
    assert (wide["segment"], wide["constraint"]) == ("8", "sn1|sn2")


def test_only_the_hosts_that_a_partition_holds_are_counted(mixed: Inventory, script: str) -> None:
    text = (INVENTORIES / "mixed.yaml").read_text()
    text = text.replace("train: {supernodes: [sn1, sn2]", 'train: {hosts: ["h1-[01-06]", "h2-01"]')
    job = prepared(f"--model llama-3-8b --cards h100:48 {script}", loads_inventory(text))
    assert job.choice.slots[0].domains == ("sn1",)
    assert job.choice.slots[0].group.hosts == "h1-[01-06]"
    with pytest.raises(PlanError, match="8 nodes wanted, 7 usable"):
        prepared(f"--model llama-3-8b --cards h100:64 {script}", loads_inventory(text))


def test_cards_in_slices_are_no_cards(script: str) -> None:
    text = (INVENTORIES / "mixed.yaml").read_text()
    sliced = "{a100-sxm-80g: {count: 8, mig: {1g.10gb: [7, 8]}}}"
    room = loads_inventory(text.replace("{a100-sxm-80g: 8}", sliced))
    with pytest.raises(PlanError, match="no device of type 'a100' at this site"):
        prepared(f"--model llama-3-8b --cards a100:8 {script}", room)


def test_a_figure_of_the_sites_own_makes_a_card_plannable(script: str) -> None:
    text = (INVENTORIES / "mixed.yaml").read_text().replace("ascend-910c: 16", "br166: 8")
    words = f"--model llama-3-8b --cards br166:8 {script}"
    with pytest.raises(PlanError, match=r"inventory, like 'accelerators: \{br166:"):
        prepared(words, loads_inventory(text))
    figures = "{bf16: 250 TFLOPS, memory: 64 GiB, memory_bandwidth: 1.6 TB/s, link: 64 GB/s}"
    room = loads_inventory(text + f"\naccelerators: {{br166: {figures}}}\n")
    job = prepared(words, room)
    card = job.choice.slots[0].offer.accelerator
    assert (card.peak_tflops("bf16"), card.memory_gib, card.scale_up_gbs) == (250, 64, 64)
    assert find_accelerator("br166").memory_gib is None


def test_figures_are_per_device_and_their_names_are_checked(mixed: Inventory) -> None:
    text = (INVENTORIES / "mixed.yaml").read_text()
    room = loads_inventory(text + "\naccelerators: {ascend910c: {memory: 60 GiB}}\n")
    card = room.accelerator("ascend-910c")
    assert card.devices_per_card == 2
    assert card.memory_gib == 60
    assert card.card_bf16_tflops == mixed.accelerator("ascend-910c").card_bf16_tflops
    with pytest.raises(ConfigError, match="accelerator 'h1000'"):
        loads_inventory(text + "\naccelerators: {h1000: {memory: 60 GiB}}\n")
    with pytest.raises(ConfigError, match="expected a quantity like '312 TFLOPS'"):
        loads_inventory(text + "\naccelerators: {h100: {bf16: 300 GB}}\n")


def test_a_network_that_nobody_measured_holds_no_wide_job(script: str) -> None:
    text = (INVENTORIES / "mixed.yaml").read_text()
    room = loads_inventory(text.replace("    rails: {count: 8, bandwidth: 400 Gb/s}\n", ""))
    assert prepared(f"--model llama-3-8b --cards h100:64 {script}", room)
    with pytest.raises(PlanError, match="nobody has said how fast fabric roce is: add its rails"):
        prepared(f"--model llama-3-8b --cards h100:128 {script}", room)


def test_networks_that_do_not_meet_are_never_spanned(script: str) -> None:
    text = (INVENTORIES / "mixed.yaml").read_text()
    other = """  - name: slow
    kind: ethernet
    rails: {count: 1, bandwidth: 100 Gb/s}
    switches: {eth: [sn2]}

supernodes:"""
    text = text.replace("leaf1: [sn1, sn2]", "leaf1: [sn1]").replace("supernodes:", other, 1)
    room = loads_inventory(text)
    with pytest.raises(PlanError, match="16 nodes wanted, 8 usable"):
        prepared(f"--cards h100:128 {script}", room)


def test_a_part_of_a_node_without_gres_gpu_has_no_neighbours(script: str) -> None:
    text = (INVENTORIES / "mixed.yaml").read_text()
    room = loads_inventory(text.replace("{ascend-910c: 16}", "{ascend-910c: 16}\n      gres: npu"))
    part = prepared(f"--cards ascend910c:4 {script}", room)
    assert "--exclusive" in part.options
    whole = prepared(f"--cards ascend910c:8 {script}", room)
    assert "--exclusive" not in whole.options
    assert "8 ascend910c cards are 16 devices" in whole.notes


def test_small_jobs_of_any_kind_follow_the_policy(mixed: Inventory, script: str) -> None:
    small = prepared(f"--model llama-3-8b --cards 16 {script}", mixed)
    assert options(small)["partition"] == "small"
    policy = "partition small: the site's policy for a job of this size"
    assert policy in small.notes
    assert policy not in prepared(f"--cards 16 -p train {script}", mixed).notes
    large = prepared(f"--model llama-3-8b --cards 64 {script}", mixed)
    assert options(large)["partition"] == "train"
    named = prepared(f"--model llama-3-8b --cards h100:16 {script}", mixed)
    assert options(named)["partition"] == "train"


def test_groups_never_share_a_node(script: str) -> None:
    lab = load(INVENTORIES / "lab.yaml")
    assert prepared(f"-p bench --cards a100:2,h100:2 {script}", lab).choice.plan.devices == 4
    with pytest.raises(SupernodeError, match="4 nodes wanted, 2 usable"):
        prepared(f"-p bench --cards a100:4,h100:4 {script}", lab)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("-c 4 --cards h100:8", "cpus-per-task", "4"),
        ("--gres=gpu:8 --cards h100:8", "gres", "gpu:h100:8"),
        ("-N 2-4 --cards h100:16", "nodes", "2"),
        ("-C '[sn1|sn2]' --cards h100:64", "constraint", "[sn1|sn2]"),
        ("-C fast&new --cards h100:64", "constraint", "[sn1|sn2]&fast&new"),
        ("-x h1-01 --cards h100:64", "constraint", "sn2"),
        ("-t 7-00:00:00 --cards h100:64", "time", "7-00:00:00"),
        ("-n 16 --cards h100:16", "ntasks", "16"),
        ("-N 2 --cards h100:16", "nodes", "2"),
        ("-C sn2 --cards h100:64", "constraint", "sn2"),
        ("-C h100 --cards h100:64", "constraint", "[sn1|sn2]"),
        ("-C fast --cards a100:8", "constraint", "pool-a100&fast"),
        ("-p train,small --cards a100:8", "partition", "train"),
        ("-w h2-03 --cards h100:16", "constraint", "sn2"),
        ("--gres=gpu:4 --cards h100:8", "nodes", "2"),
        ("-N 3-4 --cards h100:16", "gres", "gpu:h100:4"),
        ("-N 2 --cards h100:8", "gres", "gpu:h100:4"),
        ("-N 2 --gres=gpu:h100:4", "nodes", "2"),
        ("-N 2 --gpus-per-node=h100:4", "ntasks-per-node", "4"),
        ("-G h100:16", "nodes", "2"),
        ("-G 8 --cards h100:8", "gpus", "h100:8"),
        ("-N 2 --ntasks-per-node=8 --gpus-per-task=1 -C sn1", "constraint", "sn1"),
        ("-n 16 --ntasks-per-node=8 --gres=gpu:h100:8", "nodes", "2"),
        ("--ntasks-per-node=1 --cards h100:8", "cpus-per-task", "96"),
        ("--ntasks-per-node=1 -n 2 --cards h100:16", "ntasks", "2"),
        ("-C sn1|sn2 --cards h100:64", "constraint", "[sn1|sn2]"),
        ("-C '[sn1|sn2]&fast' --cards h100:64", "constraint", "[sn1|sn2]&fast"),
    ],
)
def test_what_agrees_with_the_plan_passes(
    words: str, name: str, value: str, featured: Inventory, script: str
) -> None:
    assert options(prepared(f"{words} {script}", featured))[name] == value


def test_the_plan_travels_before_the_first_command(mixed: Inventory, script: str) -> None:
    job = prepared(f"--model llama-3-8b --cards h100:8 {script} a 'b c'", mixed)
    lines = job.script.text.split("\n")
    assert lines[:3] == SCRIPT.split("\n")[:3]
    assert lines[5:] == SCRIPT.split("\n")[3:]
    name, plan = shlex.split(lines[4])[1].split("=", 1)
    assert name == "SN_PLAN"
    assert loads(plan) == job.choice.plan
    assert job.arguments == ("a", "b c")
    assert sbatch.directives(job.script.text) == sbatch.directives(SCRIPT)


def test_the_command_line_is_stronger_than_the_environment_than_the_script(
    mixed: Inventory, tmp_path: Path
) -> None:
    path = tmp_path / "s.sh"
    path.write_text(
        "#!/bin/sh\n#SN --model llama-3-70b --cards=h100:32\n#SN --sequence 2048\ntrue\n"
    )
    job = prepared(f"--cards h100:64 {path}", mixed, SN_MODEL="llama-3-8b", SN_PLAN="other")
    plan = job.choice.plan
    assert (plan.model, plan.devices, plan.sequence) == ("meta-llama/Meta-Llama-3-8B", 64, 2048)
    assert job.asked.origins == {
        "framework": "default",
        "global-batch": "default",
        "cards": "command line",
        "model": "SN_MODEL",
        "sequence": f"{path}:3:1",
    }


@pytest.mark.parametrize(
    ("words", "env", "reason"),
    [
        ("--cards 8", {}, "no batch script"),
        ("{script}", {}, "--cards is missing"),
        ("--cards eight {script}", {}, "expected a number like '64'"),
        ("--cards h100:0 {script}", {}, "expected a number like '64'"),
        ("--cards h1O0:8 {script}", {}, "no 'h1O0' at this site; did you mean 'h100'"),
        ("--cards h100:8,h100:8 {script}", {}, "a kind of cards stands twice"),
        ("--cards 8 --model lama-3-70b {script}", {}, "--model (command line): no model 'lama-3"),
        ("--cards 8 --framework megatrn {script}", {}, "did you mean 'megatron'"),
        ("--cards 8 --sequence 0 {script}", {}, "--sequence (command line): expected a positive"),
        ("--cards 8 --train qlora {script}", {}, "--train=qlora (command line): expected full or"),
        ("--cards", {}, "--cards needs a value"),
        ("--cards 8 --dry-run=1 {script}", {}, "--dry-run takes no value"),
        ("--cards 8 --nosuch {script}", {}, "no option --nosuch"),
        ("--cards h100:64 -N4 {script}", {}, "--nodes=4 (command line) and --cards=h100:64 (comma"),
        ("--cards h100:64 {script}", {"SBATCH_CONSTRAINT": "x|y"}, "SBATCH_CONSTRAINT): no node"),
        ("--cards h100:8 -n 4 {script}", {}, "--ntasks=4 (command line) contradicts the"),
        ("--cards h100:8 -G 9 {script}", {}, "--gpus=9 (command line) contradicts"),
        ("--cards h100:8 --ntasks-per-gpu=1 {script}", {}, "--ntasks-per-gpu=1 (command line)"),
        ("--cards h100:8 --gres=gpu:3 {script}", {}, "--gres=gpu:3 (command line) and --cards"),
        ("--cards h100:8 --gres=gpu:a100:8 {script}", {}, "asks for a100, --cards for h100"),
        ("-N2 --gres=gpu:h10:8 {script}", {}, "no 'h10' at this site; did you mean 'h100'?"),
        ("--cards h100:8 -N nine {script}", {}, "--nodes=nine (command line): expected a number"),
        ("--cards h100:16 -w h1-03,h2-03 {script}", {}, "--nodelist=h1-03,h2-03 (command line)"),
        ("--cards h100:16 -w h1-[3 {script}", {}, "unbalanced brackets"),
        ("--cards h100:8 -p tran {script}", {}, "no 'tran'; did you mean 'train'?"),
        ("--cards h100:8 --ntasks-per-node=2 {script}", {}, "contradicts the plan's"),
        ("--cards h100:64 -w h1-01 -C sn2 {script}", {}, "--constraint=sn2 (command line) and"),
        ("--cards h100:128 -C sn1 {script}", {}, "--constraint=sn1 (command line) and"),
        ("--cards h100:128 -w h1-01 {script}", {}, "--nodelist=h1-01 (command line) and --cards"),
        ("--cards h100:8,ascend910c:8 -n 24 {script}", {}, "a heterogeneous job has its own"),
        ("--cards h100:16 -N 3 {script}", {}, "--nodes=3 (command line) and --cards=h100:16"),
        ("--cards h100:64 -t 30-0 {script}", {}, "(command line) cannot be had together: no place"),
        ("--cards h100:64 -t soon {script}", {}, "expected a time limit"),
        ("--cards 8 --model nosuch {script}", {}, "'sn show models' lists the names"),
        ("--cards h100:8 --dryrun {script}", {}, "no option --dryrun; did you mean --dry-run?"),
        ("--cards h100:8 -Q {script}", {}, "--quiet (command line): it would hide"),
        ("--cards 8 : -N1 {script}", {}, "asks for 1 kinds of cards, the command for 2 components"),
        ("--cards h100:8,a100:8 : -N1 : -N1 {script}", {}, "the command for 3 components"),
        ("--cards 8 --wrap true {script}", {}, "exclude each other"),
    ],
)  # fmt: skip
def test_a_contradiction_shows_both_sides(
    words: str, env: dict[str, str], reason: str, mixed: Inventory, script: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError) as caught:
        prepared(words.format(script=script), mixed, **env)
    assert reason in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sleep 1\n", "begins with #!"),
        ("#!/bin/sh\r\ntrue\r\n", "DOS line ends"),
        ("#!/bin/sh\n#SN --cards 8 --partition x\n", ":2:1: #SN takes planning options only"),
        ("#!/bin/sh\n#SN --cards\n", "#SN: --cards needs a value"),
        ("#!/bin/sh\n#SN --cards '8\n", "No closing quotation"),
        ("#!/bin/sh\n#SN 8\n", "#SN takes planning options only, got '8'"),
    ],
)
def test_a_broken_script_is_named(text: str, reason: str, mixed: Inventory, tmp_path: Path) -> None:
    path = tmp_path / "s.sh"
    path.write_bytes(text.encode())
    with pytest.raises(ConfigError) as caught:
        prepared(str(path), mixed)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    "first", ["#!/usr/bin/env python3", "#!/bin/tcsh", "#!/bin/csh -f", "#!/bin/fish"]
)
def test_the_plan_reaches_a_script_of_another_language_by_the_environment(
    first: str, mixed: Inventory, tmp_path: Path
) -> None:
    path = tmp_path / "s.py"
    path.write_text(f"{first}\n#SN --cards h100:8\nprint()\n")
    slurm = FakeSlurm(mixed)
    job = prepare(parse([str(path)]), {}, mixed, slurm)
    submit(job, slurm)
    assert slurm.scripts == [path.read_text()]
    assert loads(slurm.passed["SN_PLAN"]) == job.choice.plan
    assert prepared(f"--export=ALL,A=1 {path}", mixed).environment
    for words in ("--export=NONE", "--export=A,B", "--carry"):
        with pytest.raises(UsageError, match="wrap it in one: #!/bin/sh, then the program"):
            prepared(f"{words} {path}", mixed)


@pytest.mark.parametrize(
    "first", ["#!/bin/sh", "#! /usr/bin/env bash", "#!/bin/zsh -l", "#!/bin/dash"]
)
def test_shells_are_shells(first: str, mixed: Inventory, tmp_path: Path) -> None:
    path = tmp_path / "s.sh"
    path.write_text(f"{first}\ntrue\n#SN --cards 16\n")
    job = prepared(f"--cards 8 {path}", mixed)
    assert "export SN_PLAN=" in job.script.text
    assert f"{path}:3: this line is not read: #SN lines stand before the first command" in job.notes
    path.write_text(f"{first}\n# SN --cards 16\ntrue\n")
    assert any("write '#SN --...'" in n for n in prepared(f"--cards 8 {path}", mixed).notes)


def test_a_script_may_come_on_standard_input(
    mixed: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SCRIPT.encode())))
    assert "export SN_PLAN=" in prepared("--cards h100:8", mixed).script.text


def test_wrap_becomes_the_script(mixed: Inventory) -> None:
    job = prepared("--cards h100:8 --wrap 'sn-launch hostname'", mixed)
    assert job.script.text.endswith("sn-launch hostname\n")
    assert "wrap" not in options(job)


def test_the_script_keeps_its_name_and_leaves_no_copy(mixed: Inventory, hostile_path: Path) -> None:
    path = hostile_path / "train me.sh"
    path.write_text(SCRIPT)
    slurm = FakeSlurm(mixed)
    job = prepare(parse(["--cards", "h100:8", str(path), "x y"]), {}, mixed, slurm)
    assert str(submit(job, slurm)) == "1"
    words = slurm.submitted[0]
    assert words[-1] == "x y"
    assert Path(words[-2]).name == "train me.sh"
    assert not Path(words[-2]).exists()
    assert slurm.scripts[0] == job.script.text


@pytest.mark.parametrize(
    ("cards", "reason"),
    [
        ("h100:1000", "no place for 1000 h100"),
        ("h100:12", "12 is no multiple of 8 per node"),
        ("a100:64", "8 nodes wanted, 4 usable"),
    ],
)
def test_what_does_not_fit_says_why(cards: str, reason: str, mixed: Inventory, script: str) -> None:
    with pytest.raises(PlanError, match=reason):
        prepared(f"--cards {cards} {script}", mixed)
    with pytest.raises(PlanError, match="needs"):
        prepared(f"--model llama-3-70b --cards h100:8 {script}", mixed)


def test_a_partition_of_the_users_is_kept(mixed: Inventory, script: str) -> None:
    job = prepared(f"--cards a100:8 -p small {script}", mixed)
    assert job.choice.slots[0].partition == "small"
    assert options(job)["partition"] == "small"
    with pytest.raises(UsageError, match="not in partition ascend"):
        prepared(f"--cards a100:8 -p ascend {script}", mixed)


def test_cards_become_devices(mixed: Inventory, script: str) -> None:
    group = prepared(f"--cards ascend910c:8 {script}", mixed).choice.plan.groups[0]
    assert (group.nodes, group.devices_per_node) == (1, 16)


def test_a_dry_run_contacts_nobody(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("SN_INVENTORY", str(INVENTORIES / "mixed.yaml"))
    assert (
        cli.run(["--dry-run", "--json", "--model", "llama-3-8b", "--cards", "h100:8", script]) == 0
    )
    shown = json.loads(capsys.readouterr().out)
    assert shown["job"] is None
    assert shown["argv"][0] == "sbatch"
    assert "export SN_PLAN=" in shown["script"]
    assert cli.run(["--dry-run", "--model", "llama-3-8b", "--cards", "h100:8", script]) == 0
    text = capsys.readouterr().out
    assert "asked      --cards=h100:8 (command line)" in text
    assert "asked      --global-batch=1024 (default)" in text
    assert "given      --time=1:00:00 (#SBATCH in " in text
    assert "filled     --cpus-per-task=12 (the devices' share of a node's CPUs)" in text
    assert "predicted" in text


words = st.lists(st.one_of(st.text(max_size=12), st.sampled_from(
    ["--cards", "8", "--model", "-N", "2", ":", "--", "-", "--wrap", "--json", "x.sh", "-Jx"]
)), max_size=8)  # fmt: skip


@given(words)
def test_any_command_line_is_read_or_refused(argv: list[str]) -> None:
    try:
        line = parse(argv)
    except SupernodeError as error:
        assert str(error)
        return
    kept = [
        *(word for part in line.components for word in part),
        *line.arguments,
        *([line.script] if line.script else []),
    ]
    assert all(word in argv for word in kept)
