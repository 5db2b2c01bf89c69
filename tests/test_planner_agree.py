"""Parts that searches put together cost what the whole costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from supernode_slurm.catalogue import find_model
from supernode_slurm.errors import PlanError
from supernode_slurm.planner import RECOMPUTE, Layout, Offer, Workload, predict
from supernode_slurm.planner.build import case_of, cut_of
from supernode_slurm.planner.case import Case, stacked, taken_cases
from supernode_slurm.planner.constants import DEFAULT
from supernode_slurm.planner.costs import costs_of
from supernode_slurm.planner.crossings import Crossings, Part
from supernode_slurm.planner.memory import memory_of, stage_parts, stages_of
from supernode_slurm.planner.mesh import Shape, front_layers, meshes_of
from supernode_slurm.planner.pipeline import Chain, Held
from supernode_slurm.planner.stacks import STACKS, stack_of
from supernode_slurm.planner.step import PARTS, hop_s
from tests.test_planner import offer

shapes = st.builds(
    Shape,
    tp=st.sampled_from([1, 2, 4, 8]),
    dp=st.sampled_from([1, 2, 8]),
    micro_batch=st.sampled_from([1, 2]),
    recompute=st.sampled_from(RECOMPUTE),
    zero=st.sampled_from([0, 1, 2, 3]),
)
trainings = st.sampled_from(["full", "lora"])
EXPERTS = ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3")
"""The last one with layers without experts, latent attention and prediction of several tokens."""
names = st.sampled_from(["llama-3-8b", "qwen2.5-3b", *EXPERTS])
stacks = st.sampled_from(sorted(STACKS))


def layout_of(shape: Shape, layers: tuple[int, ...]) -> Layout:
    return Layout(
        shape.tp, shape.dp, shape.micro_batch, layers, shape.recompute, shape.zero, shape.tp > 1,
        ep=shape.ep, etp=shape.etp,
    )  # fmt: skip


def asked_of(model: str, shape: Shape, rounds: int, stack: str, training: str) -> Workload:
    assume(training == "full" or model not in EXPERTS)
    batch = rounds * shape.dp * shape.micro_batch
    return Workload(find_model(model), 2048, batch, "bf16", stack, training)


def spread(shape: Shape, model: str, share: int) -> Shape:
    """Return the shape with the experts of a mixture over some of its devices."""
    if model not in EXPERTS:
        return shape
    devices = shape.tp * shape.dp
    ep = min(share, devices, 8)
    return replace(shape, ep=ep, etp=min(shape.tp, devices // ep))


def placed(shape: Shape, pp: int) -> Offer:
    devices = shape.tp * shape.dp * pp
    return offer("a100", max(devices // 8, 1), min(devices, 8))


def case_at(asked: Workload, given_: Offer, layout: Layout) -> Case:
    return case_of(asked, given_, cut_of(layout, stack_of(asked.framework)))


shares = st.sampled_from([1, 2, 8])


@given(
    shape=shapes, pp=st.sampled_from([1, 2, 3, 6]), model=names, stack=stacks,
    training=trainings, share=shares,
)  # fmt: skip
@settings(max_examples=120)
def test_parts_of_memory_add_up_to_the_whole(
    shape: Shape, pp: int, model: str, stack: str, training: str, share: int
) -> None:
    shape = spread(shape, model, share)
    asked = asked_of(model, shape, 8, stack, training)
    front = front_layers(asked.model)
    layers = tuple(range(3 + front, 3 + front + pp))
    case = case_at(asked, placed(shape, pp), layout_of(shape, layers))
    whole, parts = memory_of(case, DEFAULT), stage_parts(case, DEFAULT)
    for place, stage in enumerate(stages_of(case)):
        count = float(stage.layers)
        if not count:
            continue
        ends = first, last = bool(stage.first), bool(stage.last)
        tables = 1 if first and last and asked.model.tied else first + last
        found = parts.stage(count - first * front, float(stage.held), tables, ends)
        assert float(found) == pytest.approx(float(whole.stages[place]), rel=1e-12)
    assert float(whole.peak) == float(whole.stages.max())


@given(
    shape=shapes, pp=st.sampled_from([1, 2, 4]), model=names, stack=stacks, training=trainings,
    share=shares, virtual=st.sampled_from([1, 2, 3]),
)  # fmt: skip
@settings(max_examples=120)
def test_a_chain_of_stages_is_a_pipeline_on_one_kind(
    shape: Shape, pp: int, model: str, stack: str, training: str, share: int, virtual: int
) -> None:
    assume(virtual == 1 or pp > 1)
    shape = replace(spread(shape, model, share), interleaved=virtual > 1)
    asked = asked_of(model, shape, 4 * pp, stack, training)
    front, given_ = front_layers(asked.model), placed(shape, pp)
    least, more = divmod(asked.model.layers - front, pp)
    assume(pp < 4 or not more)  # Two stages in the middle would differ.
    layers = [least + more, *(least for _ in range(pp - 1))]
    layout = layout_of(shape, (layers[0] + front, *layers[1:]))
    layout = replace(layout, virtual_stages=virtual)
    whole = predict(asked, given_, layout)
    hop = float(hop_s(case_at(asked, given_, layout), DEFAULT))
    (mesh,) = meshes_of(asked, given_, [shape], [pp])
    places = range(pp)
    part = Part(0, pp, shape.dp, mesh, virtual)
    if pp > 1 and not stack_of(stack).whole_transfers:
        assert Crossings(asked, [given_]).inner_s(part) == pytest.approx(hop, rel=1e-9)
    chain = Chain(
        stages=tuple(Held(mesh, layers[place], (place == 0, place == pp - 1)) for place in places),
        p2p_s=tuple(hop * ((place > 0) + (place < pp - 1)) for place in places),
        micro_batches=4 * pp,
        virtual=virtual,
    )
    found = chain.breakdown_s()
    tied = asked.model.tied and pp > 1 and training == "full"
    for name in PARTS:
        if name != "dp" or not tied:
            assert found[name] == pytest.approx(whole.breakdown_s[name], rel=1e-9, abs=1e-12)
    # The sum over both ends of a tied table is the caller's, who knows the way between them.
    assert (whole.breakdown_s["dp"] > found["dp"] + 1e-12) == tied
    assert max(chain.memory_bytes()) / 2**30 == pytest.approx(whole.memory_gib[0])


def test_many_cases_at_once_cost_what_each_costs_alone() -> None:
    asked = Workload(find_model("llama-3-8b"), 4096, 64)
    runs = [
        (asked, offer("h100", 2), Layout(8, 2, 1, (32,))),
        (asked, offer("a100", 2), Layout(2, 2, 2, (8, 8, 9, 7), "full")),
        (
            Workload(find_model("mixtral-8x7b"), 4096, 64, "bf16", "megatron-bridge-26.04"),
            offer("gb200", 4, 4, 4),
            Layout(2, 4, 1, (16, 16), "selective", ep=8, virtual_stages=2),
        ),
        (
            Workload(find_model("deepseek-v3"), 4096, 64, "fp8"),
            offer("h100", 8),
            Layout(2, 8, 1, (15, 15, 16, 15), cp=1, ep=16),
        ),
        (
            Workload(find_model("qwen2.5-3b"), 2048, 64, training="lora"),
            offer("mi300x", 1),
            Layout(1, 8, 4, (36,), zero=3),
        ),
    ]
    cases = [case_at(*run) for run in runs]
    whole = Case(
        dims=stacked([case.dims for case in cases]),
        cut=stacked([case.cut for case in cases]),
        rates=stacked([case.rates for case in cases]),
        software=stacked([case.software for case in cases]),
    )
    together = costs_of(whole, DEFAULT)
    for row, run in enumerate(runs):
        alone = predict(*run)
        assert together.step.time_s[row] == pytest.approx(alone.step_time_s, rel=1e-12)
        assert together.memory.peak[row] / 2**30 == pytest.approx(alone.memory_gib[0], rel=1e-12)
    some = costs_of(taken_cases(whole, np.array([3, 1])), DEFAULT)
    assert list(some.step.time_s) == pytest.approx([together.step.time_s[row] for row in (3, 1)])
    assert stacked([cases[0].cut]).tp.shape == (1,)


def test_experts_in_every_second_layer_are_not_planned_over_several_kinds() -> None:
    model = find_model("mixtral-8x7b")
    assert model.mixture
    turns = replace(model, mixture=replace(model.mixture, dense_layers=(1, 3)))
    with pytest.raises(PlanError, match="take turns in mistralai"):
        meshes_of(Workload(turns, 4096, 64), offer("a100", 1), [Shape(1, 8, 1, "none", 1)], [1])
