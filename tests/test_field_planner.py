"""What went wrong for people who planned a training, each as a kind of fault."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from supernode_slurm import hostlist
from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities, emit, names
from supernode_slurm.inventory import Inventory, load
from supernode_slurm.placement import (
    Choice,
    Limits,
    Room,
    Wanted,
    choose,
    find_slots,
    inventory_view,
    remarks,
)
from supernode_slurm.plan import DeviceGroup, Mesh, Pipeline, Plan, Stage, dumps, loads
from supernode_slurm.planner import Fixed, Offer, predict
from supernode_slurm.planner.costs import usable_gib
from supernode_slurm.runtime import job
from supernode_slurm.runtime.layout import place_plan
from supernode_slurm.sizing import study
from supernode_slurm.sizing.layouts import layout_of
from supernode_slurm.slurmconf import find_release, generate
from tests.test_planner import offer, step_s, uniform, workload
from tests.test_planner_mixed import mixed
from tests.test_sizing import ask_of, room_of

FABRICS = """
version: 1
cluster: two
slurm: {release: "24.11"}
fabrics:
  - name: left
    kind: fat-tree
    rails: {count: 8, bandwidth: 400 Gb/s}
    switches: {la: ["a[1-8]"]}
  - name: right
    kind: fat-tree
    rails: {count: 8, bandwidth: 400 Gb/s}
    switches: {rb: ["b[1-8]"]}
pools:
  - name: pa
    nodes: {hosts: "a[1-8]", devices: {h100-sxm: 8}, sockets: 2, cores: 32, memory: 1000 GiB}
  - name: pb
    nodes: {hosts: "b[1-8]", devices: {KIND: 8}, sockets: 2, cores: 32, memory: 1000 GiB}
partitions:
  main: {pools: [pa, pb], default: true}
"""

BENCH = """
version: 1
cluster: bench
slurm: {release: "24.11"}
pools:
  - name: bench
    nodes:
      hosts: "x[1-2]"
      devices: {rtx-3090: 2, rtx-3080ti: 2}
      sockets: 2
      cores: 16
      memory: 250 GiB
partitions:
  main: {pools: [bench], default: true}
"""


def two_fabrics(folder: Path, kind: str = "h100-sxm") -> Inventory:
    path = folder / "inventory.yaml"
    path.write_text(FABRICS.replace("KIND", kind), "utf-8")
    return load(path)


def chosen(inventory: Inventory, **said: object) -> list[Choice]:
    return choose(Room(inventory, inventory_view(inventory)), ask_of(inventory, **said))


def meshes(plan: Plan) -> list[Mesh]:
    return [mesh for pipeline in plan.pipelines for mesh in pipeline.meshes]


# BR014: node sets in networks that do not meet hung under one root, and jobs lay across them.


def test_a_job_never_lies_across_networks_that_do_not_meet(tmp_path: Path) -> None:
    inventory = two_fabrics(tmp_path)
    for choice in chosen(inventory, model="llama-3-8b", cards=64):
        assert {slot.shown for slot in choice.slots} in ({"pa"}, {"pb"})
        assert all(group.nodes <= 8 for group in choice.plan.groups)
    with pytest.raises(PlanError, match="16 nodes wanted, 8 usable"):
        chosen(inventory, model="llama-3-8b", cards=128)


def test_kinds_in_networks_that_do_not_meet_are_never_in_one_job(tmp_path: Path) -> None:
    inventory = two_fabrics(tmp_path, "a100-sxm-80g")
    said = {"model": "llama-3-8b", "cards": "h100:8,a100:8", "framework": "megatron"}
    best = chosen(inventory, **said)[0]
    assert [group.name for group in best.plan.groups] == ["h100"]
    assert best.compared is not None
    (dropped,) = best.compared.dropped
    assert dropped.group == "a100 x 8" and dropped.with_s is None
    assert "never spans networks that do not meet: pa on left, pb on right" in dropped.why
    near = f"nearest that works: --strategy grouped on h100 x 8, {step_s(best.plan):.2f} s a step"
    with pytest.raises(PlanError) as caught:
        chosen(inventory, **said, strategy="mixed")
    assert str(caught.value).endswith(f"pa on left, pb on right; {near}")


def test_kinds_on_one_network_are_mixed_and_what_lies_elsewhere_is_dropped(
    tmp_path: Path,
) -> None:
    path = tmp_path / "inventory.yaml"
    more = """  - name: pc
    nodes: {hosts: "c[1-8]", devices: {l40s: 8}, sockets: 2, cores: 32, memory: 1000 GiB}
partitions:"""
    text = FABRICS.replace("partitions:", more).replace("[pa, pb]", "[pa, pb, pc]")
    text = text.replace('rb: ["b[1-8]"]', 'rb: ["c[1-8]"]')
    text = text.replace('la: ["a[1-8]"]', 'la: ["a[1-8]", "b[1-8]"]')
    path.write_text(text.replace("KIND", "a100-sxm-80g"), "utf-8")
    cards = "h100:8,l40s:8,a100:8"
    best = chosen(load(path), model="llama-3-8b", cards=cards, global_batch=96)[0]
    assert sorted(group.name for group in best.plan.groups) == ["a100", "h100"]
    assert best.compared is not None
    (dropped,) = best.compared.dropped
    assert dropped.group == "l40s x 8" and "do not meet" in dropped.why


def test_networks_that_do_not_meet_have_roots_of_their_own(tmp_path: Path) -> None:
    written = generate(two_fabrics(tmp_path), find_release("24.11")).files["topology.conf"]
    assert not re.search(r"Switches=.*\bla\b.*\brb\b", written)
    assert re.search(r"^SwitchName=la\b.*Nodes=a\[1-8\]", written, re.MULTILINE)
    assert re.search(r"^SwitchName=rb\b.*Nodes=b\[1-8\]", written, re.MULTILINE)


# BR040: two nodes with two fast and two slow cards each, and no word on how to cut the model.


@pytest.mark.parametrize("framework", ["flagscale", "megatron"])
def test_unlike_cards_of_the_same_nodes_are_cut_by_kind(framework: str) -> None:
    fast, slow = offer("rtx-3090", 2, 2), offer("rtx-3080ti", 2, 2)
    best = mixed(workload("llama-2-7b", 64, 1024), [fast, slow], framework)[0]
    assert best.predicted is not None
    # A mesh is of one group: no tensor-parallel group has both kinds.
    kinds = [best.groups[mesh.group].name for mesh in meshes(best)]
    assert sorted(kinds) == ["rtx3080ti", "rtx3090"]
    layers = dict.fromkeys(kinds, 0)
    for stage in best.pipelines[0].stages:
        layers[kinds[stage.mesh]] += stage.layers
    assert layers["rtx3080ti"] < layers["rtx3090"]
    room = {group.name: usable_gib(given) for group, given in zip(
        (fast.group, slow.group), (fast, slow), strict=True)}  # fmt: skip
    assert len(best.predicted.memory_gib) == 2
    for group, need in zip(best.groups, best.predicted.memory_gib, strict=True):
        assert 0 < need <= room[group.name]


def test_plans_give_each_kind_nodes_of_its_own_and_the_faster_one_is_planned(
    tmp_path: Path,
) -> None:
    """Slurm gives two kinds of one node to a job; the plans have each on nodes of its own."""
    path = tmp_path / "inventory.yaml"
    path.write_text(BENCH, "utf-8")
    cards, why = "rtx3090:4,rtx3080ti:4", "nodes of their own: 4 nodes wanted, 2 usable"
    said = {"model": "qwen2.5-0.5b", "cards": cards, "framework": "flagscale", "global_batch": 96}
    best = chosen(load(path), **said)[0]
    (group,) = best.plan.groups
    times = {
        kind: step_s(chosen(load(path), **(said | {"cards": f"{kind}:4"}))[0].plan)
        for kind in ("rtx3090", "rtx3080ti")
    }
    assert times[group.name] == min(times.values()) == step_s(best.plan)
    assert best.compared is not None
    (dropped,) = best.compared.dropped
    assert why in dropped.why
    near = f"{why}; nearest that works: --strategy grouped on {group.name} x 4, "
    with pytest.raises(PlanError, match=re.escape(near)):
        chosen(load(path), **said, strategy="mixed")
    # Where neither kind can do it alone, that is said too.
    with pytest.raises(PlanError, match=f"(?s){why}.*does not fit on 4 x rtx-30"):
        chosen(load(path), **(said | {"model": "llama-2-13b"}))


def test_more_cards_of_a_kind_than_its_nodes_hold_are_refused_with_what_they_hold(
    tmp_path: Path,
) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(BENCH, "utf-8")
    inventory = load(path)
    room = Room(inventory, inventory_view(inventory))
    for wanted, more in ((4, "; plans give each kind nodes of its own"), (5, "")):
        line = Wanted("rtx3090", wanted, Limits(per_node=wanted))
        with pytest.raises(PlanError) as caught:
            find_slots(room, line)
        said = f"bench: {wanted} on each node wanted, they hold 2 of this kind{more}"
        assert str(caught.value).endswith(said)


# BR041: replicas on unlike cards run at the pace of the slowest, and nobody said at what loss.


def test_replicas_on_unlike_cards_come_with_their_loss() -> None:
    room = room_of("mixed")
    ask = ask_of(room.inventory, model="llama-3-8b", cards="h100:8,a100:8", global_batch=96,
                 framework="torch")  # fmt: skip
    said = [line for line in study(room, ask, 1).remarks if "the slowest card leads" in line]
    assert len(said) == 1
    loss = re.search(r"equal shares would take [\d.]+ s a step, \+(\d+)%", said[0])
    assert loss is not None
    assert int(loss[1]) > 0


def test_a_framework_of_equal_shares_does_not_get_unlike_cards() -> None:
    with pytest.raises(PlanError, match="gives all replicas equal samples"):
        mixed(workload("llama-3-8b", 96), [offer("a100", 1), offer("h100", 1)], "deepspeed")


# BR042: cards of 16 and of 32 GB got equal shards, and the small ones ran out of memory.


@pytest.mark.parametrize("framework", ["torch", "flagscale", "megatron"])
@pytest.mark.parametrize("model", ["qwen2.5-1.5b", "qwen2.5-7b"])
def test_every_kind_of_card_holds_its_own_part(framework: str, model: str) -> None:
    offers = [offer("v100-sxm-16g", 1), offer("v100-sxm-32g", 1)]
    try:
        plans = mixed(workload(model, 64, 1024), offers, framework)
    except PlanError as error:
        assert framework == "torch" and model == "qwen2.5-7b"
        assert "does not fit on 8 x v100-sxm-16g" in str(error)
        return
    room = {given.accelerator.id: usable_gib(given) for given in offers}
    for plan in plans:
        assert plan.predicted is not None
        for group, need in zip(plan.groups, plan.predicted.memory_gib, strict=True):
            assert need <= room[group.accelerator]


def test_shards_over_unlike_cards_are_refused() -> None:
    offers = [offer("v100-sxm-16g", 1), offer("v100-sxm-32g", 1)]
    with pytest.raises(PlanError, match="deepspeed gives all replicas equal samples"):
        mixed(workload("qwen2.5-1.5b", 64, 1024), offers, "deepspeed")


# BR045: 8 cards as 5 + 3 on two nodes, for a framework that wants equal numbers.


@pytest.mark.parametrize("cards", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 31, 32])
def test_every_node_of_a_kind_gives_as_many_cards_or_the_job_is_refused(cards: int) -> None:
    inventory = room_of("mixed").inventory
    try:
        found = chosen(inventory, model="qwen2.5-0.5b", cards=f"a100:{cards}", global_batch=cards)
    except PlanError as error:
        assert cards > 8 and cards % 8
        assert "is no multiple of 8 per node" in str(error)
        return
    for choice in found:
        (group,) = choice.plan.groups
        assert group.nodes * group.devices_per_node == cards == group.devices


# BR047: a node of 8 A100 and a node of 4 A800 need numbers of processes of their own.


@pytest.mark.parametrize("framework", ["flagscale", "megatron", "torch"])
def test_each_kind_has_its_own_number_of_processes(framework: str) -> None:
    offers = [offer("a100", 1, 8), offer("a800", 1, 4)]
    plan = mixed(workload("qwen2.5-1.5b", 96, 1024), offers, framework)[0]
    assert {group.name: group.devices_per_node for group in plan.groups} == {"a100": 8, "a800": 4}
    env = {"SLURM_JOB_ID": "7", "SLURM_HET_SIZE": "2"}
    for number, group in enumerate(plan.groups):
        env[f"SLURM_JOB_NODELIST_HET_GROUP_{number}"] = group.hosts
    places = place_plan(plan, job.components(env))
    counts = {place.node: place.count for place in places}
    assert counts == {"a100-01": 8, "a800-01": 4}
    assert sum(counts.values()) == plan.devices == sum(mesh.devices for mesh in meshes(plan))


# BR048: lists of meshes of unlike TP that did not make up the cards, or that could not run.


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        ("llama-3-8b", ("a100", "h100")),
        ("qwen2.5-14b", ("a100", "a800")),
        ("qwen2.5-32b", ("h100", "ascend910c")),
    ],
)
def test_the_product_of_each_mesh_is_its_number_of_cards(
    model: str, kinds: tuple[str, str]
) -> None:
    offers = [offer(kinds[0], 2), offer(kinds[1], 1, 16 if kinds[1] == "ascend910c" else 8)]
    for plan in mixed(workload(model, 64), offers, "flagscale"):
        written = yaml.safe_load(emit(plan).files["flagscale.yaml"])["system"]["hetero"]
        sizes = written["hetero_process_meshes"]
        assert len(sizes) == 5 * len(plan.groups)
        for group, at in zip(written["hetero_device_types"], range(0, len(sizes), 5), strict=True):
            tp, cp, ep, dp, pp = sizes[at : at + 5]
            devices = {item.name: item.devices for item in plan.groups}[group]
            assert tp * cp * dp * pp == devices
            assert ep == 1


def test_experts_over_unlike_cards_are_cut_as_the_meshes_can() -> None:
    offers = [offer("a100", 4), offer("h100", 4)]
    for plan in mixed(workload("qwen3-30b-a3b", 64, 1024), offers, "flagscale"):
        written = yaml.safe_load(emit(plan).files["flagscale.yaml"])["system"]["hetero"]
        assert written["hetero_process_meshes"][2::5] == [1, 1]
        assert all(mesh.ep == 1 and mesh.etp == mesh.tp for mesh in plan.pipelines[0].meshes)


# BR050: 70B at TP 8, PP 2 had less than half the MFU of 32B at TP 8, PP 1, and unequal memory.


def a800() -> Offer:
    return replace(offer("a800", 32), network_gbs=100.0)


def test_another_pipeline_is_proposed_for_stages_out_of_balance() -> None:
    asked = workload("llama-2-70b", 512)
    plain = uniform(replace(asked, fixed=Fixed(tp=8, pp=2, virtual_stages=1)), a800())[0]
    best = uniform(asked, a800())[0]
    assert step_s(best) < step_s(plain)
    pipeline = best.pipelines[0]
    assert pipeline.meshes[0].pp > 2 or pipeline.virtual_stages > 1


def test_the_loss_of_the_second_stage_is_shown() -> None:
    shares = []
    for model, pp in (("llama-2-70b", 2), ("qwen2.5-32b", 1)):
        fixed = Fixed(tp=8, pp=pp, virtual_stages=1, micro_batch=1)
        plan = uniform(replace(workload(model, 512), fixed=fixed), a800())[0]
        assert plan.predicted is not None
        shares.append(plan.predicted.breakdown_s["bubble"] / step_s(plan))
    assert shares[0] > 0.01 > shares[1]


@pytest.mark.parametrize("model", ["gemma-2-9b", "llama-3-8b", "qwen2.5-7b"])
def test_stages_with_embedding_and_head_get_fewer_layers(model: str) -> None:
    asked = replace(workload(model, 64), fixed=Fixed(tp=1, pp=4, virtual_stages=1, micro_batch=1))
    best = uniform(asked, offer("a100", 2))[0]
    layers = [stage.layers for stage in best.pipelines[0].stages]
    assert layers[-1] == min(layers) < max(layers)
    total, odd = divmod(sum(layers), 4)
    even = tuple(total + (stage < odd) for stage in range(4))
    own = replace(layout_of(best.pipelines[0]), layers=even)
    assert step_s(best) < predict(asked, offer("a100", 2), own).step_time_s


# BR051: groups of parallel experts across two racks stalled now and then.


@pytest.mark.parametrize(("cards", "ep"), [(64, 16), (128, 16), (128, 64), (256, 32)])
def test_groups_that_talk_most_lie_inside_one_rack(cards: int, ep: int) -> None:
    room = room_of("nvl72")
    ask = ask_of(room.inventory, model="qwen3-235b-a22b", cards=cards, framework="megatron")
    ask = replace(ask, fixed=Fixed(ep=ep))
    choice = choose(room, ask)[0]
    (group,), (mesh,) = choice.plan.groups, meshes(choice.plan)
    assert mesh.ep == ep
    # So many nodes in a row share a rack: what sbatch is told as --segment.
    together = (group.together or group.nodes) * group.devices_per_node
    assert together % (mesh.ep * mesh.etp) == 0
    assert together % (mesh.tp * mesh.cp) == 0
    assert not any("expert parallelism" in line for line in remarks(room.inventory, ask, choice))


def test_experts_that_leave_their_fabric_are_warned_of() -> None:
    room = room_of("nvl72")
    ask = ask_of(room.inventory, model="qwen3-235b-a22b", cards=256, framework="megatron")
    ask = replace(ask, fixed=Fixed(ep=128))
    said = remarks(room.inventory, ask, choose(room, ask)[0])
    assert any(
        "expert parallelism over 128 devices leaves the fabric of 64" in line for line in said
    )


# BR052: nodes came in an order that mixed the racks, and ranks followed it.


def test_ranks_go_rack_by_rack_even_where_slurms_list_mixes_them() -> None:
    racks = ("r1-[01-18]", "r2-[01-18]")
    group = DeviceGroup("gb200", "gb200", "nvidia", (), "gpu", ",".join(racks), 36, 4, racks, 18)
    mesh = Mesh(0, tp=4, pp=1, dp=36, micro_batch=1)
    plan = Plan("m", 72, 128, "megatron", (group,), (Pipeline(72, (mesh,), (Stage(0, 4),)),))
    mixed_up = [f"r{rack}-{node:02}" for node in range(1, 19) for rack in (2, 1)]
    held = job.components({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": ",".join(mixed_up)})
    order = [place.node for place in place_plan(plan, held)]
    assert sorted(order) == sorted(mixed_up)
    for part in (order[:18], order[18:]):
        assert set(part) in [set(hostlist.expand(rack)) for rack in racks]


# BR054: a wish for another TP in each stage, on a mixed fleet.


def fleet(framework: str) -> Plan:
    kinds = (("h100", 4), ("a100", 1), ("a800", 2), ("h800", 1))
    groups = tuple(
        replace(offer(kind, 1, size).group, name=kind, hosts=f"{kind}-1") for kind, size in kinds
    )
    cut = tuple(
        Mesh(number, tp=size, pp=1, dp=1, micro_batch=1, sequence_parallel=size > 1, zero=0)
        for number, (_, size) in enumerate(kinds)
    )
    stages = tuple(Stage(number, 8, number == 0, number == 3) for number in range(4))
    return Plan("llama-3-8b", 16, 2048, framework, groups, (Pipeline(16, cut, stages),))


def test_a_plan_holds_another_tp_for_each_stage() -> None:
    plan = fleet("flagscale")
    assert loads(dumps(plan)) == plan
    assert [mesh["tp"] for mesh in json.loads(dumps(plan))["pipelines"][0]["meshes"]] == [
        4,
        1,
        2,
        1,
    ]
    assert plan.devices == 8


@pytest.mark.parametrize("framework", [name for name in names() if capabilities(name).tensor])
def test_a_framework_that_cannot_run_it_is_named(framework: str) -> None:
    if capabilities(framework).meshes:
        written = yaml.safe_load(emit(fleet(framework)).files["flagscale.yaml"])
        sizes = written["system"]["hetero"]["hetero_process_meshes"]
        assert sizes[::5] == [4, 1, 2, 1]
        return
    with pytest.raises(PlanError, match=rf"(?i){framework}|megatron"):
        emit(fleet(framework))


# BR098: jobs with 44 ranks and more in a rack crashed, and two domains in one clique clashed.


@pytest.mark.parametrize("cards", [44, 48, 60, 64, 72])
def test_a_job_that_fits_into_one_domain_lies_in_one(cards: int) -> None:
    room = room_of("nvl72")
    ask = ask_of(room.inventory, model="qwen2.5-7b", cards=cards, global_batch=cards * 4)
    for choice in choose(room, ask):
        (slot,) = choice.slots
        assert slot.offer.domain_devices == cards
        assert "&" not in slot.shown


def test_nodes_with_faults_make_their_domain_smaller() -> None:
    room = room_of("degraded")
    dead = hostlist.expand("s03-p1-dgx-01-c[01,04,13],s04-p1-dgx-02-c[10,14-15]")
    live = Room(room.inventory, room.view.without(dead))
    for cards, together in ((60, 60), (64, 32), (120, 60)):
        ask = ask_of(room.inventory, model="qwen2.5-7b", cards=cards, global_batch=cards * 4)
        assert {choice.slots[0].offer.domain_devices for choice in choose(live, ask)} == {together}
