"""A step, its memory and its links, from sizes that are written out, by hand.

As in ``test_planner_layer`` a test sets few rates, and what it does not set costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from supernode_slurm.frameworks import capabilities
from supernode_slurm.frameworks.chunks import chunks as chunks_of
from supernode_slurm.plan import Pipeline, Stage
from supernode_slurm.planner import Workload, links
from supernode_slurm.planner.case import Case, Numbers, numbers
from supernode_slurm.planner.chain import chain_plans
from supernode_slurm.planner.constants import DEFAULT, Constants
from supernode_slurm.planner.costs import limit_gib
from supernode_slurm.planner.layer import Layer, Layers
from supernode_slurm.planner.links import Group
from supernode_slurm.planner.memory import memory_of, params_of, stages_of
from supernode_slurm.planner.stages import Loads, best_split, endless
from supernode_slurm.planner.step import hop_s, step_of, sync_s
from tests.brute import DENSE as MODEL
from tests.brute import shrunk
from tests.test_planner import offer
from tests.test_planner_layer import DENSE, LATENT, MIXED, T, Values, case_of, is_

BARE = Constants({"transfer_s": 0.0, "step_s": 0.0, "context_gib": 0.0, "hop_s": 0.0})


def wired(wiring: str, **values: float) -> Case:
    """Return devices of 12 bytes a second over all links, 2 to a neighbour of a full mesh."""
    kind = links.WIRINGS.index(wiring)
    return case_of(DENSE, wiring=kind, **{"scale_up_bs": 12, "neighbour_bs": 2} | values)


def group(ranks: float, stride: float = 1) -> Group:
    return Group(numbers(ranks), numbers(stride))


@pytest.mark.parametrize(
    ("wiring", "domain", "ranks", "stride", "reduced", "exchanged"),
    [
        ("switch", 8, 4, 2, 12, 12),
        # Links to three others; seven others use all that a device has.
        ("full-mesh", 8, 4, 1, 6, 6),
        ("full-mesh", 8, 8, 1, 12, 12),
        # A part of a ring sends there and back over the same links; strangers share the way.
        ("ring", 16, 4, 1, 6, 12),
        ("ring", 16, 4, 2, 3, 12 / 2),
        ("ring", 16, 8, 2, 12 / 2, 12 / 4),
        # A quarter of a ring is the mean way.
        ("ring", 16, 16, 1, 12, 12 / 4),
        # A third of the links for each dimension of 8 x 8 x 8; a quarter of a side in each.
        ("torus", 512, 8, 1, 4, 4 / 2),
        ("torus", 512, 64, 1, 8, 8 / (2 * 2)),
        ("torus", 512, 512, 1, 12, 12 / (3 * 2)),
    ],
)
def test_what_a_wiring_gives_to_a_group(
    wiring: str, domain: int, ranks: int, stride: int, reduced: float, exchanged: float
) -> None:
    case, members = wired(wiring, domain=domain), group(ranks, stride)
    assert links.ring_bs(case, members) == is_(reduced)
    # A share stays at home.
    sent = numbers(100.0 * ranks)
    assert links.exchange_s(case, members, sent, sent) == is_(100 * (ranks - 1) / exchanged)


def test_members_inside_one_fabric_share_their_network_cards() -> None:
    def shared(ranks: float, stride: float) -> Numbers:
        return links.ring_bs(wired("switch", domain=4, nic_bs=2), group(ranks, stride))

    assert shared(8, 1) == is_(4 * 2)
    assert shared(8, 2) == is_(2 * 2)
    assert shared(8, 4) == is_(2)
    # Not more than the fabric gives.
    assert links.ring_bs(wired("switch", domain=4, nic_bs=5), group(8)) == is_(12)


def test_starts_and_copies_beyond_a_fabric() -> None:
    case = wired("switch", collective_s=5, hop_s=3)
    assert links.start_s(case, group(4), DEFAULT) == is_(5 + 3 * 3)
    assert links.start_s(case, group(4, 4), DEFAULT) == is_(5 + 3 * DEFAULT.hop_s)
    # A token goes to one expert of eight, of which six are in three other fabrics.
    assert links.distinct_share(numbers(8), numbers(2), numbers(1)) == is_(3 / 4)


def test_bandwidth_from_a_stage_to_the_next() -> None:
    inside = [links.transfer_bs(wired(name))[0] for name in links.WIRINGS]
    # A ring has two directions, a torus six.
    assert inside == [is_(12), is_(2), is_(12 / 2), is_(12 / 6)]
    # Two devices of eight that share a node's cards of 1 each; one of eight transfers in four
    # leaves the fabric.
    between, ends = links.transfer_bs(wired("switch", total=16, tp=2, nic_bs=1))
    assert between == is_(1 / (2 / 8 / 4 + 6 / 8 / 12))
    assert ends == is_(4)
    assert links.transfer_bs(wired("switch", total=16, tp=2, nic_bs=1, rail_bs=3))[1] == is_(3)


def test_a_hop_to_the_next_stage() -> None:
    def hop(**values: float) -> Numbers:
        return hop_s(case_of(DENSE, **({"pp": 2, "scale_up_bs": 2} | values)), DEFAULT)

    # 2 bytes of 8 numbers of each token, of which each tensor-parallel rank sends its part.
    moved = 2 * T * 8 / 2
    assert hop() == is_(moved + DEFAULT.transfer_s)
    assert hop(tp=2) == is_(moved / 2 + DEFAULT.transfer_s)
    assert hop(tp=2, whole_transfers=1) == is_(moved + DEFAULT.transfer_s)
    assert hop(cp=2) == is_(moved / 2 + DEFAULT.transfer_s)
    assert hop(pp=1) == 0
    # Each of three chunks sends and receives, and starts both.
    chunks = 3 * moved * DEFAULT.transfer_interleaved + 3 * 2 * 5
    assert hop(virtual=3, collective_s=5) == is_(chunks)


def parted(*seconds: float) -> Layer:
    return Layer(*map(numbers, seconds))


# Layers without experts and with them, embedding and head.
KINDS = Layers(parted(40, 4, 2, 0), parted(50, 5, 3, 7), parted(6, 1, 0, 0), parted(20, 2, 0, 0))
HOPS = Constants({"transfer_s": 0.5, "step_s": 0.25})


@pytest.mark.parametrize(("virtual", "hop"), [(1, 0.5), (2, 2 * 2 * 0.125)])
@pytest.mark.parametrize("mtp", [0, 1])
def test_a_step_is_its_slowest_stage_and_a_bubble(virtual: int, hop: float, mtp: int) -> None:
    dims = MIXED | {"layers": 6, "dense_layers": 1, "mtp": mtp}
    cut = {"pp": 3, "virtual": virtual, "first": 2, "second": 2, "last": 2}
    step = step_of(case_of(dims, **cut, collective_s=0.125), HOPS, KINDS)
    # The last stage: two layers of experts, and a third for each further token predicted, which
    # needs the head again. 16 sequences are 8 micro-batches.
    layers, heads = 2 + mtp, 1 + mtp
    assert step.compute == is_(8 * (layers * 50 + heads * 20))
    assert step.tp == is_(8 * (layers * 5 + heads * 2))
    assert step.cp == is_(8 * layers * 3)
    assert step.ep == is_(8 * layers * 7)
    assert step.pp == is_(8 * hop)
    # The first: a dense layer, one of experts, the embedding. The second waits on both sides.
    first, second = 46 + 65 + 7 + hop, 2 * 65 + 2 * hop
    assert step.bubble == is_((first + second) / virtual)
    assert step.dp == is_(0)
    assert step.optimizer == is_(0.25)


def test_the_stage_in_the_middle_waits_for_both_neighbours() -> None:
    step = step_of(case_of(DENSE, pp=3, first=1, second=4, last=1), HOPS, KINDS)
    assert step.pp == is_(8 * 2 * 0.5)
    assert step.bubble == is_(46 + 7 + 0.5 + 46 + 22 + 0.5)


def test_the_gradients_of_a_tied_table_are_summed_over_the_ends() -> None:
    cut = {"pp": 2, "first": 3, "last": 3, "scale_up_bs": 2, "tp": 2}
    tied = DENSE | {"tied": 1}

    def exposed(dims: Values, **values: float) -> Numbers:
        return step_of(case_of(dims, **(cut | values)), BARE, KINDS).dp

    # 4 bytes of each of 50 x 8 numbers, cut over two ranks.
    assert exposed(tied) == is_(4 * 50 * 8 / 2 / 2)
    assert exposed(tied, total=16, nic_bs=1, node=2) == is_(4 * 50 * 8 / 2)
    assert exposed(DENSE) == exposed(tied | {"lora_rank": 4}) == is_(0)
    assert exposed(tied, pp=1, last=0) == is_(0)


# Two layers of 1,000 parameters and two tables of 500, of which a ring of four moves 3/4 at
# 1,000 bytes a second: 2.25 s for each byte of a parameter.
SUMMED = {"layers": 2, "attention_params": 600, "mlp_params": 300, "whole_params": 100}
SUMMED |= {"vocab": 50, "hidden": 10, "adapter_params": 40, "global_batch": 32, "sequence": 1}
RING = 2.25


def sync(case: Case, seconds: float = 1e9, count: float = 4) -> tuple[float, float]:
    """Return the exposed traffic and the update of the first stage."""
    of = (stages_of(case)[0], numbers(seconds), numbers(count))
    exposed, update = sync_s(case, BARE, params_of(case), of)
    return float(exposed), float(update)


def copied(**values: float) -> Case:
    return case_of(SUMMED, **({"dp": 4, "first": 2, "scale_up_bs": 1000, "domain": 4} | values))


# Gradients of 32 bit, scattered and gathered; then 16-bit weights gathered instead; scattered in
# each of four micro-batches; and weights gathered for both ways.
@pytest.mark.parametrize(("zero", "parts"), [(0, 8), (1, 4 + 2), (2, 16 + 2), (3, 4 * 8)])
def test_traffic_of_replicas(zero: int, parts: int) -> None:
    traffic = parts * RING
    assert sync(copied(zero=zero, overlap=0))[0] == is_(traffic)
    # Under enough computation a share is hidden, under little what it covers: the backward pass
    # of the last micro-batch, or all of it, or of each.
    assert sync(copied(zero=zero))[0] == is_(traffic * (1 - DEFAULT.data_hidden))
    cover = {0: 2 / 3, 1: 1, 2: 4, 3: 4}[zero]
    assert sync(copied(zero=zero), 0.5)[0] == is_(traffic - 0.5 * cover)
    # Each part starts twice, of sharded weights in each of both layers.
    started = copied(zero=zero, overlap=0, collective_s=5, scale_up_bs=1e30)
    assert sync(started)[0] == is_(5 * {0: 2 * 2, 1: 2 * 2, 2: 4 * 2 + 2, 3: 4 * 3 * 2}[zero])
    # Context-parallel ranks hold the same parameters.
    assert sync(copied(zero=zero, overlap=0, dp=2, cp=2))[0] == is_(traffic)


SMALL = RING * 2 * 40 / 3000
LORA = {"lora_rank": 4}


@pytest.mark.parametrize(
    ("changed", "traffic"),
    [
        # Gathered once beside a pipeline; one of the tables is another stage's.
        ({"zero": 3, "pp": 2, "last": 2}, (4 + 2 * 2) * RING * 2500 / 3000),
        # Of LoRA two layers' 40 are summed; frozen weights are gathered for each micro-batch.
        (LORA, 2 * 4 * SMALL),
        (LORA | {"zero": 1}, (4 + 2) * SMALL),
        (LORA | {"zero": 3}, 4 * (4 * SMALL + 2 * 2 * RING)),
        # A hybrid gathers in a fabric of two, and sums its copies at 100 bytes a second once.
        (
            {"zero": 3, "shard": 2, "domain": 2, "nic_bs": 100},
            4 * (4 + 2 * 2) * 3000 / 2 / 1000 + 4 * 2 * (3000 / 2) / 2 / 100,
        ),
        # Some stacks do so in each of four micro-batches.
        (
            {"zero": 3, "shard": 2, "domain": 2, "nic_bs": 100, "copies_each": 1},
            4 * (4 + 2 * 2) * 3000 / 2 / 1000 + 4 * 4 * 2 * (3000 / 2) / 2 / 100,
        ),
    ],
)
def test_traffic_of_pipelines_adapters_and_hybrids(changed: Values, traffic: float) -> None:
    assert sync(copied(**changed, overlap=0))[0] == is_(traffic)
    # Beside frozen weights half of the time is backward.
    assert sync(copied(**LORA), 0.1)[0] == is_(2 * 4 * SMALL - 0.1 / 2)


# Of a token a layer keeps: inputs of both norms (2 x 2 bytes) and of the products after them;
# queries, keys, values and output; two of the MLP's inputs' width, and what the last product reads.
BASE, FUSED, INNER = (4 + 2 * 2) * 8, 2 * 12 + 2 * 2 * 6 + 2 * 12, (2 * 2 + 2) * 20
KEPT = BASE + FUSED + INNER
# Of latent attention 24 of queries and keys each, 16 of values and output, both ranks.
COMPRESSED = 2 * 2 * (24 + 16) + 2 * (5 + 7)
# Of experts: tokens and activations of two, outputs, the shared one's, the router's in 32 bit.
ROUTED = 2 * (2 * (8 + 6) + 2 * 2 * 6) + 2 * 2 * 8 + 3 * 2 * 5 + 2 * 4 * 4


@pytest.mark.parametrize(
    ("changed", "kept", "whole"),
    [
        ({}, KEPT, KEPT),
        ({"tp": 2}, BASE + (FUSED + INNER) / 2, BASE + (FUSED + INNER) / 2),
        ({"tp": 2, "sequence_parallel": 1}, KEPT / 2, KEPT / 2),
        ({"cp": 2}, KEPT / 2, KEPT / 2),
        ({"inputs": 1}, KEPT - 2 * 20, KEPT - 2 * 20),
        # Operands of one byte: both products' after the norms, and the last one's.
        ({"bits": 8}, KEPT - 2 * 8 - 20, KEPT - 2 * 8 - 20),
        # Scores, softmax (2 each) and a mask (1) of 16 tokens in 4 heads; masks of two outputs.
        ({"flash": 0}, KEPT + 5 * 4 * 16 + 2 * 8, KEPT + 5 * 4 * 16 + 2 * 8),
        ({"flash": 0, "selective": 1}, KEPT + 2 * 8, KEPT + 5 * 4 * 16 + 2 * 8),
        ({"selective": 1}, BASE + FUSED, KEPT),
        ({"full": 1}, 2 * 8, KEPT),
        ({"full": 0.25}, (2 * 8 + 3 * KEPT) / 4, KEPT),
        (LATENT, BASE + COMPRESSED + INNER, BASE + COMPRESSED + INNER),
        # Output and both ranks stay, the ways up are taken again.
        (LATENT | {"selective": 1}, BASE + 2 * (16 + 5 + 7), BASE + COMPRESSED + INNER),
        # What seven maps' adapters multiply with.
        ({"lora_rank": 3}, KEPT + 2 * 3 * 7, KEPT + 2 * 3 * 7),
        ({"lora_rank": 3, "selective": 1}, BASE + FUSED + 2 * 3 * 7, KEPT + 2 * 3 * 7),
        (MIXED, BASE + FUSED + ROUTED, BASE + FUSED + ROUTED),
        (MIXED | {"mtp": 1}, (BASE + FUSED + ROUTED) * 7 / 6, BASE + FUSED + ROUTED),
        (MIXED | {"selective": 1}, BASE + FUSED + 2 * 2 * (8 + 2 * 6), BASE + FUSED + ROUTED),
    ],
)
def test_activations_of_a_stage(changed: Values, kept: float, whole: float) -> None:
    case = case_of(DENSE | dict(changed), first=6)
    again = 1.0 if changed.keys() & {"selective", "full"} else 0.3
    found = memory_of(case, DEFAULT).activations
    assert found == is_(T * (6 * kept + again * whole))
    # The logits' turn comes before that of the last layer.
    large = replace(case, software=replace(case.software, logit_bytes=numbers(100)))
    logits = 100 * 50 * (1 + case.dims.mtp) / (case.cut.tp * case.cut.cp)
    assert memory_of(large, DEFAULT).activations == is_(T * float(6 * kept + logits))


@pytest.mark.parametrize(
    ("changed", "state", "trained"),
    [
        # Weight, gradient, and Adam's moments with the 32-bit weight.
        ({}, 3000 * (2 + 4 + 12), 3000),
        ({"tied": 1}, 2500 * (2 + 4 + 12), 2500),
        ({"optimizer_bytes": 8}, 3000 * (2 + 4 + 8), 3000),
        ({"zero": 1}, 3000 * (2 + 4 + 12 / 4), 3000 / 4),
        ({"zero": 2}, 3000 * (2 + (4 + 12) / 4), 3000 / 4),
        # 32-bit weights are gathered in 16 bit: two layers, one gradient, tables with theirs.
        ({"zero": 3}, 3000 * (4 + 12) / 4 + 1000 * (2 * 2 + 4) + 1000 * 2 * 2, 3000 / 4),
        (LORA, 3000 * 2 + 2 * 40 * 18, 2 * 40),
        (LORA | {"zero": 1}, 3000 * 2 + 2 * 40 * (2 + 4 + 12 / 4), 2 * 40 / 4),
    ],
)
def test_state_of_a_stage_and_its_update(changed: Values, state: float, trained: float) -> None:
    case = copied(**changed, elementwise_bs=1)
    found = memory_of(case, DEFAULT)
    context = DEFAULT.context_gib * 2**30
    assert float(found.peak - found.activations) - context == pytest.approx(state, abs=1e-3)
    # Gradient, weight and two moments are read (16), all but the gradient written (12), the norm
    # read (4), the 16-bit weight written (2), the gradient cleared (4).
    assert sync(case)[1] == is_(trained * (16 + 12 + 4 + 2 + 4))


def test_a_hybrid_keeps_what_its_few_sharers_leave() -> None:
    found = memory_of(copied(zero=3, shard=2), BARE)
    gathered = 1000 * (2 * 2 + 4) + 1000 * 2 * 2
    assert found.peak - found.activations == is_(3000 * (4 + 12) / 2 + gathered)


Turn = tuple[bool, int, int]


def order_of(pp: int, chunks: int, rank: int, count: int) -> Iterator[Turn]:
    """Yield (forward, chunk, micro-batch) in the order of Megatron-LM's schedules.py."""
    blocks = [range(start, start + pp) for start in range(0, count, pp)]
    turns = [(chunk, batch) for block in blocks for chunk in range(chunks) for batch in block]
    early = 2 * (pp - rank - 1) + (chunks - 1) * pp if chunks > 1 else pp - rank - 1
    early = min(early, len(turns))
    forward = [(True, chunk, batch) for chunk, batch in turns]
    backward = [(False, chunks - 1 - chunk, batch) for chunk, batch in turns]
    yield from forward[:early]
    for one, other in zip(forward[early:], backward, strict=False):
        yield from (one, other)
    yield from backward[len(turns) - early :]


def before(rank: int, turn: Turn, pp: int, chunks: int) -> tuple[int, Turn] | None:
    """Return the pass, and its rank, whose result a pass of this rank waits for."""
    forward, chunk, batch = turn
    place = chunk * pp + rank + (-1 if forward else 1)
    if place == chunks * pp:
        return rank, (True, chunk, batch)
    return (place % pp, (forward, place // pp, batch)) if place >= 0 else None


def run(pp: int, chunks: int, count: int, times: Sequence[float] = ()) -> tuple[float, list[int]]:
    """Return when an interleaved pipeline ends, and the most chunks that each rank holds.

    A chunk takes 1 forward and 2 backward, or that many times its own time.
    """
    times = times or [1.0] * pp * chunks
    ranks = range(pp)
    queues = [list(order_of(pp, chunks, rank, count)) for rank in ranks]
    ends: dict[tuple[int, Turn] | None, float] = {None: 0.0}
    clocks, held, most = [0.0] * pp, [0] * pp, [0] * pp
    while any(queues):
        waits = {r: before(r, queues[r][0], pp, chunks) for r in ranks if queues[r]}
        ready = [rank for rank, wait in waits.items() if wait in ends]
        assert ready, "each rank waits for another"
        for rank in ready:
            turn = queues[rank].pop(0)
            start = max(clocks[rank], ends[waits[rank]])
            took = times[turn[1] * pp + rank] * (1 if turn[0] else 2)
            clocks[rank] = ends[rank, turn] = start + took
            held[rank] += 1 if turn[0] else -1
            most[rank] = max(most[rank], held[rank])
    return max(clocks), most


@pytest.mark.parametrize("pp", [2, 3, 4, 8])
@pytest.mark.parametrize("chunks", [1, 2, 3, 5])
@pytest.mark.parametrize("blocks", [1, 5])
def test_a_pipeline_run_pass_by_pass(pp: int, chunks: int, blocks: int) -> None:
    end, most = run(pp, chunks, blocks * pp)
    dims = DENSE | {"layers": chunks * pp, "vocab": 0, "global_batch": 2 * blocks * pp}
    ends = {"first": chunks, "second": chunks * (pp > 2), "last": chunks}
    case = case_of(dims, pp=pp, virtual=chunks, **ends)
    # A layer in each chunk, which keeps its activations; once more 0.3 of them for one layer.
    first, second, last = (float(peak) / (T * KEPT) - 0.3 for peak in memory_of(case, BARE).stages)
    assert (first, last) == (is_(most[0]), is_(most[-1]))
    assert pp == 2 or second == is_(most[1])
    layer, nothing = parted(3, 0, 0, 0), parted(0, 0, 0, 0)
    step = step_of(case, BARE, Layers(layer, layer, nothing, nothing))
    assert step.time_s == is_(end)


def run_over(slow: float, layers: Sequence[int], virtual: int, count: int) -> float:
    """Return by how much a pipeline run pass by pass ends later than its equation says.

    In the first half of its stages a layer takes ``slow`` times as long.
    """
    stages, half = [Stage(0, held) for held in layers], len(layers) // 2
    speeds = [slow] * half + [1.0] * (len(layers) - half)
    parts = chunks_of(Pipeline(count, (), tuple(stages), "interleaved", virtual))
    times = [part.layers * speeds[place % len(layers)] for place, part in enumerate(parts)]
    wholes = [3 * held * speed for held, speed in zip(layers, speeds, strict=True)]
    equation = count * max(wholes) + (sum(wholes) - max(wholes)) / virtual
    return run(len(layers), virtual, count, times)[0] / equation - 1


@pytest.mark.parametrize(
    ("slow", "layers", "virtual", "count"),
    [
        (3.0, [8, 24], 4, 12),
        (2.5, [10, 20], 5, 8),
        (2.3, [4, 4, 12, 12], 4, 8),
        (2.3, [6] * 4 + [14] * 4, 2, 64),
        (2.3, [15, 33], 3, 16),
    ],
)
def test_equal_chunks_over_two_kinds_end_when_the_equation_says(
    slow: float, layers: list[int], virtual: int, count: int
) -> None:
    assert run_over(slow, layers, virtual, count) == pytest.approx(0, abs=0.02)


def test_unequal_chunks_wait_for_each_other() -> None:
    # Chunks of one and two layers beside some of three and four.
    assert run_over(2.3, [6] * 4 + [14] * 4, 4, 64) > 0.05
    assert run_over(2.3, [3] * 8 + [7] * 8, 2, 128) > 0.1


def test_a_layer_without_experts_bounds_the_first_stage_only() -> None:
    def loads(*values: float) -> Loads:
        return Loads(4, *(np.array([value], np.float64) for value in values))

    # Three layers of 5 s and one of 1 s, the ends 2 s and 3 s; of the former only what one of the
    # latter takes is sure to bound all stages.
    slow = loads(3, 5, 1, 2, 3, 0, 2, 1)
    assert slow.mean_s == is_((2 + 4 * 1 + 3) / 2)
    split = best_split(slow, endless(slow))
    slowest = max(2 + 5 * split.first[0], 3 + split.last[0])
    assert slow.mean_s <= slowest == 7
    assert loads(3, 1, 5, 2, 3, 0.5, 4, 1).mean_s == is_((2 + 3 * 1 + 5 + 3 + 2 * 0.5) / 4)


def test_the_first_of_two_kinds_holds_fewer_layers_where_memory_is_short() -> None:
    able = replace(capabilities("flagscale"), recompute=("none",))
    model = replace(MODEL, layers=8, vocab=1000)
    asked = Workload(model, 8192, 8, framework="flagscale")
    cards = [offer("h100", 1, 1), offer("h800", 1, 1)]
    best = chain_plans(asked, cards, able)[0]
    assert [stage.layers for stage in best.pipelines[0].stages] == [4, 4]
    assert best.predicted is not None
    # It holds two micro-batches, the other one. Neither has room for one layer more.
    share = 0.95 * max(best.predicted.memory_gib) / limit_gib(asked, cards[0])
    best = chain_plans(asked, [shrunk(card, share) for card in cards], able)[0]
    assert [stage.layers for stage in best.pipelines[0].stages] == [3, 5]
