"""What keeps a room true: its power, what runs on its nodes, its care, what was accepted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from ..errors import Where


@dataclass(frozen=True, slots=True)
class Feed:
    """An electrical supply: of a rack, or of other feeds."""

    name: str
    power_w: float
    """What it is rated for."""
    sources: tuple[str, ...]
    """The feeds that it hangs on; each of several carries all of it when the others fail."""
    where: Where


@dataclass(frozen=True, slots=True)
class Cooling:
    """What takes the heat of a rack away."""

    kind: str
    """One of ``upkeep_schema.COOLINGS``."""
    liquid_w: float | None = None
    """What the liquid takes, None where nobody has said."""
    air_w: float | None = None
    """What the air takes, also where the liquid has failed; None where nobody has said."""


@dataclass(frozen=True, slots=True)
class Equipment:
    """What draws power in a rack besides nodes: switch trays, losses of power shelves."""

    name: str
    count: int
    power_w: float
    """Of each."""


@dataclass(frozen=True, slots=True)
class Rack:
    """Where nodes stand, what power they may draw, what cools them."""

    name: str
    hosts: tuple[str, ...]
    power_w: float | None
    """Budget of the whole rack as written."""
    shelves_w: float | None
    """What its power shelves deliver when those of the redundancy have failed."""
    cooling: Cooling | None
    equipment: tuple[Equipment, ...]
    feeds: tuple[str, ...]
    """The feeds of the rack; each of several carries all of it when the others fail."""
    where: Where

    @property
    def budget_w(self) -> float | None:
        """Return what the rack may draw: the least of what is known, None for nothing."""
        return min((w for w in (self.power_w, self.shelves_w) if w is not None), default=None)


@dataclass(frozen=True, slots=True)
class NodePower:
    """The power of one node in watts; None where nobody has said."""

    most_w: float | None = None
    """Of the whole node with its cards at full load."""
    host_w: float | None = None
    """Of the node without its cards at full load."""
    idle_w: float | None = None
    """Of the whole node that does nothing."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A version of a component, and the hosts that have it."""

    component: str
    version: str
    hosts: tuple[str, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Care that comes back."""

    name: str
    on: tuple[str, ...]
    """Supernodes, pools, racks, fabrics or hosts; none for the whole room."""
    every_days: float
    last: date | None
    where: Where


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A finding that the site lives with."""

    rule: str
    on: tuple[str, ...]
    """Names that the finding must be about; none for all."""
    why: str
    until: date | None
    where: Where


@dataclass(frozen=True, slots=True)
class Absent:
    """Hosts that no source showed any more."""

    hosts: tuple[str, ...]
    since: date
    where: Where


@dataclass(frozen=True, slots=True)
class Derate:
    """A supernode or pool whose cards run under a power cap."""

    domain: str
    cap_w: float
    """Of one card."""
    where: Where


@dataclass(frozen=True, slots=True)
class Upkeep:
    """All of it."""

    feeds: tuple[Feed, ...] = ()
    """Sources before the feeds that hang on them."""
    installed: tuple[Installed, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()
    accepted: tuple[Acceptance, ...] = ()
    absent: tuple[Absent, ...] = ()
    derated: tuple[Derate, ...] = ()

    def cap_w(self, domain: str) -> float | None:
        """Return the power cap of a supernode's or pool's cards, None for none."""
        return next((item.cap_w for item in self.derated if item.domain == domain), None)
