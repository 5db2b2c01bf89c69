"""The error that a plan shows: that of published runs of its kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supernode_slurm.plan import DeviceGroup, Mesh, Pipeline, Plan, Stage
from supernode_slurm.planner import PUBLISHED, expected_error
from supernode_slurm.planner.trust import FEW, SEVERAL, UNSEEN


def plan(model: str, card: str, framework: str = "megatron", precision: str = "bf16") -> Plan:
    group = DeviceGroup(card, card, "maker", ("DEVICES",), "gpu", "node1", 1, 8)
    pipeline = Pipeline(64, (Mesh(0, 1, 1, 8, 1),), (Stage(0, 32, True, True),))
    return Plan(model, 64, 4096, framework, (group,), (pipeline,), precision=precision)


def test_a_kind_with_many_runs_has_their_error() -> None:
    found = expected_error(plan("llama-2-7b", "a100-sxm-80g"))
    assert (found.runs, found.share) == PUBLISHED["dense", "a100-sxm-80g", "megatron", "16 bit"]
    assert found.runs >= FEW
    assert not found.own


@pytest.mark.parametrize(
    ("framework", "precision"), [("megatron", "bf16"), ("megatron", "fp8"), ("flagscale", "bf16")]
)
def test_a_kind_between_has_the_larger_error_of_card_and_software(
    framework: str, precision: str
) -> None:
    found = expected_error(plan("llama-2-7b", "h100-sxm", framework, precision))
    dense = {key: value for key, value in PUBLISHED.items() if key[0] == "dense"}
    means = []
    for place, name in ((1, "h100-sxm"), (2, "megatron")):
        some = [value for key, value in dense.items() if key[place] == name]
        means.append(sum(runs * error for runs, error in some) / sum(runs for runs, _ in some))
    assert found.share == pytest.approx(max(means))
    assert found.runs >= 95
    assert "other software or precision" in found.kind


@pytest.mark.parametrize(
    "asked",
    [
        plan("llama-2-7b", "mi300x"),
        plan("mixtral-8x7b", "a100-sxm-80g"),
        replace(plan("llama-2-7b", "a100-sxm-80g"), training="lora"),
    ],
)
def test_what_no_run_is_like_has_the_error_of_a_source_never_seen(asked: Plan) -> None:
    found = expected_error(asked)
    assert (found.share, found.runs) == (UNSEEN, 0)


def test_several_kinds_of_cards_have_the_error_of_such_runs() -> None:
    one = plan("llama-2-7b", "a100-sxm-80g")
    both = replace(one, groups=(*one.groups, replace(one.groups[0], accelerator="h100-sxm")))
    found = expected_error(both)
    assert (found.runs, found.share) == SEVERAL
    strange = replace(one, groups=(*one.groups, replace(one.groups[0], accelerator="ascend-910c")))
    found = expected_error(strange)
    assert (found.runs, found.share) == (0, UNSEEN)


def test_a_site_s_own_runs_go_first() -> None:
    own = {("dense", "a100-sxm-80g", "16 bit"): (12, 0.02)}
    found = expected_error(plan("llama-2-7b", "a100-sxm-80g"), own)
    assert (found.runs, found.share, found.own) == (12, 0.02, True)
    assert expected_error(plan("llama-2-7b", "h100-sxm"), own) == expected_error(
        plan("llama-2-7b", "h100-sxm")
    )


@pytest.mark.parametrize(
    "other",
    [
        plan("mixtral-8x7b", "a100-sxm-80g"),
        replace(plan("llama-2-7b", "a100-sxm-80g"), precision="fp8"),
        replace(plan("llama-2-7b", "a100-sxm-80g"), training="lora"),
    ],
    ids=("experts", "8 bit", "lora"),
)
def test_nothing_is_known_of_other_runs_on_cards_whose_constants_a_site_changed(
    other: Plan,
) -> None:
    own = {("dense", "a100-sxm-80g", "16 bit"): (12, 0.02)}
    found = expected_error(other, own)
    assert (found.runs, found.share, found.own) == (0, UNSEEN, False)
