"""job_submit.lua in a real slurmctld: what plain sbatch asks for becomes what the rules say."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supernode_slurm import hostlist
from supernode_slurm.slurm.run import Result, run
from supernode_slurm.slurmconf import find_release
from supernode_slurm.twin import Twin, TwinSpec, installed_release
from tests.test_plugin import generated, script

pytestmark = pytest.mark.slurm

SMALL = "policy: {whole_supernode_from: 64, small_jobs_to: train}\n"


def start(name: str, policy: str | None = None, live: bool = False, lua: str | None = None) -> Twin:
    files = dict(generated(name, installed_release(), policy).files)
    if lua is not None:
        files["job_submit.lua"] = lua
    return Twin(TwinSpec(files=files, live=live))


@pytest.fixture(scope="module")
def mixed() -> Iterator[Twin]:
    with start("mixed", SMALL) as found:
        assert found.messages == ()
        yield found


@pytest.fixture(scope="module")
def racks() -> Iterator[Twin]:
    with start("nvl72") as found:
        yield found


def sbatch(twin: Twin, *words: str, text: str | None = None, **more: str) -> Result:
    env = {**twin.environment(os.environ), **more}
    last = ["--wrap=true"] if text is None else []
    return run(["sbatch", "--parsable", *words, *last], timeout_s=60, env=env, stdin_text=text)


def shown(twin: Twin, job: str) -> dict[str, str]:
    """Return the fields that scontrol shows of a job; a heterogeneous one's first component."""
    env = twin.environment({})
    said = run(["scontrol", "show", "job", job], timeout_s=60, env=env).stdout
    return dict(re.findall(r"([A-Za-z/:]+)=(\S*)", said.split("\n\n")[0]))


def held(
    twin: Twin, *words: str, text: str | None = None, **more: str
) -> tuple[dict[str, str], str]:
    """Return what becomes of a held job, and what sbatch said."""
    done = sbatch(twin, "--hold", *words, text=text, **more)
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    fields = shown(twin, job)
    run(["scancel", job], timeout_s=60, env=twin.environment({}))
    return fields, "\n".join(line for line in done.stderr.splitlines() if "sn: " in line)


def started(twin: Twin, job: str) -> dict[str, str]:
    """Return what scontrol shows of a job once it has started."""
    for _ in range(300):
        fields = shown(twin, job)
        if fields["JobState"] != "PENDING":
            break
        time.sleep(0.1)
    assert fields["JobState"] in ("CONFIGURING", "RUNNING"), fields["Reason"]
    return fields


def placed(twin: Twin, *words: str) -> list[str]:
    """Return the hosts of a job that starts, and cancel it."""
    job = sbatch(twin, *words).stdout.strip()
    fields = started(twin, job)
    run(["scancel", job], timeout_s=60, env=twin.environment({}))
    return hostlist.expand(fields["NodeList"])


def supernodes(hosts: list[str]) -> set[str]:
    return {host.rpartition("-")[0] for host in hosts}


def test_it_is_loaded_and_the_log_is_clean(mixed: Twin) -> None:
    env = mixed.environment({})
    said = run(["scontrol", "show", "config"], timeout_s=60, env=env).stdout
    assert re.search(r"^JobSubmitPlugins += lua$", said, re.MULTILINE)
    held(mixed, "-N2", "--gres=gpu:h100:8")
    assert mixed.messages == ()


def test_a_job_without_cards_is_left_alone(mixed: Twin) -> None:
    fields, said = held(mixed, "-N2", "-p", "train")
    assert (fields["Features"], fields["Partition"], said) == ("(null)", "train", "")


@pytest.mark.parametrize(
    "words",
    [
        ["-N2", "--gres=gpu:h100:8"],
        ["-N2", "--gpus-per-node=h100:8"],
        ["--gpus=h100:16"],
        ["-n16", "--gpus-per-task=h100:1"],
        ["-n16", "--ntasks-per-node=8", "--gres=gpu:h100:8"],
        ["-N2", "--gpus-per-socket=h100:4", "--sockets-per-node=2"],
    ],
    ids=" ".join,
)
def test_several_nodes_of_a_kind_ask_for_one_supernode(mixed: Twin, words: list[str]) -> None:
    fields, said = held(mixed, "-p", "train", *words)
    assert fields["Features"] == "[sn1|sn2]"
    assert "sn: 2 nodes within one of sn1, sn2" in said


def test_they_get_one_supernode_where_plain_slurm_scatters_them(mixed: Twin) -> None:
    busy = ["-p", "train", "-N3", "--gres=gpu:h100:8"]
    jobs = [sbatch(mixed, *busy, f"-C{name}").stdout.strip() for name in ("sn1", "sn2")]
    try:
        for job in jobs:
            for _ in range(300):
                if shown(mixed, job)["JobState"] != "PENDING":
                    break
                time.sleep(0.1)
        ours = placed(mixed, "-p", "train", "-N5", "--gres=gpu:h100:8")
        assert len(supernodes(ours)) == 1
        free = placed(mixed, "-p", "train", "-N10", "--gres=gpu:h100:8", "-C", "sn1|sn2")
        assert supernodes(free) == {"h1", "h2"}
    finally:
        run(["scancel", *jobs], timeout_s=60, env=mixed.environment({}))


def test_features_of_the_user_are_joined_and_the_job_starts(mixed: Twin) -> None:
    words = ["-p", "train", "-N4", "--gres=gpu:8", "-C", "h100"]
    assert held(mixed, *words)[0]["Features"] == "[sn1|sn2]&h100"
    assert len(supernodes(placed(mixed, *words))) == 1


def test_a_constraint_that_names_a_supernode_stays(mixed: Twin) -> None:
    fields, said = held(mixed, "-p", "train", "-N2", "--gres=gpu:h100:8", "-C", "sn2")
    assert (fields["Features"], said) == ("sn2", "")


def test_small_jobs_are_routed_and_large_ones_find_room(mixed: Twin) -> None:
    fields, said = held(mixed, "--gres=gpu:4")
    assert fields["Partition"] == "train"
    assert "sn: partition train, for jobs of few cards" in said
    assert held(mixed, "--gres=gpu:4", "-p", "small")[0]["Partition"] == "small"
    fields, said = held(mixed, "-N4", "--gres=gpu:ascend910c:16")
    assert fields["Partition"] == "ascend"
    assert "the default one, small, has no room" in said


def test_arrays_are_placed_task_by_task(mixed: Twin) -> None:
    fields, said = held(mixed, "--array=1-3", "-N2", "--gres=gpu:h100:8", "-p", "train")
    assert (fields["ArrayTaskId"], fields["Features"]) == ("1-3", "[sn1|sn2]")
    assert "2 nodes within one of" in said


def test_components_are_kept_together_one_by_one(mixed: Twin) -> None:
    words = ["-N2", "-p", "train", "--gres=gpu:h100:8", ":", "-N1", "-p", "small"]
    fields, said = held(mixed, *words, "--gres=gpu:a100:8")
    assert (fields["HetJobOffset"], fields["Features"]) == ("0", "[sn1|sn2]")
    assert "2 nodes within one of" in said
    fields, said = held(mixed, "-N1", "--gres=gpu:1", ":", "-N1", "--gres=gpu:1")
    assert (fields["Partition"], said) == ("small", "")


def test_what_can_never_run_is_refused_with_what_would(mixed: Twin) -> None:
    done = sbatch(mixed, "-p", "train", "-N17", "--gres=gpu:h100:8")
    assert done.returncode == 1
    assert "partition train has 16 nodes with 8 h100, 17 are asked: --nodes=16" in done.stderr


def test_a_script_with_sn_lines_becomes_the_job_of_sn_submit(mixed: Twin) -> None:
    fields, said = held(mixed, text=script("#SN --model llama-3-70b --cards h100:64"))
    assert fields["Partition"] == "train"
    assert fields["NumNodes"].split("-")[0] == "8"
    assert (fields["NumTasks"], fields["CPUs/Task"], fields["NtasksPerN:B:S:C"][:1]) == (
        "64", "12", "8",
    )  # fmt: skip
    assert re.fullmatch(r"gres[:/]gpu:h100:8", fields["TresPerNode"])
    assert fields["Features"] == "[sn1|sn2]"
    assert "sn: #SN --cards=h100:64: --partition=train --nodes=8" in said
    fields, _ = held(mixed, text=script("#SN --cards h100:64"), SN_CARDS="a100:2")
    assert re.fullmatch(r"gres[:/]gpu:a100:2", fields["TresPerNode"])
    fields, _ = held(mixed, "-c3", text=script("#SN --cards h100:2"))
    assert fields["CPUs/Task"] == "3"
    done = sbatch(mixed, "--hold", text=script("#SN --cards h100:8,a100:8"))
    assert done.returncode == 1
    assert "several kinds: sn-submit makes a job of them: sn-submit SCRIPT" in done.stderr


CARDS = script("#SN --cards h100:16")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-N2"],
        ["-n16"],
        ["--ntasks-per-node=1"],
        ["-N2", "--ntasks-per-node=8"],
        ["-n16", "--ntasks-per-node=8"],
        ["--comment", "after sn-submit broke"],
        ["-Csn1"],
        ["-Ch100"],
        ["-wh1-08"],
        ["-wh1-08", "--ntasks-per-node=1"],
        ["-xh1-[01-07]"],
        ["--gres=gpu:8"],
        ["--gpus=16"],
        ["-n16", "--gpus-per-task=1"],
        ["-t2-0"],
        ["--mem=10G"],
        ["--mem-per-gpu=1G", "--gpus=16"],
    ],
    ids=" ".join,
)
def test_a_script_with_cards_starts_on_its_two_nodes_whatever_else_is_said(
    mixed: Twin, words: list[str]
) -> None:
    said = sbatch(mixed, *words, text=CARDS)
    assert said.returncode == 0, said.stderr
    assert "sn: #SN --cards=h100:16: --partition=train --nodes=2 --g" in said.stderr
    job = said.stdout.strip()
    fields = started(mixed, job)
    run(["scancel", job], timeout_s=60, env=mixed.environment({}))
    hosts = hostlist.expand(fields["NodeList"])
    assert (len(hosts), len(supernodes(hosts))) == (2, 1)
    assert supernodes(hosts) <= {"h1", "h2"}
    tasks = "2" if "--ntasks-per-node=1" in words else "16"
    assert (fields["NumTasks"], fields["NumCPUs"]) == (tasks, "192")
    memory = [word for word in words if word.startswith("--mem")]
    assert fields.get("MinMemoryNode", "0") == ("10G" if "--mem=10G" in memory else "0")
    if "-wh1-08" in words:
        assert "h1-08" in hosts


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["-N3"], "not with your --nodes; without it: --partition=train --nodes=2"),
        (["-n4"], "with --ntasks-per-node=8 or 1"),
        (["-Ca100"], "not with your --constraint; without it: --partition=train"),
        (["-wa01"], "not with your --nodelist; without it"),
        (["-psmall"], "not with your --partition; without it: --partition=train"),
        (["-t8-0"], "train gives 7-00:00:00 at most: --time=7-00:00:00"),
        (["--gpus=8"], "--gpus asks for others: leave it out"),
        (["--ntasks-per-socket=4"], "leave --ntasks-per-socket out"),
    ],
    ids=str,
)
def test_what_cannot_be_filled_is_refused_with_what_would_do(
    mixed: Twin, words: list[str], hint: str
) -> None:
    done = sbatch(mixed, *words, text=CARDS)
    assert done.returncode == 1
    assert hint in done.stderr


def test_the_share_of_a_nodes_memory_is_asked_for(mixed: Twin) -> None:
    fields, said = held(mixed, text=script("#SN --cards h100:2"))
    assert fields["MinMemoryNode"] == "475G"
    assert "--mem=486400M" in said


def test_a_job_goes_where_it_gets_its_time(mixed: Twin) -> None:
    for words in (["-Csn1"], ["-wh1-08"]):
        fields, said = held(mixed, "-N2", "--gres=gpu:h100:8", *words)
        assert fields["Partition"] == "train"
        assert "the default one, small, has no room" in said
    fields, said = held(mixed, "-t2-0", "-N4", "--gres=gpu:a100:8", "-Cpool-a100")
    assert fields["Partition"] == "train"
    assert "the default one, small, gives 1-00:00:00 at most" in said


def test_a_user_is_sent_only_where_he_may_go() -> None:
    # A twin of its own: 22.05 hangs in an update while it looks for a node without an address.
    with start("mixed", SMALL) as twin:
        env = twin.environment({})
        update = ["scontrol", "update", "PartitionName=train"]
        run([*update, "State=DOWN"], timeout_s=60, env=env)
        done = sbatch(twin, "-N2", "--gres=gpu:h100:8")
        assert done.returncode == 1
        assert "no other one that this job may use" in done.stderr
        run([*update, "State=UP", "MaxTime=60"], timeout_s=60, env=env)
        done = sbatch(twin, "-t120", "-ptrain", "-N2", "--gres=gpu:h100:8")
        assert "partition train gives 0-01:00:00 at most" in done.stderr


def test_a_reservation_bounds_the_nodes_of_a_script_with_cards(mixed: Twin) -> None:
    env = mixed.environment({})
    made = ["ReservationName=r1", "StartTime=now", "Duration=60", "Users=root"]
    done = run(
        ["scontrol", "create", "reservation", *made, "Nodes=h2-[01-04]"], timeout_s=60, env=env
    )
    assert done.returncode == 0, done.stderr
    try:
        inside = sbatch(mixed, "--reservation=r1", text=CARDS)
        job = inside.stdout.strip()
        assert set(hostlist.expand(started(mixed, job)["NodeList"])) <= {
            f"h2-0{index}" for index in range(1, 5)
        }
        run(["scancel", job], timeout_s=60, env=env)
        outside = sbatch(mixed, "--reservation=r1", text=script("#SN --cards h100:40"))
        assert outside.returncode == 1
        assert "not with your --reservation; without it" in outside.stderr
    finally:
        run(["scancel", "-u", "root"], timeout_s=60, env=env)
        run(["scontrol", "delete", "ReservationName=r1"], timeout_s=60, env=env)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["-N17", "--gres=gpu:h100:8"], "--partition=train --nodes=16 --gres=gpu:h100:8"),
        (["--gres=gpu:h100:9"], "--partition=train --nodes=2 --gres=gpu:h100:8"),
        (["-N2", "-t8-0", "--gres=gpu:h100:8"], "--partition=train --time=7-00:00:00"),
        (["-psmall", "-t2-0", "--gres=gpu:8"], "--time=1-00:00:00 or --partition=train"),
    ],
    ids=str,
)
def test_each_refusal_says_a_way_out(mixed: Twin, words: list[str], hint: str) -> None:
    done = sbatch(mixed, *words)
    assert done.returncode == 1
    assert hint in done.stderr


def test_planning_blocks_are_respected(racks: Twin) -> None:
    release = find_release(installed_release())
    gres = "--gres=gpu:gb200:4"
    fields, said = held(racks, "-N16", gres)
    assert (fields["Features"], said) == (
        ("(null)", "") if "block" in release.topologies
        else ("[nvl1|nvl2|nvl3|nvl4]", said)
    )  # fmt: skip
    assert len(supernodes(placed(racks, "-N16", gres))) == 1
    fields, said = held(racks, "-N17", gres)
    assert fields["Features"] == "[nvl1|nvl2|nvl3|nvl4]"
    assert "17 nodes need the spares of a supernode" in said
    assert len(supernodes(placed(racks, "-N17", gres))) == 1
    fields, said = held(racks, "-N32", gres)
    if release.name == "26.05":
        assert fields["SegmentSize"] == "16"
        hosts = placed(racks, "-N32", gres)
        assert sorted(sum(h.startswith(name) for h in hosts) for name in supernodes(hosts)) == [
            16, 16,
        ]  # fmt: skip
    elif release.segment:
        assert "with --segment=16 each part lies within one supernode" in said
    else:
        assert "sn-submit keeps equal parts in each" in said


def test_its_own_error_lets_the_job_through_and_is_logged() -> None:
    text = generated("mixed", installed_release()).files["job_submit.lua"]
    broken = text.replace("local function decide(job)\n", "local function decide(job) no.way()\n")
    assert broken != text
    with start("mixed", lua=broken) as twin:
        fields, said = held(twin, "-p", "train", "-N2", "--gres=gpu:h100:8")
        assert (fields["Features"], said) == ("(null)", "")
        log = (twin.directory / "slurmctld.log").read_text(encoding="utf-8", errors="replace")
    assert re.search(r"sn: job_submit.lua: .*'no'.*; the job goes on as it is", log)


@pytest.mark.live
def test_the_batch_script_of_a_filled_job_has_a_task_for_each_card(tmp_path: Path) -> None:
    with start("lab", live=True) as twin:
        output = twin.directory / "spool" / "out"
        text = script("#SN --cards a100-pcie-80g:8").replace(
            "srun sn-launch python train.py",
            "srun sh -c 'echo rank=$SLURM_PROCID of=$SLURM_NTASKS cpus=$SLURM_CPUS_PER_TASK'",
        )
        job = sbatch(twin, f"--output={output}", text=text).stdout.strip()
        for _ in range(600):
            state = shown(twin, job)["JobState"]
            if state in ("COMPLETED", "FAILED"):
                break
            time.sleep(0.1)
        said = output.read_text(encoding="utf-8")
    assert state == "COMPLETED", said
    assert sorted(said.splitlines()) == [f"rank={rank} of=8 cpus=8" for rank in range(8)]
