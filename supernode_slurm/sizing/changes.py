"""What one change of the machine or the job would bring: planned again, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..errors import PlanError
from ..plan import Plan
from ..planner import LOSSY, Offer
from .question import Question, predicted_of

TRAFFIC = ("tp", "cp", "ep", "pp", "dp")
"""The parts of a step that are traffic between devices."""
LOW_PRECISIONS = ("fp8", "mxfp8", "nvfp4")
_REDUCE = "reduce-"


@dataclass(frozen=True, slots=True)
class Change:
    """One change, and the best plan after it."""

    name: str
    words: str
    gain: float
    """More tokens per second: 0.2 for 20 %."""
    plan: Plan | None
    """None where no other plan is needed: the same one loses less."""


def changes(asked: Question, plan: Plan, progress: Callable[[str], None]) -> tuple[Change, ...]:
    """Return what each single change would bring, the largest gain first.

    ``progress`` is told what is planned next.
    """
    found = []
    step = predicted_of(plan).step_time_s
    for name, words, other in _variations(asked, plan):
        progress(words)
        try:
            best = other.best()
        except PlanError:
            continue
        samples = best.global_batch / plan.global_batch
        gain = samples * step / predicted_of(best).step_time_s - 1
        found.append(Change(name, words, gain, best))
    found += _hidden(plan, asked.workload.data_s)
    return tuple(sorted(found, key=lambda item: -item.gain))


def leading(found: Sequence[Change], count: int) -> list[Change]:
    """Return the first changes, and after them those that an option of a job makes.

    Of several lower precisions the best alone.
    """
    shown: list[Change] = []
    for item in found:
        lower = item.name in LOW_PRECISIONS
        if not (lower and any(other.name in LOW_PRECISIONS for other in shown)):
            shown.append(item)
    return [*shown[:count], *(item for item in shown[count:] if _by_option(item.name))]


def _by_option(name: str) -> bool:
    """Tell whether an option makes a change, and no other machine or batch."""
    return name in ("spare", *LOW_PRECISIONS) or name.startswith(_REDUCE)


def _variations(asked: Question, plan: Plan) -> Iterator[tuple[str, str, Question]]:
    def offers(change: Callable[[Offer], Offer]) -> Question:
        return asked.on(*map(change, asked.offers))

    if any(offer.devices > offer.domain_devices for offer in asked.offers) or asked.offers[1:]:
        yield "network", "twice the network", offers(_twice_network)
    if any(offer.domain_devices > 1 for offer in asked.offers):
        yield "fabric", "twice the scale-up bandwidth", offers(_twice_fabric)
    if any(offer.group.nodes > offer.domain_nodes for offer in asked.offers):
        yield "domain", "one supernode around all of its cards", offers(_one_domain)
    if asked.workload.spare:
        full = replace(asked.workload, spare=0.0)
        yield "spare", "no memory left (--spare-memory 0)", replace(asked, workload=full)
    yield "memory", "cards with twice the memory", offers(_twice_memory)
    workload = asked.workload
    yield "batch", "twice the global batch", asked.with_batch(2 * workload.global_batch)
    waits_s = predicted_of(plan).breakdown_s.get("data", 0.0)
    if waits_s > 0:
        yield "loading", "loading of data twice as fast", _loading(asked, workload.data_s / 2)
    if waits_s > workload.data_s / 2:
        yield "data", "loading of data that keeps up", _loading(asked, 0.0)
    yield from _reductions(asked)
    cards = [offer.accelerator for offer in asked.offers]
    for precision in LOW_PRECISIONS:
        if precision in asked.able.precisions and plan.precision not in LOW_PRECISIONS:
            try:
                if all(card.peak_tflops(precision) for card in cards):
                    lower = replace(workload, precision=precision)
                    yield (
                        precision,
                        f"{precision} in the matrix products",
                        replace(asked, workload=lower),
                    )
            except (KeyError, PlanError):
                continue


def _reductions(asked: Question) -> Iterator[tuple[str, str, Question]]:
    """Yield the question with gradients summed in fewer bytes than the workload says."""
    for name in asked.able.reductions:
        if name != "fp32" and name != asked.workload.reduction:
            able = replace(asked.able, zero=(3,)) if name in LOSSY else asked.able
            smaller = replace(asked.workload, reduction=name)
            loss = ", with a loss" if name in LOSSY else ""
            yield (
                f"{_REDUCE}{name}",
                f"gradients summed in {name}{loss} (--reduce-gradients {name})",
                replace(asked, workload=smaller, able=able),
            )


def _loading(asked: Question, data_s: float) -> Question:
    return replace(asked, workload=replace(asked.workload, data_s=data_s))


def _hidden(plan: Plan, data_s: float) -> list[Change]:
    """Return what the same plan gains where traffic is waited for no more; loading still is."""
    found = predicted_of(plan)
    traffic = sum(found.breakdown_s.get(name, 0.0) for name in TRAFFIC)
    gain = found.step_time_s / max(found.worked_s - traffic, data_s) - 1
    return [Change("overlap", "all traffic hidden under computation", gain, None)] if gain else []


def _twice_network(offer: Offer) -> Offer:
    return replace(offer, network_gbs=2 * offer.network_gbs, rail_gbs=2 * offer.rail_gbs)


def _twice_fabric(offer: Offer) -> Offer:
    card = offer.accelerator
    pair = card.card_p2p_gbs and 2 * card.card_p2p_gbs
    faster = replace(card, card_p2p_gbs=pair)
    return replace(offer, scale_up_gbs=2 * offer.scale_up_gbs, accelerator=faster)


def _one_domain(offer: Offer) -> Offer:
    return replace(offer, domain_nodes=offer.group.nodes)


def _twice_memory(offer: Offer) -> Offer:
    memory = offer.accelerator.card_memory_gib
    larger = replace(offer.accelerator, card_memory_gib=memory and 2 * memory)
    return replace(offer, accelerator=larger)
