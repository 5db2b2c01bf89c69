from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from supernode_slurm.errors import PlanError
from supernode_slurm.frameworks import capabilities
from supernode_slurm.planner import (
    Capabilities,
    Offer,
    Workload,
    chain,
    combine,
    plan_mixed,
    screen,
)
from supernode_slurm.planner.bounds import rising_parts
from supernode_slurm.planner.crossings import Part
from supernode_slurm.planner.screen import Stages, whole_layers_s
from tests.brute import (
    DENSE,
    chains,
    compositions,
    drawn_job,
    fastest_s,
    is_legal,
    meshes,
)
from tests.test_planner import offer, step_s, workload


class Drawn:
    """A stage of random times: seconds of a micro-batch and by its end, with layers and without."""

    def __init__(self, draw: random.Random, layer_s: float, more_s: float) -> None:
        self.fixed_s = draw.choice([0.0, 0.3, draw.uniform(0, 5)])
        self.later_s = draw.choice([0.0, 0.1, draw.uniform(0, 2)])
        self.layer_s, self.more_s = layer_s, more_s

    def time_s(self, layers: int) -> float:
        return self.fixed_s + layers * self.layer_s

    def end_s(self, layers: int) -> float:
        return self.time_s(layers) + self.later_s + layers * self.more_s


def drawn_part(draw: random.Random) -> list[Drawn]:
    """Return the stages of a part: one at each end, and equal ones between them."""
    speed = draw.choice([0.5, 1.0, 1.0, draw.uniform(0.1, 5)]), draw.choice([0.0, 0.2])
    one, other, middle = (Drawn(draw, *speed) for _ in range(3))
    return draw.choice([[one], [one, other], [one, middle, other], [one, middle, middle, other]])


def as_stages(parts: list[list[Drawn]], rooms: list[int]) -> Stages:
    rows = [
        (
            len(part), part[0].layer_s, part[0].layer_s + part[0].more_s, room,
            sum(stage.fixed_s for stage in part), part[0].end_s(0), part[-1].end_s(0),
            part[len(part) // 2].end_s(0),
        )
        for part, room in zip(parts, rooms, strict=True)
    ]  # fmt: skip
    return Stages(*(np.array(column, float)[:, None] for column in zip(*rows, strict=True)))


def test_no_split_of_whole_layers_beats_its_bound() -> None:
    draw, tight = random.Random(3), 0
    for _ in range(400):
        parts = [drawn_part(draw) for _ in range(draw.choice([2, 3]))]
        places = [stage for part in parts for stage in part]
        owners = [index for index, part in enumerate(parts) for _ in part]
        layers = len(places) + draw.choice([0, 1, 3])
        rooms = [draw.choice([layers, len(part), len(part) + 1]) for part in parts]
        count = draw.choice([1, 2, 5, 40])
        least = math.inf
        for split in compositions(layers, len(places)):
            held = [sum(n for n, mine in zip(split, owners, strict=True) if mine == part)
                    for part in range(len(parts))]  # fmt: skip
            if all(n <= room for n, room in zip(held, rooms, strict=True)):
                times = [stage.time_s(n) for stage, n in zip(places, split, strict=True)]
                ends = [stage.end_s(n) for stage, n in zip(places, split, strict=True)]
                least = min(least, sum(times) - max(times) + count * max(ends))
        for limit in (math.inf, least * 1.001, least * 1.1, least * 0.999):
            stages, counts = as_stages(parts, rooms), np.array([float(count)])
            total = np.array([float(layers)])
            found = whole_layers_s(stages, total, counts, np.array([limit])).item()
            assert found <= least * (1 + 1e-9) or limit < least
            assert found < limit or found == math.inf
            tight += found > 0.98 * least
    assert tight > 400


def parts_s(search: chain._Search, parts: tuple[Part, ...], count: int) -> float:
    """Return the step of the best split of these meshes in this order."""
    places, best = [part for part in parts for _ in range(part.pp)], math.inf
    for found in chains(search, count, parts, places):
        needs = zip(found.memory_bytes(), places, strict=True)
        if all(need <= search._limits[part.offer] for need, part in needs):
            best = min(best, sum(found.breakdown_s().values()))
    return best


Job = tuple[Workload, list[Offer], Capabilities]


def jobs() -> dict[str, Job]:
    """Return small jobs on two to four kinds.

    In 183 and 355 the head of the slow cards takes as long as many layers, and rooms are small.
    """
    dense = [
        (5, 2),
        (6, 2),
        (50, 2),
        (62, 2),
        (183, 2),
        (355, 2),
        (3, 3),
        (14, 3),
        (16, 3),
        (11, 4),
    ]
    found = {f"{seed}-{kinds}": drawn_job(seed, kinds) for seed, kinds in dense}
    for seed, kinds in ((1, 2), (11, 2), (3, 3)):
        found[f"{seed}-{kinds}-experts"] = drawn_job(seed, kinds, True)
    for seed, kinds, experts in CHUNKED:
        found[f"{seed}-{kinds}-{experts}-chunked"] = drawn_job(seed, kinds, experts, True)
    asked = Workload(replace(DENSE, layers=5), 512, 8, framework="flagscale")
    vendors = [offer("a100", 1, 2), offer("ascend910b", 1, 2)]
    return found | {"vendors": (asked, vendors, capabilities("flagscale"))}


CHUNKED = [(39, 2, False), (78, 2, False), (131, 2, True), (45, 3, False), (42, 4, False)]
"""Of a framework with virtual stages, in all but the last one they win."""

JOBS = jobs()


def bounded(job: Job) -> Iterator[tuple[float, float, float, float]]:
    """Yield some pipelines' best step, their bound, that of their meshes, and of a beginning."""
    search = chain._Search(*job)
    parts, blocks = search._blocks()
    combinations, tells = search._screen(parts, blocks)
    columns = [rows for wave, _ in combinations.waves(lambda: math.inf) for rows in wave.T]
    for rows in random.Random(0).sample(columns, min(len(columns), 12)):
        (block,) = (
            place
            for place, it in enumerate(blocks)
            if it.starts[0] <= rows[0] < it.starts[0] + it.sizes[0]
        )
        count = blocks[block].micro_batches
        column, counts = rows[:, None], np.array([float(count * blocks[block].virtual)])
        begun = combinations._bounds(np.array([block]), column[:-1]).item()
        for place, order in enumerate(search.orders):
            chosen = tuple(parts[kind][rows[kind]] for kind in order)
            least = parts_s(search, chosen, count)
            # Just enough time for the best split makes bounds closest.
            limit = least * 1.0001
            ordered = tells.orders_s(column, counts, limit)[0, place]
            yield least, float(ordered), tells.sets_s(column, counts, limit).item(), begun


@pytest.mark.parametrize("name", JOBS)
def test_no_plan_of_meshes_beats_their_bounds(name: str) -> None:
    found = [bounds for bounds in bounded(JOBS[name]) if bounds[0] < math.inf]
    assert found
    for least, *bounds in found:
        assert max(bounds) <= least * (1 + 1e-9)


def test_bounds_of_whole_layers_are_close() -> None:
    found = [bounds for job in JOBS.values() for bounds in bounded(job)]
    shares = [ordered / least for least, ordered, *_ in found if least < math.inf]
    assert len(shares) > 100
    assert np.median(shares) > 0.95


@pytest.mark.parametrize("name", JOBS)
def test_every_set_of_meshes_is_looked_at(name: str) -> None:
    asked, _, able = JOBS[name]
    search = chain._Search(*JOBS[name])
    parts, blocks = search._blocks()
    combinations = search._screen(parts, blocks)[0]
    found = {
        tuple(kind[row] for kind, row in zip(parts, rows, strict=True))
        for wave, _ in combinations.waves(lambda: math.inf)
        for rows in wave.T
    }
    assert found
    for width, chosen in meshes(search, able):
        count = asked.global_batch // width
        if not is_legal(search, able, chosen, count):
            assert chosen not in found
        elif chosen not in found:
            assert parts_s(search, chosen, count) == math.inf


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_indices_come_in_rising_order_of_their_values(most: int) -> None:
    values = np.random.default_rng(0).integers(0, 50, 400).astype(float)
    order = np.concatenate(list(rising_parts(values, 3, most)))
    assert sorted(order) == list(range(400))
    assert list(values[order]) == sorted(values)


def test_cards_without_room_for_a_layer_do_not_hold_the_search_up() -> None:
    # At 128 Ki tokens a layer without recomputation fits nowhere at TP 1.
    asked = workload("llama-3-70b", 8, 131072)
    offers = [offer("a100", 4), offer("h100", 4)]
    search = chain._Search(asked, offers, capabilities("flagscale"))
    taken = list(search.candidates(lambda: math.inf))
    assert search.cramped
    assert taken
    for candidate in taken:
        for part in candidate.parts:
            stage = search._stage(part, False, False, 1)
            assert stage.most >= 1


def test_five_kinds_of_devices_are_refused_with_a_way_out() -> None:
    offers = [offer(name, 1) for name in ("a100", "h100", "h20", "h200", "a800")]
    with pytest.raises(PlanError, match="4 at most; leave out the slowest or the smallest group"):
        plan_mixed(workload("llama-3-8b", 64), offers, capabilities("flagscale"))


@pytest.mark.parametrize("seed", [0, 4, 9, 11])
def test_a_pipeline_of_four_kinds_is_as_fast_as_any(seed: int) -> None:
    asked, offers, able = drawn_job(seed, 4)
    try:
        found = step_s(chain.chain_plans(asked, offers, able)[0])
    except PlanError:
        found = math.inf
    assert found == pytest.approx(fastest_s(asked, offers, able), rel=1e-9)


@pytest.mark.parametrize("name", ["5-2", "62-2", "183-2", "3-3", "78-2-False-chunked"])
def test_all_plans_are_those_of_a_search_without_bounds(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [step_s(plan) for plan in chain.chain_plans(*JOBS[name])]
    monkeypatch.setattr(
        screen, "whole_layers_s", lambda _stages, _layers, counts, _limits: np.zeros(counts.size)
    )
    monkeypatch.setattr(combine, "bounds_s", lambda _loads, _layers, counts: np.zeros(counts.size))
    assert len(found) > 1
    assert found == pytest.approx([step_s(plan) for plan in chain.chain_plans(*JOBS[name])])
