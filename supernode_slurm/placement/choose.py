"""From what the user asks to plans with a place, the fastest first."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations, product

from ..catalogue import Model
from ..errors import PlanError
from ..hostlist import expand
from ..inventory import Inventory
from ..plan import Plan
from ..planner import Capabilities, Fixed, Workload, alone, plan_mixed
from .gain import Gain, against, as_pool, in_supernode
from .limits import Limits
from .slots import Room, Slot, Wanted, device_types, find_slots


@dataclass(frozen=True, slots=True)
class Ask:
    """What a user wants to run."""

    cards: tuple[tuple[str | None, int], ...]
    """(GRES type, devices) of each group; the type None leaves the kind open."""
    able: Capabilities
    """What the training framework can run."""
    open_cards: bool = False
    """The number of an open kind counts cards, of which each may hold several devices."""
    model: Model | None = None
    sequence: int = 4096
    global_batch: int = 1024
    precision: str = "bf16"
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
    prefer: str | None = None
    """The partition that the site's policy wants for this job, if a plan fits there."""
    notes: tuple[str, ...] = ()
    """What the user should know about how the words were read."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan and where it runs: one slot for each group of the plan, in its order."""

    plan: Plan
    slots: tuple[Slot, ...]
    gain: Gain | None = None
    """What its supernode is worth, where it lies in one."""


def choose(room: Room, ask: Ask) -> list[Choice]:
    """Return plans with their slots, the fastest predicted first.

    Without a model the devices are placed and not planned. Raises ``PlanError`` with
    every reason if nothing fits.
    """
    if ask.model is not None:
        workload_of(ask, ask.model)  # Refused once for what is planned nowhere, not by each place.
    if ask.prefer is not None and not ask.limits[0].partitions:
        preferred = tuple(replace(item, partitions=(ask.prefer,)) for item in ask.limits)
        with suppress(PlanError):
            return choose(room, replace(ask, limits=preferred, prefer=None))
    choices: list[Choice] = []
    found, reasons = places(room, ask)
    for slots in found:
        try:
            _enough_nodes(room, slots)
            choices += _plans(room.inventory, ask, slots)
        except PlanError as error:
            where = " + ".join(slot.domains[0] for slot in slots)
            reasons.append(f"{where}: {error}")
    if not choices:
        raise PlanError("\n".join(dict.fromkeys(reasons)))
    return _weighed(room.inventory, ask, sorted(choices, key=_step_time))


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
    pool = next((item for item in choices if _in_pool(inventory, item)), None)
    if pool is not None:
        gain = against(best.plan, pool.plan, pool.slots[0].domains[0])
    elif (slot := best.slots[0]).group.nodes == 1:
        return choices
    else:
        card = inventory.accelerator(slot.group.accelerator)
        plan = as_pool(slot, card, workload_of(ask, ask.model), ask.able)
        gain = against(best.plan, plan, "the same cards in ordinary nodes") if plan else None
    if gain is None:
        return choices
    if pool is not None and ask.least_gain is not None and gain.share < ask.least_gain:
        return [replace(pool, gain=gain), *(item for item in choices if item is not pool)]
    return [replace(best, gain=gain), *choices[1:]]


def _in_pool(inventory: Inventory, choice: Choice) -> bool:
    return len(choice.slots) == 1 and not in_supernode(inventory, choice.slots)


def _step_time(choice: Choice) -> float:
    return choice.plan.predicted.step_time_s if choice.plan.predicted else 0.0


def remarks(inventory: Inventory, ask: Ask, choice: Choice) -> list[str]:
    """Return what the user should know about a choice, in words."""
    found = [
        *_worth(inventory, ask, choice),
        *_compare_alone(ask, choice),
        *_apart(choice),
        *_calibrated(inventory, choice),
    ]
    devices = choice.plan.devices
    if ask.open_cards and devices != ask.cards[0][1]:
        found.insert(
            0, f"{ask.cards[0][1]} {choice.plan.groups[0].name} cards are {devices} devices"
        )
    if ask.prefer is not None and all(slot.partition == ask.prefer for slot in choice.slots):
        return [f"partition {ask.prefer}: the site's policy for a job of this size", *found]
    return found


def _worth(inventory: Inventory, ask: Ask, choice: Choice) -> list[str]:
    """Return what the supernode gains for this job, or why it went to a pool."""
    if choice.gain is None:
        return []
    if in_supernode(inventory, choice.slots):
        return [f"supernode {choice.slots[0].shown}: {choice.gain}"]
    least = f"{ask.least_gain or 0:.0%}"
    return [f"to the pool: a supernode gains {choice.gain.share:+.0%}, the policy wants {least}"]


def _calibrated(inventory: Inventory, choice: Choice) -> list[str]:
    """Return whose constants the prediction stands on, if not the catalogue's."""
    if choice.plan.predicted is None or not any(slot.offer.calibration for slot in choice.slots):
        return []
    own = inventory.calibration
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


def _compare_alone(ask: Ask, choice: Choice) -> list[str]:
    """Return what each group of a mixed plan would reach without the others, in words."""
    if ask.model is None or choice.plan.predicted is None or len(choice.slots) < 2:
        return []
    mixed = choice.plan.predicted.step_time_s
    found = []
    offers = [slot.offer for slot in choice.slots]
    for slot, plan in zip(
        choice.slots, alone(workload_of(ask, ask.model), offers, ask.able), strict=True
    ):
        name = f"{slot.group.devices} {slot.group.name} alone"
        if plan is None or plan.predicted is None:
            found.append(f"{name}: the model does not fit")
            continue
        seconds = plan.predicted.step_time_s
        faster = ": faster" if seconds < mixed else ""
        found.append(f"{name}: {seconds:.2f} s a step, {seconds / mixed:.2f} x the mix{faster}")
    return found


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


def _plans(inventory: Inventory, ask: Ask, slots: tuple[Slot, ...]) -> list[Choice]:
    if len(slots) > 1:
        _common_fabric(inventory, slots)
    if ask.model is None:
        groups = tuple(slot.group for slot in slots)
        plan = Plan("", ask.global_batch, ask.sequence, ask.able.name, groups)
        return [Choice(plan, slots)]
    for slot in slots:
        if slot.unknown:
            raise PlanError(slot.unknown)
    plans = plan_mixed(workload_of(ask, ask.model), [slot.offer for slot in slots], ask.able)
    return [Choice(plan, _in_order(plan, slots)) for plan in plans]


def workload_of(ask: Ask, model: Model) -> Workload:
    """Return what the planner is asked to train; ``PlanError`` for what is not planned."""
    return Workload(
        model=model,
        sequence=ask.sequence,
        global_batch=ask.global_batch,
        precision=ask.precision,
        framework=ask.able.name,
        training=ask.training,
        lora_rank=ask.lora_rank,
        fixed=ask.fixed,
        data_s=ask.data_s,
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
