"""Which interconnect and which network suit a workload: planned again on variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ..errors import PlanError, UsageError, nearest
from ..inventory import Inventory, Pool, Supernode
from ..inventory.schema import INTERCONNECTS
from ..placement import Ask, Choice, Room, calibrated, choose, meshed
from ..plan import Plan
from ..planner import Expected, Offer, expected_error, is_tight, usable_gib
from .cost import Cost, cost_of
from .question import predicted_of, question_of
from .study import silent

WORTH = 0.01
"""A variant that saves less of a step is not called better."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The supernode and network of one try."""

    interconnect: str
    oversubscription: float
    own: bool
    """What the site has."""
    plan: Plan | None
    problem: str = ""
    slower: float = 0.0
    """Time of a step over that on what the site has, less 1."""
    cost: Cost | None = None
    """Of one step."""
    usable_gib: float = 0.0
    """Memory of a device that a training process gets."""
    tight: bool = False
    """Less than ``SPARE`` of it is left."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the site has, and its variants in the order asked."""

    choice: Choice
    variants: tuple[Variant, ...]
    """The first is what the site has."""
    uses_network: bool
    """The job leaves its scale-up fabric."""
    expected: Expected
    remarks: tuple[str, ...]

    @property
    def best(self) -> Variant:
        """Return the fastest, what the site has where no other saves ``WORTH`` of a step."""
        planned = [
            (predicted_of(item.plan).step_time_s, item) for item in self.variants if item.plan
        ]
        fastest = min(planned, key=lambda pair: pair[0])[1]
        own = self.variants[0]
        return own if own.plan and fastest.slower > -WORTH else fastest


def parse_kinds(text: str) -> tuple[str, ...]:
    """Return kinds of interconnect from ``torus,switch``; raises ``UsageError``."""
    kinds = [part.strip() for part in text.split(",")]
    for kind in kinds:
        if kind not in INTERCONNECTS:
            raise UsageError(f"--interconnect: no '{kind:.40}'; {nearest(kind, INTERCONNECTS)}")
    return tuple(dict.fromkeys(kinds))


def parse_ratios(text: str) -> tuple[float, ...]:
    """Return oversubscriptions from ``1,2,4``; raises ``UsageError``."""
    found = []
    for part in text.split(","):
        try:
            ratio = float(part)
        except ValueError:
            ratio = 0.0
        if not 1 <= ratio <= 1000:
            raise UsageError(f"--oversubscription: numbers from 1 on, like 1,2,4; got {text!r:.40}")
        found.append(ratio)
    return tuple(dict.fromkeys(found))


def wiring(
    room: Room,
    ask: Ask,
    kinds: Sequence[str],
    ratios: Sequence[float],
    progress: Callable[[str], None] = silent,
) -> Wiring:
    """Return the best plan on what the site has and on each variant.

    Bandwidths per device and per node stay as they are. ``progress`` is told what is planned
    next. Raises ``PlanError`` where the job has no plan here, and for variants that the place
    does not have.
    """
    choice = choose(room, ask)[0]
    if len(choice.slots) > 1:
        raise PlanError("variants are planned on one kind of cards: name one")
    offer = choice.slots[0].offer
    domain = room.inventory.domain(choice.slots[0].domains[0])
    kind, ratio = _present(room.inventory, domain)
    if kinds and not kind:
        raise PlanError(
            f"--interconnect: {choice.slots[0].shown} is no supernode; ask for cards of one with "
            "--cards KIND:N or --partition"
        )
    if ratios and not offer.network_gbs:
        raise PlanError("--oversubscription: nobody has said how fast the network is")
    tried = dict.fromkeys([(kind, ratio), *product(kinds or [kind], ratios or [ratio])])
    asked = question_of(ask, choice.slots)
    found: list[Variant] = []
    own_s = 0.0
    for number, (shape, over) in enumerate(tried, 1):
        progress(f"{shape or 'this place'}, {over:g}:1 ({number} of {len(tried)})")
        own = (shape, over) == (kind, ratio)
        other = replace(offer, network_gbs=offer.network_gbs * ratio / over)
        try:
            plan = asked.on(_wired(other, shape, domain) if shape != kind else other).best()
        except PlanError as error:
            found.append(Variant(shape, over, own, None, str(error)))
            continue
        if own:
            own_s = predicted_of(plan).step_time_s
        found.append(
            Variant(
                interconnect=shape,
                oversubscription=over,
                own=own,
                plan=plan,
                slower=predicted_of(plan).step_time_s / own_s - 1 if own_s else 0.0,
                cost=cost_of(room.inventory, plan),
                usable_gib=usable_gib(offer),
                tight=is_tight(predicted_of(plan), [usable_gib(offer)]),
            )
        )
    return Wiring(
        choice=choice,
        variants=tuple(found),
        uses_network=offer.devices > offer.domain_devices,
        expected=expected_error(choice.plan, room.inventory.calibration.errors),
        remarks=tuple(calibrated(room.inventory, choice.plan)),
    )


def _wired(offer: Offer, kind: str, domain: Supernode | Pool) -> Offer:
    """Return the offer with another interconnect, whose links its cards then have."""
    card = replace(offer.accelerator, card_p2p_gbs=None)
    if kind == "full-mesh":
        card = meshed(card, offer.scale_up_gbs, domain)
    return replace(offer, interconnect=kind, accelerator=card)


def _present(inventory: Inventory, domain: Supernode | Pool) -> tuple[str, float]:
    """Return the kind of interconnect of a place, empty for a pool, and its oversubscription."""
    fabric = inventory.fabric_of(domain.hosts[0])
    kind = domain.interconnect.kind if isinstance(domain, Supernode) else ""
    return kind, fabric.oversubscription if fabric else 1.0
