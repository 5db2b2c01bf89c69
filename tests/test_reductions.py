"""What gradients are summed in: planned, told to the framework, refused where it cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from supernode_slurm.errors import PlanError, UsageError
from supernode_slurm.frameworks import capabilities, emit
from supernode_slurm.frameworks import names as frameworks
from supernode_slurm.plan import Plan, dumps, loads
from supernode_slurm.planner import LOSSY, REDUCTIONS, Fixed, plan_uniform
from supernode_slurm.sizing import Study, study
from supernode_slurm.sizing.question import predicted_of
from tests.test_cli import run
from tests.test_sizing import ask_of, room_of

SLOW = {"model": "llama-3-8b", "cards": "a100:32", "global_batch": 64}
"""Four nodes on a network, a small batch: gradients are waited for."""


def studied(**said: object) -> Study:
    room = room_of("mixed")
    return study(room, ask_of(room.inventory, **{**SLOW, **said}), 4)


def planned(framework: str, reduction: str, **fixed: Any) -> Plan:
    room = room_of("mixed")
    found = study(room, ask_of(room.inventory, framework=framework, **SLOW), 1)
    offer = found.best.choice.slots[0].offer
    from supernode_slurm.placement import workload_of

    ask = ask_of(room.inventory, framework=framework, **SLOW)
    assert ask.model is not None
    work = replace(workload_of(ask, ask.model), reduction=reduction, fixed=Fixed(**fixed))
    able = capabilities(framework)
    return plan_uniform(work, offer, able, 1)[0]


@pytest.mark.parametrize("name", frameworks())
def test_each_way_that_a_framework_has_is_planned_and_no_other(name: str) -> None:
    able = capabilities(name)
    assert set(able.reductions) <= set(REDUCTIONS)
    for reduction in REDUCTIONS:
        zero = {"zero": 3} if reduction in LOSSY and 3 in able.zero else {}
        if reduction in able.reductions:
            plan = planned(name, reduction, **zero)
            assert plan.reduction == reduction
            assert loads(dumps(plan)) == plan
        else:
            with pytest.raises(PlanError, match=f"{name} does not sum gradients in {reduction}"):
                planned(name, reduction, **zero)


def test_fewer_bytes_are_less_traffic_and_in_megatron_less_memory() -> None:
    sizes = {"tp": 1, "pp": 1, "micro_batch": 1, "zero": 1}
    plain, whole, half = (
        predicted_of(planned("megatron", name, **sizes)) for name in ("", "fp32", "bf16")
    )
    assert plain == whole
    assert half.breakdown_s["dp"] < whole.breakdown_s["dp"]
    # Two bytes of each of 8 billion parameters, less a copy of Adam's for its shard.
    assert whole.memory_gib[0] - half.memory_gib[0] == pytest.approx(8.03e9 * 2 / 2**30, rel=0.1)
    whole, half = (predicted_of(planned("deepspeed", name, zero=1)) for name in ("fp32", "bf16"))
    assert half.breakdown_s["dp"] < whole.breakdown_s["dp"]
    assert half.memory_gib == whole.memory_gib


def test_frameworks_are_told() -> None:
    assert "--grad-reduce-in-bf16" in emit(planned("megatron", "bf16", tp=1, pp=1)).arguments
    assert "--grad-reduce-in-bf16" not in emit(planned("megatron", "", tp=1, pp=1)).arguments
    for reduction, said in (("", "bf16"), ("bf16", "bf16"), ("fp32", "fp32")):
        found = json.loads(emit(planned("deepspeed", reduction)).files["deepspeed.json"])
        assert found["communication_data_type"] == said
    found = json.loads(emit(planned("deepspeed", "int8", zero=3)).files["deepspeed.json"])
    assert found["zero_optimization"]["zero_quantized_gradients"] is True
    assert found["zero_optimization"]["stage"] == 3


def test_what_fewer_bytes_would_bring_is_shown_and_a_loss_only_where_allowed() -> None:
    names = {change.name for change in studied(framework="deepspeed").changes}
    assert not any("int8" in name for name in names)
    change = next(
        item for item in studied(framework="megatron").changes if item.name == "reduce-bf16"
    )
    assert change.gain >= 0.01
    assert change.plan is not None
    best = studied(framework="megatron", reduce_gradients="bf16").best.choice.plan
    assert change.plan == best
    lossy = studied(framework="deepspeed", allow_lossy="yes")
    for item in lossy.changes:
        if item.name == "reduce-int8":
            assert "with a loss" in item.words
            assert item.plan is not None
            assert {mesh.zero for mesh in item.plan.pipelines[0].meshes} == {3}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"reduce_gradients": "int8"}, "add --allow-lossy yes"),
        ({"reduce_gradients": "bf61"}, "did you mean 'bf16'?"),
        ({"allow_lossy": "perhaps"}, "expected yes or no"),
    ],
)
def test_wrong_words_are_refused(words: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        ask_of(room_of("mixed").inventory, **{**SLOW, **words})


def test_a_framework_that_cannot_is_named_with_what_it_can() -> None:
    done = run(
        *("plan", "-i", "topology_conf/inventories/mixed.yaml", "--model", "llama-3-8b"),
        *("--cards", "h100:8", "--framework", "torchtitan", "--reduce-gradients", "bf16"),
    )
    assert done.returncode == 3
    assert "torchtitan does not sum gradients in bf16; use fp32" in done.stderr
