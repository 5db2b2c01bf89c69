"""sn-launch: the rank map and each rank's environment, without Slurm."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from supernode_slurm.plan import DeviceGroup, Mesh, Pipeline, Plan, Stage, dumps, loads
from supernode_slurm.runtime import entry, job, layout, rank, share, srun
from supernode_slurm.runtime.job import Held
from supernode_slurm.runtime.layout import Layout, Place, place_plan, place_unplanned
from supernode_slurm.runtime.planning import read_plan
from supernode_slurm.runtime.problem import LaunchError
from supernode_slurm.runtime.rank import part_of

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


def placed(plan: Plan | None, per_node: bool = False, /, **more: str) -> Layout:
    """Return the rank map, as it arrives at the ranks."""
    parts = job.components(environ(plan, **more))
    places = place_plan(plan, parts) if plan else place_unplanned(parts, {})
    return layout.loads(Layout(places, "10.0.0.1", 20007, per_node).dumps())


def ranks(plan: Plan | None, per_node: bool = False, /, **more: str) -> list[dict[str, str]]:
    found = placed(plan, per_node, **more)
    every = [(p.node, n) for p in found.places for n in range(1 if per_node else p.count)]
    return [
        rank.variables(env, rank.find_rank(env, found, plan))
        for node, local in every
        for env in [{**more, "SLURMD_NODENAME": node, "SLURM_LOCALID": str(local)}]
    ]


def test_a_plan_survives_its_json() -> None:
    assert loads(dumps(MIXED)) == MIXED
    with pytest.raises(ValueError, match="not a plan"):
        loads("[]")
    with pytest.raises(ValueError, match="version 9"):
        loads('{"version": 9}')


def test_ranks_follow_the_plan_and_not_the_host_names() -> None:
    found = ranks(MIXED)
    assert [int(item["RANK"]) for item in found] == list(range(6))
    assert [item["SN_GROUP"] for item in found] == ["h100"] * 4 + ["a100"] * 2
    assert placed(MIXED).places[0].node == "h1-02"
    assert {item["MASTER_ADDR"] for item in found} == {"10.0.0.1"}
    assert {item["WORLD_SIZE"] for item in found} == {"6"}
    assert [item["NODE_RANK"] for item in found] == ["0", "0", "1", "1", "2", "2"]


def test_one_task_per_node_gets_the_numbers_of_its_node() -> None:
    found = ranks(MIXED, True)
    assert [(item["NODE_RANK"], item["NNODES"], item["NPROC_PER_NODE"]) for item in found] == [
        ("0", "3", "2"), ("1", "3", "2"), ("2", "3", "2"),
    ]  # fmt: skip
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "SN_SAMPLES"} & set(found[0])
    alone = ranks(None, True, SLURM_GPUS_ON_NODE="8")
    assert {item["NPROC_PER_NODE"] for item in alone} == {"8"}


def test_shares_cover_the_global_batch_exactly() -> None:
    found = [share(item) for item in ranks(MIXED)]
    assert [item.samples for item in found] == [4, 4, 4, 3, 3, 2]
    taken = Counter(
        sample for item in found for sample in range(item.offset, item.offset + item.samples)
    )
    assert taken == Counter(range(20))
    with pytest.raises(RuntimeError, match="RANK is not set: start the job with sn-launch"):
        share({})


def test_tensor_parallel_ranks_share_their_samples() -> None:
    plan = Plan("m", 8, 128, "megatron", (H100,), (pipeline(0, 8, 1, tp=2, pp=2),))
    found = [part for number in range(4) if (part := part_of(plan, number))]
    assert [(part.stage, part.tp_rank) for part in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {(part.samples, part.offset, part.accumulation) for part in found} == {(8, 0, 8)}
    assert part_of(plan, 4) is None


def test_stages_on_different_meshes_come_in_pipeline_order() -> None:
    meshes = (Mesh(0, 2, 2, 1, 1), Mesh(1, 2, 1, 1, 1))
    line = Pipeline(8, meshes, (Stage(0, 4), Stage(0, 4), Stage(1, 2)))
    plan = Plan("m", 8, 128, "flagscale", (H100, NPU), (line,))
    found = [part for number in range(6) if (part := part_of(plan, number))]
    assert [part.stage for part in found] == [0, 0, 1, 1, 2, 2]


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
        (H100, {"SLURM_JOB_GPUS": "7", "SLURM_HET_SIZE": "2"}, {"CUDA_VISIBLE_DEVICES": "0,1"}),
        (NPU, {}, {"ASCEND_RT_VISIBLE_DEVICES": "0,1"}),
        (NPU, {"SLURM_JOB_GPUS": "7"}, {"ASCEND_RT_VISIBLE_DEVICES": "0,1"}),
        (NPU, {"ASCEND_RT_VISIBLE_DEVICES": "2,3"}, {"ASCEND_RT_VISIBLE_DEVICES": "2,3"}),
    ],
)
def test_the_vendors_variable_comes_from_the_step(
    group: DeviceGroup, given: dict[str, str], wanted: dict[str, str]
) -> None:
    assert rank.visible_devices(given, group) == wanted


def test_other_vendors_follow_the_indices_that_slurm_made_local() -> None:
    group = DeviceGroup(
        "s4000", "mtt-s4000", "mthreads", ("MUSA_VISIBLE_DEVICES",), "gpu", "m1", 1, 2
    )
    env = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "6,7"}  # ConstrainDevices=yes
    assert rank.visible_devices(env, group) == {"MUSA_VISIBLE_DEVICES": "0,1"}


def test_the_network_of_the_nodes_is_set_where_the_user_has_not() -> None:
    wired = replace(H100, environment={"NCCL_SOCKET_IFNAME": "bond0", "NCCL_IB_HCA": "mlx5"})
    plan = Plan("", 1, 1, "torch", (wired, A100))
    first = ranks(plan, NCCL_IB_HCA="mine")[0]
    assert first["NCCL_SOCKET_IFNAME"] == "bond0"
    assert "NCCL_IB_HCA" not in first


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("h1-[02,05]", "wants 1 nodes for a100, the job got 0 (none)"),
        ("a03,h1-02,h2-01", "promised one supernode for h100, but h1-02,h2-01 lie in several"),
        ("a[03-04],h1-[02,05]", "wants 1 nodes for a100, the job got 2 (a03,a04)"),
        ("a03,h1-[02,05],x1", "the plan does not know x1"),
        ("a03,h1-[0x]", "cannot read the host list 'a03,h1-[0x]'"),
        ("", "not inside a Slurm job"),
        ("a03,h1-[02", "cannot read the host list 'a03,h1-[02'"),
    ],
)
def test_what_the_job_got_is_compared_with_the_promise(
    nodes: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    env = environ(MIXED, SLURM_JOB_NODELIST=nodes, SN_REPLAN="0")
    assert entry.launch(["true"], env, "") == 3
    assert reason in capsys.readouterr().err


HET = {
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_NODELIST": "h1-[02,05]",
    "SLURM_JOB_ID_HET_GROUP_0": "7",
    "SLURM_JOB_ID_HET_GROUP_1": "8",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "h1-[02,05]",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "a03",
    "SLURM_TASKS_PER_NODE_HET_GROUP_0": "2(x2)",
    "SLURM_TASKS_PER_NODE_HET_GROUP_1": "2",
    "SLURM_CPUS_PER_TASK_HET_GROUP_1": "3",
}


def commands(
    plan: Plan | None, apart: bool = False, per_node: bool = False, /, **more: str
) -> list[srun.Step]:
    parts = job.components(environ(plan, **more))
    found = placed(plan, per_node, **more)
    options = [
        srun.task_options(part, found, "/hosts" if srun.uneven_hosts(part, found) else "")
        for part in parts
    ]
    return srun.steps(parts, options, ["sn-launch", "train"], apart)


def test_a_heterogeneous_job_is_one_step_over_all_components() -> None:
    (step,) = commands(MIXED, **HET)
    middle = step.argv.index(":")
    assert step.argv[: middle - 2] == (
        "srun", "--het-group=0", "--kill-on-bad-exit=1", "--export=ALL", "--ntasks=4",
        "--nodes=2", "--ntasks-per-node=2",
    )  # fmt: skip
    assert step.argv[middle + 1 : -2] == (
        "--het-group=1", "--kill-on-bad-exit=1", "--export=ALL", "--ntasks=2", "--nodes=1",
        "--ntasks-per-node=2", "--cpus-per-task=3",
    )  # fmt: skip
    assert step.argv[-2:] == step.argv[middle - 2 : middle] == ("sn-launch", "train")
    assert step.jobs == ("7", "8")
    parts = job.components(HET)
    for some in (parts, parts[:1]):
        with pytest.raises(LaunchError, match="a lone ':'"):
            srun.steps(some, [[], []], ["a", ":", "b"], apart=False)


def test_where_the_site_forbids_that_each_component_has_its_own_step() -> None:
    first, second = commands(MIXED, True, **HET)
    assert first.argv[:2] == ("srun", "--het-group=0")
    assert second.argv[:2] == ("srun", "--het-group=1")
    assert (first.jobs, second.jobs) == (("7",), ("8",))
    assert ":" not in (*first.argv, *second.argv)


def test_what_speaks_of_other_tasks_is_not_handed_down() -> None:
    env = {
        "SLURM_NTASKS": "4", "SLURM_TRES_PER_TASK": "cpu=2", "SLURM_GPUS_PER_TASK": "h100:1",
        "SLURM_MEM_PER_NODE": "9", "CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": "7",
    }  # fmt: skip
    lists = ["CUDA_VISIBLE_DEVICES"]
    assert set(srun.handed_down(env, lists, heterogeneous=True)) == {"SLURM_JOB_ID"}
    kept = srun.handed_down(env, lists, heterogeneous=False)
    assert set(kept) == {"SLURM_JOB_ID", "SLURM_MEM_PER_NODE", "CUDA_VISIBLE_DEVICES"}
    env["SLURM_JOB_GPUS"] = "0"  # the batch host's devices, not the user's choice
    assert "CUDA_VISIBLE_DEVICES" not in srun.handed_down(env, lists, heterogeneous=False)


TASKS, CPUS = "SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"
EACH, TRES = "SLURM_CPUS_PER_TASK", "SLURM_TRES_PER_TASK"


@pytest.mark.parametrize(
    ("more", "per_node", "options"),
    [
        ({TASKS: "2(x3)", EACH: "6"}, False, "--ntasks-per-node=2 --cpus-per-task=6"),
        ({TASKS: "2(x3)"}, False, "--ntasks-per-node=2"),
        (
            {TASKS: "1(x3)", EACH: "64", CPUS: "64(x3)"},
            False,
            "--ntasks-per-node=2 --cpus-per-task=32",
        ),
        ({TASKS: "1(x3)", CPUS: "1(x3)"}, False, "--ntasks-per-node=2 --overcommit"),
        (
            {TASKS: "2(x3)", EACH: "6", CPUS: "12(x3)"},
            True,
            "--ntasks-per-node=1 --cpus-per-task=12",
        ),
        ({TASKS: "2(x3)", "SLURM_GPUS_PER_TASK": "h1:1"}, True, "--ntasks-per-node=1 --gpus=6"),
        ({TASKS: "2(x3)", TRES: "cpu=6,gres/gpu:h1=2"}, True, "--ntasks-per-node=1 --gpus=12"),
        ({TASKS: "2(x3)", "SLURM_GPUS_PER_TASK": "1"}, False, "--ntasks-per-node=2"),
    ],
)
def test_tasks_get_the_cpus_and_devices_of_their_node(
    more: dict[str, str], per_node: bool, options: str
) -> None:
    (step,) = commands(MIXED, False, per_node, **more)
    assert " ".join(step.argv[5:-2]) == options


def test_unequal_nodes_get_a_host_file() -> None:
    env = {"SLURM_JOB_NODELIST": "u[3,5]", "SLURM_TASKS_PER_NODE": "1(x2)"}
    (part,) = job.components(env)
    found = Layout(place_unplanned((part,), {"u3": 3, "u5": 5}), "u3", 1)
    assert [(p.node, p.first, p.count) for p in found.places] == [("u3", 0, 3), ("u5", 3, 5)]
    assert srun.uneven_hosts(part, found) == "u3\n" * 3 + "u5\n" * 5
    assert "--nodelist=/hosts" in srun.task_options(part, found, "/hosts")
    assert srun.uneven_hosts(part, Layout(place_unplanned((part,), {}), "u3", 1)) is None


def test_without_a_plan_ranks_follow_the_tasks_that_the_user_asked_for() -> None:
    env = {"SLURM_TASKS_PER_NODE": "5,3", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "8"}
    assert [item["RANK"] for item in ranks(None, **env)] == [str(n) for n in range(8)]
    parts = job.components(env)
    assert [p.count for p in place_unplanned(parts, {"n1": 4, "n2": 4})] == [5, 3]
    assert "SN_SAMPLES" not in ranks(None, **env)[7]


def test_a_placed_document_tells_kinds_and_no_numbers() -> None:
    document = Plan("", 1, 1, "torch", (replace(H100, environment={"NCCL_IB_HCA": "x"}), A100))
    env = environ(document, SLURM_TASKS_PER_NODE="1(x3)", SLURM_NTASKS="3")
    parts = job.components(env)
    places = layout.make_places(env, parts, document, per_node=False)
    assert [(p.node, p.group, p.count) for p in places] == [
        ("a03", 1, 1), ("h1-02", 0, 1), ("h1-05", 0, 1),
    ]  # fmt: skip
    found = Layout(places, "m", 1)
    mine = {"SLURMD_NODENAME": "h1-02", "SLURM_LOCALID": "0", "CUDA_VISIBLE_DEVICES": "0,1,2"}
    shown = rank.variables(mine, rank.find_rank(mine, found, document))
    assert (shown["SN_GROUP"], shown["NCCL_IB_HCA"], shown["RANK"]) == ("h100", "x", "1")
    assert shown["CUDA_VISIBLE_DEVICES"] == "0,1,2"


def test_as_many_tasks_as_devices_are_laid_by_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {node: {"gpu": Held(8, ())} for node in ("n1", "n2")}
    monkeypatch.setattr(layout, "held_by_job", lambda _: held)
    env = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "15,1", "SLURM_NTASKS": "16"}

    def counts(**more: str) -> list[int]:
        found = {**env, **more}
        places = layout.make_places(found, job.components(found), None, per_node=False)
        return [place.count for place in places]

    assert counts() == [8, 8]
    assert counts(SLURM_NTASKS_PER_NODE="8") == [15, 1]
    assert counts(SLURM_TASKS_PER_NODE="14,1", SLURM_NTASKS="15") == [14, 1]


def test_kinds_of_components_follow_the_component() -> None:
    document = Plan("", 1, 1, "torch", (replace(A100, component=1), replace(H100, component=0)))
    parts = job.components(HET)
    places = place_unplanned(parts, {}, document.groups)
    assert [(p.node, p.group) for p in places] == [("h1-02", 1), ("h1-05", 1), ("a03", 0)]
    assert {p.group for p in place_unplanned(parts, {}, ())} == {-1}


def test_which_npus_a_job_holds_reaches_its_ranks() -> None:
    env = {"SLURMD_NODENAME": "asc-01", "SLURM_LOCALID": "1"}
    plan = Plan("", 1, 1, "torch", (NPU,), (pipeline(0, 1, 2),))
    places = (Place("asc-01", 0, 0, 2, (4, 5)), Place("asc-02", 0, 2, 2, (6, 7)))
    found = layout.loads(Layout(places, "m", 1).dumps())
    assert found.places == places
    shown = rank.variables(env, rank.find_rank(env, found, plan))
    assert shown["ASCEND_RT_VISIBLE_DEVICES"] == "4,5"


def test_devices_are_counted_as_slurmctld_shows_them() -> None:
    shown = (
        "JobId=4 Nodes=u[3-4] CPU_IDs=0 Mem=0 GRES=gpu:h100:3(IDX:0-2) Nodes=u5 CPU_IDs=0-1 "
        "Mem=1000 GRES=npu:ascend910c:4(IDX:0-1,4-5),nic:2(CNT:2) Nodes=u6 CPU_IDs=1 Mem=0 GRES= "
        "MinCPUsNode=1"
    )
    found = job.parse_job(shown)
    assert found["u3"] == found["u4"] == {"gpu": Held(3, (0, 1, 2))}
    assert found["u5"] == {"npu": Held(4, (0, 1, 4, 5)), "nic": Held(2)}
    assert found["u6"] == {}
    assert job.parse_job("") == {}


@pytest.mark.parametrize(
    ("gres", "named", "devices"),
    [
        ("gpu:h100:4(IDX:0-3),nic:5(CNT:5)", "", Held(4, (0, 1, 2, 3))),
        ("gpu:h100:1(IDX:2),gpu:a100:1(IDX:5),nvme:2(IDX:0-1)", "", Held(2, (2, 5))),
        ("npu:910:4(IDX:4-7),nic:2(CNT:2)", "", Held(4, (4, 5, 6, 7))),
        ("npu:4(IDX:4-7),nvme:1(IDX:0)", "", Held(0)),
        ("npu:4(IDX:4-7),nvme:1(IDX:0)", "npu", Held(4, (4, 5, 6, 7))),
        ("gpu:1(IDX:0),npu:2(IDX:0-1)", "npu", Held(2, (0, 1))),
        ("shard:h100:8(0/8,8/8),nic:9(CNT:9)", "", Held(0)),
        ("nvme:1(IDX:0)", "npu", Held(0)),
    ],
)
def test_only_devices_are_counted_as_devices(gres: str, named: str, devices: Held) -> None:
    held = job.parse_job(f"JobId=4 Nodes=n1 CPU_IDs=0 Mem=0 GRES={gres}")["n1"]
    assert job.devices_among(held, named) == devices


@pytest.mark.parametrize("plan", ["{", "[]", '{"version": 2, "groups": [1]}', '{"groups": []}'])
def test_a_broken_plan_is_an_error(plan: str) -> None:
    with pytest.raises(LaunchError, match=r"SN_PLAN is (not )?a plan"):
        read_plan({"SN_PLAN": plan})


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        ("2,1,2", "h1-02 needs 2 tasks, this step has 1"),
        ("1(x3)", "needs 2 tasks, this step has 1"),
        ("2(x2)", "3 nodes, but numbers for 2"),
        ("2(y3)", "cannot read Slurm's numbers per node"),
    ],
)
def test_missing_ranks_of_a_step_are_refused_before_they_hang(tasks: str, reason: str) -> None:
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "a03,h1-[02,05]"}
    env = environ(MIXED, **step, SLURM_STEP_TASKS_PER_NODE=tasks)
    with pytest.raises(LaunchError) as caught:
        parts = job.components(env)
        layout.check_tasks(place_plan(MIXED, parts), parts, per_node=False)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("step", "inside"),
    [("0", True), ("12", True), ("4294967290", False), ("-6", False), ("", False)],
)
def test_slurms_own_steps_are_none_of_ours(step: str, inside: bool) -> None:
    assert job.in_step({"SLURM_STEP_ID": step, "SLURM_STEP_NODELIST": "n1"}) is inside


def test_two_groups_in_one_pool_are_told_apart_by_their_component() -> None:
    x = [
        DeviceGroup(kind, kind, "nvidia", ("CUDA_VISIBLE_DEVICES",), "gpu", "x[01-02]", 1, 2)
        for kind in ("a100", "h100")
    ]
    env = {
        "SLURM_HET_SIZE": "2",
        "SLURM_JOB_NODELIST_HET_GROUP_0": "x02",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "x01",
    }
    found = placed(Plan("", 1, 1, "torch", tuple(x)), **env)
    assert found.places == (Place("x02", 0, 0, 2), Place("x01", 1, 2, 2))
    turned = (replace(x[0], component=1), replace(x[1], component=0))
    found = placed(Plan("", 1, 1, "torch", turned), **env)
    assert found.places == (Place("x01", 0, 0, 2), Place("x02", 1, 2, 2))


def test_parts_of_a_spanning_group_keep_to_one_supernode() -> None:
    domains = ("h1-[01-08]", "h2-[01-08]")
    wide = DeviceGroup(
        "h100", "h100-sxm", "nvidia", (), "gpu", ",".join(domains), 4, 2, domains, together=2
    )
    plan = Plan("", 1, 1, "torch", (wide,))
    good = placed(plan, SLURM_JOB_NODELIST="h1-[03-04],h2-[01,07]")
    assert good.world == 8
    with pytest.raises(LaunchError, match="h1-04,h2-01 lie in several"):
        placed(plan, SLURM_JOB_NODELIST="h1-[02-04],h2-01")


def test_a_rank_map_of_thousands_of_nodes_fits_one_variable() -> None:
    names = [f"gpu-{rack:03d}-{node:02d}" for rack in range(250) for node in range(16)]
    text = Layout(
        place_unplanned([job.Component("1", dict.fromkeys(names, 8))], {}), "m", 1
    ).dumps()
    assert len(text) < 131_072 // 4  # MAX_ARG_STRLEN of Linux
    assert [place.node for place in layout.loads(text).places] == names


@pytest.mark.parametrize(
    "broken",
    [{"SLURM_LOCALID": "x"}, {"SN_LAYOUT": "{}"}, {"SLURMD_NODENAME": "x9"}, {"SN_PLAN": "{"}],
)
def test_a_broken_environment_is_one_message(
    broken: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    env = environ(MIXED, SN_LAYOUT=placed(MIXED).dumps(), SLURMD_NODENAME="a03", SLURM_LOCALID="0")
    assert entry.launch(["--rank", "--", "true"], {**env, **broken}, "") == 3
    assert capsys.readouterr().err.count("sn-launch: error: ") == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "no command; usage: sn-launch"),
        (["--per-node"], "no command"),
        (["--nonsuch", "true"], "unknown option --nonsuch"),
        (["--srun"], "unknown option --srun"),
        (["--srun=exclusive", "true"], "write it and its value as one: --srun=--NAME=VALUE"),
        (["--srun", "--mem", "--srun", "4G", "true"], "as one: --srun=--mem=4G"),
        (["--srun=-n3", "true"], "itself says where and how many ranks start"),
        (["--srun=-w", "--srun=h2", "true"], "--srun=-w: sn-launch itself says where"),
        (["--srun=--ntasks=3", "true"], "how many ranks start"),
        (["--srun=--nodel=h1", "true"], "how many ranks start"),
        (["--srun=--output=x", "true"], "2> err.$RANK"),
        (["--srun=-e", "--srun=x", "true"], "2> err.$RANK"),
        (["--srun=--err=x", "true"], "2> err.$RANK"),
        (["--srun=--pty", "true"], "2> err.$RANK"),
    ],
)
def test_mistakes_on_the_command_line_are_usage_errors(
    words: Sequence[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.launch(words, os.environ, "") == 2
    assert reason in capsys.readouterr().err


def test_the_command_begins_after_our_options() -> None:
    found = entry.parse(["--per-node", "--srun=--mem=0", "--srun", "-l", "--", "-x", "--srun=y"])
    assert found == entry.Words(("-x", "--srun=y"), True, ("--mem=0", "-l"))
