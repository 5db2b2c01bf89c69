"""How ``sn power`` looks: tables with bars, then what is over, unknown or assumed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from .. import hostlist
from . import common

if TYPE_CHECKING:
    from ..derating import DeratePlan, JobShare, RackPlan
    from ..inventory import Feed
    from ..inventory.power import Drawn, Missing, RackPower, RoomPower

BAR = 20
WIDTH = 80
SHOWN_HOSTS = 48
"""A longer list of hosts is shown by its number."""

RACK_COLUMNS = (
    "rack",
    "nodes",
    "budget\nkW",
    "draw\nkW",
    "left\nkW",
    "of the budget",
    "cooling\nkW",
)
FEED_COLUMNS = ("feed", "rated\nkW", "normal\nkW", "worst\nkW", "of the rating", "worst when")
PLAN_COLUMNS = ("rack", "air\nkW", "before\nkW", "after\nkW", "stay", "caps", "drained")


def kw(watts: float) -> str:
    """Return watts in kW, to the watt."""
    return f"{round(watts / 1e3, 3):.10g}"


def _say(text: str) -> None:
    """Print a sentence in lines of a terminal's width."""
    lines = textwrap.wrap(
        text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    for line in lines:
        click.echo(line)


def _bar(drawn_w: float | None, limit_w: float | None) -> str:
    """Return a bar of the limit that is used: ``#`` used, ``.`` free, ``!`` over."""
    from ..inventory.power import is_over

    if drawn_w is None or not limit_w:
        return ""
    if is_over(drawn_w, limit_w):
        return "#" * BAR + "!"
    used = min(round(BAR * drawn_w / limit_w), BAR)
    return "#" * used + "." * (BAR - used)


def print_room(power: RoomPower) -> None:
    """Print the racks, the feeds, and what is to be said of them."""
    if not power.racks:
        click.echo("no racks in the inventory: add racks with their hosts and power")
        return
    common.print_table(RACK_COLUMNS, _folded(map(_rack_row, power.racks)))
    if power.normal.loads:
        click.echo()
        common.print_table(FEED_COLUMNS, _feed_rows(power))
    click.echo()
    total = power.total
    _say(f"all racks: {_drawn(total)} kW")
    for line in _remarks(power):
        _say(line)


def _rack_row(item: RackPower) -> tuple[str, ...]:
    from ..inventory.power import is_over

    budget_w, left_w = item.rack.budget_w, item.headroom_w
    left = "-"
    if left_w is not None:
        left = f"{kw(-left_w)} over" if is_over(item.most.w, budget_w) else kw(max(left_w, 0.0))
    cooling = "-"
    if item.cooling is not None:
        cooling = kw(item.cooling.w) + "?" * item.cooling.is_default
    return (
        item.rack.name,
        str(len(item.rack.hosts)),
        "-" if budget_w is None else kw(budget_w),
        _drawn(item.most),
        left,
        _bar(item.most.w, budget_w),
        cooling,
    )


def _drawn(drawn: Drawn) -> str:
    """Return a sum: ``-`` for unknown, ``+`` behind one of which a part is missing."""
    return "-" if drawn.w is None else kw(drawn.w) + "+" * bool(drawn.missing)


def _folded(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows, those that differ in their name only as one."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, *rest in rows:
        names.setdefault(tuple(rest), []).append(name)
    return [(_fold(same), *rest) for rest, same in names.items()]


def _fold(names: Sequence[str]) -> str:
    """Return names of racks or feeds, an indent before them kept."""
    first = names[0]
    indent = first[: len(first) - len(first.lstrip())]
    return indent + hostlist.fold(name.strip() for name in names)


def _feed_rows(power: RoomPower) -> list[tuple[str, ...]]:
    feeds = [load.feed for load in power.normal.loads]
    rows: list[tuple[str, ...]] = []

    def add(hung: Sequence[Feed], depth: int) -> None:
        alone = [_feed_row(power, feed, depth) for feed in hung if not _below(feeds, feed)]
        rows.extend(_folded(alone))
        for feed in hung:
            if below := _below(feeds, feed):
                rows.append(_feed_row(power, feed, depth))
                add(below, depth + 1)

    add([feed for feed in feeds if not feed.sources], 0)
    return rows


def _below(feeds: Sequence[Feed], source: Feed) -> list[Feed]:
    return [feed for feed in feeds if feed.sources[:1] == (source.name,)]


def _feed_row(power: RoomPower, feed: Feed, depth: int) -> tuple[str, ...]:
    normal, (case, worst) = power.normal.load(feed.name), power.worst(feed.name)
    also = f"; also on {', '.join(feed.sources[1:])}" if len(feed.sources) > 1 else ""
    return (
        "  " * depth + feed.name,
        kw(feed.power_w),
        _drawn(normal.drawn) if normal else "-",
        _drawn(worst.drawn),
        _bar(worst.drawn.w, feed.power_w),
        (f"{case.failed} fails" if case.failed else "always") + also,
    )


def _remarks(power: RoomPower) -> Iterator[str]:
    for names, words in _alike((item.rack.name, _over(item)) for item in power.racks):
        yield f"over: {names} {words}"
    for case in (power.normal, *power.failures):
        when = f" when {case.failed} fails" if case.failed else ""
        for load in case.over:
            carried, rated = kw(load.drawn.w or 0.0), kw(load.feed.power_w)
            yield f"over: feed {load.feed.name} carries {carried} of {rated} kW{when}"
    for names, words in _alike((item.rack.name, _hot(item)) for item in power.racks):
        yield f"{'doubt' if words.endswith('figure') else 'over'}: {names} {words}"
    for case in power.failures:
        if case.dark:
            yield f"dark when {case.failed} fails: {hostlist.fold(case.dark)}"
    for over in power.overrated:
        names = hostlist.fold(feed.name for feed in over.feeds)
        yield (
            f"doubt: {names} rated {kw(over.rated_w)} kW, more than their source "
            f"{over.source.name}, {kw(over.source.power_w)}"
        )
    if power.unfed:
        yield f"on no feed: {hostlist.fold(power.unfed)}"
    if power.homeless:
        yield f"in no rack: {_hosts(power.homeless)}"
    capped = [item.rack.name for item in power.racks if item.is_capped]
    if capped:
        yield f"cards under a cap (derated): {hostlist.fold(capped)}"
    yield from map(_missing, power.total.missing)
    for kind in power.unsure:
        yield f"doubt: the catalogue's power of {kind} is from no maker and no press"
    if any(item.cooling and item.cooling.is_default for item in power.racks):
        yield "?: a usual figure; write what the cooling takes: cooling: {liquid: ..., air: ...}"


def _alike(said: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield what is said of racks with all of which it is said."""
    names: dict[str, list[str]] = {}
    for name, words in said:
        names.setdefault(words, []).append(name)
    yield from ((hostlist.fold(racks), words) for words, racks in names.items() if words)


def _over(item: RackPower) -> str:
    if not item.is_over:
        return ""
    return (
        f"{-(item.headroom_w or 0.0):.10g} W over the budget of {kw(item.rack.budget_w or 0.0)} kW"
    )


def _hot(item: RackPower) -> str:
    if not item.is_too_hot or item.cooling is None:
        return ""
    usual = ", by the usual figure" if item.cooling.is_default else ""
    kind = item.rack.cooling.kind if item.rack.cooling else ""
    return f"{kw(item.most.w or 0.0)} kW, of which {kind} takes {kw(item.cooling.w)}{usual}"


def _missing(item: Missing) -> str:
    return f"unknown (+): {item.what}, {_hosts(item.hosts)}"


def _hosts(hosts: Sequence[str]) -> str:
    folded = hostlist.fold(hosts)
    return folded if len(folded) <= SHOWN_HOSTS else f"{len(hosts)} nodes"


def print_plan(plan: DeratePlan) -> None:
    """Print the plan for lost cooling, its commands, and what stands behind its figures."""
    from ..derating import cap_command, drain_line, no_command

    click.echo(f"{plan.target} without its liquid, in {_fold([r.name for r in plan.racks])}")
    common.print_table(PLAN_COLUMNS, map(_plan_row, plan.racks))
    click.echo()
    for line in _worth(plan):
        _say(line)
    for cap in plan.caps:
        words = cap_command(cap) or f"cap {cap.watts} W: {no_command(cap.kind.vendor)}"
        click.echo(f"on {hostlist.fold(cap.hosts)}: {words}")
    if plan.drained:
        click.echo(drain_line(plan))
    for line in (*shortfalls(plan), *(f"assumed: {text}" for text in plan.assumed)):
        _say(line)
    if plan.domain_caps:
        items = ", ".join(f"{{on: {name}, cap: {w} W}}" for name, w in plan.domain_caps.items())
        _say(f"for sn plan, in the inventory while it lasts: derated: [{items}]")
    line = ", and take that line out" if plan.domain_caps else ""
    if plan.caps or plan.drained:
        _say(f"as a script: --emit sh; to undo it: --emit undo{line}")


def _plan_row(rack: RackPlan) -> tuple[str, ...]:
    caps = ", ".join(f"{cap.kind.accelerator} {cap.watts} W" for cap in rack.caps)
    return (
        rack.name,
        kw(rack.limit.w) + "?" * rack.limit.is_default,
        kw(rack.before_w),
        kw(rack.after_w),
        f"{len(rack.kept)} of {len(rack.nodes)}",
        caps or "none",
        hostlist.fold(node.host for node in rack.drained) or "none",
    )


def _worth(plan: DeratePlan) -> Iterator[str]:
    flops = plan.flops
    if flops is None:
        yield "peak left: nobody has said that of all its cards"
    else:
        share, least = flops.after / flops.before, flops.after_least / flops.before
        yield (
            f"peak left: {flops.after / 1e3:.3g} of {flops.before / 1e3:.3g} PFLOPS in bf16, "
            f"{share:.0%} (cube root of power; {least:.0%} if the voltage cannot fall)"
        )
    domain_of = {node.host: node.domain for rack in plan.racks for node in rack.nodes}
    for name, watts in plan.domain_caps.items():
        found = {cap.watts for cap in plan.caps if domain_of[cap.hosts[0]] == name}
        if len(found) > 1:
            yield f"caps differ in {name}: a job over all of it is as fast as {watts} W allow"
    if not plan.is_live:
        yield "jobs: not known, no Slurm was asked; spares are drained first, then the last nodes"
        return
    if plan.ended_jobs:
        yield f"jobs on nodes to drain: {_jobs(plan.ended_jobs)}"
    if plan.slowed_jobs:
        yield f"jobs on capped cards: {_jobs(plan.slowed_jobs)}"
    if not plan.ended_jobs and not plan.slowed_jobs:
        yield "jobs: none runs on these nodes"


def _jobs(jobs: Sequence[JobShare]) -> str:
    shown = [f"{job.id} ({job.name}, {job.nodes} nodes)" for job in jobs[:8]]
    return ", ".join([*shown, *([f"{len(jobs) - 8} more"] if len(jobs) > 8 else [])])


def shortfalls(plan: DeratePlan) -> Iterator[str]:
    """Yield what the plan cannot promise."""
    for rack in plan.racks:
        if rack.after_w > rack.limit.w + 1e-3:
            how = "all of it has to be switched off" if rack.nodes else "switch its equipment off"
            more = (
                f"{kw(rack.after_w)} kW with every node drained, the air takes {kw(rack.limit.w)}"
            )
            yield f"not enough: {rack.name} draws {more}: {how}"
        elif rack.drained and rack.meanwhile_w > rack.limit.w + 1e-3:
            yield (
                f"{rack.name} draws {kw(rack.meanwhile_w)} kW until the jobs on nodes to drain "
                "have ended"
            )
        if rack.unknown:
            yield f"not enough: nothing is known of the power of {_hosts(rack.unknown)}"
        if rack.cooling in ("cold-plate", "liquid", "immersion") and rack.limit.w:
            yield (
                f"{rack.name} is cooled by {rack.cooling}: cards without flow overheat within a "
                "minute unless their maker says that air suffices under such caps"
            )
    if plan.outside:
        yield f"not enough: {_hosts(plan.outside)} stand in no rack"
