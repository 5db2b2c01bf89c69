"""What the user should know about a choice."""

from __future__ import annotations

import math

from .. import hostlist
from ..catalogue import least_rate_share, rate_share
from ..inventory import Inventory
from ..plan import Plan
from ..planner import expected_error
from .ask import Ask, Choice
from .gain import in_supernode
from .strategy import Compared, strategy_words


def remarks(inventory: Inventory, ask: Ask, choice: Choice) -> list[str]:
    """Return what the user should know about a choice, in words."""
    found = [
        *_framework(ask, choice),
        *_worth(inventory, ask, choice),
        *_strategy(inventory, choice),
        *_sharded(choice.plan),
        *_apart(choice),
        *_capped(inventory, choice),
        *(calibrated(inventory, choice.plan) if choice.plan.predicted else ()),
    ]
    devices = choice.plan.devices
    if ask.open_cards and devices != ask.cards[0][1]:
        found.insert(
            0, f"{ask.cards[0][1]} {choice.plan.groups[0].name} cards are {devices} devices"
        )
    if ask.prefer is not None and all(slot.partition == ask.prefer for slot in choice.slots):
        return [f"partition {ask.prefer}: the site's policy for a job of this size", *found]
    return found


def _framework(ask: Ask, choice: Choice) -> list[str]:
    """Return for what a mixture is planned if nobody said, and where that may not run."""
    name = choice.plan.framework
    ask = ask.on(choice.slots)
    others = "".join(
        f"; {other.framework} {other.step_s:.2f} s" + (", with little memory left" * other.tight)
        for other in ask.reached[1:]
        if other.step_s is not None
    )
    found = [f"planned for {name}: no --framework was named{others}"] if ask.reached else []
    return found + doubts(ask, choice)


def doubts(ask: Ask, choice: Choice) -> list[str]:
    """Return on which of the cards the framework is not known to run."""
    return [
        f"{choice.plan.framework} is not known to run on {maker} cards, though a fork may; known "
        f"there: {', '.join(ask.known[maker])}"
        for maker in ask.doubtful(choice.slots)
    ]


def _worth(inventory: Inventory, ask: Ask, choice: Choice) -> list[str]:
    """Return what the supernode gains for this job, or why it went to a pool."""
    if choice.gain is None:
        return []
    if in_supernode(inventory, choice.slots):
        return [f"supernode {choice.slots[0].shown}: {choice.gain}"]
    least = f"{ask.least_gain or 0:.0%}"
    return [f"to the pool: a supernode gains {choice.gain.share:+.0%}, the policy wants {least}"]


def calibrated(inventory: Inventory, plan: Plan) -> list[str]:
    """Return whose constants a prediction stands on, if not the catalogue's."""
    own = inventory.calibration
    if not own.constants or not any(own.concerns(group.accelerator) for group in plan.groups):
        return []
    runs = f" ({own.runs} runs, unseen ones {own.error:.1%} off)" if own.runs else ""
    return [f"predicted with the constants of {own.source}{runs}"]


def _apart(choice: Choice) -> list[str]:
    """Return a warning of expert groups that lie in several fabrics: their traffic can stall."""
    found = []
    for mesh in (mesh for pipeline in choice.plan.pipelines for mesh in pipeline.meshes):
        together = choice.slots[mesh.group].offer.domain_devices
        if mesh.ep > 1 and mesh.ep * mesh.etp > together:
            found.append(
                f"expert parallelism over {mesh.ep * mesh.etp} devices leaves the fabric of "
                f"{together}: a slow link stalls all of them; ep within it is safer"
            )
    return found


def _capped(inventory: Inventory, choice: Choice) -> list[str]:
    """Return which cards are planned as slower, for they run under a power cap."""
    found = []
    for slot in choice.slots:
        card = inventory.accelerator(slot.group.accelerator)
        slow = [name for name in slot.domains if inventory.card_in(name, card.id) is not card]
        watts, most_w = slot.offer.accelerator.card_tdp_w, card.card_tdp_w
        if not slow or watts is None or most_w is None:
            continue
        share = rate_share(watts / most_w)
        found.append(
            f"{hostlist.fold(slow)}: {slot.group.name} capped at {watts:g} of {most_w:g} W are "
            f"planned at {share:.0%} of their rate, which may be as low as "
            f"{least_rate_share(watts / most_w):.0%}"
        )
    return found


def _strategy(inventory: Inventory, choice: Choice) -> list[str]:
    """Return what each group would reach without the others, and which strategy was taken."""
    compared = choice.compared
    if compared is None:
        return []
    found = []
    for item in compared.alone:
        name, _, count = item.groups[0].partition(" x ")
        shown = f"{count} {name} alone"
        if item.step_s is None:
            found.append(f"{shown}: no plan: {'; '.join(item.why.splitlines())}")
        elif len(compared.groups) > 1:
            ratio = item.step_s / compared.step_s
            words = (
                f"{ratio:.2f} x the mix"
                if ratio >= 1
                else f"faster than the mix, {1 / ratio:.2f} x"
            )
            found.append(f"{shown}: {item.step_s:.2f} s a step, {words}")
        else:
            found.append(f"{shown}: {item.step_s:.2f} s a step")
    tie = _tie(compared, expected_error(choice.plan, inventory.calibration.errors).share / 2)
    return [*found, *strategy_words(compared), *tie]


def _tie(compared: Compared, margin: float) -> list[str]:
    """Return that some of the groups may be as fast as all that were taken, if so."""
    groups = set(compared.groups)
    fewer = [item for item in compared.tried if item.step_s and set(item.groups) < groups]
    best = min(fewer, key=lambda item: item.step_s or math.inf, default=None)
    if best is None or best.step_s is None:
        return []
    slower = best.step_s / compared.step_s - 1
    others = " + ".join(name for name in compared.groups if name not in best.groups)
    if not 0 <= slower <= margin:
        return []
    several = len(best.groups) > 1
    are, leave = ("are", "leave") if several else ("alone is", "leaves")
    return [
        f"a tie: {' + '.join(best.groups)} {are} {slower:.1%} slower, less than half the "
        f"expected error, and {leave} {others} to others"
    ]


def _sharded(plan: Plan) -> list[str]:
    """Return what a loop over sharded replicas has to do."""
    shards = {mesh.shard for pipeline in plan.pipelines for mesh in pipeline.meshes}
    shard = max(shards, default=0)
    if plan.framework != "torch" or not shard:
        return []
    copied = f"{shard} devices each (SN_SHARD), copied between"
    if shard == plan.devices:
        copied = f"all {shard} devices (SN_SHARD)"
    return [f"for FSDP2: weights sharded over {copied}, as many micro-steps on every rank"]
