"""What a layer costs, from sizes that are written out: operations, bytes and seconds by hand.

Of all rates a test sets one or two, mostly to 1 a second, so that seconds are operations or bytes;
the others are so high that they cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

import pytest

from supernode_slurm.catalogue import find_model
from supernode_slurm.planner.build import seen_tokens
from supernode_slurm.planner.case import Case, Cut, Dims, Rates, Software
from supernode_slurm.planner.constants import DEFAULT
from supernode_slurm.planner.layer import Layers, layers_of
from supernode_slurm.planner.rates import rates_of
from supernode_slurm.planner.stacks import stack_of
from tests.test_planner import offer
from tests.test_planner_equations import record

Values = Mapping[str, float]
FREE = 1e30

T = 32
"""Tokens of a micro-batch: two sequences of 16."""

# Queries and output are 4 heads x 3 = 12 wide, keys and values 2 x 3 = 6.
DENSE = {"layers": 6, "hidden": 8, "heads": 4, "kv_heads": 2, "head_dim": 3, "value_dim": 3}
DENSE |= {"ffn": 20, "inputs": 2, "vocab": 50, "sequence": 16, "seen": 16, "bits": 16}
ATTENTION = 8 * 12 + 2 * 8 * 6 + 12 * 8
MLP = 3 * 8 * 20

# Latent attention: queries over a rank of 5, keys and values over one of 7 and 2 rotated numbers.
LATENT = {"query_rank": 5, "kv_rank": 7, "rotary_dim": 2, "head_dim": 6, "value_dim": 4}
DOWN, QUERY, UP, OUT = 8 * (5 + 7 + 2), 5 * 4 * 6, 7 * 4 * (6 - 2 + 4), 4 * 4 * 8

MIXED = DENSE | {"experts": 4, "per_token": 2, "expert_ffn": 6, "shared_ffn": 5}
SHARED, ROUTER = 3 * 8 * 5, 8 * 4

NONE = ("casts", "expert_casts", "attention_ramp", "hop_s", "collective_s", "wiring")
DEFAULTS = dict.fromkeys(NONE, 0.0)
DEFAULTS |= dict.fromkeys(("tp", "cp", "ep", "etp", "pp", "dp", "virtual", "flash", "overlap"), 1.0)
DEFAULTS |= {"global_batch": 16, "micro_batch": 2, "domain": 8, "node": 8, "total": 8}
DEFAULTS |= {
    "tensor": 1,
    "passes": 1,
    "release": 1,
    "gradient_bytes": 4,
    "wire_bytes": 4,
    "optimizer_bytes": 12,
}
NAMES = {spec.name for kind in (Dims, Cut, Rates, Software) for spec in fields(kind)}


def case_of(dims: Values, **values: float) -> Case:
    """Return a case in which links, memory and units are free unless their rate is given."""
    given = DEFAULTS | dict(dims) | values
    assert given.keys() <= NAMES
    return Case(
        record(Dims, 0, **given),
        record(Cut, 0, **given),
        record(Rates, FREE, **given),
        record(Software, 0, **given),
    )


def costs(dims: Values, **values: float) -> Layers:
    return layers_of(case_of(dims, **values), DEFAULT)


def is_(expected: float) -> object:
    return pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("changed", "weights"),
    [
        ({}, ATTENTION + MLP),
        ({"inputs": 1}, ATTENTION + 2 * 8 * 20),
        ({"kv_heads": 4}, 4 * 8 * 12 + MLP),
        ({"tp": 2}, (ATTENTION + MLP) / 2),
        # One of two key heads on each of four ranks: it is not cut.
        ({"tp": 4}, 2 * 8 * 3 + 2 * 8 * 3 + MLP / 4),
        ({"cp": 2}, (ATTENTION + MLP) / 2),
        (LATENT, DOWN + QUERY + UP + OUT + MLP),
        # The way down is on every rank.
        (LATENT | {"tp": 2}, DOWN + (QUERY + UP + OUT + MLP) / 2),
        (LATENT | {"query_rank": 0}, 8 * (7 + 2) + 8 * 24 + UP + OUT + MLP),
    ],
)
def test_each_weight_costs_six_operations_per_token(changed: Values, weights: float) -> None:
    # Multiplied and added: forward, for the input's gradient and for the weight's.
    assert costs(DENSE, **changed, matmul_low=1).dense.compute_s == is_(6 * T * weights)


def moved(rows: float, *shapes: tuple[float, float]) -> float:
    """Return 2 bytes for each element of both operands and of the result of some products."""
    return sum(2 * (rows * (inner + outer) + inner * outer) for inner, outer in shapes)


def test_a_product_reads_and_writes_its_operands() -> None:
    # Queries, keys and values are one product; so are both inputs of the MLP.
    shapes = ((8, 24), (12, 8), (8, 40), (20, 8))
    found = costs(DENSE, memory_bs=1)
    assert found.dense.compute_s == is_(3 * moved(T, *shapes))
    assert found.head.compute_s == is_(3 * moved(T, (8, 50)))


def test_operands_are_cast_before_each_product() -> None:
    # Each of three products casts one of input and output; the mean of both is taken.
    elements = (8 + 24) + (12 + 8) + (8 + 40) + (20 + 8)
    bare, cast = costs(DENSE, elementwise_bs=1), costs(DENSE, elementwise_bs=1, casts=5)
    assert cast.dense.compute_s - bare.dense.compute_s == is_(3 * 5 * T * elements / 2)
    assert cast.head.compute_s == is_(float(bare.head.compute_s))


# Two norms, read and written (4 x 8), two sums of three (6 x 8); queries and keys are read and
# written as they are rotated; the activation reads two and writes one.
WHOLE, ROTATED, ACTIVATED = 10 * 8, 2 * (12 + 6), 3 * 20


@pytest.mark.parametrize(
    ("changed", "elements"),
    [
        ({}, WHOLE + ROTATED + ACTIVATED),
        ({"inputs": 1}, WHOLE + ROTATED + 2 * 20),
        ({"tp": 2}, WHOLE + (ROTATED + ACTIVATED) / 2),
        ({"tp": 2, "sequence_parallel": 1}, (WHOLE + ROTATED + ACTIVATED) / 2),
        # Once more forward: the MLP's activation, and the norms.
        ({"selective": 1}, WHOLE + ROTATED + ACTIVATED + (ACTIVATED + 4 * 8) / 3),
        ({"selective": 1, "saves_products": 1}, (WHOLE + ROTATED + ACTIVATED) * 4 / 3),
        ({"full": 1}, (WHOLE + ROTATED + ACTIVATED) * 4 / 3),
    ],
)
def test_what_is_read_and_written_element_by_element(changed: Values, elements: float) -> None:
    # 2 bytes, forward and twice backward, over as many passes as the kernels need.
    found = costs(DENSE, **changed, elementwise_bs=1, passes=1.5)
    assert found.dense.compute_s == is_(3 * 2 * T * 1.5 * elements)


CORE = 2 * 2 * T * 16 * 12 / 2
"""Two products of 16 tokens in 4 heads x 3, of which a causal mask leaves half."""


@pytest.mark.parametrize(
    ("changed", "share"),
    [
        ({}, 1),
        ({"tp": 2}, 1 / 2),
        ({"seen": 6}, 6 / 16),
        ({"value_dim": 5}, (3 + 5) / (3 + 3)),
        # Half of its rate at this length.
        ({"attention_ramp": 16}, 2),
    ],
)
def test_fused_attention_computes_half_the_scores(changed: Values, share: float) -> None:
    # Backward five products for the two of forward.
    assert costs(DENSE, **changed, attention=1).dense.compute_s == is_(3.5 * CORE * share)


def test_a_window_bounds_what_attention_sees() -> None:
    model = replace(find_model("llama-3-8b"), layers=4, window=100, window_layers=3)
    # Of a window all is seen, of a causal sequence half: the half of twice a window.
    assert seen_tokens(model, 1000) == (3 * 2 * 100 + 1000) / 4
    assert seen_tokens(model, 150) == 150


def test_unfused_attention_computes_all_scores_and_writes_them() -> None:
    # In 16 bit and with what is masked; both products have two gradients.
    assert costs(DENSE, flash=0, matmul=1).dense.compute_s == is_(3 * 2 * CORE)
    scores = T * 16 * 4
    # 14 bytes for each between both products: scaled, masked, softmax, dropped.
    touched = 2 * T * (WHOLE + ROTATED + ACTIVATED)
    found = costs(DENSE, flash=0, elementwise_bs=1, passes=1.5)
    assert found.dense.compute_s == is_(3 * 1.5 * (14 * scores + touched))
    again = costs(DENSE, flash=0, selective=1, elementwise_bs=1, passes=1.5)
    assert again.dense.compute_s - found.dense.compute_s == is_(1.5 * 14 * scores)


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ({}, 0),
        ({"full": 1}, 2 * T * (ATTENTION + MLP) + CORE),
        ({"full": 0.25}, (2 * T * (ATTENTION + MLP) + CORE) / 4),
        ({"selective": 1}, 2 * T * MLP),
        ({"selective": 1, "saves_products": 1}, 2 * T * (ATTENTION + MLP) / 2),
        # Half of latent attention's products: the ways up from both ranks.
        (LATENT | {"selective": 1}, 2 * T * ((DOWN + QUERY + UP + OUT) / 2 + MLP)),
    ],
)
def test_recomputation_repeats_products_forward(changed: Values, again: float) -> None:
    found, once = (
        costs(DENSE, **{**changed, **other}, matmul_low=1, attention=1).dense.compute_s
        for other in ({}, {"full": 0, "selective": 0})
    )
    assert found - once == is_(again)


def test_frozen_weights_have_no_gradient_and_adapters_have() -> None:
    dims = DENSE | {"lora_rank": 4}
    # Two products per frozen weight, three for the adapters, 16-bit ones.
    assert costs(dims, matmul_low=1).dense.compute_s == is_(4 * T * (ATTENTION + MLP))
    ends = (8 + 12) + 2 * (8 + 6) + (12 + 8) + 2 * (8 + 20) + (20 + 8)
    assert costs(dims, matmul=1).dense.compute_s == is_(3 * 2 * T * 4 * ends)
    # Each map's output is added to: 3 passes here.
    outputs = 12 + 2 * 6 + 8 + 2 * 20 + 8
    touched = WHOLE + ROTATED + ACTIVATED + 3 * outputs
    found = costs(dims, elementwise_bs=1, adapter_passes=3).dense.compute_s
    assert found == is_(3 * 2 * T * touched)


def test_a_layer_has_gaps_and_a_host_that_starts_it() -> None:
    rate = 6 * T * (ATTENTION + MLP) / 5
    assert costs(DENSE, matmul_low=rate, gap_s=2).dense.compute_s == is_(5 + 2)
    assert costs(DENSE, matmul_low=rate, gap_s=2, launch_s=8).dense.compute_s == is_(8)


@pytest.mark.parametrize(
    ("changed", "routed", "local", "width"),
    [
        ({}, T * 2, 4, 6),
        ({"ep": 2}, T * 2, 2, 6),
        ({"tp": 2, "sequence_parallel": 1}, T, 4, 6),
        # Cut experts take the tokens of both ranks.
        ({"tp": 2, "etp": 2}, T * 2, 4, 3),
    ],
)
def test_products_of_experts(changed: Values, routed: float, local: float, width: float) -> None:
    tp, rows = changed.get("tp", 1), T / 2 if "sequence_parallel" in changed else T
    host = DEFAULT.expert_host_s + DEFAULT.expert_each_s * local
    # Many small products lose a share of 16-bit time, and more with few tokens for each.
    each = routed / local
    slower = (1 + DEFAULT.grouped / 5) * (each + DEFAULT.grouped_tokens) / each
    weights = routed * 3 * 8 * width * slower + T * (ATTENTION + SHARED) / tp
    found = costs(MIXED, **changed, matmul_low=1, matmul=5, release=3).experts.compute_s
    # The router stays in 16 bit, on each rank's own tokens.
    assert found == is_(3 * 2 * (weights + rows * ROUTER / 5) + 3 * host)
    bare = costs(MIXED | {"shared_ffn": 0}, **changed, matmul_low=1, matmul=5, release=3)
    assert found - bare.experts.compute_s == is_(6 * T * SHARED / tp)


def test_experts_read_all_their_weights() -> None:
    host = DEFAULT.expert_host_s + DEFAULT.expert_each_s * 2
    shapes = ((8, 24), (12, 8), (8, 10), (5, 8), (8, 4))
    # Two local experts: the weights of one stand in the first sum.
    routed = moved(2 * T, (8, 12), (6, 8)) + 2 * (8 * 12 + 6 * 8)
    found = costs(MIXED, ep=2, memory_bs=1).experts.compute_s
    assert found == is_(3 * (routed + moved(T, *shapes)) + host)


def test_tokens_are_permuted_activated_and_cast_for_experts() -> None:
    host = 2 * (DEFAULT.expert_host_s + DEFAULT.expert_each_s * 4)
    slow = {"elementwise_bs": 1, "passes": 1.5, "release": 2}
    bare = costs(MIXED, **slow).experts.compute_s
    # Both ways together; a release changes the permutation only.
    permuted = 2 * DEFAULT.expert_passes * 2 * (2 * T) * 8
    touched = 1.5 * (3 * (2 * T) * 6 + T * (WHOLE + ROTATED))
    assert bare == is_(permuted + 3 * 2 * touched + host)
    cast = costs(MIXED, **slow, expert_casts=5)
    operands = 2 * T * (8 + 2 * 6 + 6 + 8)
    # As of other products, half of what goes in and comes out.
    assert cast.experts.compute_s - bare == is_(3 * 5 * operands / 2)
    # Selective recomputation spares the products: a third of both ways, and two norms.
    again = costs(MIXED, **slow, selective=1, matmul_low=1).experts.compute_s
    once = costs(MIXED, **slow, matmul_low=1).experts.compute_s
    assert again - once == is_(permuted / 3 + 2 * 1.5 * (3 * (2 * T) * 6 + T * 4 * 8))


def summed(elements: float, tp: int) -> float:
    """Return the bytes of an all-reduce: 2 per element, scattered and gathered."""
    return 2 * 2 * T * elements * (tp - 1) / tp


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"tp": 2}, 4 * summed(8, 2)),
        # A gather and a scatter for each sum move the same.
        ({"tp": 2, "sequence_parallel": 1}, 4 * summed(8, 2)),
        ({"tp": 2, "selective": 1}, 4 * summed(8, 2)),
        ({"tp": 2, "full": 1}, 6 * summed(8, 2)),
        ({"tp": 2, "full": 0.5}, 5 * summed(8, 2)),
        # Key heads that several ranks hold are put together of shares.
        ({"tp": 4}, 4 * summed(8, 4) + summed(3 + 2 * 3, 4)),
        (LATENT | {"tp": 4}, 4 * summed(8, 4)),
        ({"tp": 1}, 0),
    ],
)
def test_tensor_parallel_traffic_of_a_layer(changed: Values, expected: float) -> None:
    assert costs(DENSE, **changed, scale_up_bs=2, tensor=2).dense.tp_s == is_(expected)


def test_each_sum_over_tensor_parallel_ranks_starts_late() -> None:
    found = costs(DENSE, tp=2, scale_up_bs=2, tensor=0.7, collective_s=5, hop_s=3)
    one = 0.7 * (summed(8, 2) / 2 + 5 + 2 * 3)
    assert found.dense.tp_s == is_(4 * one)
    assert found.embedding.tp_s == found.head.tp_s == is_(one)


RING = 3 * 2 * 2 * (T / 2) * 6
"""2 bytes of keys and values of half the tokens to one other rank, both ways, and gradients."""


def test_a_ring_of_keys() -> None:
    # No more of it is hidden than attention takes, each way.
    for core, exposed in ((0.1, 0.9), (2, DEFAULT.context_exposed)):
        rate = 3.5 * CORE / 2 / (core * RING)
        found = costs(DENSE, cp=2, scale_up_bs=1, attention=rate).dense.cp_s
        assert found == is_(exposed * RING)
    # Two tensor-parallel ranks fill the fabric; each has one of two key heads.
    far = {"cp": 2, "tp": 2, "domain": 2, "scale_up_bs": 9, "nic_bs": 1, "collective_s": 4}
    assert costs(DENSE, **far).dense.cp_s == is_(RING / 2 + DEFAULT.hop_s + (1 + 2) * 4)
    # Keys come up from their rank before they travel: 4 heads x 6.
    assert costs(DENSE | LATENT, cp=2, scale_up_bs=1).dense.cp_s == is_(RING * 24 / 6)


TOKEN = 2 * T * 8
"""Bytes of a micro-batch's tokens, one copy of each."""


@pytest.mark.parametrize(
    ("changed", "rounds"),
    [
        ({}, 4 * DEFAULT.experts_exposed),
        ({"full": 1}, 6 * DEFAULT.experts_exposed),
        ({"full": 0.5}, 5 * DEFAULT.experts_exposed),
        ({"selective": 1}, 4 * DEFAULT.experts_exposed),
        ({"virtual": 2, "pp": 2}, 4 * DEFAULT.experts_interleaved),
    ],
)
def test_tokens_go_to_experts_and_back(changed: Values, rounds: float) -> None:
    # To two experts each, of which a quarter is at home; there and back, both ways.
    found = costs(MIXED, **changed, ep=4, scale_up_bs=2, collective_s=7, release=3).experts.ep_s
    assert found == is_(rounds * (3 * TOKEN * 2 * 3 / 4 / 2 + 7))
    assert costs(MIXED, scale_up_bs=2, collective_s=7).experts.ep_s == 0


def test_tokens_leave_a_fabric_once_for_each_other_one() -> None:
    # At two of four experts, each of two fabrics is missed by a token in a quarter of all cases.
    found = costs(MIXED, ep=4, domain=2, nic_experts_bs=1).experts.ep_s
    assert found == is_(4 * DEFAULT.experts_exposed * TOKEN * 3 / 4)
    # What stays inside is waited for if it takes longer.
    found = costs(MIXED, ep=4, domain=2, scale_up_bs=1, nic_experts_bs=1).experts.ep_s
    assert found == is_(4 * DEFAULT.experts_exposed * TOKEN * 2 * 3 / 4)
    # Each rank sends its half of the tokens, to cut experts all of them and twice as far.
    for etp, sent in ((1, TOKEN / 2), (2, TOKEN * 2)):
        found = costs(MIXED, ep=4, tp=2, etp=etp, scale_up_bs=1, wiring=2).experts.ep_s
        assert found == is_(4 * DEFAULT.experts_exposed * sent * 2 * 3 / 4)


@pytest.mark.parametrize("tp", [1, 2])
def test_head_and_embedding(tp: int) -> None:
    # Forward, and two gradients; a frozen head has one.
    assert costs(DENSE, tp=tp, matmul=1).head.compute_s == is_(3 * 2 * T * 8 * 50 / tp)
    frozen = DENSE | {"lora_rank": 4}
    assert costs(frozen, tp=tp, matmul=1).head.compute_s == is_(2 * 2 * T * 8 * 50 / tp)
    # Logits are read twice (4 bytes), softmax written (4), read (4) and made the gradient (4).
    found = costs(DENSE, tp=tp, elementwise_bs=1, passes=9)
    assert found.head.compute_s == is_((4 + 4 + 4 + 4) * T * 50 / tp)
    # A row is read and written (4); its gradient is read, added in 32 bit and cleared (12).
    assert found.embedding.compute_s == is_((4 + 12) * T * 8)
    assert costs(frozen, tp=tp, elementwise_bs=1).embedding.compute_s == is_(4 * T * 8)


def rates(name: str, precision: str = "bf16", stack: str = "megatron") -> Rates:
    return rates_of(offer(name, 2), precision, stack_of(stack), DEFAULT)


@pytest.mark.parametrize(
    ("name", "precision", "share", "read", "turned"),
    [
        ("h100-sxm", "bf16", 1, 0, 0),
        ("h100-sxm", "fp8", 1979 / 989 * DEFAULT.fp8, 2 + 2 + 1 + 1, DEFAULT.grouped_cast),
        ("gb200", "fp8", 2 * DEFAULT.fp8, 2 + 2 + 1, 0),
        ("gb200", "mxfp8", 2 * DEFAULT.mxfp8, 2 + 1 + 1, 0),
        # Its sheet says six times the rate of 16 bit.
        ("gb300", "nvfp4", 4 * DEFAULT.nvfp4, 2 + 1 + 1, 0),
    ],
)
def test_rates_and_casts(name: str, precision: str, share: float, read: int, turned: float) -> None:
    found = rates(name, precision)
    assert found.matmul_low == is_(share * float(found.matmul))
    assert found.casts == is_(DEFAULT.quantise * read)
    assert found.expert_casts == is_(DEFAULT.quantise * read + turned)


def test_reached_rates_of_cards_and_links() -> None:
    # A clock follows the cube root of its power.
    slower = float(rates("h100-sxm").matmul) * (500 / 700) ** (1 / 3)
    assert rates("h100-sxm-96g").matmul == is_(slower)
    assert rates("h100-sxm").scale_up_bs == is_(450e9 * DEFAULT.scale_up)
    assert rates("ascend-910b3").scale_up_bs == is_(196e9 * DEFAULT.scale_up_hccs)
    # One ring uses one link of a full mesh.
    assert rates("ascend-910b3").neighbour_bs == is_(28e9 * DEFAULT.scale_up)
    assert rates("a100-pcie-80g").scale_up_bs == is_(31e9 * DEFAULT.scale_up_pcie)
    assert rates("a100-pcie-80g").collective_s == DEFAULT.collective_pcie_s
    # Without peer access all goes through the host.
    assert rates("rtx-3090").scale_up_bs == is_(DEFAULT.peerless_gbs * 1e9)
    # A card of 50 GB/s each; over TCP eight devices share what one host moves.
    assert rates("h100-sxm").nic_bs == is_(50e9 * DEFAULT.network)
    assert rates("h100-sxm").nic_experts_bs == is_(50e9 * DEFAULT.network_experts)
    tcp = rates("h100-sxm", stack="deepspeed-pipeline-2022")
    assert tcp.nic_bs == is_(DEFAULT.tcp_gbs * 1e9 / 8)
