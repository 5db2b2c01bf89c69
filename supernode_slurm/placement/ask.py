"""What a user asks, and what is chosen for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..catalogue import Model
from ..plan import Plan
from ..planner import SPARE, Capabilities, Fixed, Workload, is_tight, usable_gib
from .gain import Gain
from .limits import Limits
from .slots import Slot
from .strategy import Compared


@dataclass(frozen=True, slots=True)
class Reached:
    """The best that a framework reaches."""

    framework: str
    step_s: float | None
    """None where the job is placed, not planned."""
    tight: bool = False
    """It leaves less memory than is wished."""


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
    """What is planned for on each maker's cards alone where nobody named a framework."""
    reached: tuple[Reached, ...] = ()
    """What the frameworks reach of which nobody named one, that of ``able`` first."""
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

    @property
    def is_open(self) -> bool:
        """Whether several frameworks compete for the cards, because nobody named one."""
        return bool(self.others) or (len(self.cards) > 1 and bool(self.by_maker))

    def on(self, slots: Sequence[Slot]) -> Ask:
        """Return the ask with what is planned for on these cards, where their kind was open."""
        if len(self.cards) > 1:
            return self
        able = self.by_maker.get(slots[0].group.vendor, self.able)
        return self if able is self.able else replace(self, able=able)

    def doubtful(self, slots: Sequence[Slot]) -> list[str]:
        """Return the makers of these cards that the framework is not known to run on."""
        name = self.on(slots).able.name
        makers = sorted({slot.group.vendor for slot in slots})
        return [maker for maker in makers if name not in self.known.get(maker, (name,))]

    def of(self, able: Capabilities) -> Ask:
        """Return the ask for one framework alone."""
        return replace(self, able=able, others=(), by_maker={})

    def settled_by(self, choice: Choice) -> Ask:
        """Return the ask for the framework of a choice alone, and what the others reach."""
        if not self.is_open:
            return self
        ables = (self.able, *self.others, *self.by_maker.values())
        able = next(able for able in ables if able.name == choice.plan.framework)
        return replace(self.of(able), reached=choice.reached)


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan and where it runs: one slot for each group of the plan, in its order."""

    plan: Plan
    slots: tuple[Slot, ...]
    gain: Gain | None = None
    """What its supernode is worth, where it lies in one."""
    compared: Compared | None = None
    """How its strategy compares, where several kinds of cards were asked for."""
    reached: tuple[Reached, ...] = ()
    """What each framework reaches where nobody named one, that of the plan first."""


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


def rank(choice: Choice, spare: float) -> tuple[bool, float, float]:
    """Return what is less of a better choice; plans that wait for data are all as long."""
    found = choice.plan.predicted
    if found is None:
        return False, 0.0, 0.0
    usable = [usable_gib(slot.offer) for slot in choice.slots]
    return is_tight(found, usable, spare), found.step_time_s, found.worked_s
