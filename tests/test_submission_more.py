"""sn-submit without Slurm: components, filling in, limits of a user, worth of a supernode."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from supernode_slurm.cli import submit as cli
from supernode_slurm.data import data_dir
from supernode_slurm.errors import ConfigError, PlanError, UsageError
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.inventory import loads as loads_inventory
from supernode_slurm.plan import loads
from supernode_slurm.slurm import Allocated, Association, Associations, Gres, JobId, Reservation
from supernode_slurm.slurm import options as sbatch
from supernode_slurm.submission.commandline import parse
from supernode_slurm.submission.here import plan_here
from supernode_slurm.submission.submit import Prepared, prepare, submit, test_only, wait_for
from tests.fake_slurm import FakeSlurm
from tests.test_submission import SCRIPT, prepared

MIXED = (Path(str(data_dir("topology_conf"))) / "inventories" / "mixed.yaml").read_text()
test_only.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture
def mixed() -> Inventory:
    return loads_inventory(MIXED)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return str(path)


def parts(job: Prepared) -> list[dict[str, str | None]]:
    return [sbatch.values(part) for part in sbatch.split([*job.options, "x"]).components]


def test_a_users_components_stay_in_their_order(mixed: Inventory, script: str) -> None:
    words = f"--model llama-3-70b --cards h100:64,ascend910c:32 -t 10 : -t 20 --qos=low {script}"
    job = prepared(words, mixed)
    first, second = parts(job)
    assert (first["gres"], first["time"], "qos" in first) == ("gpu:h100:8", "10", False)
    assert (second["gres"], second["time"], second["qos"]) == ("gpu:ascend910c:16", "20", "low")
    groups = job.choice.plan.groups
    assert {group.name: group.component for group in groups} == {"ascend910c": 1, "h100": 0}


def test_components_say_themselves_how_many_cards(mixed: Inventory, script: str) -> None:
    words = f"-N1 --gres=gpu:h100:8 : -p small -N2 --gres=gpu:a100:4 {script}"
    job = prepared(words, mixed)
    assert [(part["nodes"], part["partition"]) for part in parts(job)] == [
        ("1", "train"),
        ("2", "small"),
    ]
    assert [group.devices_per_node for group in job.choice.plan.groups] == [8, 4]


def test_components_may_stand_in_the_script(mixed: Inventory, tmp_path: Path) -> None:
    path = tmp_path / "het.sh"
    path.write_text(
        "#!/bin/sh\n#SBATCH -N1 --gres=gpu:h100:8\n#SBATCH hetjob\n"
        "#SBATCH -N1 --gres=gpu:a100:8 -p small\ntrue\n"
    )
    job = prepared(str(path), mixed)
    assert [part.get("partition") for part in parts(job)] == ["train", None]
    assert job.given[1].said("partition") == f"--partition=small (#SBATCH in {path})"
    with pytest.raises(UsageError, match="3 components on the command line, 2 by '#SBATCH het"):
        prepared(f"-N1 : -N1 : -N1 {path}", mixed)


def test_every_component_restates_the_lines_of_the_script(mixed: Inventory, tmp_path: Path) -> None:
    path = tmp_path / "s.sh"
    path.write_text("#!/bin/sh\n#SBATCH --time=30 --account=a\n#SBATCH --exclusive\ntrue\n")
    first, second = parts(prepared(f"--cards h100:8,ascend910c:8 {path}", mixed))
    assert "time" not in first  # sbatch reads it in the script.
    assert (second["time"], second["account"], second["exclusive"]) == ("30", "a", None)


def test_a_part_of_a_node_gets_its_share_of_memory_and_cpus(mixed: Inventory, script: str) -> None:
    (found,) = parts(prepared(f"--cards h100:2 {script}", mixed))
    assert found["mem"] == f"{1900 * 1024 * 2 // 8}M"
    assert found["cpus-per-task"] == "12"
    (found,) = parts(prepared(f"--cards h100:2 --mem-per-cpu=4G --cpus-per-gpu=3 {script}", mixed))
    assert "mem" not in found
    assert "cpus-per-task" not in found


@pytest.mark.parametrize(
    ("option", "gone"),
    [
        ("DefMemPerGPU: 100000", "mem"),
        ("DefMemPerCPU: 1000", "mem"),
        ("JobDefaults: DefCpuPerGPU=4", "cpus-per-task"),
    ],
)
def test_what_the_site_decides_is_not_filled_in(option: str, gone: str, script: str) -> None:
    old = "pools: [pool-a100], mixed: true, max_time: 7"
    new = f"pools: [pool-a100], mixed: true, options: {{{option}}}, max_time: 7"
    assert old in MIXED
    room = loads_inventory(MIXED.replace(old, new))
    (found,) = parts(prepared(f"--cards h100:2 {script}", room))
    assert gone not in found
    assert len({"mem", "cpus-per-task"} & set(found)) == 1


def test_slurms_own_default_of_memory_counts(mixed: Inventory, script: str) -> None:
    class Slurm(FakeSlurm):
        def config(self) -> dict[str, str]:
            return {**super().config(), "DefMemPerNode": "4096"}

    job = prepare(parse(["--cards", "h100:2", script]), {}, mixed, Slurm(mixed))
    assert "mem" not in parts(job)[0]


def test_each_group_knows_its_network(script: str) -> None:
    network = "network: {interface: bond0, hcas: [mlx5_0, mlx5_1], environment: {NCCL_IB_TC: 106}}"
    ascend = "network: {interface: enp1s0}"
    text = MIXED.replace("{h100-sxm: 8}", "{h100-sxm: 8}\n      " + network)
    room = loads_inventory(text.replace("{ascend-910c: 16}", "{ascend-910c: 16}\n      " + ascend))
    job = prepared(f"--cards h100:8,ascend910c:8 {script}", room)
    found = {group.name: group.environment for group in job.choice.plan.groups}
    assert found["h100"] == {
        "GLOO_SOCKET_IFNAME": "bond0",
        "TP_SOCKET_IFNAME": "bond0",
        "NCCL_SOCKET_IFNAME": "=bond0",
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
        "NCCL_IB_TC": "106",
    }
    assert found["ascend910c"]["HCCL_SOCKET_IFNAME"] == "enp1s0"
    assert not any(name.startswith("NCCL") for name in found["ascend910c"])


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        ("{interface: 'bond0; rm -rf'}", "a device like 'bond0'"),
        ("{environment: {LD_PRELOAD: x}}", "a variable of a communication library"),
        ("{environment: {NCCL_DEBUG: 'a b'}}", "a value without blanks"),
        ("{nics: [a]}", "unknown key 'nics'"),
    ],
)
def test_a_network_that_cannot_be_is_refused(network: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        loads_inventory(MIXED.replace("{h100-sxm: 8}", "{h100-sxm: 8}\n      network: " + network))


def test_pinned_nodes_are_named_free_ones_first(mixed: Inventory, script: str) -> None:
    slurm = FakeSlurm(mixed)
    slurm.change(["h1-01", "h2-01"], "ALLOCATED", cpus_allocated=96)
    job = prepare(parse(["--pin", "--cards", "h100:16", script]), {}, mixed, slurm)
    assert parts(job)[0]["nodelist"] == "h1-[02-03]"
    assert "pinned to h1-[02-03]" in job.request.why
    both = prepare(parse(["--pin", "--cards", "h100:8,a100:16", script]), {}, mixed, slurm)
    assert parts(both)[0]["nodelist"] in ("a[01-02],h1-02", "a[01-02],h2-02")


def test_the_launcher_travels_where_it_is_asked_to(
    mixed: Inventory, script: str, tmp_path: Path
) -> None:
    job = prepared(f"--carry --cards h100:8 {script}", mixed)
    text = job.script.text.replace("sn-launch python3 train.py", "sn-launch --help; ls $SN_CARRIED")
    path = tmp_path / "run.sh"
    path.write_text(text)
    for shell in ("bash", "dash"):
        env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
        done = subprocess.run(
            [shell, str(path)], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "sn-launch" in done.stdout
        assert not list(tmp_path.glob("sn-launch.*"))
    assert "SN_CARRIED" not in prepared(f"--cards h100:8 {script}", mixed).script.text
    everywhere = loads_inventory(MIXED.replace('"24.11"', '"24.11", carry_launcher: true'))
    assert "SN_CARRIED" in prepared(f"--cards h100:8 {script}", everywhere).script.text


def test_each_job_has_a_mark_of_its_own_beside_the_users_comment(
    mixed: Inventory, script: str
) -> None:
    slurm = FakeSlurm(mixed)
    line = parse(["--comment=my run", "--cards", "h100:8", script])
    job = prepare(line, {}, mixed, slurm, "1234")
    assert parts(job)[0]["comment"] == "my run sn-submit:1234"
    submit(job, slurm)
    assert slurm.tags == ["sn-submit:1234"]


def test_waiting_forwards_the_jobs_code_and_tells_its_id(mixed: Inventory, script: str) -> None:
    slurm = FakeSlurm(mixed)
    slurm.exit_code = 7
    job = prepare(parse(["-W", "--cards", "h100:8", script]), {}, mixed, slurm)
    assert job.sets("wait")
    told: list[JobId] = []
    assert wait_for(job, slurm, told.append) == 7
    assert told == [JobId(1)]


def test_test_only_asks_slurm_and_submits_nothing(mixed: Inventory, script: str) -> None:
    slurm = FakeSlurm(mixed)
    job = prepare(parse(["--test-only", "--cards", "h100:8", script]), {}, mixed, slurm)
    assert job.sets("test-only")
    assert "to start at" in test_only(job, slurm)
    assert slurm.submitted == []


def test_a_closed_partition_is_no_place(mixed: Inventory, script: str) -> None:
    slurm = FakeSlurm(mixed)
    slurm.close("train")
    line = parse(["--cards", "h100:8", script])
    with pytest.raises(PlanError, match="partition train: State is DOWN"):
        prepare(line, {}, mixed, slurm)
    job = prepare(parse(["--cards", "a100:8", script]), {}, mixed, slurm)
    assert parts(job)[0]["partition"] == "small"


def test_an_account_that_a_partition_refuses_is_told(
    mixed: Inventory, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm(mixed)
    slurm._partitions["train"] = replace(slurm._partitions["train"], allow_accounts=("physics",))
    slurm.accounting = Associations("chemistry", (Association("chemistry", "", ()),))
    monkeypatch.setattr(os, "geteuid", lambda: 65534)  # Root may use every partition.
    line = parse(["--cards", "h100:8", script])
    with pytest.raises(PlanError, match="AllowAccounts is physics, not chemistry"):
        prepare(line, {}, mixed, slurm)


def test_a_reservation_opens_its_nodes_and_no_others(mixed: Inventory, script: str) -> None:
    slurm = FakeSlurm(mixed)
    hosts = tuple(f"h2-0{number}" for number in range(1, 5))
    slurm.change(hosts, "IDLE", "RESERVED")
    slurm.kept = (
        Reservation(
            name="week", is_active=True, hosts=hosts, users=(), accounts=(), groups=(),
            partition="", flags=frozenset(), start=0, end=1,
        ),
    )  # fmt: skip
    job = prepare(parse(["--reservation=week", "--cards", "h100:32", script]), {}, mixed, slurm)
    assert job.choice.slots[0].domains == ("sn2",)
    for words in (["--cards", "h100:64"], ["--reservation=week", "--cards", "h100:64"]):
        found = parse([*words, script])
        if "--reservation=week" in words:
            with pytest.raises(UsageError, match=r"--reservation=week .command line. and --cards"):
                prepare(found, {}, mixed, slurm)
        else:
            assert prepare(found, {}, mixed, slurm).choice.slots[0].domains == ("sn1",)
    with pytest.raises(UsageError, match="no 'weak'; did you mean 'week'"):
        prepare(parse(["--reservation=weak", "--cards", "h100:8", script]), {}, mixed, slurm)


POOL_OF_H100 = """
  - name: pool-h100
    nodes: {hosts: "p[01-08]", devices: {h100-sxm: 8}, sockets: 2, cores: 48, memory: 1900 GiB}

partitions:"""


def with_pool(policy: str) -> Inventory:
    text = MIXED.replace("\npartitions:", POOL_OF_H100, 1)
    text = text.replace("[ascend, pool-a100]", "[ascend, pool-a100, pool-h100]")
    assert "pools: [pool-a100], mixed" in text
    text = text.replace("pools: [pool-a100], mixed", "pools: [pool-a100, pool-h100], mixed")
    return loads_inventory(text.replace("{whole_supernode", f"{{{policy}whole_supernode"))


def test_the_plan_says_what_the_supernode_gains(script: str) -> None:
    job = prepared(f"--model llama-3-70b --cards h100:64 {script}", with_pool(""))
    assert job.choice.slots[0].domains == ("sn1", "sn2")
    gain = job.choice.gain
    assert gain is not None
    assert gain.share > 0
    assert f"supernode sn1|sn2: {gain.share:+.0%} against pool-h100: TP=" in job.notes[0]
    assert "inside the domain" in job.notes[0]


def test_what_another_card_is_slower_by_is_no_gain_of_the_supernode(script: str) -> None:
    """cloud.yaml: supernodes of GB200, a pool of H100."""
    room = load(Path(str(data_dir("topology_conf"))) / "inventories" / "cloud.yaml")
    job = prepared(f"--model llama-3-8b --cards 16 {script}", room)
    gain = job.choice.gain
    assert gain is not None
    assert job.choice.slots[0].group.accelerator == "gb200"
    assert gain.elsewhere == "the same cards in ordinary nodes"
    assert gain.share < 0.2
    # What it would lose in the pool decides whether the policy sends it there.
    policy = replace(room.policy, supernode_gain=0.5)
    job = prepared(f"--model llama-3-8b --cards 16 {script}", replace(room, policy=policy))
    assert job.choice.slots[0].group.accelerator == "gb200"


def test_a_supernode_that_gains_too_little_is_left_to_others(script: str) -> None:
    words = f"--model llama-3-70b --cards h100:64 {script}"
    job = prepared(words, with_pool("supernode_gain: 90 %, "))
    assert job.choice.slots[0].domains == ("pool-h100",)
    assert "to the pool: a supernode gains +" in job.notes[0]
    assert "the policy wants 90%" in job.notes[0]
    kept = prepared(f"-C sn1 {words}", with_pool("supernode_gain: 90 %, "))
    assert kept.choice.slots[0].domains == ("sn1",)


def test_without_a_pool_the_gain_is_over_the_same_cards_apart(
    mixed: Inventory, script: str
) -> None:
    job = prepared(f"--model llama-3-70b --cards h100:64 {script}", mixed)
    assert "against the same cards in ordinary nodes" in job.notes[0]


def test_the_sites_defaults_are_the_weakest(script: str, tmp_path: Path) -> None:
    defaults = "defaults: {sequence: 8192, global_batch: 512, framework: torchtitan}"
    room = loads_inventory(MIXED.replace("{whole_supernode", f"{{{defaults}, whole_supernode"))
    words = f"--model llama-3-8b --cards h100:8 {script}"
    job = prepared(words, room)
    assert (job.choice.plan.sequence, job.choice.plan.framework) == (8192, "torchtitan")
    assert job.asked.origins["sequence"] == "the site's policy"
    config = tmp_path / "supernode" / "config.yaml"
    config.parent.mkdir()
    config.write_text("sequence: 2048\n")
    job = prepared(words, room, XDG_CONFIG_HOME=str(tmp_path))
    assert job.choice.plan.sequence == 2048
    assert job.asked.origins["sequence"] == f"{config}:1:11"
    job = prepared(words, room, XDG_CONFIG_HOME=str(tmp_path), SN_SEQUENCE="1024")
    assert job.choice.plan.sequence == 1024


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sequenc: 1\n", "'sequenc' is no planning option; did you mean 'sequence'"),
        ("- 1\n", "expected planning options"),
        ("sequence: [1]\n", "expected one value"),
        ("sequence: 1\nsequence: 2\n", "sequence"),
        ("sequence: 'x\n", "config.yaml"),
        ("\xff", "config.yaml"),
    ],
)
def test_a_broken_config_is_named(
    text: str, reason: str, mixed: Inventory, script: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=reason):
        prepared(f"--cards h100:8 {script}", mixed, SN_CONFIG=str(config))
    with pytest.raises(ConfigError, match="cannot be read"):
        prepared(f"--cards h100:8 {script}", mixed, SN_CONFIG=str(tmp_path / "none.yaml"))


def test_lora_is_planned_and_told(mixed: Inventory, script: str) -> None:
    words = f"--model llama-3-70b --cards h100:8 {script}"
    with pytest.raises(PlanError):
        prepared(words, mixed)
    job = prepared(f"--train lora --lora-rank 8 {words}", mixed)
    assert job.choice.plan.training == "lora"
    assert "LoRA" in cli.summary(job)


def test_a_room_that_slurm_shows_is_placed_where_no_speed_is_known(script: str) -> None:
    room = loads_inventory(MIXED.replace(", bandwidth: 450 GB/s", ""))
    words = f"--model llama-3-70b --cards h100:64 {script}"
    with pytest.raises(PlanError, match="nobody has said how fast 'sn1' is: add its bandwidth"):
        prepared(words, room)
    job = prepared(words, replace(room, rebuilt=True))
    assert job.choice.plan.pipelines == ()
    assert any("placed, not planned: " in note and "'sn1'" in note for note in job.notes)
    assert parts(job)[0]["constraint"] == "[sn1|sn2]"


def allocation(slurm: FakeSlurm, text: str, *held: Allocated) -> dict[str, str]:
    """Give the fake a job that holds some nodes; return its environment."""
    job = slurm.submit(["--gres=gpu:1"], text)
    slurm._jobs[job.number] = replace(slurm.job(job), allocated=held)
    return {"SLURM_JOB_ID": str(job.number)}


PLANNED = "#!/bin/sh\n#SN --model llama-3-70b\nsn-launch python3 train.py\n"


def test_a_plan_is_made_for_the_nodes_that_slurm_gave(mixed: Inventory, script: str) -> None:
    slurm = FakeSlurm(mixed)
    hosts = tuple(f"h2-0{number}" for number in range(1, 9))
    env = allocation(slurm, PLANNED, Allocated(hosts, (Gres("gpu", "h100", 8),)))
    plan, _ = plan_here(lambda: mixed, slurm, env)
    same = prepared(f"--model llama-3-70b --cards h100:64 {script}", mixed).choice.plan
    assert plan.pipelines == same.pipelines
    assert plan.predicted == same.predicted
    assert plan.groups[0].hosts == "h2-[01-08]"


def test_nodes_of_two_supernodes_share_their_fabric_in_parts_only(mixed: Inventory) -> None:
    slurm = FakeSlurm(mixed)
    hosts = ("h1-01", "h1-02", "h1-03", "h2-01", "h2-02", "h2-03", "h2-04", "h2-05")
    env = allocation(slurm, PLANNED, Allocated(hosts, (Gres("gpu", "h100", 8),)))
    plan, _ = plan_here(lambda: mixed, slurm, env)
    assert max(mesh.tp for mesh in plan.pipelines[0].meshes) <= 8


def test_parts_of_nodes_and_two_kinds_are_planned_as_they_are(mixed: Inventory) -> None:
    slurm = FakeSlurm(mixed)
    text = "#!/bin/sh\n#SN --model llama-3-8b --global-batch 96\nsn-launch true\n"
    held = (
        Allocated(("a01",), (Gres("gpu", "a100", 8),)),
        Allocated(("h1-01",), (Gres("gpu", "h100", 8),)),
    )
    plan, _ = plan_here(lambda: mixed, slurm, allocation(slurm, text, *held))
    assert sorted(group.name for group in plan.groups) == ["a100", "h100"]
    half = Allocated(("h1-01", "h1-02"), (Gres("gpu", "h100", 4),))
    env = allocation(slurm, text, half)
    plan, _ = plan_here(lambda: mixed, slurm, env)
    assert (plan.groups[0].nodes, plan.groups[0].devices_per_node) == (2, 4)
    none = allocation(slurm, "#!/bin/sh\nsn-launch true\n", half)
    plan, notes = plan_here(lambda: mixed, slurm, none)
    assert plan.pipelines == ()
    assert "placed, not planned: no model was named" in notes


@pytest.mark.parametrize(
    ("cards", "said"),
    [
        ("h100:16,a100:8", "asked for 16 h100 + 8 a100, the job has 8 h100 + 8 a100"),
        ("a100:8", "asked for 8 a100, the job has 8 a100 + 8 h100"),
        ("a100:8,h100:8", ""),
        ("many", ""),
    ],
)
def test_a_job_that_got_other_cards_than_it_asked_for_is_told(
    mixed: Inventory, cards: str, said: str
) -> None:
    slurm = FakeSlurm(mixed)
    text = f"#!/bin/sh\n#SN --model llama-3-8b --global-batch 96 --cards {cards}\nsn-launch true\n"
    held = (
        Allocated(("a01",), (Gres("gpu", "a100", 8),)),
        Allocated(("h1-01",), (Gres("gpu", "h100", 8),)),
    )
    plan, notes = plan_here(lambda: mixed, slurm, allocation(slurm, text, *held))
    assert plan.predicted is not None
    found = [note for note in notes if note.startswith("asked for")]
    assert [f"{note.split(' (')[0]}{note.split(')')[1]}" for note in found] == (
        [said] if said else []
    )
    assert all("#SN" in note or ":2" in note for note in found)


@pytest.mark.parametrize(("count", "told"), [(16, False), (8, True)])
def test_a_number_of_cards_of_any_kind_is_held_against_the_job_too(
    mixed: Inventory, count: int, told: bool
) -> None:
    slurm = FakeSlurm(mixed)
    text = f"#!/bin/sh\n#SN --model llama-3-8b --cards {count}\nsn-launch true\n"
    held = Allocated(("h1-01", "h1-02"), (Gres("gpu", "h100", 8),))
    _, notes = plan_here(lambda: mixed, slurm, allocation(slurm, text, held))
    assert any("the job has 16 h100" in note for note in notes) == told


def test_an_allocation_without_known_devices_is_told(mixed: Inventory) -> None:
    slurm = FakeSlurm(mixed)
    with pytest.raises(UsageError, match="not inside a Slurm job"):
        plan_here(lambda: mixed, slurm, {})
    env = allocation(slurm, PLANNED, Allocated(("h1-01",), ()))
    with pytest.raises(PlanError, match="inventory knows; ask sbatch for them with --nodes"):
        plan_here(lambda: mixed, slurm, env)
    uneven = (
        Allocated(("h1-01",), (Gres("gpu", "h100", 5),)),
        Allocated(("h1-02",), (Gres("gpu", "h100", 3),)),
    )
    with pytest.raises(PlanError, match=r"unequal numbers of h100, or lie apart: 1 x 5, 1 x 3"):
        plan_here(lambda: mixed, slurm, allocation(slurm, PLANNED, *uneven))


UNNAMED = "#!/bin/sh\nsn-launch python3 train.py\n"


def test_a_job_that_asked_for_no_plan_gets_a_description_of_its_devices(mixed: Inventory) -> None:
    slurm = FakeSlurm(mixed)
    uneven = (
        Allocated(("h1-01",), (Gres("gpu", "h100", 5),)),
        Allocated(("h1-02",), (Gres("gpu", "h100", 3), Gres("nvme", "", 1))),
    )
    plan, notes = plan_here(lambda: mixed, slurm, allocation(slurm, UNNAMED, *uneven))
    assert plan.pipelines == ()
    assert [(g.hosts, g.devices_per_node) for g in plan.groups] == [("h1-01", 5), ("h1-02", 3)]
    assert notes == ("placed, not planned: no model was named",)
    nothing = allocation(slurm, UNNAMED, Allocated(("h1-01",), ()))
    assert plan_here(lambda: mixed, slurm, nothing)[0].groups == ()

    def missing() -> Inventory:
        raise ConfigError.one("inventory.yaml", "cannot be read")

    plan, notes = plan_here(missing, slurm, nothing)
    assert plan.groups == ()
    assert notes == ("placed, not planned: inventory.yaml: cannot be read",)
    with pytest.raises(ConfigError):
        plan_here(missing, slurm, allocation(slurm, PLANNED, Allocated(("h1-01",), ())))


def test_a_task_of_an_array_is_planned_for_its_own_nodes(mixed: Inventory) -> None:
    slurm = FakeSlurm(mixed)
    held = [Allocated((f"h1-0{n}",), (Gres("gpu", "h100", 8),)) for n in (1, 2, 3)]
    text = PLANNED.replace("llama-3-70b", "llama-3-8b")
    env = allocation(slurm, text, held[2])
    first = slurm.job(JobId(1))
    tasks = tuple(
        replace(first, id=JobId(1, task=str(n)), allocated=(part,)) for n, part in enumerate(held)
    )
    slurm._jobs[1] = replace(tasks[0], components=tasks)
    plan, _ = plan_here(lambda: mixed, slurm, {**env, "SLURM_ARRAY_TASK_ID": "1"})
    assert (plan.groups[0].hosts, plan.devices) == ("h1-02", 8)


def test_groups_know_their_components(mixed: Inventory) -> None:
    slurm = FakeSlurm(mixed)
    text = "#!/bin/sh\n#SN --framework flagscale --model llama-3-8b --global-batch 256\ntrue\n"
    env = allocation(slurm, text)
    first = slurm.job(JobId(1))
    held = [
        Allocated(("h1-01",), (Gres("gpu", "h100", 8),)),
        Allocated(("asc-01",), (Gres("gpu", "ascend910c", 16),)),
    ]
    parts_ = tuple(
        replace(first, id=JobId(1, offset=n), allocated=(part,)) for n, part in enumerate(held)
    )
    slurm._jobs[1] = replace(parts_[0], components=parts_)
    plan, _ = plan_here(lambda: mixed, slurm, env)
    assert {group.name: group.component for group in plan.groups} == {"h100": 0, "ascend910c": 1}


def test_an_option_that_the_release_does_not_know_is_refused(mixed: Inventory, script: str) -> None:
    old = FakeSlurm(mixed, "22.05")
    with pytest.raises(UsageError, match=r"sbatch 22\.05 has no option --segment"):
        prepare(parse(["--segment=2", "--cards", "h100:16", script]), {}, mixed, old)


def test_json_holds_every_value_with_its_origin(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    room = tmp_path / "mixed.yaml"
    room.write_text(MIXED)
    words = ["--inventory", str(room), "--dry-run", "--json", "--model", "llama-3-8b"]
    assert cli.run([*words, "--cards", "h100:8", script]) == 0
    shown = json.loads(capsys.readouterr().out)
    origins = {value["option"]: value["origin"] for value in shown["values"]}
    assert origins["cards"] == "command line"
    assert origins["time"] == f"#SBATCH in {script}"
    assert origins["gres"] == "the plan"
    assert loads(json.dumps(shown["plan"])).devices == 8


def test_an_index_above_the_limit_of_arrays_is_refused(mixed: Inventory, script: str) -> None:
    assert prepared(f"--array=0-1000:7%50 --cards h100:8 {script}", mixed)
    with pytest.raises(UsageError, match=r"index 1001 is not below this site's MaxArraySize 1001"):
        prepared(f"-a 5,900-1001%2 --cards h100:8 {script}", mixed)


MIXTURE = (
    "#!/bin/bash\nsn-launch python3 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
    "--num-attention-heads 32 --ffn-hidden-size 14336 --swiglu --seq-length 4096 "
    "--global-batch-size 256 --micro-batch-size 1 --padded-vocab-size 32000 --num-experts 8 "
    "--moe-router-topk 2 --group-query-attention --num-query-groups 8 --bf16 "
    "--untie-embeddings-and-output-weights\n"
)
DENSE = MIXTURE.replace("--num-experts 8 --moe-router-topk 2 ", "")


def test_a_model_is_read_in_the_script_and_planned(mixed: Inventory, tmp_path: Path) -> None:
    path = tmp_path / "model.sh"
    path.write_text(MIXTURE)
    job = prepared(f"--cards h100:16 {path}", mixed)
    assert job.choice.plan.pipelines
    path.write_text(DENSE)
    job = prepared(f"--cards h100:16 {path}", mixed)
    assert job.choice.plan.pipelines
    assert (job.choice.plan.global_batch, job.asked.origins["model"][:-1]) == (256, f"{path}:")


UNPLANNED = (
    (
        "h100:8",
        "llamafactory-cli train --model_name_or_path mistralai/Mixtral-8x7B-v0.1 "
        "--finetuning_type lora --stage sft",
        "LoRA of mistralai/Mixtral-8x7B-v0.1, a mixture of experts, is not planned",
    ),
    (
        "h100:8,a100:8",
        MIXTURE.replace("--micro-batch-size 1", "--context-parallel-size 2").split("sn-launch ")[1],
        "cp 2 is not planned of a pipeline over several kinds",
    ),
)
"""Cards, the words of a job, and why there is no plan for it."""


@pytest.mark.parametrize(("cards", "words", "why"), UNPLANNED)
def test_a_model_that_was_only_read_in_the_script_never_keeps_the_job_from_running(
    cards: str, words: str, why: str, mixed: Inventory, tmp_path: Path
) -> None:
    path = tmp_path / "job.sh"
    path.write_text(f"#!/bin/bash\nsn-launch {words}\n")
    job = prepared(f"--framework flagscale --cards {cards} {path}", mixed)
    assert job.choice.plan.pipelines == ()
    assert any("placed, not planned: " in note and why in note for note in job.notes), job.notes


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            "--cards h100:8 --train lora",
            "LoRA of mistralai/Mixtral-8x7B-v0.1, a mixture of experts",
        ),
        (
            "--cards h100:8,a100:8 --framework flagscale --strategy dynamic",
            "flagscale gives all replicas equal samples, .*; nearest that works: --strategy mixed",
        ),
    ],
)
def test_a_plan_that_the_user_asks_for_and_cannot_have_is_an_error(
    words: str, why: str, mixed: Inventory, script: str
) -> None:
    with pytest.raises(PlanError, match=why):
        prepared(f"--model mixtral-8x7b {words} {script}", mixed)


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        ("--tensor-model-parallel-size 4", {"tp": 4}),
        ("--context-parallel-size 2", {"cp": 2}),
        ("--context-parallel-size 1 --tensor-model-parallel-size 2", {"cp": 1, "tp": 2}),
        ("--expert-model-parallel-size 4 --expert-tensor-parallel-size 1", {"ep": 4, "etp": 1}),
    ],
)
def test_sizes_that_the_script_fixes_are_kept(
    words: str, sizes: dict[str, int], mixed: Inventory, tmp_path: Path
) -> None:
    path = tmp_path / "fixed.sh"
    path.write_text((MIXTURE if "ep" in sizes else DENSE).replace("--bf16", f"--bf16 {words}"))
    (mesh,) = prepared(f"--cards h100:16 {path}", mixed).choice.plan.pipelines[0].meshes
    assert {name: getattr(mesh, name) for name in sizes} == sizes


def test_virtual_stages_that_the_script_fixes_are_kept(mixed: Inventory, tmp_path: Path) -> None:
    path = tmp_path / "virtual.sh"
    words = "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4"
    path.write_text(DENSE.replace("--bf16", f"--bf16 {words}"))
    (pipeline,) = prepared(f"--cards h100:16 {path}", mixed).choice.plan.pipelines
    assert (len(pipeline.stages), pipeline.virtual_stages) == (4, 2)


def test_a_size_that_no_plan_keeps_leaves_the_job_placed(mixed: Inventory, tmp_path: Path) -> None:
    path = tmp_path / "fixed.sh"
    path.write_text(DENSE.replace("--bf16", "--bf16 --tensor-model-parallel-size 3"))
    job = prepared(f"--cards h100:16 {path}", mixed)
    assert any("placed, not planned: " in note and "tp 3" in note for note in job.notes), job.notes


def test_a_step_is_counted_from_what_each_device_takes(mixed: Inventory, tmp_path: Path) -> None:
    path = tmp_path / "hf.sh"
    path.write_text(
        "#!/bin/bash\nsn-launch python3 train.py --model_name_or_path Qwen/Qwen2.5-7B "
        "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --bf16 "
        "--deepspeed ds.json\n"
    )
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    job = prepared(f"--framework hf --chdir={tmp_path} --cards h100:16 {path}", mixed)
    assert job.choice.plan.global_batch == 2 * 4 * 16
    (mesh,) = job.choice.plan.pipelines[0].meshes
    assert (mesh.micro_batch, mesh.dp, mesh.zero) == (2, 16, 3)


def test_pinned_nodes_hold_those_that_the_user_named(mixed: Inventory, script: str) -> None:
    (found,) = parts(prepared(f"--pin -w h1-08 --cards h100:16 {script}", mixed))
    assert found["nodelist"] == "h1-[01,08]"


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("-N 2 --cards h100:8,a100:8", "nodes", "2"),
        ("-N 2 --gres=gpu:8 --cards h100:8,a100:8", "gres", "gpu:8"),
        ("-w h1-01,a01 --cards h100:8,a100:8", "constraint", "[sn1*1&pool-a100*1]"),
        ("--gres=gpu:h100 --cards h100:1", "gres", "gpu:h100:1"),
        ("--gpus-per-node=h100 -N 1", "gpus-per-node", "h100"),
        ("--gres=gpu:h100:8,nvme:1 -N 2", "gres", "gpu:h100:8,nvme:1"),
        ("--gres=nvme:1 --cards h100:8", "gres", "gpu:h100:8,nvme:1"),
        ("-N 2 -n 2 --gres=gpu:h100:8", "ntasks", "2"),
        ("-N 2 -n 2 --gres=gpu:h100:8", "ntasks-per-node", "1"),
        ("--gpus-per-task=h100:1 -n 16 -N 2", "ntasks-per-node", "8"),
        ("--tres-per-task=gres/gpu:h100=1 --ntasks-per-node=8 -N 2", "nodes", "2"),
        ("--gres=gpu:16 -N 1 -p ascend", "gres", "gpu:ascend910c:16"),
        ("--gres=gpu:h100:8 --cards 16", "nodes", "2"),
        ("-C 'a100|h100' --cards h100:16", "constraint", "[sn1|sn2]"),
        ("-C '[a100|h100]' --cards h100:16", "constraint", "[sn1|sn2]"),
        ("-C 'fast|new' --cards h100:16", "constraint", "[sn1|sn2]&(fast|new)"),
        ("-C '(fast|new)&h100' --cards h100:16", "constraint", "[sn1|sn2]&(fast|new)&h100"),
        ("-C '[fast|new]' --cards h100:128", "constraint", "[sn1*8&sn2*8]"),
        ("-C '[fast|new]' -w h1-01 --cards h100:8", "constraint", "sn1&[fast|new]"),
        ("-t 0 --cards a100:8", "partition", "train"),
    ],
)
def test_other_words_for_the_same_are_taken(words: str, name: str, value: str, script: str) -> None:
    text = MIXED.replace("      memory:", "      features: [fast, new]\n      memory:")
    room = loads_inventory(text.replace(", max_time: 7-00:00:00", ""))
    (found,) = parts(prepared(f"{words} {script}", room))
    assert found[name] == value


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--gres=gpu:h100:0 -N 1", "--gres=gpu:h100:0 (command line): no card at all"),
        ("--gres=shard:1 --cards h100:8", "a share of a card is no card: plain sbatch"),
        ("--gpus=0", "--gpus=0 (command line): no card at all"),
        ("--gres= --cards h100:8", "--gres (command line) is empty: leave it out"),
        ("-C '[sn1' --cards h100:8", "--constraint=[sn1 (command line): no closing ']'"),
        ("-C 'sn1&' --cards h100:8", "a feature is missing"),
        ("-C 'sn1 sn2' --cards h100:8", "'sn2' has no beginning"),
        ("-C 'sn1&a100' --cards h100:8", "they never stand together"),
        ("-c 1000 --cards h100:8", "8 tasks on a node of 96 CPUs; ask for at most 12"),
        ("--cards h100:12", "take 8 or 16, or ask for 2 nodes with 6 on each"),
        ("-N 3 --gpus=h100:16", "--nodes=3 (command line) and --gpus=h100:16 (command line)"),
        ("-w ./none --cards h100:8", "--nodelist=./none (command line): [Errno 2]"),
        ("-t 8-0 -N 2 --gres=gpu:h100:8", "less time than asked for (max_time 7-00:00:00)"),
        ("--gpus=16 -p ascend", "--gpus=16 (command line) contradicts the plan's --gres=npu:"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(words: str, reason: str, script: str) -> None:
    room = loads_inventory(MIXED.replace("{ascend-910c: 16}", "{ascend-910c: 16}\n      gres: npu"))
    with pytest.raises((UsageError, PlanError)) as caught:
        prepared(f"{words} {script}", room)
    assert reason in str(caught.value)


def test_a_file_of_nodes_bounds_like_a_list(mixed: Inventory, script: str, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("h2-[01-02]\n")
    job = prepared(f"-w {tmp_path}/hosts --cards h100:16 {script}", mixed)
    assert parts(job)[0]["constraint"] == "sn2"
    job = prepared(f"-F {tmp_path}/hosts --cards h100:16 {script}", mixed)
    assert parts(job)[0]["constraint"] == "sn2"
    with pytest.raises(UsageError, match="--exclude="):
        prepared(f"-x {tmp_path}/hosts --cards h100:128 {script}", mixed)


def test_cards_of_an_open_kind_become_devices_of_the_chosen_one(
    mixed: Inventory, script: str
) -> None:
    job = prepared(f"-p ascend --cards 32 {script}", mixed)
    assert job.choice.plan.devices == 64
    assert "32 ascend910c cards are 64 devices" in job.notes
    assert prepared(f"-p train --cards 32 {script}", mixed).choice.plan.devices == 32


def test_live_limits_of_a_partition_count(mixed: Inventory, script: str) -> None:
    slurm = FakeSlurm(mixed)
    slurm._partitions["train"] = replace(
        slurm._partitions["train"], min_nodes=2, max_time="1:00:00"
    )
    with pytest.raises(PlanError, match="partition train: MinNodes is 2"):
        prepare(parse(["--cards", "h100:8", script]), {}, mixed, slurm)
    with pytest.raises(UsageError, match="MaxTime is 1:00:00"):
        prepare(parse(["-t", "2:00:00", "--cards", "h100:16", script]), {}, mixed, slurm)
    assert prepare(parse(["-t", "60", "--cards", "h100:16", script]), {}, mixed, slurm)


def test_each_component_keeps_its_own_comment_and_reservation(
    mixed: Inventory, tmp_path: Path
) -> None:
    path = tmp_path / "het.sh"
    path.write_text(
        "#!/bin/sh\n#SBATCH --gres=gpu:h100:8 -N1 --comment=one\n#SBATCH hetjob\n"
        "#SBATCH --gres=gpu:a100:8 -N1 --comment=two\ntrue\n"
    )
    found = parts(prepared(str(path), mixed))
    assert [part["comment"] for part in found] == ["one sn-submit", "two sn-submit"]
    with pytest.raises(UsageError, match="no 'nope'"):
        prepared(f": --reservation nope {path}", mixed)


def test_a_segment_of_the_users_bounds_the_parts(script: str) -> None:
    nvl72 = load(Path(str(data_dir("topology_conf"))) / "inventories" / "nvl72.yaml")
    (found,) = parts(prepared(f"--segment=4 --cards 128 {script}", nvl72))
    assert found["segment"] == "4"
    job = prepared(f"--segment=8 --cards 64 {script}", nvl72)
    assert (job.choice.slots[0].offer.domain_nodes, job.choice.plan.groups[0].together) == (8, 8)


def test_a_rank_that_submits_does_not_hand_on_its_own_batch(
    mixed: Inventory, tmp_path: Path
) -> None:
    path = tmp_path / "s.sh"
    path.write_text("#!/bin/sh\n#SN --model llama-3-8b --global-batch 512 --cards h100:8\ntrue\n")
    job = prepared(str(path), mixed, SN_GLOBAL_BATCH="64", SN_SAMPLES="8")
    assert job.choice.plan.global_batch == 512
    assert prepared(str(path), mixed, SN_GLOBAL_BATCH="64").choice.plan.global_batch == 64


def test_lines_that_are_not_read_explain_what_is_missing(mixed: Inventory, tmp_path: Path) -> None:
    path = tmp_path / "s.sh"
    path.write_text("#!/bin/sh\n# SN --cards h100:8\ntrue\n")
    with pytest.raises(UsageError, match=r"(?s)--cards is missing.*:2: this line is not read"):
        prepared(str(path), mixed)


def test_a_dry_run_says_whom_it_did_not_ask_and_is_what_is_submitted(
    mixed: Inventory, script: str
) -> None:
    line = parse(["-N", "2", "--cards", "h100:16", script, "a b"])
    dry = prepare(line, {}, mixed, None, "1")
    assert (
        "nobody was asked: all nodes count as free, and Slurm's own defaults as unset" in dry.notes
    )
    slurm = FakeSlurm(mixed)
    real = prepare(line, {}, mixed, slurm, "1")
    submit(real, slurm)
    sent = slurm.submitted[0]
    place = sent.index(next(word for word in sent if word.endswith("/train.sh")))
    assert dry.argv == ["sbatch", "--parsable", *sent[:place], "train.sh", *sent[place + 1 :]]
    assert dry.script.text == slurm.scripts[0]


def test_accounting_may_refuse_and_a_reservation_may_be_yet_to_come(
    mixed: Inventory, script: str
) -> None:
    slurm = FakeSlurm(mixed)
    slurm.accounting = Associations("chemistry", (Association("chemistry", "ascend", ()),))
    with pytest.raises(PlanError, match="partition train"):
        prepare(parse(["--cards", "h100:8", script]), {}, mixed, slurm)
    slurm.accounting = None
    hosts = ("h2-01", "h2-02")
    later = Reservation(
        name="week", is_active=False, hosts=hosts, users=(), accounts=(), groups=(),
        partition="", flags=frozenset(), start=4_000_000_000, end=4_000_000_001,
    )  # fmt: skip
    slurm.kept = (later,)
    job = prepare(parse(["--reservation=week", "--cards", "h100:16", script]), {}, mixed, slurm)
    assert job.choice.slots[0].domains == ("sn2",)
    assert any("reservation week begins at " in note for note in job.notes)


def test_one_command_line_is_for_all_components_of_a_script(
    mixed: Inventory, tmp_path: Path
) -> None:
    path = tmp_path / "het.sh"
    path.write_text(
        "#!/bin/sh\n#SBATCH -N1 --gres=gpu:h100:8\n#SBATCH hetjob\n"
        "#SBATCH -N1 --gres=gpu:a100:8\ntrue\n"
    )
    job = prepared(f"-t 10 {path}", mixed)
    assert [part["time"] for part in parts(job)] == ["10", "10"]
    assert [given.said("time") for given in job.given] == 2 * ["--time=10 (command line)"]
    with pytest.raises((UsageError, PlanError), match="less time than asked for"):
        prepared(f"-t 8-0 {path}", mixed)
