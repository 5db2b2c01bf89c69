"""Rules about power: racks and feeds over their limits, by the sums of power.py."""

from __future__ import annotations

from collections.abc import Iterator

from .. import hostlist
from .lint import Fault, Rule, Subject
from .power import Drawn, Load, RackPower, total


def _racks_over(subject: Subject) -> Iterator[Fault]:
    for item in subject.power.racks:
        budget = item.rack.budget_w
        if item.is_over and budget is not None and item.most.w is not None:
            what = f"rack {item.rack.name} draws {_drawn(item.most)}, {_over(item.most.w, budget)}"
            yield Fault(item.rack.where, f"{what} its budget of {_kw(budget)}", _names(item))


def _racks_hot(subject: Subject) -> Iterator[Fault]:
    for item in subject.power.racks:
        if item.is_surely_too_hot:
            yield _hot(item, "what its cooling takes")


def _racks_warm(subject: Subject) -> Iterator[Fault]:
    for item in subject.power.racks:
        if item.is_too_hot and not item.is_surely_too_hot and item.rack.cooling is not None:
            yield _hot(item, f"what {item.rack.cooling.kind} usually takes")


def _hot(item: RackPower, limit: str) -> Fault:
    drawn = item.most.w or 0.0
    takes = item.cooling.w if item.cooling else 0.0
    what = f"rack {item.rack.name} draws {_drawn(item.most)}, {_over(drawn, takes)} {limit}"
    return Fault(item.rack.where, f"{what}, {_kw(takes)}", _names(item))


def _feeds_over(subject: Subject) -> Iterator[Fault]:
    for load in subject.power.normal.over:
        yield _overloaded(load, "")


def _feeds_over_in_failure(subject: Subject) -> Iterator[Fault]:
    already = {load.feed.name for load in subject.power.normal.over}
    worst: dict[str, tuple[float, str, Load]] = {}
    for case in subject.power.failures:
        for load in case.over:
            drawn, name = load.drawn.w or 0.0, load.feed.name
            if name not in already and drawn > worst.get(name, (0.0,))[0]:
                worst[name] = (drawn, case.failed, load)
    for _, failed, load in worst.values():
        yield _overloaded(load, failed)


def _overloaded(load: Load, failed: str) -> Fault:
    feed, drawn = load.feed, load.drawn.w or 0.0
    when = f" when feed {failed} fails" if failed else ""
    what = (
        f"feed {feed.name} carries {_drawn(load.drawn)}{when}, {_over(drawn, feed.power_w)} its "
        f"{_kw(feed.power_w)}"
    )
    return Fault(feed.where, what, (feed.name, failed) if failed else (feed.name,))


def _dark(subject: Subject) -> Iterator[Fault]:
    racks = subject.inventory.racks
    if not any(len(rack.feeds) > 1 for rack in racks):
        return
    for rack in racks:
        if len(rack.feeds) == 1:
            what = f"rack {rack.name} goes dark with feed {rack.feeds[0]}, and others have two"
            yield Fault(rack.where, what, (rack.name, rack.feeds[0]))


def _overrated(subject: Subject) -> Iterator[Fault]:
    for item in subject.power.overrated:
        names = tuple(feed.name for feed in item.feeds)
        what = (
            f"{hostlist.fold(names)} are rated for {_kw(item.rated_w)} together, and feed "
            f"{item.source.name}, on which they hang, for {_kw(item.source.power_w)}"
        )
        yield Fault(item.source.where, what, (item.source.name, *names))


def _unknown(subject: Subject) -> Iterator[Fault]:
    alike: dict[object, list[RackPower]] = {}
    for item in subject.power.racks:
        rack = item.rack
        limited = rack.budget_w is not None or item.cooling is not None or rack.feeds
        if limited and not item.most.is_whole:
            lacks = tuple(part.what for part in item.most.missing)
            alike.setdefault((lacks, item.most.w), []).append(item)
    for items in alike.values():
        first, most = items[0], total(item.most for item in items)
        parts = (f"{part.what} ({hostlist.fold(part.hosts)})" for part in most.missing)
        hosts = tuple(dict.fromkeys(host for part in most.missing for host in part.hosts))
        names = tuple(item.rack.name for item in items)
        known = f": {_kw(first.most.w)} of each are counted" if first.most.w else ""
        what = f"rack {hostlist.fold(names)}: nobody has said the {'; '.join(parts)}{known}"
        yield Fault(first.rack.where, what, names, hosts)


def _unchecked(subject: Subject) -> Iterator[Fault]:
    unsure = subject.power.unsure
    if unsure:
        what = f"racks count {', '.join(unsure)} by a figure that nobody has checked"
        yield Fault(subject.inventory.racks[0].where, what, unsure)


def _uncounted(subject: Subject) -> Iterator[Fault]:
    room = subject.power
    racks = {rack.name: rack for rack in subject.inventory.racks}
    if room.homeless:
        what = f"{hostlist.fold(room.homeless)} stand in no rack: no sum counts their power"
        yield Fault(subject.inventory.racks[0].where, what, (), room.homeless)
    if room.unfed:
        what = f"{hostlist.fold(room.unfed)} hang on no feed: no feed's sum counts their power"
        yield Fault(racks[room.unfed[0]].where, what, room.unfed)


def _names(item: RackPower) -> tuple[str, ...]:
    return (item.rack.name,)


def _drawn(drawn: Drawn) -> str:
    shown = _kw(drawn.w or 0.0)
    return shown if drawn.is_whole else f"{shown} at least"


def _over(drawn_w: float, limit_w: float) -> str:
    left = drawn_w - limit_w
    return f"{left:.0f} W over" if left < 1000 else f"{_kw(left)} over"


def _kw(watts: float) -> str:
    return f"{round(watts / 1e3, 3):.10g} kW"


POWER_RULES = (
    Rule(
        "rack-power",
        "error",
        "nodes at full load trip the breaker of a rack that draws more than its budget",
        "move nodes, cap the cards ('derated'), or raise the budget",
        _racks_over,
    ),
    Rule(
        "rack-cooling",
        "error",
        "cards throttle in a rack that gives more heat than its cooling takes",
        "move nodes, cap the cards ('derated'), or cool more",
        _racks_hot,
    ),
    Rule(
        "rack-cooling-usual",
        "warning",
        "a rack gives more heat than its kind of cooling takes elsewhere",
        "say what the cooling takes: cooling: {kind: ..., air: ..., liquid: ...}",
        _racks_warm,
    ),
    Rule(
        "feed-power",
        "error",
        "a feed that carries more than it is rated for trips",
        "move racks to other feeds, cap the cards ('derated'), or raise the feed",
        _feeds_over,
    ),
    Rule(
        "feed-failure",
        "error",
        "each of redundant feeds must carry all when another fails, or both are lost",
        "move racks to other feeds, cap the cards ('derated'), or raise the feed",
        _feeds_over_in_failure,
    ),
    Rule(
        "rack-one-feed",
        "warning",
        "a rack on one feed fails with it",
        "give it a second feed",
        _dark,
    ),
    Rule(
        "feed-ratings",
        "warning",
        "feeds may together draw more than what they hang on can give",
        "see that a breaker or a power limit stands between them",
        _overrated,
    ),
    Rule(
        "power-unknown",
        "warning",
        "a sum without what nobody has said is only a lower bound",
        "give the nodes their 'power' as measured or as on the data sheet",
        _unknown,
    ),
    Rule(
        "power-unchecked",
        "note",
        "a sum is as sure as the catalogue's least sure figure in it",
        "give the nodes their 'power', or the card's under 'accelerators', as the data sheet says",
        _unchecked,
    ),
    Rule(
        "power-uncounted",
        "note",
        "what stands in no rack, or hangs on no feed, is in no sum",
        "place it under 'racks', with 'feeds'",
        _uncounted,
    ),
)
