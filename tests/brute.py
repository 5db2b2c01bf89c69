"""What a search finds by thinking, by trying everything: for small cases.

Tests hold the searches against it, ``benchmarks/agreement.py`` counts where they agree.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, pairwise, permutations, product

import numpy as np

from supernode_slurm.catalogue import Mixture, Model
from supernode_slurm.frameworks import capabilities
from supernode_slurm.planner import Capabilities, Layout, Offer, Workload, chain, predict
from supernode_slurm.planner.crossings import Part
from supernode_slurm.planner.hybrid import _Kind
from supernode_slurm.planner.mesh import Shape
from supernode_slurm.planner.parts import cut_of
from supernode_slurm.planner.pipeline import Chain, Held
from supernode_slurm.planner.split import StageLoad
from supernode_slurm.planner.whole import WholeLoad, whole_s
from tests.test_planner import offer, workload

Split = tuple[int, ...]


def compositions(total: int, parts: int) -> Iterator[Split]:
    """Yield every way to cut a total into parts of one at least."""
    for cuts in combinations(range(1, total), parts - 1):
        yield tuple(after - before for before, after in pairwise((0, *cuts, total)))


def pipeline_s(split: Split, stages: Sequence[StageLoad], micro_batches: int) -> float:
    """Return the time of a pipeline of so many layers in each stage."""
    times = [stage.time_s(count) for stage, count in zip(stages, split, strict=True)]
    return (micro_batches - 1) * max(times) + sum(times)


def layers_over(stages: Sequence[StageLoad], total: int) -> list[Split]:
    """Return every split of layers that all stages can hold."""
    return [
        split
        for split in compositions(total, len(stages))
        if all(count <= stage.most for count, stage in zip(split, stages, strict=True))
    ]


Kinds = Sequence[tuple[int, Callable[[int], float]]]
"""How many equal replicas, and the time of one by its samples."""


def slowest_s(samples: Split, kinds: Kinds) -> float:
    """Return the time of the slowest replica."""
    pairs = zip(samples, kinds, strict=True)
    return max(time_s(-(-share // count)) for share, (count, time_s) in pairs)


def samples_over(kinds: Kinds, total: int) -> list[Split]:
    """Return every deal of samples in which each replica has one at least."""
    return [
        split
        for split in compositions(total, len(kinds))
        if all(share >= count for share, (count, _) in zip(split, kinds, strict=True))
    ]


def rising(steps: Sequence[int]) -> Callable[[int], float]:
    """Return a time that never falls with the samples, with flat stretches."""
    return lambda samples: float(sum(steps[index % len(steps)] for index in range(samples)))


def drawn_wholes(draw: random.Random, stages: int) -> list[WholeLoad]:
    """Return stages of two kinds, whose ends and updates rise by steps of their own."""
    kinds = [[draw.choice([1, 2, 3, 5]), draw.choice([0, 1, 4])] for _ in range(2)]
    found = []
    for index in range(stages):
        layer_s, update = kinds[index * 2 // stages]
        fixed_s, most = draw.choice([0, 1, 7]), draw.choice([2, 4, 9])
        layers = np.arange(1.0, most + 1)
        time = fixed_s + layers * layer_s
        late = draw.choice([0, 2, 9]) + np.floor(layers / draw.choice([1, 2]))
        end = draw.choice([1, 3, 20]) * time + late
        found.append(WholeLoad(time, end, update * layers, fixed_s, layer_s))
    return found


def wholes_over(stages: Sequence[WholeLoad], total: int) -> dict[Split, float]:
    """Return the step of every split of layers that all stages can hold."""
    return {
        split: whole_s(stages, split)
        for split in compositions(total, len(stages))
        if all(held <= it.time_s.size for held, it in zip(split, stages, strict=True))
    }


def sharded_kinds(batch: int, counts: Sequence[int]) -> list[_Kind]:
    """Return so many H100 and A100 as replicas with sharded weights of a small model."""
    asked = replace(workload("qwen2.5-0.5b", batch, 512), framework="torch")
    shape = Shape(1, sum(counts), 1, "none", 3, 1)
    offers = [offer(name, 1, count) for name, count in zip(("h100", "a100"), counts, strict=True)]
    return [_Kind(asked, item, shape, capabilities("torch"), batch) for item in offers]


def sharded_deal_s(kinds: Sequence[_Kind], batch: int) -> float:
    """Return when the best deal of samples and micro-steps over two kinds ends."""
    first, second = (kind.offer.devices for kind in kinds)
    return min(
        (
            max(_ends_s(kind, samples, steps) for kind, samples in zip(kinds, deal, strict=True))
            for steps in range(1, batch // (first + second) + 1)
            for deal in ((share, batch - share) for share in range(first, batch - second + 1))
        ),
        default=math.inf,
    )


def _ends_s(kind: _Kind, samples: int, steps: int) -> float:
    """Return when the slowest device ends, by trying every micro-batch."""
    least, most = samples // kind.offer.devices, -(-samples // kind.offer.devices)
    ends = []
    for size in range(1, min(most, len(kind.micro_s)) + 1):
        if least and -(-least // size) == -(-most // size) == steps:
            time = (steps - 1) * kind.micro_s[size - 1]
            time += kind.micro_s[most - (steps - 1) * size - 1]
            ends.append(max(time + kind.exposed_s[steps - 1], kind.traffic_s[steps - 1]))
    return float(min(ends, default=math.inf))


@cache
def _replica_s(card: str, samples: int) -> float:
    """Return the least computation time of one replica, by trying every micro-batch."""
    asked = replace(workload("qwen2.5-0.5b", 1, 512), framework="torch")
    layers = (asked.model.layers,)

    def run(micro_batch: int) -> float:
        layout = Layout(1, 1, micro_batch, layers, "none", 0, False)
        found = predict(replace(asked, global_batch=micro_batch), offer(card, 1, 1), layout)
        return found.breakdown_s["compute"]

    times = []
    for size in (1, 2, 4, 8, 16, samples):
        full, rest = divmod(samples, size)
        times.append(full * run(size) + (run(rest) if rest else 0))
    return min(times)


def replicas_job(batch: int, counts: Sequence[int]) -> tuple[Workload, list[Offer]]:
    """Return a job on A100 and H100 whose computation alone decides, as links are endless.

    It is small enough for every micro-batch to fit without recomputation.
    """
    asked = replace(workload("qwen2.5-0.5b", batch, 512), framework="torch")
    offers = [
        replace(offer(name, 1, count), scale_up_gbs=1e9, network_gbs=1e9)
        for name, count in zip(("a100", "h100"), counts, strict=True)
    ]
    return asked, offers


def replicas_compute_s(batch: int, counts: Sequence[int]) -> float:
    """Return the computation of the slowest replica of that job's best deal of samples."""
    kinds: Kinds = [
        (count, partial(_replica_s, card))
        for card, count in zip(("a100", "h100"), counts, strict=True)
    ]
    return min(slowest_s(deal, kinds) for deal in samples_over(kinds, batch))


DENSE = Model("dense", 4, 2048, 8, 4, 128, 4096, 32000, gated=True, tied=False, params=0)

DEVICES = {
    2: ([2, 3, 4], [1, 2, 4]),
    3: ([1, 2, 3], [1, 2], [1, 2]),
    4: ([1, 2], [1], [1, 2], [1]),
}
"""Of each kind, by how many kinds there are."""


LAYERS = {2: [4, 6, 8], 3: [6, 8], 4: [8]}
"""Of models whose layers divide into chunks, by how many kinds of devices there are."""


def shrunk(given: Offer, share: float) -> Offer:
    """Return the offer with cards of less memory."""
    card = given.accelerator
    less = replace(card, card_memory_gib=(card.card_memory_gib or 0) * share)
    return replace(given, accelerator=less)


def drawn_job(
    seed: int, kinds: int = 2, experts: bool = False, chunked: bool = False
) -> tuple[Workload, list[Offer], Capabilities]:
    """Return a small job on two to four kinds, some of them short of memory.

    ``chunked``: of a framework with virtual stages, and layers for them.
    """
    draw = random.Random(seed)
    able = capabilities(draw.choice(["flagscale", "flagscale", "megatron", "torchtitan"]))
    if chunked:
        able = capabilities(draw.choice(["megatron", "torchtitan"]))
    model = replace(
        DENSE,
        layers=draw.choice(LAYERS[kinds] if chunked else range(kinds + 1, kinds + 4)),
        hidden=draw.choice([512, 2048]),
        vocab=draw.choice([1000, 250_000]),
        tied=draw.random() < 0.3,
    )
    first, second, *more = DEVICES[kinds]
    offers = [
        offer(draw.choice(["a100", "h100"]), 1, draw.choice(first)),
        offer(draw.choice(["v100", "h20"]), 1, draw.choice(second)),
    ]
    share = draw.choice([1, 0.1, 0.05, 0.03])
    offers = [shrunk(item, draw.choice([share, share, 1])) for item in offers]
    asked = Workload(
        model,
        draw.choice([512, 1024]),
        draw.choice([4, 8, 12]),
        "fp16" if offers[1].accelerator.gres_type == "v100" else "bf16",
        able.name,
        draw.choice(["full", "full", "lora"]),
    )
    for name, counts in zip(("h200", "a800"), more, strict=False):
        item = offer(name, 1, draw.choice(counts))
        offers.append(shrunk(item, draw.choice([share, share, 1])))
    if experts:
        front = [(), (0,), (0, 1)] if chunked else [(), (0,)]
        mixture = Mixture(4, 2, 1024, dense_layers=draw.choice(front))
        asked = replace(asked, model=replace(model, mixture=mixture), training="full")
    return asked, offers, able


def meshes(search: chain._Search, able: Capabilities) -> Iterator[tuple[int, tuple[Part, ...]]]:
    """Yield the samples of a micro-batch, and a mesh of each kind that go together."""
    model = search.workload.model
    for keys in product(*search._parts):
        widths, again, virtual = map(set, zip(*keys, strict=True))
        mixed = able.recompute_by_stage and "selective" not in again
        if len(widths) > 1 or len(virtual) > 1 or (len(again) > 1 and not mixed):
            continue
        (width,) = widths
        for parts in product(*(kind[key] for kind, key in zip(search._parts, keys, strict=True))):
            alike = len({(cut_of(part), part.dp) for part in parts}) == 1
            if alike or (able.meshes and not (model.tied or model.mtp)):
                yield width, parts


def ordered(
    search: chain._Search, able: Capabilities
) -> Iterator[tuple[int, tuple[Part, ...], list[Part]]]:
    """Yield micro-batches, meshes in the order of a pipeline, and the mesh of each stage."""
    for width, chosen in meshes(search, able):
        count = search.workload.global_batch // width
        if not is_legal(search, able, chosen, count):
            continue
        for parts in permutations(chosen):
            yield count, parts, [part for part in parts for _ in range(part.pp)]


def is_legal(search: chain._Search, able: Capabilities, parts: Sequence[Part], count: int) -> bool:
    """Return whether a framework runs these meshes with so many micro-batches."""
    stages, virtual = sum(part.pp for part in parts), parts[0].virtual
    if sum(least_layers(search, virtual, stages)) > search.layers:
        return False
    if virtual > 1 and (count % stages or (search.layers + search.front) % virtual):
        return False
    return not able.filled_pipelines or stages <= count


def least_layers(search: chain._Search, virtual: int, stages: int) -> list[int]:
    """Return what each stage holds at least: a layer in each chunk, those without experts in one.

    Counted are the layers that repeat.
    """
    first = next(
        layers
        for layers in range(1, search.layers + virtual * (search.front + 1))
        if (search.front + layers) // virtual >= max(1, search.front)
    )
    return [first, *[virtual] * (stages - 1)]


def is_small(
    asked: Workload, offers: Sequence[Offer], able: Capabilities, most: int = 1500
) -> bool:
    """Return whether ``fastest_s`` tries so many pipelines at most."""
    search, found = chain._Search(asked, offers, able), 0
    for _, _, places in ordered(search, able):
        spare = search.layers - sum(least_layers(search, places[0].virtual, len(places)))
        found += math.comb(spare + len(places) - 1, len(places) - 1)
        if found > most:
            return False
    return True


def fastest_s(asked: Workload, offers: Sequence[Offer], able: Capabilities) -> float:
    """Return the step time of the best split of the best meshes in the best order."""
    search = chain._Search(asked, offers, able)
    tried = [
        (_least_s(found), found, places)
        for count, parts, places in ordered(search, able)
        for found in chains(search, count, parts, places)
    ]
    best = math.inf
    for least_s, found, places in sorted(tried, key=lambda item: item[0]):
        if least_s >= best:
            break
        needs = zip(found.memory_bytes(), places, strict=True)
        if all(need <= search._limits[part.offer] for need, part in needs):
            best = min(best, sum(found.breakdown_s().values()))
    return best


def chains(
    search: chain._Search, count: int, parts: tuple[Part, ...], places: Sequence[Part]
) -> Iterator[Chain]:
    """Yield these meshes with every split of the layers over their stages."""
    last = len(places) - 1
    transfers, tied_s = search.links.transfers(parts), search.links.tied_s(parts)
    virtual = parts[0].virtual
    least = least_layers(search, virtual, len(places))
    for layers in compositions(search.layers, len(places)):
        if any(held < few for held, few in zip(layers, least, strict=True)):
            continue
        if any(held % virtual for held in (layers[0] + search.front, *layers[1:])):
            continue
        stages = tuple(
            Held(part.cost, held, (index == 0, index == last))
            for index, (part, held) in enumerate(zip(places, layers, strict=True))
        )
        yield Chain(stages, transfers, count, tied_s, virtual)


def _least_s(found: Chain) -> float:
    """Return what a step takes without sums of gradients and updates: most need no closer look."""
    times = [
        stage.compute_s + stage.tp_s + stage.ep_s + p2p_s
        for stage, p2p_s in zip(found.stages, found.p2p_s, strict=True)
    ]
    once_s = found.tied_s + found.stages[0].cost.constants.step_s
    filled_s = (sum(times) - max(times)) / found.virtual
    return filled_s + found.micro_batches * max(times) + once_s
