"""What a framework can run, each rule once: for the search, for one's own layout, for a plan.

A rule says what breaks it, and nothing where it is kept.
"""

from __future__ import annotations

import math

from ..catalogue import Model
from .workload import Capabilities, Offer, Workload


def tensor(workload: Workload, offer: Offer, able: Capabilities, tp: int) -> list[str]:
    """TP stays inside one fabric; heads and the sequence must divide.

    Sequence parallelism goes with it and cuts the sequence. Fewer key heads than ranks are legal
    where the framework copies them.
    """
    if tp == 1:
        return []
    if not able.tensor:
        return [f"{able.name} has no tensor parallelism"]
    model, fabric = workload.model, offer.domain_devices
    parts = {
        f"{model.heads} heads": model.heads,
        f"an MLP's width of {model.ffn}": model.ffn,
        f"a sequence of {workload.sequence}": workload.sequence,
    }
    copied = able.copies_kv_heads and tp % model.kv_heads == 0
    if model.latent is None and not copied:
        parts[f"{model.kv_heads} key heads"] = model.kv_heads
    found = [f"tp {tp} does not divide {what}" for what, size in parts.items() if size % tp]
    if tp > fabric:
        found.append(f"tp {tp} leaves the fabric of {fabric} devices")
    elif fabric % tp:
        found.append(f"tp {tp} does not divide the fabric of {fabric} devices")
    return found


def sequence(tokens: int, able: Capabilities, tp: int, cp: int) -> str:
    """Each rank of CP has an early and a late part of a sequence, which TP cuts again."""
    if cp == 1:
        return ""
    if not able.context:
        return f"{able.name} has no context parallelism"
    part = cp * (2 * tp if able.cuts_parts else math.lcm(2, tp))
    if tokens % part == 0:
        return ""
    return f"a sequence of {tokens} is no multiple of {part} for cp {cp}, tp {tp}"


def stages(able: Capabilities, pp: int, virtual: int, even: bool) -> str:
    """Stages and their chunks may be uneven where the framework says so.

    ``even``: all chunks hold as many layers.
    """
    if pp > 1 and not able.pipeline:
        return f"{able.name} has no pipelines"
    if virtual > 1 and not able.virtual_stages:
        return f"{able.name} has no virtual stages"
    if virtual > 1 and pp == 1:
        return f"{virtual} virtual stages are of one stage, not of two or more"
    if not even and not able.uneven_stages:
        return f"{able.name} has no uneven stages"
    if not even and virtual > 1 and not able.uneven_virtual:
        return f"{able.name} has no uneven virtual stages"
    return ""


def predicted_tokens(model: Model, able: Capabilities, pp: int) -> str:
    """Prediction of several tokens ends a pipeline where the framework can."""
    if pp == 1 or not model.mtp or able.pipelined_mtp:
        return ""
    return f"{able.name} has no pipeline for the MTP of {model.name}"


def micro_batches(able: Capabilities, pp: int, virtual: int, count: int) -> str:
    """Virtual stages take as many at once as there are stages; some pipelines want that many."""
    if virtual > 1 and count % pp:
        return f"{count} micro-batches are no multiple of {pp} stages, which virtual stages demand"
    if able.filled_pipelines and count < pp:
        return f"{able.name} runs {pp} stages with {pp} micro-batches or more, not with {count}"
    return ""


def experts(model: Model, able: Capabilities, tp: int, ep: int, etp: int) -> list[str]:
    """Experts are dealt evenly, and cut as the framework cuts them."""
    if model.mixture is None:
        return [f"{model.name} has no experts for ep {ep}, etp {etp}"] if ep * etp > 1 else []
    found = []
    if ep > 1 and not able.experts:
        found.append(f"{able.name} has no expert parallelism")
    if model.mixture.experts % ep:
        found.append(f"ep {ep} does not divide {model.mixture.experts} experts")
    if model.mixture.ffn % etp:
        found.append(f"etp {etp} does not divide an expert's width of {model.mixture.ffn}")
    if etp not in tensor_of_experts(able, tp, ep):
        found.append(f"{able.name} has no etp {etp} under tp {tp} and ep {ep}")
    return found


def tensor_of_experts(able: Capabilities, tp: int, ep: int) -> list[int]:
    """Return the sizes of experts' tensor parallelism."""
    if able.whole_experts and ep > 1:
        return [1]
    return sorted({1, tp}) if able.expert_tensor else [tp]


def spread(able: Capabilities, dp: int, zero: int, shard: int) -> int:
    """Return the replicas over which one copy of the experts may be spread."""
    if not able.sharded_experts:
        return dp
    return (shard or dp) if zero == 3 else 1


def groups(able: Capabilities, ranks: int, ep: int, etp: int) -> str:
    """Experts are spread over ``ranks`` devices of a stage: TP x CP x ``spread``."""
    if ranks % (ep * etp) == 0:
        return ""
    last = "shards" if able.sharded_experts else "dp"
    return f"tp x cp x {last} = {ranks} is no multiple of ep x etp = {ep * etp}"


def sharing(able: Capabilities, zero: int, pp: int) -> str:
    """Sharded gradients do not go with a pipeline in the frameworks that have both."""
    if zero not in able.zero:
        return f"{able.name} has no zero {zero}"
    return f"{able.name} has no zero 2 beside a pipeline" if zero == 2 and pp > 1 else ""


def hybrid(able: Capabilities, dp: int, zero: int, shard: int) -> str:
    """Hybrid sharding shards over a divisor of the replicas."""
    if not shard:
        return ""
    if not able.hybrid or not zero:
        return f"{able.name} has no hybrid sharding with zero {zero}"
    return f"{shard} replicas that share weights do not divide dp {dp}" if dp % shard else ""
