"""Two doors, one job: what job_submit.lua makes of a script, and what sn-submit makes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from supernode_slurm.inventory import load
from supernode_slurm.submission.commandline import parse
from supernode_slurm.submission.submit import prepare
from tests import lua
from tests.lua import UNSET, Answer
from tests.test_plugin import FOLDER, REVIEWED, plugin, script

SIZES = {
    "mixed": ["h100:8", "h100:16", "h100:64", "a100:32", "ascend910c:16", "910c:32", "h100:2"],
    "nvl72": ["4", "gb200:2", "gb200:64", "gb200:68", "gb200:72", "gb200:80", "gb200:128"],
    "campus": ["gb200:64", "gb200:8", "h100:16", "910c:4", "910c:368", "910b3:16"],
    "split-racks": ["8"],
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
        "segment_size": "segment",
    }  # fmt: skip
    found = {names[key]: value for key, value in answer.set.items() if key in names}
    found["gres"] = re.sub("^gres[:/]", "", found["gres"])
    return comparable(found, True)


def comparable(options: Mapping[str, str], segments: bool) -> dict[str, object]:
    """Return options with the alternatives of a constraint in any order, where it has any.

    One node is in one supernode, and the only pool of a kind needs no name.
    """
    # A mark tells the plugin to leave the job; it leaves memory to Slurm's own defaults.
    ours = ("comment", "mem")
    found: dict[str, object] = {name: text for name, text in options.items() if name not in ours}
    names = frozenset(re.findall(r"[\w.-]+", options.get("constraint", "")))
    found["constraint"] = names if len(names) > 1 and options["nodes"] != "1" else None
    if not segments:
        found.pop("segment", None)
    return found
