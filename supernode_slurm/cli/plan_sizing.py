"""The other answers of ``sn plan`` as text: a curve, variants of the room, a move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from .plan_text import Bar, Sheet, chart, legend, new_console, say, say_left_out, tell_lines
from .plan_views import TIGHT, headline, pace, parts, print_cost, say_known, say_tight, short

if TYPE_CHECKING:
    from ..plan import Plan, Predicted
    from ..sizing import Batch, Cost, Curve, Move, Point, Variant, Wiring

CURVE = ("cards", "{}", "step s", "MFU", "brings", "card-h", "kWh", "price", "")
WIRING = (
    *("", "wiring", "over", "{}", "step s", "against", "GiB", "card-h", "kWh", "price"),
    "",
)
SIZES = {"TP": "tp", "CP": "cp", "EP": "ep", "PP": "pp", "DP": "dp"}
"""What the column of a layout shows; CP and EP only where a plan has them."""
CURVE_SPARE = ("kWh", "card-h", "price", "MFU", "{}")
WIRING_SPARE = ("price", "kWh", "where the time goes", "GiB", "card-h", "{}", "against")
"""What a narrow terminal leaves out, the first one first."""
WORTH = 0.005
"""A gain below this is none."""


def print_curve(found: Curve, tokens: float | None) -> None:
    """Print the curve as a table and as a drawing, and what is to be read from it."""
    planned = [point for point in found.points if point.plan and point.cost]
    sizes = _shown_sizes(point.plan for point in found.points)
    sheet = Sheet(_titled(CURVE, sizes), spare=_titled(CURVE_SPARE, sizes))
    for point in found.points:
        sheet.rows.append(_point(found, point, sizes))
    for point in planned[:1]:
        if point.plan:
            tell_lines(headline(point.plan, found.kind, devices=False))
    sheet.print()
    rates = [(point.cards, 1 / point.cost.seconds) for point in planned if point.cost]
    for line in chart(rates, new_console().width):
        click.echo(line)
    say_left_out(sheet)
    say(
        "brings",
        "what each added card brings, over what a card brings where cards bring most; the batch "
        "stays the same",
    )
    if any(point.tight for point in planned):
        say_tight()
    _print_reading(found, energy="kWh" not in sheet.left_out)
    say_known(found.expected, found.remarks)
    for point in planned:
        shown = tokens is not None and point.cards in (found.sweet, planned[-1].cards)
        if shown and point.plan and point.cost:
            print_cost(point.cost, point.plan, tokens)


def _point(found: Curve, point: Point, sizes: Sequence[str]) -> list[str]:
    plan, cost = point.plan, point.cost
    star = ["*"] if point.beyond else []
    if plan is None or cost is None or plan.predicted is None:
        return [str(point.cards), *["-"] * 5, "", "", " ".join([*star, "no plan"])]
    marks = [*star, TIGHT] if point.tight else star
    if point.cards == found.sweet:
        marks = [*marks, "sweet spot"]
    if point.brings is not None and point.brings < 0:
        marks = [*marks, "loses"]
    return [
        str(point.cards),
        _sizes(plan, sizes),
        pace(cost.seconds),
        f"{plan.predicted.mfu:.1%}",
        "-" if point.brings is None else f"{point.brings:.0%}",
        *_taken(cost),
        " ".join(marks),
    ]


def _taken(cost: Cost) -> list[str]:
    """Return card-hours, energy and price of a step as columns show them."""
    return [
        short(cost.card_hours),
        "-" if cost.energy_kwh is None else short(cost.energy_kwh),
        f"{short(cost.price.amount)} {cost.price.currency}" if cost.price else "",
    ]


def _print_reading(found: Curve, energy: bool) -> None:
    planned = [point.cards for point in found.points if point.plan]
    if not planned[1:]:
        say("sweet spot", f"unknown: {planned[0]} cards alone have a plan")
    elif found.sweet is None:
        say("sweet spot", f"not reached by {planned[-1]} cards: added ones still bring 50% or more")
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
    if energy and any(cost.energy_kwh for cost in costs):
        say("kWh", "rated power of the cards (TDP) over a step: no hosts, network or cooling")
    if not any(cost.price for cost in costs):
        card = next(point.plan.groups[0].accelerator for point in found.points if point.plan)
        say("price", f"the inventory has none: 'policy: {{price: {{{card}: 20 CNY/h}}}}' gives it")


def print_wiring(found: Wiring, tokens: float | None) -> None:
    """Print the variants of the room."""
    from ..sizing import PARTS, plan_words

    own, best = found.variants[0], found.best
    if own.plan is None or best.plan is None:
        return
    tell_lines(headline(own.plan, found.choice.slots[0].shown))
    sizes = _shown_sizes(item.plan for item in found.variants)
    spare = _titled(WIRING_SPARE, sizes)
    sheet = Sheet(_titled(WIRING, sizes), bar_title="where the time goes", spare=spare)
    for item in found.variants:
        sheet.rows.append(_variant_row(item, sizes))
        sheet.bars.append(Bar(parts(item.plan) if item.plan else {}))
    sheet.print()
    if sheet.drawn:
        tell_lines(legend(sheet, PARTS))
    say_left_out(sheet)
    if any(item.tight for item in found.variants):
        say_tight()
    for item in found.variants:
        if item.problem:
            say(_variant(item), item.problem)
    if best is own:
        say("suits this workload", f"what is here, {_variant(own)}: no other saves 1% of a step")
    else:
        gain = f"{-best.slower:.1%} less time"
        say("suits this workload", f"{_variant(best)}, {gain}: {plan_words(best.plan)}")
    if not found.uses_network:
        say("note", "the job lies within one scale-up fabric: oversubscription does not touch it")
    say("taken", "bandwidth per device and ports per node stay; only the wiring changes")
    say_known(found.expected, found.remarks)
    for item in [own] if best is own else [own, best]:
        if item.plan and item.cost:
            print_cost(item.cost, item.plan, tokens, _variant(item))


def _variant_row(item: Variant, sizes: Sequence[str]) -> list[str]:
    shown = ["here" if item.own else "", item.interconnect or "none"]
    shown.append(f"{item.oversubscription:g}:1")
    cost, predicted = item.cost, item.plan.predicted if item.plan else None
    if item.plan is None or predicted is None or cost is None:
        return [*shown, *["-"] * 3, *[""] * 4, "no plan"]
    return [
        *shown,
        _sizes(item.plan, sizes),
        pace(cost.seconds),
        "" if item.own else f"{item.slower:+.1%}",
        f"{TIGHT if item.tight else ''}{max(predicted.memory_gib):.0f}/{item.usable_gib:.0f}",
        *_taken(cost),
        "",
    ]


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
    if found.tight:
        say_tight()
    _print_batch(found.batch)
    if not found.supernode:
        say("note", f"{found.choice.slots[0].shown} is no supernode: only the layout changes")
    said: dict[tuple[bool, str], list[str]] = {}
    for resumed in found.resumes:
        said.setdefault((resumed.works, resumed.how), []).append(resumed.framework)
    for (works, how), names in said.items():
        verdict = "resumes" if works else "does not resume"
        say(f"checkpoint of {', '.join(names)}", f"{verdict}; {how}")
    say_known(found.expected, found.remarks)


def _print_batch(found: Batch) -> None:
    if found.start == found.present:
        why = "as at present: twice as many have no plan here"
    else:
        gain = "no more" if abs(found.gain) < WORTH else f"{found.gain:+.0%}"
        why = f"twice the present ones: {gain} tokens per second; check that training converges"
    say("batch to start with", f"{found.start} sequences, {why}")


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
