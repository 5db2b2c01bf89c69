"""How a job scales with its cards: the curve of ``--cards 8:1024``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from ..errors import PlanError, UsageError
from ..inventory import Supernode
from ..placement import Ask, Room, Slot, Wanted, calibrated, choose, find_slots
from ..plan import Plan
from ..planner import Expected, Offer, expected_error, is_tight, usable_gib
from .cost import Cost, cost_of
from .limit import limit_of
from .question import predicted_of, question_of
from .study import where

WORTH = 0.5
"""Share of a card's work that an added card must bring at least: below it two are paid for the
work of one. It is the parallel efficiency of the added cards, not of all of them."""
_RANGE = re.compile(r"(?:([A-Za-z][A-Za-z0-9_.\-]*):)?([0-9]{1,7}):([0-9]{1,7})\Z")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers of cards, from one to another, each twice the one before."""

    kind: str | None
    first: int
    last: int

    @property
    def words(self) -> str:
        """Return the first number as ``--cards`` takes it."""
        return f"{self.kind}:{self.first}" if self.kind else str(self.first)

    @property
    def counts(self) -> list[int]:
        """Return the numbers."""
        doublings = range(int(math.log2(self.last / self.first)) + 1)
        return list(dict.fromkeys([*(self.first * 2**n for n in doublings), self.last]))


@dataclass(frozen=True, slots=True)
class Point:
    """One number of cards."""

    cards: int
    devices: int
    plan: Plan | None
    where: str = ""
    beyond: bool = False
    """One job cannot have so many here: the room was taken to have more of the same."""
    problem: str = ""
    """Why there is no plan."""
    cost: Cost | None = None
    """Of one step."""
    usable_gib: float = 0.0
    """Memory of a device that a training process gets."""
    tight: bool = False
    """Less than ``SPARE`` of it is left."""
    brings: float | None = None
    """What each added card brings, over what a card brings where it brings most; None at first."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The points, and what is to be read from them."""

    kind: str
    points: tuple[Point, ...]
    owned: int
    """Most cards that one job can have here."""
    sweet: int | None
    """Largest number up to which each added card brings ``WORTH`` at least; None where it is not
    reached: the cards of the last plan still do, or there is one plan alone."""
    loses: int | None
    """First number at which a step takes longer than with fewer cards."""
    data_bound: int | None
    """First number at which loading of data limits the step."""
    expected: Expected
    remarks: tuple[str, ...]


def parse_range(text: str) -> Range | None:
    """Return the numbers of ``8:1024`` or ``h100:8:1024``; None for other words of ``--cards``."""
    found = _RANGE.match(text)
    if found is None:
        return None
    first, last = int(found[2]), int(found[3])
    if not 1 <= first < last:
        raise UsageError(f"--cards {text}: a range rises, like 8:1024 or h100:8:1024")
    return Range(found[1], first, last)


def curve(room: Room, ask: Ask, numbers: Range, progress: Callable[[str], None]) -> Curve:
    """Return the curve for one kind of cards; of an open kind the fastest at the first number.

    ``ask`` is that of the first number; ``progress`` is told what is planned next. Raises
    ``PlanError`` where no number has a plan.
    """
    ask = replace(ask, prefer=None, least_gain=None)  # How fast, not where a site sends such jobs.
    kind, devices = ask.cards[0]
    each = devices // numbers.first if kind else 0
    if kind is None:
        kind = choose(room, ask)[0].plan.groups[0].name
    slots = find_slots(room, Wanted(kind, node_devices(room, kind), ask.limits[0]))
    card = room.inventory.accelerator(slots[0].group.accelerator)
    each = each or card.devices_per_card
    ask = replace(ask, open_cards=False)
    points: list[Point] = []
    for number, cards in enumerate(numbers.counts, 1):
        progress(f"{cards} cards ({number} of {len(numbers.counts)})")
        here = replace(ask, cards=((kind, cards * each),))
        points.append(_point(room, here, slots, cards))
    if all(point.plan is None for point in points):
        raise PlanError("\n".join(dict.fromkeys(point.problem for point in points)))
    whole = _marked(points)
    owned = max(capacity(room, slot) for slot in slots) // each
    first = next(point.plan for point in whole if point.plan)
    return Curve(
        kind=kind,
        points=whole,
        owned=owned,
        sweet=_sweet(whole),
        loses=_loses(whole),
        data_bound=_data_bound(whole),
        expected=expected_error(first, room.inventory.calibration.errors),
        remarks=tuple(calibrated(room.inventory, first)),
    )


def _point(room: Room, ask: Ask, slots: list[Slot], cards: int) -> Point:
    devices = ask.cards[0][1]
    beyond = devices > max(capacity(room, slot) for slot in slots)
    try:
        if beyond:
            place, plan = _scaled_best(room, ask, slots)
        else:
            best = choose(room, ask)[0]
            place, plan = where(best.slots), best.plan
    except PlanError as error:
        return Point(cards, devices, None, beyond=beyond, problem=str(error))
    usable = usable_gib(slots[0].offer)
    return Point(
        cards=cards,
        devices=devices,
        plan=plan,
        where=place,
        beyond=beyond,
        cost=cost_of(room.inventory, plan),
        usable_gib=usable,
        tight=is_tight(predicted_of(plan), [usable]),
    )


def capacity(room: Room, slot: Slot) -> int:
    """Return the devices that one job can have in the class of a slot."""
    domains = [room.inventory.domain(name) for name in slot.domains]
    sizes = [len(room.view.usable.intersection(domain.hosts)) for domain in domains]
    joined = sum(sizes) if isinstance(domains[0], Supernode) else max(sizes)
    return joined * slot.devices.count


def node_devices(room: Room, kind: str) -> int:
    """Return the most devices of a kind that a node holds."""
    counts = [
        item.count
        for nodes in room.inventory.node_classes
        for item in nodes.devices
        if item.type == kind and item.is_whole
    ]
    return max(counts)


def _scaled_best(room: Room, ask: Ask, slots: list[Slot]) -> tuple[str, Plan]:
    """Return the fastest plan on more machines like those of the site."""
    found: list[tuple[str, Plan]] = []
    reasons = []
    for slot in slots:
        try:
            offer = scaled(room, slot, ask.cards[0][1])
            found.append((slot.shown, question_of(ask, [slot]).on(offer).best()))
        except PlanError as error:
            reasons.append(f"{slot.shown}: {error}")
    if not found:
        raise PlanError("; ".join(reasons))
    return min(found, key=lambda item: predicted_of(item[1]).step_time_s)


def scaled(room: Room, slot: Slot, devices: int) -> Offer:
    """Return what a slot would offer if the site had more of the same machines.

    Supernodes keep their size: a job that one cannot hold spans several in equal parts.
    Raises ``PlanError`` where the devices fill no whole nodes or nobody has said how fast the
    network is.
    """
    nodes, rest = divmod(devices, slot.devices.count)
    if rest:
        raise PlanError(f"{devices} devices fill no whole nodes of {slot.devices.count}")
    most = 1
    if isinstance(room.inventory.domain(slot.domains[0]), Supernode):
        most = min(nodes, slot.planning_nodes)
    together = next(size for size in range(most, 0, -1) if nodes % size == 0)
    if nodes > together and not slot.offer.network_gbs:
        raise PlanError("nobody has said how fast the network is: add a fabric with its rails")
    group = replace(
        slot.group, nodes=nodes, devices_per_node=slot.devices.count, domains=(), together=together
    )
    return replace(slot.offer, group=group, domain_nodes=together)


def _marked(points: list[Point]) -> tuple[Point, ...]:
    """Return the points with what their added cards bring."""
    found: list[Point] = []
    before: Point | None = None
    most = 0.0
    for point in points:
        brings = None
        if point.plan is not None:
            rate = _rate(point)
            most = max(most, rate / point.cards)
            if before is not None:
                brings = (rate - _rate(before)) / (point.cards - before.cards) / most
            before = point
        found.append(replace(point, brings=brings))
    return tuple(found)


def _rate(point: Point) -> float:
    """Return the tokens per second of a point that has a plan."""
    if point.plan is None:
        raise PlanError(point.problem)
    tokens = point.plan.global_batch * point.plan.sequence
    return tokens / predicted_of(point.plan).step_time_s


def _sweet(points: tuple[Point, ...]) -> int | None:
    planned = [point for point in points if point.plan is not None]
    for before, point in pairwise(planned):
        if point.brings is not None and point.brings < WORTH:
            return before.cards
    return None


def _loses(points: tuple[Point, ...]) -> int | None:
    return next(
        (item.cards for item in points if item.brings is not None and item.brings < 0), None
    )


def _data_bound(points: tuple[Point, ...]) -> int | None:
    plans = [(item.cards, item.plan) for item in points if item.plan is not None]
    return next((cards for cards, plan in plans if limit_of(plan, ()).name == "data"), None)
