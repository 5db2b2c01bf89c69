"""A layout of the user's own: what it costs, and why it cannot run."""

from __future__ import annotations

from dataclasses import replace

from ..plan import Predicted
from . import rules
from .answers import KEEP, Examined, Rejected
from .costs import predict, usable_gib
from .search import Search
from .uniform import predictions
from .workload import Capabilities, Layout, Offer, Workload, agree_precision


def examine(workload: Workload, offer: Offer, layout: Layout, able: Capabilities) -> Examined:
    """Return what a layout costs; its problems say why it cannot run, and by how much."""
    workload = agree_precision(workload, [offer], able)
    predicted = predict(workload, offer, layout)
    found = [
        *_sizes(workload, offer, layout),
        *_rules(workload, offer, layout, able),
    ]
    if predicted.memory_gib[0] > usable_gib(offer):
        found.append(short(predicted, offer))
    return Examined(predicted, tuple(found))


def rejected(workload: Workload, offer: Offer, able: Capabilities) -> tuple[Rejected, ...]:
    """Return the fastest legal layouts that would fit into twice the memory, and by how much.

    None of them where the memory there is does not stand in the way.
    """
    workload = agree_precision(workload, [offer], able)
    search = Search(workload, _roomy(offer), able)
    found = search.best(KEEP)
    return tuple(
        Rejected(layout, predicted, short(predicted, offer))
        for layout, predicted in zip(found.layouts, predictions(search, found), strict=True)
        if max(predicted.memory_gib) > usable_gib(offer)
    )


def _roomy(offer: Offer) -> Offer:
    memory = offer.accelerator.card_memory_gib
    return replace(
        offer, accelerator=replace(offer.accelerator, card_memory_gib=memory and 2 * memory)
    )


def short(predicted: Predicted, offer: Offer) -> str:
    """Say how much memory a layout needs and how much there is."""
    need, there = max(predicted.memory_gib), usable_gib(offer)
    return f"needs {need:.1f} GiB, {there:.1f} there"


def _sizes(workload: Workload, offer: Offer, layout: Layout) -> list[str]:
    model, found = workload.model, []
    size = layout.tp * layout.cp * layout.pp * layout.dp
    if size != offer.devices:
        found.append(f"tp x cp x pp x dp is {size}, there are {offer.devices} devices")
    held = sum(layout.layers)
    if held != model.layers:
        found.append(f"the stages hold {held} layers, {model.name} has {model.layers}")
    if min(layout.layers) < 1:
        found.append(f"pp {layout.pp} is more than the {model.layers} layers")
    once = layout.dp * layout.micro_batch
    if workload.global_batch % once:
        found.append(
            f"the global batch of {workload.global_batch} is no multiple of dp x micro-batch, "
            f"{once}"
        )
    if min(layout.layers) < layout.virtual_stages:
        found.append(
            f"a stage of {min(layout.layers)} layers has no {layout.virtual_stages} chunks"
        )
    held = -(-sum(layout.layers) // (layout.pp * layout.virtual_stages))
    if layout.recompute_layers > held:
        found.append(f"no stage has {layout.recompute_layers} layers to recompute, but {held}")
    return found


def _rules(workload: Workload, offer: Offer, layout: Layout, able: Capabilities) -> list[str]:
    """Return the rules of ``rules`` that a layout breaks."""
    model, pp, virtual, it = workload.model, layout.pp, layout.virtual_stages, layout
    count = workload.global_batch // (it.dp * it.micro_batch)
    even = len(set(it.layers)) == 1 and it.layers[0] % virtual == 0
    etp = it.etp if model.mixture else 1
    spread = rules.spread(able, it.dp, it.zero, it.shard)
    copies = it.dp * it.cp * (it.tp if model.mixture and able.expert_tensor else 1)
    found = [
        *rules.tensor(workload, offer, able, it.tp),
        rules.sequence(workload.sequence, able, it.tp, it.cp),
        rules.stages(able, pp, virtual, even),
        rules.predicted_tokens(model, able, pp),
        rules.micro_batches(able, pp, virtual, count),
        *rules.experts(model, able, it.tp, it.ep, etp),
        rules.groups(able, it.tp * it.cp * spread, it.ep, etp),
        # A single copy shares nothing, whatever its optimiser is told.
        rules.sharing(able, it.zero, pp) if copies > 1 else "",
        rules.hybrid(able, it.dp, it.zero, it.shard),
        *_recomputation(layout, able),
    ]
    return [problem for problem in found if problem]


def _recomputation(layout: Layout, able: Capabilities) -> list[str]:
    wanted = {
        f"recompute {layout.recompute}": layout.recompute not in able.recompute,
        "recomputation of some layers": layout.recompute_layers > 0 and not able.recompute_some,
    }
    return [f"{able.name} has no {what}" for what, missing in wanted.items() if missing]
