"""job_submit.lua in a plain Lua: each rule, odd jobs, and nothing that could hurt slurmctld."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from supernode_slurm.data import data_dir
from supernode_slurm.errors import ConfigError
from supernode_slurm.inventory import loads
from supernode_slurm.slurmconf import RELEASES, Generated, find_release, generate, write
from tests import lua
from tests.lua import NO_VAL, UNSET, Answer, Room

FOLDER = Path(str(data_dir("topology_conf")))
NAMES = sorted(path.stem for path in (FOLDER / "inventories").glob("*.yaml"))
REVIEWED = ("22.05", "24.11", "26.05")

Try = Callable[..., Answer]


def generated(name: str, release: str, policy: str | None = None) -> Generated:
    """Return the files of an example inventory that asks for the plugin."""
    text = (FOLDER / "inventories" / f"{name}.yaml").read_text(encoding="utf-8")
    if "job_submit:" not in text:
        text = re.sub(r"^slurm: \{", "slurm: {job_submit: true, ", text, flags=re.MULTILINE)
    if policy is not None:
        text = re.sub(r"^policy: .*\n", "", text, flags=re.MULTILINE) + policy
    return generate(loads(text), find_release(release))


def plugin(name: str, release: str, policy: str | None = None) -> str:
    return generated(name, release, policy).files["job_submit.lua"]


@pytest.fixture(params=lua.INTERPRETERS)
def interpreter(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    lua.find(name)
    return name


@pytest.fixture
def tried(interpreter: str, tmp_path: Path) -> Try:
    """Return what becomes of a job; ``on`` is an inventory with its release."""

    def ask(on: str, policy: str | None = None, room: Room = lua.ROOM, **job: object) -> Answer:
        name, _, release = on.partition(" ")
        known = {"segment_size": 0} if release == "26.05" else {}
        text = plugin(name, release, policy)
        (answer,) = lua.run(interpreter, text, [{**UNSET, **known, **job}], tmp_path, room)
        assert answer.failed == ()
        return answer

    return ask


def nodes(count: int, most: int | None = None, **job: object) -> dict[str, object]:
    return {"min_nodes": count, "max_nodes": count if most is None else most, **job}


def script(*lines: str) -> str:
    return "\n".join(["#!/bin/bash", *lines, "srun sn-launch python train.py", ""])


@pytest.mark.parametrize("release", REVIEWED)
@pytest.mark.parametrize("name", ["mixed", "nvl72", "torus"])
def test_what_the_plugin_knows_of_a_site_is_the_reviewed(
    name: str, release: str, golden: Callable[[Path, str], None]
) -> None:
    facts, _, _ = plugin(name, release).partition("\n-- What a job asks for")
    golden(Path(__file__).parent / "data" / "plugin" / f"{name}-{release}.lua", facts)


@pytest.mark.parametrize("name", NAMES)
def test_every_plugin_is_good_lua(name: str, interpreter: str, tmp_path: Path) -> None:
    for release in RELEASES:
        (answer,) = lua.run(interpreter, plugin(name, release), [UNSET], tmp_path)
        assert answer == Answer(0, (), ())


def test_it_is_written_only_where_the_inventory_asks() -> None:
    text = (FOLDER / "inventories" / "lab.yaml").read_text(encoding="utf-8")
    plain = generate(loads(text), find_release("24.11"))
    assert "job_submit.lua" not in plain.files
    assert "JobSubmitPlugins" not in plain.files["supernode.conf"]
    asked = generated("lab", "24.11")
    assert asked.files["supernode.conf"].count("JobSubmitPlugins=lua\n") == 1
    assert asked.files["job_submit.lua"].startswith("-- Written by 'sn generate' for cluster lab")


def test_a_site_without_cards_gets_none_and_is_told() -> None:
    room = loads(
        "version: 1\ncluster: c\nslurm: {job_submit: true}\n"
        "pools: [{name: p, nodes: {hosts: n1, sockets: 1, cores: 8, memory: 9 GiB}}]\n"
        "partitions: {all: {pools: [p]}}\n"
    )
    found = generate(room, find_release("24.11"))
    assert "job_submit.lua" not in found.files
    assert "slurm.job_submit: none is written" in found.notes[-1]


def test_a_plugin_of_the_site_is_never_replaced(tmp_path: Path) -> None:
    files = generated("lab", "24.11")
    write(files, tmp_path)
    assert write(files, tmp_path) == []
    (tmp_path / "job_submit.lua").write_text("-- ours since 2019\n")
    with pytest.raises(ConfigError, match=r"job_submit.lua: exists and was not written by"):
        write(files, tmp_path)


# One supernode.

TRAIN = {"partition": "train"}


@pytest.mark.parametrize("kind", ["gres:gpu:h100:8", "gres/gpu:h100:8", "gres/gpu:h100=8"])
def test_several_nodes_of_a_kind_stay_in_one_supernode(tried: Try, kind: str) -> None:
    answer = tried("mixed 22.05", **TRAIN, **nodes(2), tres_per_node=kind)
    assert answer.set == {"features": "[sn1|sn2]"}
    assert answer.said == (
        "sn: 2 nodes within one of sn1, sn2; over several with --constraint='sn1|sn2'",
    )


@pytest.mark.parametrize(
    "job",
    [
        {"tres_per_job": "gres/gpu:h100:16"},
        {"tres_per_task": "cpu=3,gres/gpu:h100=2", "num_tasks": 8},
        {"tres_per_task": "gres:gpu:h100:1", "num_tasks": 16, "ntasks_per_node": 8},
        {"tres_per_node": "gres:gpu:h100:8", "num_tasks": 16, "ntasks_per_node": 8},
        {"tres_per_socket": "gres/gpu:h100:4", "sockets_per_node": 2, **nodes(2)},
        {"tres_per_node": "gres:gpu:h100", **nodes(3)},
        {"tres_per_node": "gres:gpu:h100:2,gres:shard:4,gres:tmp:1G", **nodes(2)},
    ],
)
def test_cards_are_found_wherever_a_job_names_them(tried: Try, job: Mapping[str, object]) -> None:
    assert tried("mixed 24.11", **TRAIN, **job).set == {"features": "[sn1|sn2]"}


def test_a_kind_that_is_open_is_never_mixed(tried: Try) -> None:
    large = tried("mixed 24.11", **TRAIN, **nodes(8), tres_per_node="gres/gpu:8")
    assert large.set == {"features": "[sn1|sn2]"}
    small = tried("mixed 24.11", **TRAIN, **nodes(2), tres_per_node="gres/gpu:8")
    assert small.set == {"features": "[pool-a100|sn1|sn2]"}


@pytest.mark.parametrize(
    ("features", "merged"),
    [("h100", "[sn1|sn2]&h100"), ("fast&ib", "[sn1|sn2]&fast&ib"), ("fast|slow", None),
     ("[a*2&b*2]", None)],
)  # fmt: skip
def test_features_of_the_user_are_joined_where_they_can_be(
    tried: Try, features: str, merged: str | None
) -> None:
    job = {**TRAIN, **nodes(4), "tres_per_node": "gres/gpu:h100:8", "features": features}
    answer = tried("mixed 24.11", **job)
    assert answer.set == ({"features": merged} if merged else {})
    assert "--constraint=" in answer.said[0]


UNTOUCHED = {
    "no cards": {**TRAIN, **nodes(4)},
    "one node": {**TRAIN, **nodes(1), "tres_per_node": "gres/gpu:h100:8"},
    "by sn-submit": {
        **nodes(4),
        "tres_per_node": "gres/gpu:h100:8",
        "comment": "mine sn-submit:1f3a0b5c",
    },
    "by sn-submit, with a comment of the user's": {
        **nodes(4),
        "tres_per_node": "gres/gpu:h100:8",
        "script": "#!/bin/sh\nexport SN_PLAN='{}'\ntrue\n",
    },
    "a supernode named": {
        **TRAIN,
        **nodes(4),
        "tres_per_job": "gres/gpu:32",
        "features": "sn1|sn2",
    },
    "nodes named": {**TRAIN, **nodes(4), "tres_per_node": "gres/gpu:h100:8", "req_nodes": "h1-01"},
    "reserved": {**TRAIN, **nodes(4), "tres_per_node": "gres/gpu:h100:8", "reservation": "r"},
    "two kinds": {**TRAIN, **nodes(2), "tres_per_node": "gres/gpu:h100:2,gres/gpu:a100:2"},
    "not our partition": {"partition": "cpu", **nodes(99), "tres_per_node": "gres/gpu:h100:8"},
    "one of them not ours": {"partition": "train,cpu", **nodes(4), "tres_per_node": "gpu:h100:8"},
    "not our cards": {**TRAIN, **nodes(4), "tres_per_node": "gres/gpu:rtx:8"},
    "only other GRES": {**TRAIN, **nodes(4), "tres_per_node": "gres/shard:8"},
    "the only supernode": {"partition": "ascend", **nodes(4), "tres_per_node": "gres/gpu:8"},
    "only pools": {"partition": "small", **nodes(4), "tres_per_node": "gres/gpu:a100:8"},
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_a_job_is_left_alone_in_silence(tried: Try, name: str) -> None:
    assert tried("mixed 24.11", **UNTOUCHED[name]) == Answer(0, (), ())


def test_excluded_nodes_may_leave_no_supernode(tried: Try) -> None:
    job = {**TRAIN, **nodes(6), "tres_per_node": "gres/gpu:h100:8"}
    assert tried("mixed 24.11", **job, exc_nodes="h1-0[1-2]").set == {"features": "[sn1|sn2]"}
    one = tried("mixed 24.11", **job, exc_nodes="h1-0[1,3],h1-08,a01")
    assert one.set == {"features": "sn2"}
    none = tried("mixed 24.11", **job, exc_nodes="h[1-2]-0[1,3,5]")
    assert none.set == {}
    assert "--exclude leaves no supernode" in none.said[0]
    unread = tried("mixed 24.11", **job, exc_nodes="h[1-99999999]")
    assert (unread.code, unread.set) == (0, {})


def test_more_than_a_supernode_holds_is_told_of_sn_submit(tried: Try) -> None:
    answer = tried("mixed 24.11", **TRAIN, **nodes(12), tres_per_node="gres/gpu:h100:8")
    assert (answer.code, answer.set) == (0, {})
    assert answer.said == (
        "sn: 12 nodes are more than one supernode has: sn-submit keeps equal parts in each",
    )


# Planning blocks.

GB200 = {"tres_per_node": "gres/gpu:gb200:4"}


def test_what_fits_a_planning_block_needs_nothing(tried: Try) -> None:
    assert tried("nvl72 24.11", **nodes(16), **GB200) == Answer(0, (), ())
    assert tried("nvl72 22.05", **nodes(16), **GB200).set == {"features": "[nvl1|nvl2|nvl3|nvl4]"}


@pytest.mark.parametrize("release", REVIEWED)
def test_who_needs_the_spares_is_told_that_it_waits(tried: Try, release: str) -> None:
    answer = tried(f"nvl72 {release}", **nodes(17), **GB200)
    assert answer.set == {"features": "[nvl1|nvl2|nvl3|nvl4]"}
    assert answer.said[1] == (
        "sn: 17 nodes need the spares of a supernode: the job waits until that many are healthy; "
        "--nodes=16 does not"
    )


def test_a_larger_job_is_cut_into_segments_where_lua_can(tried: Try) -> None:
    new = tried("nvl72 26.05", **nodes(32), **GB200)
    assert new.set == {"segment_size": "16"}
    assert new.said == ("sn: --segment=16: 2 parts, each within one supernode",)
    old = tried("nvl72 24.11", **nodes(32), **GB200)
    assert old.set == {}
    assert "with --segment=16 each part lies within one supernode" in old.said[0]
    assert tried("nvl72 26.05", **nodes(20), **GB200).set == {"segment_size": "10"}


def test_a_size_without_equal_parts_is_told_one_that_has(tried: Try) -> None:
    answer = tried("nvl72 26.05", **nodes(34), **GB200)
    assert answer.set == {}
    assert answer.said == (
        "sn: 34 nodes do not divide over planning blocks of 16: --nodes=32 would",
    )


@pytest.mark.parametrize(
    "job",
    [
        {**nodes(32), "segment_size": 8},
        {**nodes(20, most=40)},
        {**nodes(32), "script": script("#SBATCH -N 32 --segment=8")},
    ],
)
def test_segments_of_the_user_stay(tried: Try, job: Mapping[str, object]) -> None:
    assert tried("nvl72 26.05", **job, **GB200) == Answer(0, (), ())


def test_a_torus_says_which_sizes_it_has(tried: Try) -> None:
    job = {"tres_per_node": "gres/dcu:dcubw1000:8"}
    answer = tried("torus 26.05", **nodes(3), **job)
    assert answer.set == {}
    assert answer.said == (
        "sn: 3 nodes are no shape of the torus: --nodes takes 1, 2, 4, 8, 16, 32, 64",
    )
    assert tried("torus 26.05", **nodes(4), **job) == Answer(0, (), ())


# Partitions.


def test_small_jobs_go_where_the_policy_says(tried: Try) -> None:
    policy = "policy: {whole_supernode_from: 64, small_jobs_to: train}\n"
    small = tried("mixed 24.11", policy, tres_per_node="gres/gpu:4")
    assert small.set == {"partition": "train"}
    assert small.said == (
        "sn: partition train, for jobs of few cards; another one with --partition",
    )
    for job in (
        {"tres_per_node": "gres/gpu:4", "partition": "small"},
        {"tres_per_node": "gres/gpu:4", "req_nodes": "a01"},
        {"tres_per_node": "gres/gpu:4", "het_job_offset": 0},
        {"tres_per_node": "gres/gpu:ascend910c:1", "partition": "ascend"},
    ):
        assert tried("mixed 24.11", policy, **job) == Answer(0, (), ())


def test_a_kind_of_the_small_partition_goes_there_too(tried: Try) -> None:
    policy = "policy: {whole_supernode_from: 64, small_jobs_to: train}\n"
    assert tried("mixed 24.11", policy, tres_per_node="gres/gpu:h100:1").set == {
        "partition": "train"
    }
    elsewhere = tried("mixed 24.11", policy, tres_per_node="gres/gpu:ascend910c:1")
    assert elsewhere.set == {"partition": "ascend"}
    assert "the default one, small, has no room for 1 ascend910c" in elsewhere.said[0]


def test_a_large_job_leaves_a_default_partition_that_cannot_hold_it(tried: Try) -> None:
    answer = tried("mixed 24.11", **nodes(8), tres_per_node="gres/gpu:h100:8")
    assert answer.set == {"partition": "train", "features": "[sn1|sn2]"}


# What can never run.


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"partition": "small", "tres_per_node": "gres/gpu:h100:8"},
         "partition small has no h100: --partition=train has them"),
        ({"partition": "train", **nodes(1), "tres_per_node": "gres/gpu:h100:16"},
         "no node of partition train has 16 h100: --nodes=2 --gres=gpu:h100:8"),
        ({"partition": "train", **nodes(17), "tres_per_node": "gres/gpu:h100:8"},
         "partition train has 16 nodes with 8 h100, 17 are asked: --nodes=16"),
        ({"partition": "small", "tres_per_job": "gres/gpu:a100:64"},
         "partition small has 4 nodes with 8 a100, 8 are asked: --nodes=4"),
        ({**nodes(17), "tres_per_node": "gres/gpu:h100:8"},
         "partition small has no h100: --partition=train --nodes=16 --gres=gpu:h100:8"),
        ({"tres_per_node": "gres/gpu:h100:9"},
         "partition small has no h100: --partition=train --nodes=2 --gres=gpu:h100:8"),
        ({**nodes(99), "tres_per_node": "gres/gpu:ascend910c:16"},
         "partition small has no ascend910c: --partition=ascend --nodes=4 "
         "--gres=gpu:ascend910c:16"),
    ],
)  # fmt: skip
def test_what_can_never_run_is_refused_with_what_would(
    tried: Try, job: Mapping[str, object], words: str
) -> None:
    answer = tried("mixed 24.11", **job)
    assert (answer.code, answer.set) == (-1, {})
    assert answer.said == (f"sn: {words}",)


def test_nothing_is_refused_where_nodes_of_the_site_may_have_it(
    interpreter: str, tmp_path: Path
) -> None:
    text = (FOLDER / "inventories" / "campus.yaml").read_text(encoding="utf-8")
    text = text.replace("pools: [hgx], max_time: 7-", "pools: [hgx], foreign: [cpu], max_time: 7-")
    code = generate(loads(text), find_release("26.05")).files["job_submit.lua"]
    job = {**UNSET, "partition": "gpu", **nodes(20), "tres_per_node": "gres/gpu:h100:8"}
    assert lua.run(interpreter, code, [job], tmp_path) == [Answer(0, (), ())]


# #SN lines.


def test_a_script_with_sn_lines_gets_the_size_of_sn_submit(tried: Try) -> None:
    answer = tried("mixed 24.11", script=script("#SN --model llama-3-70b --cards h100:32"))
    assert answer.set == {
        "partition": "train", "min_nodes": "4", "max_nodes": "4", "ntasks_per_node": "8",
        "num_tasks": "32", "cpus_per_task": "12", "tres_per_node": "gres/gpu:h100:8",
        "features": "[sn1|sn2]", "min_mem_per_node": "0",
    }  # fmt: skip
    assert answer.said[0] == (
        "sn: #SN --cards=h100:32: --partition=train --nodes=4 --gres=gpu:h100:8 "
        "--ntasks-per-node=8 --cpus-per-task=12 --mem=0"
    )
    old = tried("mixed 22.05", script=script("#SN --cards=h100:8"))
    assert old.set["tres_per_node"] == "gres:gpu:h100:8"
    assert "features" not in old.set


@pytest.mark.parametrize(
    ("lines", "gres"),
    [
        (["#SN --cards='H100-SXM:2'"], "gres/gpu:h100:2"),
        (["#SN --cards h100:4", "", "#SBATCH -t 60", "#SN --cards a100:4 # later counts"],
         "gres/gpu:a100:4"),
        (["#SN --cards 910C:2"], "gres/gpu:ascend910c:4"),
        (["#SN --cards 8"], "gres/gpu:a100:8"),
        (["#SN --cards 64"], "gres/gpu:h100:8"),
    ],
)  # fmt: skip
def test_sn_lines_are_read_as_sn_submit_reads_them(tried: Try, lines: list[str], gres: str) -> None:
    assert tried("mixed 24.11", script=script(*lines)).set["tres_per_node"] == gres


@pytest.mark.parametrize(
    "lines",
    [["true", "#SN --cards h100:8"], [" #SN --cards h100:8"], ["#SNX --cards h100:8"],
     ["# SN --cards h100:8"], ["#SN --model x"], ["#SN"], ["#SN --cards"]],
)  # fmt: skip
def test_lines_that_sn_submit_does_not_read_do_nothing(tried: Try, lines: list[str]) -> None:
    assert tried("mixed 24.11", script=script(*lines)) == Answer(0, (), ())


CARDS = script("#SN --cards h100:16")
WHOLE = {"min_nodes": "2", "max_nodes": "2", "tres_per_node": "gres/gpu:h100:8"}


@pytest.mark.parametrize(
    ("given", "more"),
    [
        (nodes(2), {}),
        (nodes(4), {"min_nodes": "4", "max_nodes": "4", "tres_per_node": "gres/gpu:h100:4"}),
        (nodes(1, 3), {}),
        ({"num_tasks": 16}, {}),
        ({"ntasks_per_node": 1}, {"num_tasks": "2", "cpus_per_task": "96"}),
        ({"ntasks_per_node": 1, "num_tasks": 1}, {"num_tasks": "2", "cpus_per_task": "96"}),
        ({"comment": "after sn-submit broke"}, {}),
        ({"comment": "sn-submit:123"}, {}),
        ({"features": "sn1"}, {}),
        ({"features": "h100"}, {"features": "[sn1|sn2]&h100"}),
        ({"features": "nobody-knows"}, {"features": "[sn1|sn2]&nobody-knows"}),
        ({"req_nodes": "h1-08", "min_nodes": 1}, {"features": "sn1"}),
        ({"exc_nodes": "h1-[01-07]"}, {"features": "sn2"}),
        ({"tres_per_node": "gres/gpu:h100:4"},
         {"min_nodes": "4", "max_nodes": "4", "tres_per_node": "gres/gpu:h100:4"}),
        ({"tres_per_node": "gres/gpu:8"}, {}),
        ({"tres_per_node": "gres/tmp:1"}, {"tres_per_node": "gres/tmp:1,gres/gpu:h100:8"}),
        ({"tres_per_job": "gres/gpu:16"}, {"tres_per_job": "gres/gpu:h100:16"}),
        ({"pn_min_memory": 10240}, {}),
        ({"mem_per_tres": "gres/gpu:1024"}, {}),
        ({"time_limit": 2880}, {}),
        ({"time_limit": 99999, "time_min": 60}, {}),
        ({"reservation": "r"}, {}),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_user_left_open_is_filled_within_what_he_said(
    tried: Try, given: Mapping[str, object], more: Mapping[str, str]
) -> None:
    answer = tried("mixed 24.11", **given, script=CARDS)
    assert answer.code == 0
    assert answer.set["partition"] == "train"
    assert {name: answer.set[name] for name in WHOLE} == {
        name: more.get(name, text) for name, text in WHOLE.items()
    }
    assert {name: answer.set.get(name) for name in more} == more
    assert ("features" in answer.set) == (given.get("features") != "sn1")
    assert ("min_mem_per_node" in answer.set) == (
        not {"pn_min_memory", "mem_per_tres"} & given.keys()
    )
    assert answer.said[0].startswith("sn: #SN --cards=h100:16: --partition=train --nodes=")


def test_cards_for_each_task_keep_their_field(tried: Try) -> None:
    job = {"num_tasks": 16, "tres_per_task": "cpu=3,gres/gpu=1"}
    answer = tried("mixed 24.11", **job, script=CARDS)
    assert (answer.set["min_nodes"], answer.set["tres_per_task"]) == ("2", "cpu=3,gres/gpu:h100=1")
    assert "tres_per_node" not in answer.set
    old = tried("mixed 22.05", num_tasks=16, tres_per_task="gres:gpu:1", script=CARDS)
    assert old.set["tres_per_task"] == "gres:gpu:h100:1"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (nodes(3), "your --nodes; without it: --partition=train --nodes=2 --gres=gpu:h100:8"),
        (nodes(1), "your --nodes; without it: --partition=train --nodes=2 --gres=gpu:h100:8"),
        ({"num_tasks": 4}, "leave --ntasks and --gpus-per-task out, with --ntasks-per-node=8 or 1"),
        ({"ntasks_per_node": 4}, "with --ntasks-per-node=8 or 1"),
        ({"ntasks_per_socket": 4}, "leave --ntasks-per-socket out: --partition=train --nodes=2"),
        ({"tres_per_socket": "gres/gpu:2"}, "leave --gpus-per-socket out"),
        ({"tres_per_node": "gres/gpu:3"}, "your --gres; without it: --partition=train"),
        ({"tres_per_node": "gres/gpu:a100:8"}, "--gres asks for others: leave it out"),
        ({"tres_per_node": "gres/shard:1"}, "--gres asks for parts of one: leave it out"),
        ({"tres_per_job": "gres/gpu:h100:1"}, "--gpus asks for others: leave it out"),
        ({"features": "a100"}, "your --constraint; without it: --partition=train"),
        ({"req_nodes": "a01"}, "your --nodelist; without it: --partition=train"),
        ({"req_nodes": "h1-0[1-3]", **nodes(2)}, "your --nodelist; without it"),
        ({"exc_nodes": "h[1-2]-[01-08]"}, "your --exclude; without it"),
        ({"partition": "small"}, "your --partition; without it: --partition=train"),
        ({"partition": "cpu"}, "no partition cpu: --partition=train, or say --nodes and --gres"),
        ({"time_limit": 11520}, "train gives 7-00:00:00 at most: --time=7-00:00:00"),
        ({"time_limit": 4294967295}, "train gives 7-00:00:00 at most: --time=7-00:00:00"),
        ({"het_job_offset": 0}, "need their own --gres; sn-submit SCRIPT writes them"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_filled_is_refused_with_what_would_do(
    tried: Try, given: Mapping[str, object], words: str
) -> None:
    answer = tried("mixed 24.11", **given, script=CARDS)
    assert (answer.code, answer.set) == (-1, {})
    assert words in answer.said[0]


@pytest.mark.parametrize(
    "given",
    [
        {"partition": "cpu", **nodes(2), "tres_per_node": "gres/gpu:h100:8"},
        {"het_job_offset": 0, **nodes(2), "tres_per_node": "gres/gpu:h100:8", "partition": "cpu"},
        {**nodes(2), "comment": "x sn-submit:0123abcd"},
        {"comment": "sn-submit"},
    ],
    ids=str,
)
def test_a_job_that_says_its_whole_size_elsewhere_stays(
    tried: Try, given: Mapping[str, object]
) -> None:
    assert tried("mixed 24.11", **given, script=CARDS) == Answer(0, (), ())


def test_a_reservation_bounds_the_nodes(tried: Try) -> None:
    room = Room(reservations={"r": {"node_list": "h2-[01-04]"}})
    inside = tried("mixed 24.11", room=room, reservation="r", script=CARDS)
    assert (inside.set["min_nodes"], "features" in inside.set) == ("2", False)
    outside = tried("mixed 24.11", room=room, reservation="r", script=script("#SN --cards a100:8"))
    assert outside.code == -1
    assert "not with your --reservation; without it: --partition=train" in outside.said[0]


def test_memory_and_cpus_that_a_partition_sets_are_left_to_it(
    interpreter: str, tmp_path: Path
) -> None:
    text = (FOLDER / "inventories" / "mixed.yaml").read_text(encoding="utf-8")
    for options, names in (
        ("DefMemPerGPU: 100", {"min_mem_per_node"}),
        ("DefMemPerCPU: 100", {"min_mem_per_node"}),
        ("DefMemPerNode: UNLIMITED", set()),
        ('JobDefaults: "DefCpuPerGPU=4,DefMemPerGPU=9"', {"min_mem_per_node", "cpus_per_task"}),
    ):
        here = text.replace(
            "pools: [pool-a100], mixed: true, max_time: 7-00:00:00}",
            f"pools: [pool-a100], mixed: true, max_time: 7-00:00:00, options: {{{options}}}}}",
        ).replace("slurm: {", "slurm: {job_submit: true, ")
        assert here != text
        code = generate(loads(here), find_release("24.11")).files["job_submit.lua"]
        (answer,) = lua.run(interpreter, code, [{**UNSET, "script": CARDS}], tmp_path)
        assert {"min_mem_per_node", "cpus_per_task"} - answer.set.keys() == names
    part = {"state_up": 3.0, "def_mem_per_node": 512.0}
    code = plugin("mixed", "24.11")
    jobs = [{**UNSET, "script": CARDS}]
    (answer,) = lua.run(interpreter, code, jobs, tmp_path, Room(parts={"train": part}))
    assert "min_mem_per_node" not in answer.set


def test_a_part_of_a_node_gets_its_share_of_the_memory(tried: Try) -> None:
    answer = tried("mixed 24.11", script=script("#SN --cards h100:2"))
    assert answer.set["min_mem_per_node"] == str(1900 * 1024 // 4)


# Time and doors of partitions.


@pytest.mark.parametrize(
    ("job", "found"),
    [
        ({"time_limit": 1440, "script": script("#SN --cards 8")}, "small"),
        ({"time_limit": 2880, "script": script("#SN --cards 8")}, "train"),
        ({"time_limit": 2880, "tres_per_node": "gres/gpu:8"}, "train"),
        ({"time_limit": 1441, "tres_per_node": "gres/gpu:a100:8"}, "train"),
        ({"time_limit": 2880, "time_min": 60, "tres_per_node": "gres/gpu:a100:8"}, None),
        ({"time_limit": 1440, "tres_per_node": "gres/gpu:a100:8"}, None),
        ({"tres_per_node": "gres/gpu:h100:8", "features": "sn1", **nodes(2)}, "train"),
        ({"tres_per_node": "gres/gpu:8", "req_nodes": "h1-08"}, "train"),
    ],
    ids=str,
)
def test_a_job_goes_where_it_gets_its_time_and_nodes(
    tried: Try, job: Mapping[str, object], found: str | None
) -> None:
    answer = tried("mixed 24.11", **job)
    assert answer.code == 0
    assert answer.set.get("partition") == found


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({**nodes(2), "time_limit": 11520, "tres_per_node": "gres/gpu:h100:8"},
         "would wait for ever: --partition=train --time=7-00:00:00"),
        ({"partition": "small", "time_limit": 2880, "tres_per_node": "gres/gpu:8"},
         "partition small gives 1-00:00:00 at most, the job would wait for ever: "
         "--time=1-00:00:00 or --partition=train"),
        ({"partition": "small,train", "time_limit": 11520, "tres_per_node": "gres/gpu:8"},
         "gives 7-00:00:00 at most, the job would wait for ever: --time=7-00:00:00"),
    ],
)  # fmt: skip
def test_time_that_no_partition_gives_is_refused(
    tried: Try, job: Mapping[str, object], words: str
) -> None:
    answer = tried("mixed 24.11", **job)
    assert (answer.code, answer.set) == (-1, {})
    assert words in answer.said[0]


def test_a_qos_may_lift_the_time_of_a_partition(tried: Try) -> None:
    job = {"partition": "small", "time_limit": 2880, "tres_per_node": "gres/gpu:8", "qos": "long"}
    answer = tried("mixed 24.11", **job)
    assert answer.code == 0
    assert "unless --qos=long gives more" in answer.said[0]


UP = {"state_up": 3.0}


@pytest.mark.parametrize(
    ("parts", "account", "found"),
    [
        ({"train": UP, "small": UP}, None, "train"),
        ({"small": UP}, None, None),
        ({"train": {"state_up": 1.0}, "small": UP}, None, None),
        ({"train": {**UP, "allow_accounts": "hep,bio"}, "small": UP}, "ml", None),
        ({"train": {**UP, "allow_accounts": "hep,ml"}, "small": UP}, "ml", "train"),
        ({"train": {**UP, "deny_accounts": "ml"}, "small": UP}, "ml", None),
        ({"train": {**UP, "max_time": 60.0}, "small": UP}, None, None),
    ],
    ids=str,
)
def test_no_job_is_sent_where_its_user_may_not_go(
    tried: Try, parts: Mapping[str, object], account: str | None, found: str | None
) -> None:
    job = {**nodes(2), "account": account, "time_limit": 120.0}
    plain = tried("mixed 24.11", room=Room(parts), **job, tres_per_node="gres/gpu:h100:8")
    assert plain.set.get("partition") == found
    assert plain.code == (0 if found else -1)
    lines = tried("mixed 24.11", room=Room(parts), **job, script=CARDS)
    assert (lines.set.get("partition"), lines.code) == (found, 0 if found else -1)


def test_who_may_not_use_the_default_partition_is_sent_to_another(tried: Try) -> None:
    answer = tried("mixed 24.11", room=Room({"train": UP}), tres_per_node="gres/gpu:a100:8")
    assert answer.set == {"partition": "train"}
    assert "the default one, small, is not open to you" in answer.said[0]


def test_variables_win_over_lines_and_cpus_of_the_user_stay(tried: Try) -> None:
    answer = tried(
        "mixed 24.11", script=script("#SN --cards h100:8"), cpus_per_task=3,
        environment={"SN_CARDS": "a100:4"},
    )  # fmt: skip
    assert answer.set["tres_per_node"] == "gres/gpu:a100:4"
    assert answer.set["SLURM_NTASKS_PER_NODE"] == "4"
    assert not answer.set.keys() & {"cpus_per_task", "SLURM_CPUS_PER_TASK"}
    plain = tried("mixed 24.11", script=script(), environment={"SN_CARDS": "a100:4"})
    assert plain == Answer(0, (), ())


def test_a_part_of_a_node_without_gpu_takes_it_alone(tried: Try) -> None:
    part = tried("campus 26.05", script=script("#SN --cards ascend910c:2"), partition="npu")
    assert (part.set["tres_per_node"], part.set["shared"]) == ("gres/npu:ascend910c:4", "0")
    whole = tried("campus 26.05", script=script("#SN --cards ascend910c:8"), partition="npu")
    assert (whole.set["tres_per_node"], "shared" in whole.set) == ("gres/npu:ascend910c:16", False)


@pytest.mark.parametrize(
    ("cards", "words"),
    [
        ("h100:8,a100:8", "several kinds: sn-submit makes a job of them: sn-submit SCRIPT"),
        ("h1oo:8", "no h1oo here; there is h100, ascend910c, a100"),
        ("h100:0", "expected a number like --cards=64 or --cards=h100:64"),
        ("lots", "expected a number like --cards=64 or --cards=h100:64"),
        ("h100:12", "no multiple of the 8 of a node; with --nodes=2 each has 6"),
        ("h100:129", "not to be had; ask for a multiple of the 8 of a node"),
        ("h100:1024", "not to be had"),
        ("99999999999999999999", "expected a number"),
    ],
)
def test_sn_lines_that_cannot_be_had_are_refused(tried: Try, cards: str, words: str) -> None:
    answer = tried("mixed 24.11", script=script(f"#SN --cards={cards}"))
    assert (answer.code, answer.set) == (-1, {})
    assert words in answer.said[0]


def test_several_kinds_of_a_size_of_the_users_own_are_left_to_it(tried: Try) -> None:
    lines = script("#SN --cards h100:8,a100:8 --strategy mixed")
    answer = tried(
        "mixed 24.11", script=lines, tres_per_node="gres/gpu:8", features="[sn1*1&a100*1]",
        **nodes(2),
    )  # fmt: skip
    assert (answer.code, answer.set) == (0, {})
    assert answer.said == (
        "sn: #SN --cards=h100:8,a100:8: several kinds: left to your own options",
    )


# What must not hurt.

ODD: tuple[object, ...] = (
    None, True, False, -1, 0, 0.5, 1e308, 2.0**53, 4294967295, float("inf"), float("nan"), "", " ",
    "\x00", "%s%d%n", "[" * 50, "]" * 50, "gres:", "gres/gpu:", "gres/gpu:h100:", ":::", ",,,",
    "gres/gpu:h100:99999999999999999999", "gres/gpu:h100:-8", "gres/gpu:%s:8", "gres/gpu:8:8:8",
    "a[1-", "a[9-1]", "a[1-99999999999999999]" * 9, "'; os.exit(1) --", "\n#SN --cards h100:8\n",
    "ü" * 99, {}, {"a": {}},
)  # fmt: skip
FIELDS = (
    "partition", "features", "comment", "req_nodes", "exc_nodes", "script", "environment",
    "min_nodes", "max_nodes", "num_tasks", "ntasks_per_node", "cpus_per_task", "sockets_per_node",
    "segment_size", "het_job_offset", "tres_per_node", "tres_per_job", "tres_per_task",
    "tres_per_socket", "reservation", "qos", "account", "cpus_per_tres", "mem_per_tres",
    "ntasks_per_core", "ntasks_per_socket", "ntasks_per_tres", "time_limit", "time_min",
    "pn_min_memory", "default_account",
)  # fmt: skip
LIKELY: dict[str, object] = {
    **UNSET, **nodes(20), "partition": "train", "tres_per_node": "gres/gpu:gb200:4",
    "exc_nodes": "nvl1-01", "script": script("#SN --cards gb200:64"), "segment_size": 0,
}  # fmt: skip


@pytest.mark.parametrize("base", [UNSET, LIKELY], ids=["unset", "likely"])
def test_no_value_of_a_field_breaks_it(
    base: Mapping[str, object], interpreter: str, tmp_path: Path
) -> None:
    jobs = [{**base, name: value} for name in FIELDS for value in ODD]
    jobs += [dict.fromkeys(FIELDS, value) for value in ODD]
    for release in ("24.11", "26.05"):
        answers = lua.run(interpreter, plugin("nvl72", release), jobs, tmp_path)
        assert len(answers) == len(jobs)
        assert [answer.failed for answer in answers if answer.failed] == []


def test_a_long_script_and_long_lists_take_no_time_that_counts(
    interpreter: str, tmp_path: Path
) -> None:
    jobs = [
        {**LIKELY, "script": "#!/bin/sh\n" + "#SN --cards x\n" * 200_000},
        {**LIKELY, "script": "#SN " + "a" * 2_000_000},
        {**LIKELY, "features": "a&" * 100_000},
        {**LIKELY, "tres_per_node": "gres/gpu:gb200:1," * 50_000},
        {**LIKELY, "exc_nodes": "n[1-2]," * 50_000},
    ]
    assert len(lua.run(interpreter, plugin("nvl72", "26.05"), jobs, tmp_path)) == len(jobs)


@pytest.mark.parametrize("field", FIELDS)
def test_its_own_error_leaves_the_job_as_it_was_and_is_logged(
    field: str, interpreter: str, tmp_path: Path
) -> None:
    job = {**LIKELY, "dies": field}
    (answer,) = lua.run(interpreter, plugin("nvl72", "26.05"), [job], tmp_path)
    assert (answer.code, answer.said, answer.set) == (0, (), {})
    assert re.fullmatch(
        rf"sn: job_submit.lua: .*no such field: {field}; the job goes on as it is", answer.failed[0]
    )


@pytest.mark.parametrize("job", [None, 7, "text", True])
def test_what_is_no_job_at_all_is_logged(job: object, interpreter: str, tmp_path: Path) -> None:
    (answer,) = lua.run(interpreter, plugin("nvl72", "24.11"), [job], tmp_path)
    assert answer.code == 0
    assert (len(answer.failed), answer.set) == (0 if job == "text" else 1, {})


def test_the_users_words_are_shown_on_one_line(tried: Try) -> None:
    job = {**TRAIN, **nodes(4), "tres_per_node": "gres/gpu:h100:8"}
    answer = tried("mixed 24.11", **job, features="a|b\n\x1b[31m" + "x" * 999)
    assert answer.said[0].startswith("sn: --constraint=a|b??[31mxxx")
    assert len(answer.said[0]) < 250


def test_it_opens_nothing_and_keeps_nothing() -> None:
    text = re.sub(r"--.*", "", plugin("campus", "26.05"))
    used = set(re.findall(r"\b(\w+)\.\w+\(", text))
    assert used <= {"slurm", "string", "table", "math"}
    assert not re.search(r"\b(require|dofile|loadfile|load|loadstring|io|os|debug|_G)\b", text)
    made = set(re.findall(r"^(?:function )?(\w+)(?: =|\()", text, re.MULTILINE))
    assert made == {"slurm_job_submit", "slurm_job_modify"}


def test_unset_is_what_slurm_calls_so() -> None:
    assert (UNSET["min_nodes"], NO_VAL) == (2**32 - 2, 2**32 - 2)


def test_a_plugin_of_the_site_can_call_it(interpreter: str, tmp_path: Path) -> None:
    (tmp_path / "supernode_submit.lua").write_text(plugin("mixed", "24.11"), encoding="utf-8")
    own = f"""
dofile({lua.literal(str(tmp_path / "supernode_submit.lua"))})
local supernode_job_submit = slurm_job_submit
function slurm_job_submit(job_desc, part_list, submit_uid)
    job_desc.account = "ours"
    return supernode_job_submit(job_desc, part_list, submit_uid)
end
return slurm.SUCCESS
"""
    job = {**UNSET, **TRAIN, **nodes(2), "tres_per_node": "gres/gpu:h100:8"}
    (answer,) = lua.run(interpreter, own, [job], tmp_path)
    assert answer.set == {"account": "ours", "features": "[sn1|sn2]"}
