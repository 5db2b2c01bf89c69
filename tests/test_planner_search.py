"""The search is exact within the model: what it finds is what trying everything finds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from supernode_slurm.catalogue import Mixture, Model, find_model
from supernode_slurm.frameworks import capabilities
from supernode_slurm.planner import Capabilities, Fixed, Layout, Offer, Workload, predict
from supernode_slurm.planner.build import case_of, cut_of
from supernode_slurm.planner.case import stacked
from supernode_slurm.planner.constants import DEFAULT
from supernode_slurm.planner.costs import costs_of, usable_gib
from supernode_slurm.planner.folds import unfolded
from supernode_slurm.planner.search import Search
from supernode_slurm.planner.space import divisors, most_tokens, space_of
from supernode_slurm.planner.stacks import stack_of
from supernode_slurm.planner.stages import Loads, Most, best_split, endless, splits_below
from supernode_slurm.planner.workload import RECOMPUTE
from tests.test_planner import offer

MEGATRON, TORCHTITAN = capabilities("megatron"), capabilities("torchtitan")

DENSE = Model("dense", 6, 1024, 8, 4, 128, 2816, 32000, gated=True, tied=False, params=0)
TIED = replace(DENSE, name="tied", tied=True, vocab=64000)
MIXED = replace(DENSE, name="mixed", layers=5, mixture=Mixture(8, 2, 512))
DEEP = replace(
    find_model("deepseek-v3"),
    layers=7,
    hidden=1024,
    heads=8,
    kv_heads=8,
    ffn=4096,
    mixture=Mixture(8, 2, 1024, 1024, (0, 1, 2)),
)

SIZES = ("tp", "cp", "ep", "etp", "pp", "dp", "virtual_stages", "micro_batch", "zero", "shard")
"""Of a layout; the columns of a space have the same order, and the recomputation at their end."""


def sized(given_: Offer, gib: float) -> Offer:
    """Return the offer with cards of this memory."""
    return replace(given_, accelerator=replace(given_.accelerator, card_memory_gib=gib))


def splits(layers: int, pp: int, least: int) -> Iterator[tuple[int, ...]]:
    """Yield every split in which the stages between the ends differ by one layer at most."""
    if pp == 1:
        yield (layers,)
        return
    for first, last in product(range(least, layers), repeat=2):
        rest = layers - first - last
        if pp == 2 and rest == 0:
            yield first, last
        if pp > 2 and rest // (pp - 2) >= least:
            each, more = divmod(rest, pp - 2)
            yield first, *(each + (stage < more) for stage in range(pp - 2)), last


def key_of(layout: Layout) -> tuple[int, ...]:
    return (*(getattr(layout, name) for name in SIZES), RECOMPUTE.index(layout.recompute))


def rows(asked: Workload, given_: Offer, able: Capabilities) -> list[tuple[int, ...]]:
    """Return the layouts, those that differ in the number of recomputed layers once."""
    return [row for row, _ in origins(asked, given_, able)]


def origins(
    asked: Workload, given_: Offer, able: Capabilities
) -> list[tuple[tuple[int, ...], int]]:
    """Return the layouts with the rows of the space that stand for them."""
    found, places = unfolded(space_of(asked, given_, able), asked, able)
    sizes = zip(*found.columns.values(), strict=True)
    return [
        (tuple(map(int, row[:-1])), int(place))
        for row, place in zip(sizes, places, strict=True)
        if row[-1] == (asked.fixed.recompute_layers or 0)
    ]


def layouts_of(row: tuple[int, ...], asked: Workload, able: Capabilities) -> Iterator[Layout]:
    """Yield a row's layouts, with every split that the framework runs."""
    size = dict(zip(SIZES, row, strict=False))
    even = not able.uneven_stages or (size["virtual_stages"] > 1 and not able.uneven_virtual)
    held = math.ceil(asked.model.layers / (size["pp"] * size["virtual_stages"]))
    counts = {0}
    if RECOMPUTE[row[-1]] == "full" and able.recompute_some:
        counts |= {math.ceil(part * held / 4) for part in (1, 2, 3)} - {held}
    for layers in splits(asked.model.layers, size.pop("pp"), size["virtual_stages"]):
        for some in counts if not even or len(set(layers)) == 1 else ():
            again = RECOMPUTE[row[-1]]
            plain = Layout(1, 1, 1, layers, again, 0, row[0] > 1, recompute_layers=some)
            yield replace(plain, **size)  # type: ignore[arg-type]


def without_chunks(times: dict[tuple[int, ...], float]) -> list[float]:
    """Return rising times, of rows that differ in their virtual stages alone the least."""
    best: dict[tuple[int, ...], float] = {}
    place = SIZES.index("virtual_stages")
    for row, time in times.items():
        key = (*row[:place], *row[place + 1 :])
        best[key] = min(time, best.get(key, np.inf))
    return sorted(best.values())


A100, H100 = offer("a100", 1, 8), offer("h100", 1, 4)
WHOLE = {
    "dense": (Workload(DENSE, 1024, 4), offer("a100", 1, 4), MEGATRON),
    "dense that hardly fits": (Workload(DENSE, 1024, 4), sized(A100, 4.4), MEGATRON),
    "tied": (Workload(replace(TIED, layers=5), 1024, 2), sized(A100, 6), MEGATRON),
    "even stages": (Workload(DENSE, 1024, 4), A100, replace(MEGATRON, uneven_stages=False)),
    "even chunks": (Workload(DENSE, 1024, 4), H100, capabilities("mindspeed")),
    "experts": (
        Workload(MIXED, 1024, 4, fixed=Fixed(recompute="selective")),
        H100,
        MEGATRON,
    ),
    "experts that hardly fit": (
        Workload(MIXED, 1024, 4, fixed=Fixed(recompute="full", micro_batch=1)),
        sized(offer("h100", 1, 8), 3.6),
        MEGATRON,
    ),
    "latent attention and MTP": (
        Workload(DEEP, 1024, 4, fixed=Fixed(micro_batch=1, recompute="none")),
        sized(H100, 11),
        MEGATRON,
    ),
    "hybrid sharding": (
        Workload(DENSE, 1024, 8, framework="torchtitan", fixed=Fixed(recompute="full")),
        sized(offer("a100", 2, 4), 6),
        TORCHTITAN,
    ),
    "fixed sizes": (
        Workload(replace(DENSE, layers=13), 1024, 8, fixed=Fixed(pp=4, cp=1, micro_batch=1)),
        sized(A100, 6),
        MEGATRON,
    ),
    "LoRA": (Workload(DENSE, 1024, 4, training="lora"), H100, MEGATRON),
    "one replica per card": (
        Workload(DENSE, 1024, 16, framework="torch"),
        A100,
        capabilities("torch"),
    ),
}


@cache
def everything(name: str) -> dict[tuple[int, ...], list[tuple[float, float]]]:
    """Return step times and memory of every split of every row."""
    asked, given_, able = WHOLE[name]
    every = [(row, it) for row in rows(asked, given_, able) for it in layouts_of(row, asked, able)]
    stack = stack_of(asked.framework)
    cut = stacked([cut_of(layout, stack) for _, layout in every])
    costs = costs_of(case_of(asked, given_, cut, stack), DEFAULT)
    found: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for place, (row, _) in enumerate(every):
        cost = (float(costs.step.time_s[place]), float(costs.memory.peak[place]) / 2**30)
        found.setdefault(row, []).append(cost)
    return found


def fastest(name: str, limit_gib: float) -> dict[tuple[int, ...], float]:
    """Return the step time of the best split of each row that has one that fits."""
    found = {
        row: min((time for time, need in costs if need <= limit_gib), default=np.inf)
        for row, costs in everything(name).items()
    }
    return {row: time for row, time in found.items() if time < np.inf}


@pytest.mark.parametrize("spare", [0.0, 0.25])
@pytest.mark.parametrize("name", WHOLE)
def test_the_best_are_those_of_trying_everything(name: str, spare: float) -> None:
    asked, given_, able = WHOLE[name]
    asked = replace(asked, spare=spare)
    times = fastest(name, usable_gib(given_) * (1 - spare))
    expected = without_chunks(times)
    assert expected
    for keep in (1, 10_000):
        found = Search(asked, given_, able).best(keep)
        assert found.costs is not None
        costs = [predict(asked, given_, layout) for layout in found.layouts]
        # A row of the search and the prediction of its layout are one.
        step, peak = found.costs.step.time_s, found.costs.memory.peak
        assert [cost.step_time_s for cost in costs] == pytest.approx(list(step), rel=1e-12)
        assert [cost.memory_gib[0] * 2**30 for cost in costs] == pytest.approx(list(peak))
        assert list(step) == pytest.approx(expected[:keep], rel=1e-9)
        for layout in found.layouts:
            assert times[key_of(layout)] == pytest.approx(
                predict(asked, given_, layout).step_time_s
            )
            # Late stages hold fewer micro-batches.
            assert list(layout.layers[1:-1]) == sorted(layout.layers[1:-1])


@pytest.mark.parametrize("name", ["dense", "LoRA", "tied", "experts"])
def test_a_row_of_the_search_is_the_prediction_of_its_layout(name: str) -> None:
    asked, given_, able = WHOLE[name]
    found = Search(asked, given_, able).best(30)
    assert found.costs is not None
    for row, layout in enumerate(found.layouts):
        alone = predict(asked, given_, layout)
        assert alone.step_time_s == pytest.approx(found.costs.step.time_s[row], rel=1e-12)
        assert alone.memory_gib[0] * 2**30 == pytest.approx(found.costs.memory.peak[row], rel=1e-12)


@pytest.mark.parametrize("name", ["dense", "tied", "experts", "latent attention and MTP"])
def test_no_layout_is_faster_than_its_bound(name: str) -> None:
    asked, given_, able = WHOLE[name]
    times = fastest(name, np.inf)
    bounds = Search(asked, given_, able).bounds()
    for row, place in origins(asked, given_, able):
        assert row not in times or bounds[place] <= times[row] * (1 + 1e-9)


@given(
    heads=st.sampled_from([4, 8, 12]),
    width=st.sampled_from([256, 1024]),
    layers=st.integers(2, 40),
    experts=st.sampled_from([0, 4, 16]),
    first=st.integers(0, 2),
    vocab=st.sampled_from([1000, 250_000]),
    card=st.sampled_from(["a100", "h100", "ascend910b2", "t4"]),
    nodes=st.integers(1, 4),
    batch=st.sampled_from([8, 24, 64]),
    framework=st.sampled_from(["megatron", "mindspeed", "torchtitan", "deepspeed"]),
)
@settings(max_examples=25)
def test_bounds_and_fast_splits_hold_in_any_space(
    heads: int,
    width: int,
    layers: int,
    experts: int,
    first: int,
    vocab: int,
    card: str,
    nodes: int,
    batch: int,
    framework: str,
) -> None:
    mixture = Mixture(experts, 2, width, 0, tuple(range(min(first, layers - 1))))
    model = replace(
        DENSE,
        layers=layers,
        hidden=width,
        heads=heads,
        kv_heads=heads // 2,
        head_dim=width // heads,
        ffn=3 * width,
        vocab=vocab,
        mixture=mixture if experts else None,
    )
    precision = "fp16" if card == "t4" else "bf16"
    able = replace(capabilities(framework), precisions=("bf16", "fp16"))
    asked = Workload(model, 512, batch, precision, framework, fixed=Fixed(micro_batch=1))
    given_ = offer(card, nodes, 4)
    search = Search(asked, given_, able)
    assume(search.space.size)
    places = dict(origins(asked, given_, able))
    found, bounds = search.best(10_000), search.bounds()
    assert found.costs is not None
    for layout, time in zip(found.layouts, found.costs.step.time_s, strict=True):
        assert bounds[places[key_of(layout)]] <= time * (1 + 1e-9)
    # The best of all is the best of few.
    few = search.best(3)
    assert few.costs is not None
    assert list(few.costs.step.time_s) == pytest.approx(list(found.costs.step.time_s[:3]))


def legal(asked: Workload, given_: Offer, able: Capabilities) -> Iterator[tuple[int, ...]]:
    """Yield the legal layouts by their rules, one rule after the other."""
    model, devices, mixture = asked.model, given_.devices, asked.model.mixture
    for tp, cp, pp in product(divisors(devices), repeat=3):
        dp = devices // (tp * cp * pp)
        if tp * cp * pp * dp != devices or asked.global_batch % dp:
            continue
        if tp > 1 and (not able.tensor or given_.domain_devices % tp or model.heads % tp):
            continue
        if model.kv_heads % tp and not (able.copies_kv_heads and tp % model.kv_heads == 0):
            continue
        if cp > 1 and (not able.context or asked.sequence % (2 * cp) or asked.sequence % (cp * tp)):
            continue
        if able.name == "torchtitan" and cp > 1 and asked.sequence % (2 * cp * tp):
            continue
        if pp > 1 and (not able.pipeline or pp > model.layers):
            continue
        if pp > 1 and not able.uneven_stages and model.layers % pp:
            continue
        cuts = [(1, 1)]
        if mixture:
            cuts = [
                (ep, etp)
                for ep in (divisors(mixture.experts) if able.experts else [1])
                for etp in {1, tp} & ({1, tp} if able.expert_tensor else {tp})
                if (tp * cp * dp) % (ep * etp) == 0
            ]
        sharers = tp * cp * dp if mixture else cp * dp
        for micro in divisors(asked.global_batch // dp):
            batches = asked.global_batch // dp // micro
            for virtual in range(1, model.layers // pp + 1):
                uneven = able.uneven_virtual and able.uneven_stages
                if virtual > 1 and (pp == 1 or not able.virtual_stages or batches % pp):
                    continue
                if virtual > 1 and not uneven and model.layers % (pp * virtual):
                    continue
                for (ep, etp), again in product(cuts, map(RECOMPUTE.index, able.recompute)):
                    zero = int(sharers > 1 and 1 in able.zero)
                    yield tp, cp, ep, etp, pp, dp, virtual, micro, zero, 0, again


def test_a_micro_batch_that_the_space_leaves_out_fits_nowhere() -> None:
    asked = Workload(replace(DENSE, vocab=4000), 4096, 1 << 16, fixed=Fixed(pp=2, tp=2, cp=1))
    tight, able = sized(A100, 4), MEGATRON
    sizes = sorted({row[7] for row in rows(asked, tight, able)})
    most = most_tokens(asked, tight, 2, 2) / asked.sequence
    assert sizes == [size for size in divisors((1 << 16) // 2) if size <= most]
    assert 1 < len(sizes) < len(divisors((1 << 16) // 2))
    first = 2 * sizes[-1]
    for again in RECOMPUTE:
        layout = Layout(2, 2, first, (3, 3), again, 1, True)
        assert predict(asked, tight, layout).memory_gib[0] > 4
    # Where none fits the smallest is left, to say how much is missing.
    none = space_of(asked, sized(A100, 0.01), able)
    assert set(none.columns["micro_batch"]) == {1}


@pytest.mark.parametrize("framework", ["megatron", "mindspeed", "flagscale", "torch"])
@pytest.mark.parametrize("model", [DENSE, MIXED])
@pytest.mark.parametrize("given_", [A100, offer("gb200", 3, 4, 3), offer("h100", 2, 4)])
def test_the_space_is_every_legal_layout_once(framework: str, model: Model, given_: Offer) -> None:
    able = capabilities(framework)
    asked = Workload(model, 1024, 12, framework=framework)
    found = rows(asked, given_, able)
    assert len(set(found)) == len(found)
    assert set(found) == set(legal(asked, given_, able))


seconds = st.sampled_from([0.25, 0.5, 1.0, 1.5, 3.0])


@given(
    pp=st.integers(1, 6),
    total=st.integers(6, 16),
    dense=st.integers(0, 3),
    dense_s=seconds,
    layer_s=seconds,
    ends=st.tuples(seconds, seconds),
    middle_s=st.sampled_from([0.0, 0.25]),
    least=st.integers(1, 2),
    most=st.tuples(st.integers(1, 16), st.integers(1, 16), st.integers(1, 16)),
)
@settings(max_examples=100)
def test_no_split_has_a_faster_slowest_stage(
    pp: int,
    total: int,
    dense: int,
    dense_s: float,
    layer_s: float,
    ends: tuple[float, float],
    middle_s: float,
    least: int,
    most: tuple[int, int, int],
) -> None:
    def one(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([float(value)])

    alike = dense_s if dense == 0 else layer_s
    least = min(least, total // pp)
    loads = Loads(
        total=total,
        dense=one(dense),
        dense_s=one(dense_s),
        layer_s=one(alike),
        first_s=one(ends[0]),
        last_s=one(ends[1] if pp > 1 else 0),
        middle_s=one(middle_s),
        pp=one(pp),
        least=one(least),
    )

    def slowest(split: tuple[int, ...]) -> float:
        early = min(split[0], dense)
        times = [ends[0] + early * dense_s + (split[0] - early) * alike]
        times += [middle_s + layers * alike for layers in split[1:-1]]
        times += [ends[1] + split[-1] * alike] if pp > 1 else []
        return max(times)

    def fits(split: tuple[int, ...]) -> bool:
        inner = max(split[1:-1], default=0)
        return split[0] <= most[0] and inner <= most[1] and (pp == 1 or split[-1] <= most[2])

    every = list(splits(total, pp, least))
    whole = best_split(loads, endless(loads))
    for limits, able in (
        (endless(loads), every),
        (Most(*map(one, most)), [split for split in every if fits(split)]),
    ):
        found = best_split(loads, limits)
        assert bool(found.legal[0]) == bool(able)
        if able:
            shape = (found.first[0], found.second[0], found.last[0])
            chosen = [item for item in able if ends_of(item) == shape]
            assert chosen
            assert slowest(chosen[0]) == pytest.approx(min(map(slowest, able)))
    if pp > 1:
        limit = slowest(next(s for s in every if ends_of(s)[::2] == (whole.first, whole.last)))
        _, below = splits_below(loads, one(limit + 0.5))
        listed = sorted(zip(below.first, below.second, below.last, strict=True))
        assert listed == sorted(ends_of(s) for s in every if slowest(s) <= limit + 0.5)


def ends_of(split: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the layers of the first, the fullest middle and the last stage."""
    return split[0], max(split[1:-1], default=0), split[-1] if len(split) > 1 else 0
