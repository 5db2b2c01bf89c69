"""sn-launch: the rank map and each rank's environment, without Slurm."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from supernode_slurm.plan import DeviceGroup, Mesh, Pipeline, Plan, Stage, dumps, loads
from supernode_slurm.runtime import launch, share

A100 = DeviceGroup(
    "a100", "a100-sxm-80g", "nvidia", ("CUDA_VISIBLE_DEVICES",), "gpu", "a[01-04]", 1, 2
)
H100 = DeviceGroup(
    "h100", "h100-sxm", "nvidia", ("CUDA_VISIBLE_DEVICES",), "gpu",
    "h1-[01-08],h2-[01-08]", 2, 2, ("h1-[01-08]", "h2-[01-08]"),
)  # fmt: skip
NPU = DeviceGroup(
    "ascend910c",
    "ascend-910c",
    "huawei",
    ("ASCEND_RT_VISIBLE_DEVICES",),
    "npu",
    "asc-[01-04]",
    1,
    2,
)


def pipeline(group: int, samples: int, dp: int, tp: int = 1, pp: int = 1) -> Pipeline:
    mesh = Mesh(group, tp, pp, dp, 1)
    return Pipeline(samples, (mesh,), tuple(Stage(0, 4) for _ in range(pp)))


MIXED = Plan("m", 20, 128, "torch", (H100, A100), (pipeline(0, 15, 4), pipeline(1, 5, 2)))


def environ(plan: Plan | None, **more: str) -> dict[str, str]:
    found = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a03,h1-[02,05]", **more}
    return {**found, "SN_PLAN": dumps(plan)} if plan else found


def ranks(plan: Plan, **more: str) -> list[dict[str, str]]:
    env = environ(plan, **more)
    layout = json.loads(json.dumps(launch.make_layout(env)))
    return [
        launch.rank_environment({**env, "SLURMD_NODENAME": n, "SLURM_LOCALID": str(i)}, layout)
        for n, (_, _, count) in layout["nodes"].items()
        for i in range(count)
    ]


def test_a_plan_survives_its_json() -> None:
    assert loads(dumps(MIXED)) == MIXED
    with pytest.raises(ValueError, match="not a plan"):
        loads("[]")
    with pytest.raises(ValueError, match="version 9"):
        loads('{"version": 9}')


def test_ranks_follow_the_plan_and_not_the_host_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_address", lambda node: node)
    found = ranks(MIXED)
    assert [int(rank["RANK"]) for rank in found] == list(range(6))
    assert [rank["SN_GROUP"] for rank in found] == ["h100"] * 4 + ["a100"] * 2
    assert {rank["MASTER_ADDR"] for rank in found} == {"h1-02"}
    assert {rank["WORLD_SIZE"] for rank in found} == {"6"}
    assert [rank["NODE_RANK"] for rank in found] == ["0", "0", "1", "1", "2", "2"]


def test_shares_cover_the_global_batch_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_address", lambda node: node)
    found = [share({**rank}) for rank in ranks(MIXED)]
    assert [item.samples for item in found] == [4, 4, 4, 3, 3, 2]
    taken = Counter(
        sample for item in found for sample in range(item.offset, item.offset + item.samples)
    )
    assert taken == Counter(range(20))
    with pytest.raises(RuntimeError, match="RANK is not set: start the job with sn-launch"):
        share({})


def test_tensor_parallel_ranks_share_their_samples() -> None:
    plan = Plan("m", 8, 128, "megatron", (H100,), (pipeline(0, 8, 1, tp=2, pp=2),))
    raw = json.loads(dumps(plan))
    found = [launch.share(raw, rank) for rank in range(4)]
    assert [(r["SN_STAGE"], r["SN_TP_RANK"]) for r in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {(r["SN_SAMPLES"], r["SN_SAMPLE_OFFSET"]) for r in found} == {(8, 0)}


def test_stages_on_different_meshes_come_in_pipeline_order() -> None:
    meshes = (Mesh(0, 2, 2, 1, 1), Mesh(1, 2, 1, 1, 1))
    line = Pipeline(8, meshes, (Stage(0, 4), Stage(0, 4), Stage(1, 2)))
    raw = json.loads(dumps(Plan("m", 8, 128, "flagscale", (H100, NPU), (line,))))
    assert [launch.share(raw, rank)["SN_STAGE"] for rank in range(6)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("group", "given", "wanted"),
    [
        (H100, {"CUDA_VISIBLE_DEVICES": "4,5"}, {"CUDA_VISIBLE_DEVICES": "4,5"}),
        (H100, {"SLURM_STEP_GPUS": "6,7"}, {"CUDA_VISIBLE_DEVICES": "6,7"}),
        (H100, {"SLURM_JOB_GPUS": "2,3"}, {"CUDA_VISIBLE_DEVICES": "2,3"}),
        (
            H100,
            {"SLURM_JOB_GPUS": "0", "SLURM_STEP_GPUS": "2", "SLURM_HET_SIZE": "2"},
            {"CUDA_VISIBLE_DEVICES": "2"},
        ),
        (NPU, {}, {"ASCEND_RT_VISIBLE_DEVICES": "0,1"}),
        (
            NPU,
            {"SLURM_JOB_GPUS": "7", "SLURM_HET_SIZE": "2"},
            {"ASCEND_RT_VISIBLE_DEVICES": "0,1"},
        ),
    ],
)
def test_the_vendors_variable_comes_from_the_step(
    group: DeviceGroup, given: dict[str, str], wanted: dict[str, str]
) -> None:
    raw: dict[str, Any] = json.loads(dumps(Plan("", 1, 1, "torch", (group,))))["groups"][0]
    assert launch.visible_devices(given, raw) == wanted


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("h1-[02,05]", "wants 1 nodes for a100, the job got 0 (none)"),
        ("a03,h1-02,h2-01", "promised one supernode for h100, but h1-02,h2-01 lie in several"),
        ("a[03-04],h1-[02,05]", "wants 1 nodes for a100, the job got 2 (a03,a04)"),
        ("a03,h1-[02,05],x1", "the plan does not know x1"),
        ("a03,h1-[0x]", "cannot read the host range '0x'"),
        ("", "not inside a Slurm job"),
        ("a03,h1-[02", "cannot read the host list 'a03,h1-[02'"),
    ],
)
def test_what_the_job_got_is_compared_with_the_promise(
    nodes: str, reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch.os, "environ", environ(MIXED, SLURM_JOB_NODELIST=nodes))
    assert launch.main(["true"]) == 3
    assert reason in capsys.readouterr().err


def test_components_of_a_heterogeneous_job_are_joined() -> None:
    env = {
        "SLURM_HET_SIZE": "2",
        "SLURM_JOB_NODELIST": "h1-02",
        "SLURM_JOB_NODELIST_HET_GROUP_0": "h1-[02,05]",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "a03",
    }
    assert launch.job_components(env) == [{"h1-02": 0, "h1-05": 0}, {"a03": 0}]
    env["SLURM_CPUS_PER_TASK_HET_GROUP_1"] = "3"
    command = launch.srun_command(env, ["python3", "train.py"])
    middle = command.index(":")
    assert command[:4] == ["srun", "--het-group=0", "--kill-on-bad-exit=1", "--export=ALL"]
    assert command[middle + 1 : middle + 5] == [
        "--het-group=1", "--kill-on-bad-exit=1", "--export=ALL", "--cpus-per-task=3",
    ]  # fmt: skip
    assert command[-3:] == command[middle - 3 : middle] == ["--", "python3", "train.py"]
    with pytest.raises(launch.LaunchError, match="a lone ':'"):
        launch.srun_command(env, ["a", ":", "b"])


def test_the_first_components_devices_are_not_handed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_address", lambda node: node)
    env = environ(MIXED, CUDA_VISIBLE_DEVICES="0", SLURM_HET_SIZE="2", SLURM_NTASKS="4")
    env["SLURM_JOB_NODELIST_HET_GROUP_0"] = "h1-[02,05]"
    env["SLURM_JOB_NODELIST_HET_GROUP_1"] = "a03"
    command, handed_down = launch.prepare(env, ["true"], in_step=False)
    assert command[0] == "srun"
    assert not {"CUDA_VISIBLE_DEVICES", "SLURM_NTASKS"} & set(handed_down)
    assert json.loads(handed_down["SN_LAYOUT"])["world"] == 6


def test_an_ordinary_job_passes_its_cpus_on() -> None:
    assert "--cpus-per-task=6" in launch.srun_command({"SLURM_CPUS_PER_TASK": "6"}, ["true"])


def test_without_a_plan_ranks_are_placed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_address", lambda node: node)
    env = environ(None, SLURM_TASKS_PER_NODE="3(x2),2", SLURMD_NODENAME="h1-05")
    env["SLURM_LOCALID"] = "1"
    found = launch.rank_environment(env, launch.make_layout(env))
    assert (found["RANK"], found["WORLD_SIZE"]) == ("7", "8")
    assert "SN_SAMPLES" not in found


@pytest.mark.parametrize("plan", ["{", "[]", '{"version": 2, "groups": [1]}', '{"version": 1}'])
def test_a_broken_plan_is_an_error(plan: str) -> None:
    with pytest.raises(launch.LaunchError, match="SN_PLAN is not"):
        launch.read_plan({"SN_PLAN": plan})


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        ("2,1,2", "wants 2 tasks on each h100 node, Slurm starts 1, 2"),
        ("1(x3)", "Slurm starts 1"),
        ("2(x2)", "3 nodes (a03,h1-[02,05]), but tasks for 2"),
        ("2(y3)", "cannot read the tasks per node"),
    ],
)
def test_missing_ranks_are_refused_before_they_hang(tasks: str, reason: str) -> None:
    with pytest.raises(launch.LaunchError) as caught:
        launch.make_layout(environ(MIXED, SLURM_TASKS_PER_NODE=tasks))
    assert reason in str(caught.value)


def test_two_groups_in_one_pool_are_told_apart_by_their_component(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launch, "_address", lambda node: node)
    x = [
        DeviceGroup(kind, kind, "nvidia", ("CUDA_VISIBLE_DEVICES",), "gpu", "x[01-02]", 1, 2)
        for kind in ("a100", "h100")
    ]
    env = environ(Plan("", 1, 1, "torch", tuple(x)), SLURM_HET_SIZE="2")
    env["SLURM_JOB_NODELIST_HET_GROUP_0"] = "x02"
    env["SLURM_JOB_NODELIST_HET_GROUP_1"] = "x01"
    assert launch.make_layout(env)["nodes"] == {"x02": [0, 0, 2], "x01": [1, 2, 2]}


def test_parts_of_a_spanning_group_keep_to_one_supernode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_address", lambda node: node)
    domains = ("h1-[01-08]", "h2-[01-08]")
    wide = DeviceGroup(
        "h100", "h100-sxm", "nvidia", (), "gpu", ",".join(domains), 4, 2, domains, together=2
    )
    plan = Plan("", 1, 1, "torch", (wide,))
    good = launch.make_layout(environ(plan, SLURM_JOB_NODELIST="h1-[03-04],h2-[01,07]"))
    assert good["world"] == 8
    with pytest.raises(launch.LaunchError, match="h1-04,h2-01 lie in several"):
        launch.make_layout(environ(plan, SLURM_JOB_NODELIST="h1-[02-04],h2-01"))


@pytest.mark.parametrize(
    "broken", [{"SN_PLAN": '{"groups":[1]}'}, {"SLURM_HET_SIZE": "x"}, {"SN_LAYOUT": "{}"}]
)
def test_a_broken_environment_is_one_message(
    broken: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch.os, "environ", {**environ(MIXED), **broken})
    assert launch.main(["--rank", "--", "true"]) == 3
    assert "sn-launch: error: " in capsys.readouterr().err
