"""Terms of the equations, computed by hand from sizes that are written out here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
import pytest

from supernode_slurm.planner.case import Case, Cut, Dims, Rates, Software, numbers
from supernode_slurm.planner.constants import Constants
from supernode_slurm.planner.memory import memory_of, params_of, stages_of
from supernode_slurm.planner.stages import Loads, best_split, endless
from supernode_slurm.planner.step import sync_s

T = TypeVar("T")

# Nothing but what a test writes out costs time or memory.
CONSTANTS = Constants({"context_gib": 0.0, "hop_s": 0.0, "data_hidden": 0.5})


def record(kind: type[T], default: float, **values: float) -> T:
    """Return a record of numbers, those that are not given at the default."""
    names = [spec.name for spec in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: numbers(values.get(name, default)) for name in names})


# 1,000 parameters of a dense layer, 500 of a table; of a layer of experts 135 beside 30 of each.
DENSE = {"layers": 2, "attention_params": 600, "mlp_params": 300, "whole_params": 100}
TABLES = {"vocab": 50, "hidden": 10}
MIXED = {
    "attention_params": 100,
    "whole_params": 10,
    "mlp_params": 60,
    "shared_params": 20,
    "router_params": 5,
    "expert_params": 30,
    "experts": 4,
    "per_token": 2,
    "expert_ffn": 6,
    "shared_ffn": 5,
    "ffn": 12,
    "inputs": 2,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 4,
    "value_dim": 4,
    "hidden": 8,
    "vocab": 10,
    "sequence": 10,
    "bits": 16,
}


def case_of(dims: Mapping[str, float], **cut: float) -> Case:
    """Return a case: 1,000 bytes a second inside a fabric of 2 devices, 100 beyond it."""
    return Case(
        record(Dims, 0, **dict(dims)),
        record(Cut, 0, **{"tp": 1, "cp": 1, "ep": 1, "etp": 1, "pp": 1, "dp": 1}
            | {"virtual": 1, "micro_batch": 1, "flash": 1, "overlap": 1} | cut),
        record(Rates, 0, scale_up_bs=1000, nic_bs=100, rail_bs=100, elementwise_bs=38, domain=2,
               node=2, total=4, memory_bytes=1e9),
        record(Software, 0, gradient_bytes=2, wire_bytes=2, optimizer_bytes=12, logit_bytes=4,
               release=1),
    )  # fmt: skip


def sync(case: Case, count: float) -> tuple[float, float]:
    """Return the exposed traffic and the update of a single stage, 3 seconds per micro-batch."""
    stage = stages_of(case)[0]
    of = (stage, numbers(3.0), numbers(count))
    exposed, update = sync_s(case, CONSTANTS, params_of(case), of)
    return float(exposed), float(update)


@pytest.mark.parametrize(
    ("zero", "pp", "exposed", "update"),
    [
        # 3,000 parameters, of which a ring of 4 moves 3/4 in 2.25 s per byte of each.
        # Summed in 16 bit, 2 x 2 x 2.25 s; the last way back is 2/3 of 3 s.
        (0, 1, 9 - 2, 3000),
        # Scattered and gathered under a whole micro-batch.
        (1, 1, 9 - 3, 750),
        # Scattered four times, 18 s, and gathered once, 4.5 s; half of it is hidden.
        (2, 1, 22.5 / 2, 750),
        # Gathered twice and scattered for each of four, under 12 s.
        (3, 1, 4 * 13.5 - 12, 750),
        # Beside a pipeline once a step. The second table is another stage's.
        (3, 2, 13.5 * 2500 / 3000 - 3, 625),
    ],
)
def test_traffic_of_replicas_by_zero_stage(
    zero: int, pp: int, exposed: float, update: float
) -> None:
    case = case_of(
        DENSE | TABLES | {"global_batch": 16}, dp=4, zero=zero, pp=pp, first=2, last=2 * (pp > 1)
    )
    case = replace(case, rates=replace(case.rates, domain=numbers(4)))
    assert sync(case, 4) == pytest.approx((exposed, update))


def test_a_hybrid_shards_in_a_fabric_and_sums_its_copies_beyond() -> None:
    case = case_of(DENSE | TABLES | {"global_batch": 4}, dp=4, zero=3, shard=2, first=2)
    # A ring of two: 1,500 of 3,000 parameters, three times 2 bytes. Their copies: 2 x 1,500 / 2
    # at a tenth of the speed, 2 bytes each.
    near, far = 3 * 2 * 1500 / 1000, 2 * 1500 / 100
    assert sync(case, 1)[0] == pytest.approx(near + far - 3)


def test_experts_are_summed_among_their_own_replicas() -> None:
    case = case_of(MIXED | {"layers": 3, "global_batch": 4}, dp=4, ep=2, zero=1, first=3)
    case = replace(case, rates=replace(case.rates, domain=numbers(4)))
    # 135 of each layer and two tables over 4 devices, two experts of each layer over 2.
    moved = ((3 * 135 + 2 * 80) * 3 / 4 + 3 * 60 / 2) / 1000
    exposed, update = sync(case, 1)
    assert exposed == pytest.approx(4 * moved / 2)
    assert update == pytest.approx((3 * 135 + 2 * 80) / 4 + 3 * 60 / 2)


# One layer of experts keeps of a token: inputs 8 x 8, attention 4 x (8 + 4), what is routed
# 2 x (2 x (8 + 6) + 4 x 6) and 2 x 2 x 8, the shared expert 3 x 2 x 5, the router 8 x 4.
KEPT = 10 * (64 + 48 + 104 + 32 + 30 + 32)


def test_memory_of_the_last_stage_with_prediction_of_more_tokens() -> None:
    dims = MIXED | {"layers": 6, "mtp": 1, "global_batch": 8}
    case = case_of(dims, pp=2, first=3, last=3)
    # Three layers, one more for the prediction with its 2 x 8 x 8, and a table; four of experts.
    state = (2 + 2 + 12) * (3 * 135 + 80 + 135 + 128 + 4 * 120)
    # The logits of two tokens, 4 x 10 x 10 x 2, are less than what a layer works with.
    acts = 4 * KEPT + 0.3 * KEPT
    assert float(memory_of(case, CONSTANTS).stages[2]) == pytest.approx(state + acts)


@pytest.mark.parametrize("ep", [1, 2])
def test_memory_of_experts_whose_weights_are_sharded(ep: int) -> None:
    dims = MIXED | {"layers": 4, "dense_layers": 1, "global_batch": 4}
    case = case_of(dims, dp=4, zero=3, ep=ep, first=4)
    # A quarter of 14 bytes each; experts over EP x 4 / EP devices.
    shared = (2 + 12) / 4 * (170 + 3 * 135 + 2 * 80 + 3 * 120)
    # Whole are two layers of experts with one gradient, and the tables with theirs.
    whole = (2 * 2 + 2) * (135 + 120 / ep) + 2 * 2 * 2 * 80
    dense = 10 * (64 + 48 + (2 + 2 * 2) * 12)
    acts = dense + 3 * KEPT + 0.3 * KEPT
    assert float(memory_of(case, CONSTANTS).peak) == pytest.approx(shared + whole + acts)


def test_the_best_of_many_splits_is_told_from_the_next() -> None:
    """Stages of 100 layers whose ends differ by less than a hundredth of a layer."""
    rng = np.random.default_rng(3)
    size, total, pp = 40, 400, 4.0
    one, two = rng.uniform(0, 3, size), rng.uniform(0, 3, size)

    def same(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.full(size, value)

    loads = Loads(total, same(total), same(1), same(1), one, two, same(0.5), same(pp), same(1))
    found = best_split(loads, endless(loads))
    firsts, lasts = np.meshgrid(np.arange(1.0, 200), np.arange(1.0, 200), indexing="ij")
    middles = np.ceil((total - firsts - lasts) / 2)
    for row in range(size):
        times = np.maximum(np.maximum(firsts + one[row], lasts + two[row]), middles + 0.5)
        slowest = max(
            found.first[row] + one[row], found.last[row] + two[row], found.second[row] + 0.5
        )
        assert slowest == pytest.approx(times.min(), abs=1e-6)
