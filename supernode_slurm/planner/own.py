"""A layout of the user's own: what it costs, and why it cannot run."""

from __future__ import annotations

import math
from dataclasses import replace

from ..plan import Predicted
from .answers import Examined, Rejected
from .costs import predict, usable_gib
from .search import Search
from .uniform import KEEP, predictions
from .workload import Capabilities, Layout, Offer, Workload, agree_precision


def examine(workload: Workload, offer: Offer, layout: Layout, able: Capabilities) -> Examined:
    """Return what a layout costs; its problems say why it cannot run, and by how much."""
    workload = agree_precision(workload, [offer], able)
    predicted = predict(workload, offer, layout)
    found = [
        *_sizes(workload, offer, layout),
        *_tensor(workload, offer, layout, able),
        *_batches(workload, layout),
        *_abilities(workload, layout, able),
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
    part = layout.cp * math.lcm(2, layout.tp)
    if layout.cp > 1 and workload.sequence % part:
        found.append(
            f"a sequence of {workload.sequence} is no multiple of {part} for cp {layout.cp}"
        )
    around, cut = layout.tp * layout.cp * layout.dp, layout.ep * layout.etp
    if around % cut:
        found.append(f"tp x cp x dp = {around} is no multiple of ep x etp = {cut}")
    if layout.ep > 1 and model.mixture is None:
        found.append(f"{model.name} has no experts for ep {layout.ep}")
    if model.mixture is not None and model.mixture.experts % layout.ep:
        found.append(f"ep {layout.ep} does not divide {model.mixture.experts} experts")
    if model.mixture is not None and model.mixture.ffn % layout.etp:
        found.append(f"etp {layout.etp} does not divide an expert's width of {model.mixture.ffn}")
    return found


def _tensor(workload: Workload, offer: Offer, layout: Layout, able: Capabilities) -> list[str]:
    model, tp = workload.model, layout.tp
    if tp == 1:
        return []
    parts = {
        f"{model.heads} heads": model.heads,
        f"an MLP's width of {model.ffn}": model.ffn,
        f"a sequence of {workload.sequence}": workload.sequence,
    }
    copied = able.copies_kv_heads and tp % model.kv_heads == 0
    if model.latent is None and not copied:
        parts[f"{model.kv_heads} key heads"] = model.kv_heads
    found = [f"tp {tp} does not divide {what}" for what, size in parts.items() if size % tp]
    fabric = offer.domain_devices
    if tp > fabric:
        found.append(f"tp {tp} leaves the fabric of {fabric} devices")
    elif fabric % tp:
        found.append(f"tp {tp} does not divide the fabric of {fabric} devices")
    return found


def _batches(workload: Workload, layout: Layout) -> list[str]:
    found = []
    once = layout.dp * layout.micro_batch
    if workload.global_batch % once:
        found.append(
            f"the global batch of {workload.global_batch} is no multiple of dp x micro-batch, "
            f"{once}"
        )
    count = workload.global_batch // once
    if layout.virtual_stages > 1 and (layout.pp == 1 or count % layout.pp):
        found.append(
            f"{count} micro-batches are no multiple of {layout.pp} stages, which virtual stages "
            "demand"
        )
    if min(layout.layers) < layout.virtual_stages:
        found.append(
            f"a stage of {min(layout.layers)} layers has no {layout.virtual_stages} chunks"
        )
    held = -(-sum(layout.layers) // (layout.pp * layout.virtual_stages))
    if layout.recompute_layers > held:
        found.append(f"no stage has {layout.recompute_layers} layers to recompute, but {held}")
    return found


def _abilities(workload: Workload, layout: Layout, able: Capabilities) -> list[str]:
    uneven = len(set(layout.layers)) > 1
    chunked = layout.virtual_stages > 1
    rest = any(layers % layout.virtual_stages for layers in layout.layers)
    wanted = {
        "tensor parallelism": layout.tp > 1 and not able.tensor,
        "pipelines": layout.pp > 1 and not able.pipeline,
        "context parallelism": layout.cp > 1 and not able.context,
        "expert parallelism": layout.ep > 1 and not able.experts,
        "virtual stages": chunked and not able.virtual_stages,
        "uneven virtual stages": chunked and (uneven or rest) and not able.uneven_virtual,
        f"zero {layout.zero}": layout.zero not in able.zero and layout.dp > 1,
        "zero 2 beside a pipeline": layout.zero == 2 and layout.pp > 1,
        "hybrid sharding": layout.shard > 0 and not able.hybrid,
        f"recompute {layout.recompute}": layout.recompute not in able.recompute,
        "recomputation of some layers": layout.recompute_layers > 0 and not able.recompute_some,
        "uneven stages": uneven and not able.uneven_stages,
        "pipeline that ends with MTP": layout.pp > 1
        and workload.model.mtp > 0
        and not able.pipelined_mtp,
        f"etp {layout.etp} under tp {layout.tp} and ep {layout.ep}": _foreign(layout, able)
        and workload.model.mixture is not None,
        f"ep {layout.ep} beyond the replicas that share weights": _apart(layout, able),
    }
    return [f"{able.name} has no {what}" for what, missing in wanted.items() if missing]


def _foreign(layout: Layout, able: Capabilities) -> bool:
    """Tell whether a framework cuts experts otherwise."""
    if able.whole_experts and layout.ep > 1:
        return layout.etp > 1
    return layout.etp not in ((1, layout.tp) if able.expert_tensor else (layout.tp,))


def _apart(layout: Layout, able: Capabilities) -> bool:
    """Tell whether experts would be parallel over replicas that hold the same weights."""
    copies = (layout.shard or layout.dp) if layout.zero == 3 else 1
    together = layout.tp * layout.cp * copies
    return able.sharded_experts and together % (layout.ep * layout.etp) > 0
