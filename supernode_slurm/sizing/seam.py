"""What the planner is asked besides its ranking: an own layout, its trust, what it refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from ..catalogue import Accelerator
from ..plan import Plan, Predicted
from ..planner import PUBLISHED_ERROR, Capabilities, Layout, Offer, Workload, predict
from ..planner.constants import USABLE_MEMORY
from ..planner.uniform import divisors


@dataclass(frozen=True, slots=True)
class Expected:
    """How far predictions of a kind of run were from what was measured."""

    share: float
    runs: int
    kind: str


@dataclass(frozen=True, slots=True)
class Examined:
    """What a layout costs, and why it cannot run."""

    predicted: Predicted
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A layout that was refused, and why."""

    layout: Layout
    predicted: Predicted
    why: str


def expected_error(plan: Plan) -> Expected:
    """Return the error of the kind of run that is known least."""
    cards = sorted({group.accelerator for group in plan.groups})
    known = {card: PUBLISHED_ERROR.get(card, (0, 0.0)) for card in cards}
    runs = min(count for count, _ in known.values())
    share = max(error for _, error in known.values()) if runs else 0.0
    return Expected(share, runs, f"dense on {' and '.join(cards)}")


def usable_gib(card: Accelerator) -> float:
    """Return the memory of a device that a training process gets."""
    return (card.memory_gib or 0.0) * USABLE_MEMORY


def examine(workload: Workload, offer: Offer, layout: Layout, able: Capabilities) -> Examined:
    """Return what a layout of the user's own costs, and why it cannot run."""
    found = predict(workload, offer, layout)
    problems = []
    size = layout.tp * layout.cp * layout.pp * layout.dp
    if size != offer.devices:
        problems.append(f"tp x cp x pp x dp is {size}, there are {offer.devices} devices")
    if workload.model.heads % layout.tp:
        problems.append(f"tp {layout.tp} does not divide {workload.model.heads} heads")
    if layout.tp > offer.domain_devices:
        problems.append(f"tp {layout.tp} leaves the fabric of {offer.domain_devices} devices")
    if min(layout.layers) < 1:
        problems.append(f"pp {layout.pp} is more than the {workload.model.layers} layers")
    if workload.global_batch % (layout.dp * layout.micro_batch):
        problems.append(
            f"the global batch of {workload.global_batch} is no multiple of dp x micro-batch, "
            f"{layout.dp * layout.micro_batch}"
        )
    if layout.zero not in able.zero:
        problems.append(f"{able.name} has no zero {layout.zero}")
    if max(found.memory_gib) > usable_gib(offer.accelerator):
        problems.append(shortage(found, offer))
    return Examined(found, tuple(problems))


def rejected(workload: Workload, offer: Offer, able: Capabilities) -> tuple[Rejected, ...]:
    """Return the fastest layouts that were refused."""
    found = []
    sizes = [size for size in divisors(offer.domain_devices) if workload.model.heads % size == 0]
    for tp, pp in product(sizes, divisors(offer.devices)):
        dp, layers = offer.devices // tp // pp, workload.model.layers
        if tp * pp * dp != offer.devices or layers % pp or workload.global_batch % dp:
            continue
        layout = Layout(tp, dp, 1, (layers // pp,) * pp, "none", max(set(able.zero) & {0, 1}))
        examined = examine(workload, offer, layout, able)
        if examined.problems:
            found.append(Rejected(layout, examined.predicted, examined.problems[0]))
    return tuple(sorted(found, key=lambda item: item.predicted.step_time_s))


def shortage(found: Predicted, offer: Offer) -> str:
    """Say how much memory a layout needs and how much there is."""
    need, there = max(found.memory_gib), usable_gib(offer.accelerator)
    return f"needs {need:.1f} GiB, {there:.1f} there"


def wired(offer: Offer, kind: str) -> Offer:
    """Return the offer with another interconnect."""
    return replace(offer, interconnect=kind)


def with_data(plan: Plan, data_s: float) -> Plan:
    """Return the plan with the loading of data that nothing hides."""
    found = plan.predicted
    if found is None or not data_s:
        return plan
    exposed = max(0.0, data_s - found.step_time_s)
    step = found.step_time_s + exposed
    breakdown = {**found.breakdown_s, "data": exposed}
    mfu = found.mfu * found.step_time_s / step
    return replace(plan, predicted=replace(found, step_time_s=step, breakdown_s=breakdown, mfu=mfu))
