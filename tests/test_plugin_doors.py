"""Two doors, one job: what job_submit.lua makes of a script, and what sn-submit makes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from supernode_slurm.errors import SupernodeError
from supernode_slurm.inventory import load
from supernode_slurm.slurm import options as sbatch
from supernode_slurm.submission.commandline import parse
from supernode_slurm.submission.submit import prepare
from tests import lua
from tests.lua import UNSET, Answer
from tests.test_plugin import FOLDER, REVIEWED, plugin, script

SIZES = {
    "mixed": [
        "8",
        "32",
        "64",
        "h100:8",
        "h100:16",
        "h100:64",
        "a100:32",
        "ascend910c:16",
        "910c:32",
        "h100:2",
    ],
    "nvl72": ["4", "gb200:2", "gb200:64", "gb200:68", "gb200:72", "gb200:80", "gb200:128"],
    "campus": ["8", "64", "gb200:64", "gb200:8", "h100:16", "910c:4", "910c:368", "910b3:16"],
    "split-racks": ["8", "16"],
}


@pytest.mark.parametrize("release", REVIEWED)
@pytest.mark.parametrize("name", SIZES)
def test_a_script_becomes_the_same_job_by_plain_sbatch_and_by_sn_submit(
    name: str, release: str, tmp_path: Path
) -> None:
    lua.find("lua5.1")
    room = load(FOLDER / "inventories" / f"{name}.yaml")
    room = replace(room, slurm=replace(room.slurm, release=release))
    scripts = [script(f"#SN --cards {cards}") for cards in SIZES[name]]
    known = {"segment_size": 0} if release == "26.05" else {}
    jobs = [{**UNSET, **known, "script": text} for text in scripts]
    answers = lua.run("lua5.1", plugin(name, release), jobs, tmp_path)
    for cards, text, answer in zip(SIZES[name], scripts, answers, strict=True):
        (tmp_path / "job.sh").write_text(text, encoding="utf-8")
        words = prepare(parse([str(tmp_path / "job.sh")]), {}, room, None).argv
        theirs = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
        if "*" in theirs.get("constraint", ""):
            # Which supernodes have room for its parts only sn-submit can ask.
            del theirs["constraint"]
            assert "sn-submit keeps equal parts in each" in answer.said[-1]
        assert as_options(answer) == comparable(theirs, "segment_size" in answer.set), cards


def as_options(answer: Answer) -> dict[str, object]:
    """Return what the plugin set, by sbatch's options."""
    names = {
        "partition": "partition", "min_nodes": "nodes", "ntasks_per_node": "ntasks-per-node",
        "cpus_per_task": "cpus-per-task", "tres_per_node": "gres", "features": "constraint",
        "segment_size": "segment", "min_mem_per_node": "mem",
    }  # fmt: skip
    found = {names[key]: value for key, value in answer.set.items() if key in names}
    found["gres"] = re.sub("^gres[:/]", "", found["gres"])
    return comparable(found, True)


def comparable(options: Mapping[str, str], segments: bool) -> dict[str, object]:
    """Return options with the alternatives of a constraint in any order, where it has any.

    One node is in one supernode, and the only pool of a kind needs no name.
    """
    found: dict[str, object] = {
        name: text.rstrip("M") for name, text in options.items() if name != "comment"
    }
    names = frozenset(re.findall(r"[\w.-]+", options.get("constraint", "")))
    found["constraint"] = names if len(names) > 1 and options["nodes"] != "1" else None
    if not segments:
        found.pop("segment", None)
    return found


OPTIONS: tuple[tuple[list[str], dict[str, object]], ...] = (
    (["-N2"], {"min_nodes": 2, "max_nodes": 2}),
    (["-N3"], {"min_nodes": 3, "max_nodes": 3}),
    (["-N4"], {"min_nodes": 4, "max_nodes": 4}),
    (["-N1-4"], {"min_nodes": 1, "max_nodes": 4}),
    (["-n16"], {"num_tasks": 16}),
    (["-n4"], {"num_tasks": 4}),
    (["--ntasks-per-node=1"], {"ntasks_per_node": 1}),
    (["--ntasks-per-node=4"], {"ntasks_per_node": 4}),
    (["-N2", "--ntasks-per-node=8"], {"min_nodes": 2, "max_nodes": 2, "ntasks_per_node": 8}),
    (["-N2", "-n16"], {"min_nodes": 2, "max_nodes": 2, "num_tasks": 16}),
    (["--gres=gpu:4"], {"tres_per_node": "gres/gpu:4"}),
    (["--gres=gpu:h100:8"], {"tres_per_node": "gres/gpu:h100:8"}),
    (["--gres=gpu:a100:8"], {"tres_per_node": "gres/gpu:a100:8"}),
    (["--gpus=16"], {"tres_per_job": "gres/gpu:16"}),
    (["-C", "sn1"], {"features": "sn1"}),
    (["-C", "a100"], {"features": "a100"}),
    (["-C", "h100"], {"features": "h100"}),
    (["-w", "h1-08"], {"req_nodes": "h1-08", "min_nodes": 1}),
    (["-x", "h1-[01-07]"], {"exc_nodes": "h1-[01-07]"}),
    (["-x", "h[1-2]-[02-08]"], {"exc_nodes": "h[1-2]-[02-08]"}),
    (["-t", "2-0"], {"time_limit": 2880}),
    (["-t", "8-0"], {"time_limit": 11520}),
    (["-p", "small"], {"partition": "small"}),
    (["-p", "train"], {"partition": "train"}),
    (["-p", "ascend"], {"partition": "ascend"}),
    (["--comment", "after sn-submit broke"], {"comment": "after sn-submit broke"}),
    (["--mem=10G"], {"pn_min_memory": 10240}),
    (["--cpus-per-gpu=3"], {"cpus_per_tres": "gres/gpu:3"}),
    (["-c3"], {"cpus_per_task": 3}),
    (["--ntasks-per-socket=2"], {"ntasks_per_socket": 2}),
    (["--exclusive"], {"shared": 0}),
)


@pytest.mark.parametrize(
    "cards", ["h100:16", "h100:8", "h100:12", "16", "32", "a100:32", "a100:4", "910c:32"]
)
def test_an_option_beside_cards_means_the_same_at_both_doors(cards: str, tmp_path: Path) -> None:
    lua.find("lua5.1")
    room = load(FOLDER / "inventories" / "mixed.yaml")
    text = script(f"#SN --cards {cards}")
    path = tmp_path / "job.sh"
    path.write_text(text, encoding="utf-8")
    jobs = [{**UNSET, **fields, "script": text} for _, fields in OPTIONS]
    answers = lua.run("lua5.1", plugin("mixed", "24.11"), jobs, tmp_path)
    for (words, fields), answer in zip(OPTIONS, answers, strict=True):
        try:
            options = prepare(parse([*words, str(path)]), {}, room, None).options
        except SupernodeError as error:
            assert answer.code == -1, (words, cards, str(error))
            continue
        assert answer.code == 0, (words, cards, answer.said)
        theirs = size(sbatch.values(options))
        job = {**fields, **answer.set}
        ours = {option: str(job[key]) for key, option in SIZE.items() if key in job}
        ours["gres"] = re.sub("^gres[:/]", "", ours["gres"])
        assert ours == theirs, (words, cards)


SIZE = {
    "partition": "partition", "min_nodes": "nodes", "ntasks_per_node": "ntasks-per-node",
    "tres_per_node": "gres", "cpus_per_task": "cpus-per-task", "min_mem_per_node": "mem",
}  # fmt: skip


def size(given: Mapping[str, str | None]) -> dict[str, str]:
    """Return the size that options of sbatch ask for."""
    found = {name: text.removesuffix("M") for name, text in given.items() if text}
    return {name: found[name] for name in SIZE.values() if name in found and found[name] != "10G"}
