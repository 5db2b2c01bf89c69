"""From what the user asks to plans with a place, the fastest first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations, product

from ..catalogue import Model
from ..errors import PlanError
from ..hostlist import expand
from ..inventory import Inventory
from ..plan import Plan
from ..planner import (
    KEEP,
    SPARE,
    Capabilities,
    Fixed,
    Workload,
    ideal_rate,
    is_tight,
    plan_strategy,
    usable_gib,
)
from .gain import Gain, against, as_pool, in_supernode
from .limits import Limits
from .slots import Room, Slot, Wanted, device_types, find_slots
from .strategy import Compared, Contest, Way


@dataclass(frozen=True, slots=True)
class Ask:
    """What a user wants to run."""

    cards: tuple[tuple[str | None, int], ...]
    """(GRES type, devices) of each group; the type None leaves the kind open."""
    able: Capabilities
    """What the training framework can run."""
    others: tuple[Capabilities, ...] = ()
    """What is tried after it, in this order, where nobody named a framework."""
    by_maker: Mapping[str, Capabilities] = field(default_factory=dict)
    """What is planned for on each maker's cards where nobody named a framework or a kind."""
    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Frameworks that are known to run on the cards of each maker here."""
    open_cards: bool = False
    """The number of an open kind counts cards, of which each may hold several devices."""
    model: Model | None = None
    sequence: int = 4096
    global_batch: int = 1024
    precision: str = "bf16"
    exact: bool = False
    """The user or the script named the precision."""
    training: str = "full"
    """``full`` or ``lora``."""
    lora_rank: int = 16
    fixed: Fixed = field(default_factory=Fixed)
    """What the user's own script has settled of the layout."""
    limits: tuple[Limits, ...] = field(default=(Limits(),))
    """Where each group may be, or one for all of them."""
    least_gain: float | None = None
    """Less gain of a supernode than this sends the job to a pool that can hold it."""
    data_s: float = 0.0
    """Measured loading of data per step."""
    reduction: str = ""
    """What replicas sum gradients in; empty: as the framework does."""
    spare: float = SPARE
    """Share of the memory of a device that plans leave, where any can."""
    prefer: str | None = None
    """The partition that the site's policy wants for this job, if a plan fits there."""
    strategy: str = "auto"
    """Of ``STRATEGIES``: what several kinds of cards do."""
    whole: bool = False
    """All groups are in the job already, or by the user's own options: none may be left out."""
    notes: tuple[str, ...] = ()
    """What the user should know about how the words were read."""

    def on(self, slots: Sequence[Slot]) -> Ask:
        """Return the ask with what is planned for on these cards alone."""
        if len(slots) > 1:
            return self
        able = self.by_maker.get(slots[0].group.vendor, self.able)
        return self if able is self.able else replace(self, able=able)

    def doubtful(self, slots: Sequence[Slot]) -> list[str]:
        """Return the makers of these cards that the framework is not known to run on."""
        name = self.on(slots).able.name
        makers = sorted({slot.group.vendor for slot in slots})
        return [maker for maker in makers if name not in self.known.get(maker, (name,))]

    def planned_for(self, plan: Plan) -> Ask:
        """Return the ask with the framework of a plan before the others."""
        ables = {able.name: able for able in (self.able, *self.others)}
        first = ables.pop(plan.framework, self.able)
        return replace(self, able=first, others=tuple(ables.values()) if self.others else ())


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan and where it runs: one slot for each group of the plan, in its order."""

    plan: Plan
    slots: tuple[Slot, ...]
    gain: Gain | None = None
    """What its supernode is worth, where it lies in one."""
    compared: Compared | None = None
    """How its strategy compares, where several kinds of cards were asked for."""


def choose(room: Room, ask: Ask) -> list[Choice]:
    """Return plans with their slots, the fastest predicted first.

    Cards that the framework is not known to run on come last. Where nobody named a framework,
    the first counts that has a plan. Without a model the devices are placed and not planned.
    Raises ``PlanError`` with every reason if nothing fits.
    """
    if ask.others:
        return _in_turn(room, ask)
    if ask.model is not None:
        workload_of(ask, ask.model)  # Refused once for what is planned nowhere, not by each place.
    if ask.prefer is not None and not ask.limits[0].partitions:
        preferred = tuple(replace(item, partitions=(ask.prefer,)) for item in ask.limits)
        with suppress(PlanError):
            found = choose(room, replace(ask, limits=preferred, prefer=None))
            if not ask.doubtful(found[0].slots):
                return found
    choices: list[Choice] = []
    within, reasons = places(room, ask)
    if len(ask.cards) > 1 and ask.model is not None and within:
        return _by_strategy(room, ask, within)
    for slots in within:
        try:
            _enough_nodes(room, slots)
            choices += _plans(room.inventory, ask, slots)
        except PlanError as error:
            where = " + ".join(slot.domains[0] for slot in slots)
            reasons.append(f"{where}: {error}")
    if not choices:
        raise PlanError("\n".join(dict.fromkeys(reasons)))
    choices.sort(key=lambda item: (bool(ask.doubtful(item.slots)), *_rank(item, ask.spare)))
    return _weighed(room.inventory, ask.on(choices[0].slots), choices)


def _by_strategy(room: Room, ask: Ask, within: Sequence[tuple[Slot, ...]]) -> list[Choice]:
    """Return the plans of the strategy asked for, or of the fastest."""
    if ask.strategy == "grouped" and ask.whole:
        raise PlanError(
            "--strategy grouped takes one kind of cards, the job's own options or nodes have "
            "all of them; ask for nodes of one kind, or take --strategy mixed"
        )
    possible, reasons = [], []
    for slots in within:
        try:
            _enough_nodes(room, slots)
            _common_fabric(room.inventory, slots)
            possible.append(slots)
        except PlanError as error:
            reasons.append(f"{' + '.join(slot.domains[0] for slot in slots)}: {error}")
    # One kind alone needs no common network.
    if not possible and ask.strategy != "grouped":
        raise PlanError("\n".join(dict.fromkeys(reasons)))

    def planned(way: Way, below_s: float, keep: int) -> list[Choice]:
        found: list[Choice] = []
        refused = [] if possible or way.strategy == "grouped" else reasons
        for slots in _parts(possible or within, way.groups) if not refused else ():
            try:
                found += _plans(room.inventory, ask, slots, way.strategy, below_s, keep)
            except PlanError as error:
                where = " + ".join(slot.domains[0] for slot in slots)
                refused.append(f"{where}: {error}")
        if not found:
            raise PlanError("\n".join(dict.fromkeys(refused)))
        return sorted(
            found, key=lambda item: (bool(ask.doubtful(item.slots)), *_rank(item, ask.spare))
        )

    contest = Contest(
        asked=ask.strategy,
        names=[f"{kind} x {count}" for kind, count in ask.cards],
        batch=ask.global_batch,
        planned=planned,
        rank=lambda item: _rank(item, ask.spare),
        ideals=[_ideal(ask, slot) for slot in within[0]],
        whole=ask.whole,
    )
    found, compared = contest.run()
    best, *others = _weighed(room.inventory, ask, found)
    return [replace(best, compared=compared), *others]


def _parts(within: Sequence[tuple[Slot, ...]], groups: Sequence[int]) -> list[tuple[Slot, ...]]:
    """Return where some of the groups could lie, each place once."""
    found: list[tuple[Slot, ...]] = []
    for slots in within:
        part = tuple(slots[index] for index in groups)
        if part not in found:
            found.append(part)
    return found


def _ideal(ask: Ask, slot: Slot) -> float | None:
    """Return the samples per second of a group that loses nothing, where the equations say it."""
    if ask.model is None:
        return None
    with suppress(PlanError):
        return ideal_rate(workload_of(ask, ask.model), slot.offer, ask.able)
    return None


def _in_turn(room: Room, ask: Ask) -> list[Choice]:
    """Return the plans of the first framework that has any; the error has what each lacks.

    On several kinds of cards it is the first that has one for all of them in one job.
    """
    reasons: dict[str, str] = {}
    apart: list[Choice] = []
    for able in (ask.able, *ask.others):
        try:
            found = choose(room, replace(ask, able=able, others=()))
        except PlanError as error:
            reasons[able.name] = "; ".join(str(error).split("\n"))
            continue
        compared = found[0].compared
        if compared is None or compared.together:
            return found
        apart = apart or found
    if apart:
        return apart
    if len(set(reasons.values())) == 1:
        raise PlanError(reasons[ask.able.name])  # It is not the frameworks that stand in the way.
    raise PlanError("\n".join(f"{name}: {text}" for name, text in reasons.items()))


def settled(room: Room, ask: Ask) -> Ask:
    """Return the ask with the framework first that its best plan is for; raises ``PlanError``."""
    return ask.planned_for(choose(room, ask)[0].plan) if ask.others else ask


def places(room: Room, ask: Ask) -> tuple[list[tuple[Slot, ...]], list[str]]:
    """Return where the groups could lie, one slot for each, and why some kinds lie nowhere."""
    found: list[tuple[Slot, ...]] = []
    reasons: list[str] = []
    for wanted in _kinds(room.inventory, ask):
        try:
            found += product(*[find_slots(room, item) for item in wanted])
        except PlanError as error:
            reasons.append(str(error))
    return found, reasons


def _weighed(inventory: Inventory, ask: Ask, choices: list[Choice]) -> list[Choice]:
    """Return the choices with a pool first where the best one's supernode gains too little."""
    best = choices[0]
    if ask.model is None or not in_supernode(inventory, best.slots):
        return choices
    slot = best.slots[0]
    pools = [item for item in choices if _in_pool(inventory, item)]
    alike = [item for item in pools if item.slots[0].group.accelerator == slot.group.accelerator]
    for pool in [*alike, *pools][:1]:
        gain = against(best.plan, pool.plan, pool.slots[0].domains[0])
        if gain and ask.least_gain is not None and gain.share < ask.least_gain:
            return [replace(pool, gain=gain), *(item for item in choices if item is not pool)]
    # What another card is faster by is no merit of the supernode.
    if alike:
        gain = against(best.plan, alike[0].plan, alike[0].slots[0].domains[0])
    elif slot.group.nodes == 1:
        return choices
    else:
        card = inventory.accelerator(slot.group.accelerator)
        plan = as_pool(slot, card, workload_of(ask, ask.model), ask.able)
        gain = against(best.plan, plan, "the same cards in ordinary nodes") if plan else None
    return [replace(best, gain=gain), *choices[1:]]


def _in_pool(inventory: Inventory, choice: Choice) -> bool:
    return len(choice.slots) == 1 and not in_supernode(inventory, choice.slots)


def _rank(choice: Choice, spare: float) -> tuple[bool, float, float]:
    """Return what is less of a better choice; plans that wait for data are all as long."""
    found = choice.plan.predicted
    if found is None:
        return False, 0.0, 0.0
    usable = [usable_gib(slot.offer) for slot in choice.slots]
    return is_tight(found, usable, spare), found.step_time_s, found.worked_s


def _kinds(inventory: Inventory, ask: Ask) -> Iterable[tuple[Wanted, ...]]:
    """Return each assignment of kinds of cards to the groups asked for."""
    limits = ask.limits * len(ask.cards) if len(ask.limits) == 1 else ask.limits
    if len(ask.cards) == 1 and ask.cards[0][0] is None:
        count = ask.cards[0][1]
        each = _devices_per_card(inventory) if ask.open_cards else {}
        return [
            (Wanted(kind, count * each.get(kind, 1), limits[0]),)
            for kind in device_types(inventory)
        ]
    asked = zip(ask.cards, limits, strict=True)
    return [tuple(Wanted(str(kind), n, where) for (kind, n), where in asked)]


def _devices_per_card(inventory: Inventory) -> dict[str, int]:
    return {
        item.type: inventory.accelerator(item.accelerator).devices_per_card
        for nodes in inventory.node_classes
        for item in nodes.devices
    }


def _plans(
    inventory: Inventory,
    ask: Ask,
    slots: tuple[Slot, ...],
    strategy: str = "mixed",
    below_s: float = math.inf,
    keep: int = KEEP,
) -> list[Choice]:
    ask = ask.on(slots)
    if len(slots) > 1:
        _common_fabric(inventory, slots)
    if ask.model is None:
        groups = tuple(slot.group for slot in slots)
        plan = Plan("", ask.global_batch, ask.sequence, ask.able.name, groups)
        return [Choice(plan, slots)]
    for slot in slots:
        if slot.unknown:
            raise PlanError(slot.unknown)
    offers = [slot.offer for slot in slots]
    workload = workload_of(ask, ask.model)
    plans = plan_strategy(strategy, workload, offers, ask.able, keep, below_s)
    return [Choice(plan, _in_order(plan, slots)) for plan in plans]


def workload_of(ask: Ask, model: Model) -> Workload:
    """Return what the planner is asked to train; ``PlanError`` for what is not planned."""
    return Workload(
        model=model,
        sequence=ask.sequence,
        global_batch=ask.global_batch,
        precision=ask.precision,
        exact=ask.exact,
        framework=ask.able.name,
        training=ask.training,
        lora_rank=ask.lora_rank,
        fixed=ask.fixed,
        data_s=ask.data_s,
        reduction=ask.reduction,
        spare=ask.spare,
    )


def _in_order(plan: Plan, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """Return the slots in the order of the plan's groups."""
    return tuple(next(slot for slot in slots if slot.group == group) for group in plan.groups)


def _enough_nodes(room: Room, slots: tuple[Slot, ...]) -> None:
    """Refuse groups that would have to share nodes: each gets nodes of its own."""
    for first, second in combinations(slots, 2):
        mine, others = (set(expand(slot.group.hosts)) for slot in (first, second))
        wanted = first.group.nodes + second.group.nodes
        usable = len((mine | others) & room.view.usable)
        if mine & others and wanted > usable:
            raise PlanError(
                f"{first.group.name} and {second.group.name} take nodes of their own: "
                f"{wanted} nodes wanted, {usable} usable; ask for one of the kinds"
            )


def _common_fabric(inventory: Inventory, slots: tuple[Slot, ...]) -> None:
    """Refuse a job over networks that do not meet."""
    fabrics = {}
    for name in (name for slot in slots for name in slot.domains):
        fabric = inventory.fabric_of(inventory.domain(name).hosts[0])
        fabrics[name] = fabric.name if fabric else "none"
    if len(set(fabrics.values())) > 1 or "none" in fabrics.values():
        shown = ", ".join(f"{name} on {fabric}" for name, fabric in fabrics.items())
        raise PlanError(f"a job never spans networks that do not meet: {shown}")
