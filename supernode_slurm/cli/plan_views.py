"""The plans of ``sn plan`` as text, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import printable
from .plan_text import Bar, Sheet, legend, say, say_left_out, sign, tell_lines

if TYPE_CHECKING:
    from ..plan import Plan, Predicted
    from ..planner import Expected, StageCost
    from ..sizing import Cost, Explained, ExplainedMix, Ranked, Study

SIZES = {
    "TP": "tp",
    "CP": "cp",
    "EP": "ep",
    "ETP": "etp",
    "PP": "pp",
    "VPP": "virtual_stages",
    "DP": "dp",
    "mbs": "micro_batch",
    "rec.": "recompute",
    "ZeRO": "zero",
}
"""Columns of the table, and what each shows of a mesh."""
USUAL = {"CP": "1", "EP": "1", "ETP": "1", "VPP": "1", "rec.": "none", "ZeRO": "1"}
"""A column is left out where it shows nothing else."""
SHORT = {"selective": "sel."}
"""Words that are too long for a column."""
SPARE = ("where the time goes", "samples", "MFU", "ZeRO", "ETP", "rec.", "VPP", "GiB")
"""What a narrow terminal leaves out, the first one first."""
TIGHT = "!"
BROKEN = "x"
CHANGES_SHOWN = 2


def print_study(found: Study, tokens: float | None) -> None:
    """Print the table of plans and what is to be said of them."""
    from ..sizing import where, words

    plan = found.best.choice.plan
    places = list(dict.fromkeys(where(item.choice.slots) for item in found.ranked))
    tell_lines(headline(plan, places[0] if len(places) == 1 else ""))
    columns = ("", "at", *SIZES, "samples", "step s", "MFU", "GiB")
    sheet = Sheet(columns, bar_title="where the time goes", spare=SPARE)
    for number, item in enumerate(found.ranked, 1):
        label = f"{number} ~" if item.tie else str(number)
        place = _letter(places.index(where(item.choice.slots))) if places[1:] else ""
        sheet.rows.append(_row(label, item, place))
        sheet.bars.append(Bar(parts(item.choice.plan)))
    _add_own(sheet, found)
    _hide_usual(sheet)
    sheet.print()
    _print_legend(sheet)
    if any(item.tight for item in found.ranked):
        say_tight()
    if found.explained and found.explained.problems:
        say(BROKEN, "cannot run, whatever the time")
    for number, place in enumerate(places if places[1:] else ()):
        say(_letter(number), place)
    if found.explained:
        print_explained(found.explained)
    if found.explained_mix:
        _print_mix(found.explained_mix)
    _print_trust(found)
    say("limit", found.limit.words)
    _print_changes(found)
    for refused in found.rejected:
        say("refused", f"{words(refused.layout)}: {refused.why}")
    _print_stages(plan)
    if found.stages:
        say("stages of the first", _stages(found.stages))
    for line in found.remarks:
        tell_lines(printable(line))
    print_cost(found.best.cost, plan, tokens)


def _print_changes(found: Study) -> None:
    """Print what overlap saves already, and what single changes would bring."""
    from ..sizing import leading, plan_words
    from ..sizing.study import WORTH

    plan = found.best.choice.plan
    step_s = plan.predicted.step_time_s if plan.predicted else 0.0
    if found.overlap_saves_s >= WORTH * step_s:
        share = found.overlap_saves_s / step_s
        say(
            f"overlap, {share:+.0%}",
            f"gradients that travel while others are computed save {pace(found.overlap_saves_s)} s "
            "of a step already",
        )
    for change in leading(found.changes, CHANGES_SHOWN):
        to = plan_words(change.plan or plan)
        if to == plan_words(plan):
            to = "with the same layout"
        say(f"one change, {change.gain:+.0%}", f"{change.words}: {to}")
    if not found.changes:
        say("one change", "none that was tried brings 1% or more")


def say_tight() -> None:
    """Say what the mark of a tight plan means."""
    from ..planner import SPARE as LEAST

    say(TIGHT, f"tight: less than {LEAST:.0%} of the memory that training gets is left")


def _print_legend(sheet: Sheet) -> None:
    from ..sizing import PARTS

    parts = [legend(sheet, PARTS)] if sheet.drawn else []
    if "GiB" not in sheet.left_out:
        parts.append("GiB: peak of a device / what training gets")
    if parts:
        tell_lines("; ".join(parts))
    say_left_out(sheet)


def _print_mix(found: ExplainedMix) -> None:
    """Print what is to be said of the user's own sizes on several kinds of cards."""
    from ..sizing import plan_words

    for problem in found.problems:
        say("yours cannot run", problem)
    if found.plan is not None and found.slower is not None:
        kinds = " + ".join(group.name for group in found.plan.groups)
        say("yours", f"{kinds}: {plan_words(found.plan)}: {_against_best(found.slower)}")


def _against_best(slower: float) -> str:
    return "as fast as the best" if abs(slower) < 0.005 else f"{slower:.0%} slower than the best"


def print_explained(found: Explained) -> None:
    """Print what is to be said of the user's own layout."""
    from ..sizing import words

    shown = words(found.layout)
    if found.problems:
        say("yours cannot run", f"{shown}: {'; '.join(found.problems)}")
    else:
        say("yours", f"{shown}: {_against_best(found.slower)}")
    if found.stages:
        say("stages of yours", _stages(found.stages))


def _print_trust(found: Study) -> None:
    """Say how sure the figures are, and which plans are ties because of that."""
    say_expected(found.expected)
    ties = sum(item.tie for item in found.ranked)
    if ties:
        more = f"; {found.more_ties} more: -n {len(found.ranked) + found.more_ties}"
        say(
            "~",
            "a tie with the first: they are less than half the expected error apart"
            + (more if found.more_ties else ""),
        )


def say_expected(known: Expected) -> None:
    """Say how far predictions of a kind of run were from what was measured."""
    found_in = f"{known.runs} published runs: {known.kind}; docs/accuracy.md"
    if known.own:
        found_in = f"{known.runs} runs of this site: {known.kind}"
    if not known.runs:
        found_in = f"of a source never seen: none published is of {known.kind}; docs/accuracy.md"
    say("expected error", f"{sign()}{known.share:.0%} ({found_in})")


def say_known(expected: Expected, remarks: Iterable[str]) -> None:
    """Say how sure an answer is, and whose constants it stands on."""
    say_expected(expected)
    for line in remarks:
        tell_lines(printable(line))


def print_cost(cost: Cost, plan: Plan, tokens: float | None, on: str = "") -> None:
    """Print what a step costs, or a whole training of so many tokens."""
    from ..sizing import training

    whole = cost if tokens is None else training(cost, plan, tokens)
    name = "a step" if tokens is None else f"{_counted(tokens)} tokens on {cost.cards:g} cards"
    taken = [] if tokens is None else [f"{whole.seconds / 86400:.3g} days"]
    taken.append(f"{short(whole.card_hours)} card-hours")
    if whole.energy_kwh is not None:
        taken.append(f"{short(whole.energy_kwh)} kWh (cards' TDP)")
    if whole.price is not None:
        taken.append(f"{short(whole.price.amount)} {whole.price.currency}")
    say(f"{name}, {on}" if on else name, ", ".join(taken))


def headline(plan: Plan, place: str, devices: bool = True) -> str:
    """Return what is planned, in one line."""
    on = " + ".join(f"{group.devices} {group.name}" for group in plan.groups)
    where = f" on {on} in {place}" if devices and place else f" on {on if devices else place}"
    trained = f"{plan.model} (LoRA)" if plan.training == "lora" else plan.model
    batch = f"{plan.global_batch} x {plan.sequence} tokens a step"
    # Of one peak, so that it can be compared between precisions.
    of = "" if plan.precision in ("bf16", "fp16") else " (MFU: of the bf16 peak)"
    return printable(f"{trained}{where}: {plan.framework}, {plan.precision}{of}, {batch}")


def _counted(tokens: float) -> str:
    for letter, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if tokens >= scale:
            return f"{tokens / scale:g}{letter}"
    return f"{tokens:g}"


def short(number: float) -> str:
    """Return a number of three figures, a large one with its letter."""
    for letter, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= max(0.9995 * scale, 1e4):
            return f"{number / scale:.3g}{letter}"
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"


def pace(seconds: float) -> str:
    """Return the seconds of a step with three figures at least."""
    return f"{seconds:.2f}" if seconds >= 1 else f"{seconds:.3f}"


def _letter(number: int) -> str:
    """Return the letters by which a place is named in the table: a, b ... z, aa ..."""
    more, last = divmod(number, 26)
    return (_letter(more - 1) if more else "") + chr(ord("a") + last)


def _row(label: str, item: Ranked, place: str) -> list[str]:
    plan = item.choice.plan
    return [label, place, *_sizes(plan), *_figures(plan.predicted, item.usable_gib, item.tight)]


def _sizes(plan: Plan) -> list[str]:
    """Return the sizes of each mesh, and the samples of each pipeline where there are several."""
    meshes = [(mesh, pipeline) for pipeline in plan.pipelines for mesh in pipeline.meshes]
    sizes = [
        _joined(
            _size(pipeline if name == "virtual_stages" else mesh, name) for mesh, pipeline in meshes
        )
        for name in SIZES.values()
    ]
    samples = _joined(pipeline.samples for pipeline in plan.pipelines) if plan.pipelines[1:] else ""
    return [*sizes, samples]


def _add_own(sheet: Sheet, found: Study) -> None:
    """Add the user's own layout, if there is one to show."""
    best = found.best
    if found.explained:
        sheet.rows.append(_own_row(found.explained, best))
        sheet.bars.append(Bar(found.explained.predicted.breakdown_s))
    plan = found.explained_mix.plan if found.explained_mix else None
    if plan is not None:
        names = [group.name for group in best.choice.plan.groups]
        known = dict(zip(names, best.usable_gib, strict=True))
        usable = [known[group.name] for group in plan.groups]
        sheet.rows.append(["yours", "", *_sizes(plan), *_figures(plan.predicted, usable, False)])
        sheet.bars.append(Bar(parts(plan)))


def _own_row(own: Explained, best: Ranked) -> list[str]:
    from ..planner import is_tight

    sizes = [_size(own.layout, name) for name in SIZES.values()]
    tight = not own.problems and is_tight(own.predicted, best.usable_gib)
    label = f"yours {BROKEN}" if own.problems else "yours"
    return [label, "", *sizes, "", *_figures(own.predicted, best.usable_gib, tight)]


def _size(sizes: object, name: str) -> str:
    """Return a size of a mesh, a pipeline or a layout as a column shows it."""
    value = str(getattr(sizes, name))
    some = getattr(sizes, "recompute_layers", 0) if name == "recompute" else 0
    return f"{value}:{some}" if some else SHORT.get(value, value)


def _figures(found: Predicted | None, usable_gib: Iterable[float], tight: bool) -> list[str]:
    if found is None:
        return ["-", "-", "-"]
    mark = TIGHT if tight else ""
    memory = f"{mark}{_whole(found.memory_gib)}/{_whole(dict.fromkeys(usable_gib))}"
    return [pace(found.step_time_s), f"{found.mfu:.1%}", memory]


def _whole(numbers: Iterable[float]) -> str:
    return _joined(f"{number:.0f}" for number in numbers)


def _joined(values: Iterable[object]) -> str:
    return "+".join(map(str, values))


def _hide_usual(sheet: Sheet) -> None:
    """Empty the columns in which every plan has the usual size: they are left out then."""
    for column, usual in USUAL.items():
        at = sheet.columns.index(column)
        if all(set(row[at].split("+")) == {usual} for row in sheet.rows):
            for row in sheet.rows:
                row[at] = ""


def _stages(found: Iterable[StageCost]) -> str:
    """Return the time of a micro-batch in each stage, and the memory of its devices."""
    return "; ".join(
        f"{item.name} {pace(item.micro_batch_s)} s, {item.memory_gib:.0f} GiB" for item in found
    )


def _print_stages(plan: Plan) -> None:
    """Print the layers of each stage, or the samples of each kind where it has all layers."""
    from ..plan import dealt

    what, _, shares = dealt(plan).partition(": ")
    layers = ",".join(str(stage.layers) for stage in plan.pipelines[0].stages)
    say(f"{what or 'layers'} of the first", shares or layers)


def parts(plan: Plan) -> dict[str, float]:
    """Return where the step of a plan goes, in seconds."""
    return plan.predicted.breakdown_s if plan.predicted else {}
