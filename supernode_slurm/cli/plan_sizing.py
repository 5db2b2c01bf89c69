"""The other answers of ``sn plan`` as text: a curve, variants of the room, a move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from .plan_text import Bar, Sheet, chart, legend, say, tell_lines
from .plan_views import headline, pace, parts, print_cost, short

if TYPE_CHECKING:
    from ..plan import Plan, Predicted
    from ..sizing import Curve, Move, Point, Variant, Wiring

CURVE = ("cards", "{}", "step s", "MFU", "brings", "card-h", "kWh", "price", "")
WIRING = ("", "interconnect", "oversubscr.", "{}", "step s", "against")
SIZES = {"TP": "tp", "CP": "cp", "EP": "ep", "PP": "pp", "DP": "dp"}
"""What the column of a layout shows; CP and EP only where a plan has them."""
WORTH = 0.01
"""A variant that saves less of a step is not called better."""


def print_curve(found: Curve, tokens: float | None) -> None:
    """Print the curve as a table and as a drawing, and what is to be read from it."""
    planned = [point for point in found.points if point.plan and point.cost]
    sizes = _shown_sizes(point.plan for point in found.points)
    sheet = Sheet(_titled(CURVE, sizes))
    for point in found.points:
        sheet.rows.append(_point(found, point, sizes))
    for point in planned[:1]:
        if point.plan:
            tell_lines(headline(point.plan, found.kind, devices=False))
    sheet.print()
    for line in chart([(point.cards, 1 / point.cost.seconds) for point in planned if point.cost]):
        click.echo(line)
    say(
        "brings",
        "what each added card brings, over what a card brings where cards bring most; the batch "
        "stays the same",
    )
    _print_reading(found)
    for point in planned:
        shown = tokens is not None and point.cards in (found.sweet, planned[-1].cards)
        if shown and point.plan and point.cost:
            print_cost(point.cost, point.plan, tokens)


def _point(found: Curve, point: Point, sizes: Sequence[str]) -> list[str]:
    plan, cost = point.plan, point.cost
    star = ["*"] if point.beyond else []
    if plan is None or cost is None or plan.predicted is None:
        return [str(point.cards), *["-"] * 5, "", "", " ".join([*star, "no plan"])]
    marks = [*star, "sweet spot"] if point.cards == found.sweet != found.points[-1].cards else star
    if point.brings is not None and point.brings < 0:
        marks = [*marks, "loses"]
    price = f"{short(cost.price.amount)} {cost.price.currency}" if cost.price else ""
    return [
        str(point.cards),
        _sizes(plan, sizes),
        pace(cost.seconds),
        f"{plan.predicted.mfu:.1%}",
        "-" if point.brings is None else f"{point.brings:.0%}",
        short(cost.card_hours),
        "-" if cost.energy_kwh is None else short(cost.energy_kwh),
        price,
        " ".join(marks),
    ]


def _print_reading(found: Curve) -> None:
    last = found.points[-1].cards
    if found.sweet is None or found.sweet == last:
        say("sweet spot", f"not reached by {last} cards: each still brings half of its worth")
    else:
        say("sweet spot", f"{found.sweet} cards: up to there, added cards bring 50% or more")
    if found.loses is not None:
        say("loses", f"with {found.loses} cards a step takes longer than with fewer")
    if found.data_bound is not None:
        say("limit", f"loading of data, from {found.data_bound} cards on: speed it up before cards")
    if any(point.beyond for point in found.points):
        say("*", f"beyond the {found.owned} that one job can have here: as if there were more")
    for point in found.points:
        if point.problem:
            say(f"{point.cards} cards", point.problem)
    costs = [point.cost for point in found.points if point.cost]
    if any(cost.energy_kwh for cost in costs):
        say("kWh", "rated power of the cards (TDP) over a step: no hosts, network or cooling")
    if not any(cost.price for cost in costs):
        say("price", "the inventory has none: 'policy: {price: {h100-sxm: 20 CNY/h}}' gives it")


def print_wiring(found: Wiring) -> None:
    """Print the variants of the room."""
    from ..sizing import PARTS, plan_words

    own, best = found.variants[0], found.best
    if own.plan is None or best.plan is None:
        return
    tell_lines(headline(own.plan, found.choice.slots[0].shown))
    sizes = _shown_sizes(item.plan for item in found.variants)
    sheet = Sheet(_titled(WIRING, sizes), bar_title="where the time goes")
    for item in found.variants:
        sheet.rows.append(_variant_row(item, sizes))
        sheet.bars.append(Bar(parts(item.plan) if item.plan else {}))
    sheet.print()
    tell_lines(legend(sheet.bars, PARTS))
    for item in found.variants:
        if item.problem:
            say(_variant(item), item.problem)
    if best.slower > -WORTH:
        say("suits this workload", f"what is here, {_variant(own)}: no other saves 1% of a step")
    else:
        gain = f"{-best.slower:.1%} less time"
        say("suits this workload", f"{_variant(best)}, {gain}: {plan_words(best.plan)}")
    if not found.uses_network:
        say("note", "the job lies within one scale-up fabric: oversubscription does not touch it")
    say("taken", "bandwidth per device and ports per node stay; only the wiring changes")


def _variant_row(item: Variant, sizes: Sequence[str]) -> list[str]:
    shown = ["here" if item.own else "", item.interconnect or "none"]
    shown.append(f"{item.oversubscription:g}:1")
    if item.plan is None or item.plan.predicted is None:
        return [*shown, "-", "-", "no plan"]
    against = "" if item.own else f"{item.slower:+.1%}"
    return [*shown, _sizes(item.plan, sizes), pace(item.plan.predicted.step_time_s), against]


def _variant(item: Variant) -> str:
    return f"{item.interconnect or 'no supernode'}, {item.oversubscription:g}:1"


def print_move(found: Move) -> None:
    """Print what a move to the supernode changes, and how to go there."""
    from ..sizing import plan_words, words

    plan = found.choice.plan
    tell_lines(headline(plan, found.choice.slots[0].shown))
    before = _pace(found.old_predicted)
    on = f"on {found.old_devices} of these devices in ordinary nodes"
    batch = f"a batch of {found.batch.present} "
    say("present", f"{words(found.old)}, {batch}{on}: {before}")
    for problem in found.old_problems:
        say("present", f"the model expects that it does not run: {problem}")
    say("here", f"{plan_words(plan)}: {_pace(plan.predicted)}")
    for item in found.differences:
        say(f"{item.name} {item.old} -> {item.new}", item.why)
    if not found.differences:
        say("layout", "the present one is the best here too")
    if found.gain is not None:
        alone = ""
        if found.layout_gain is not None:
            alone = f"; the best layout on ordinary nodes brings {found.layout_gain:+.0%}"
        say("gain", f"{found.gain:+.0%} tokens per second and device{alone}")
    twice = f"twice the present one brings {found.batch.gain:+.0%}"
    say("batch to start with", f"{found.batch.start} sequences; {twice}")
    if not found.supernode:
        say("note", f"{found.choice.slots[0].shown} is no supernode: only the layout changes")
    said: dict[tuple[bool, str], list[str]] = {}
    for resumed in found.resumes:
        said.setdefault((resumed.works, resumed.how), []).append(resumed.framework)
    for (works, how), names in said.items():
        verdict = "resumes" if works else "does not resume"
        say(f"checkpoint of {', '.join(names)}", f"{verdict}; {how}")


def _pace(found: Predicted | None) -> str:
    if found is None:
        return "nothing can be said"
    return f"{pace(found.step_time_s)} s a step, MFU {found.mfu:.1%}"


def _shown_sizes(plans: Iterable[Plan | None]) -> tuple[str, ...]:
    """Return the sizes that the column of the layout shows for these plans."""
    meshes = [plan.pipelines[0].meshes[0] for plan in plans if plan]
    return tuple(
        name
        for name in SIZES
        if name not in ("CP", "EP") or any(getattr(mesh, SIZES[name]) > 1 for mesh in meshes)
    )


def _sizes(plan: Plan, shown: Sequence[str]) -> str:
    mesh = plan.pipelines[0].meshes[0]
    return "/".join(str(getattr(mesh, SIZES[name])) for name in shown)


def _titled(columns: Sequence[str], shown: Sequence[str]) -> list[str]:
    return [name.format("/".join(shown)) for name in columns]
