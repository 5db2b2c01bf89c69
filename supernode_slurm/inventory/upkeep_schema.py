"""The part of an inventory that keeps a room true, as a person writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from .fields import (
    Component,
    Count,
    Date,
    HostList,
    HostPattern,
    Name,
    OneOf,
    Period,
    Power,
    Remark,
    RuleName,
    VersionText,
    Word,
)
from .placed import Placed

COOLINGS = ("air", "rear-door", "cold-plate", "liquid", "immersion")
REDUNDANCIES = ("none", "N+1", "N+N")


@dataclass(slots=True, kw_only=True)
class FeedSection(Placed):
    """An electrical supply; ``source`` is the feed, or the redundant feeds, it hangs on."""

    name: HostList
    power: Power
    source: list[Name] | Name = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ShelvesSection(Placed):
    """Power shelves, or power supplies, of a rack."""

    count: Count
    power: Power
    """Of each."""
    redundancy: Annotated[str, OneOf(REDUNDANCIES)] = "none"


@dataclass(slots=True, kw_only=True)
class CoolingSection(Placed):
    """What takes the heat of a rack away, and how much of it."""

    kind: Annotated[str, OneOf(COOLINGS)]
    liquid: Power | None = None
    air: Power | None = None
    """Also where the liquid has failed."""


@dataclass(slots=True, kw_only=True)
class EquipmentSection(Placed):
    """What draws power in a rack besides nodes."""

    count: Count = 1
    power: Power
    """Of each."""


@dataclass(slots=True, kw_only=True)
class RackSection(Placed):
    """A rack, or a class of equal ones (``name: r[1-4]``); ``power`` is the budget of each."""

    name: HostList
    hosts: HostPattern
    power: Power | None = None
    shelves: ShelvesSection | None = None
    cooling: Annotated[str, OneOf(COOLINGS)] | CoolingSection | None = None
    equipment: dict[Word, EquipmentSection] = field(default_factory=dict)
    """Switch trays, losses of shelves and the like."""
    feeds: list[Name] | Name = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class NodePowerSection(Placed):
    """The power of one node."""

    most: Power | None = None
    """With its cards at full load."""
    host: Power | None = None
    """Without its cards, at full load."""
    idle: Power | None = None


@dataclass(slots=True, kw_only=True)
class MaintenanceSection(Placed):
    """Care that comes back."""

    name: Word
    on: list[HostList] | HostList = field(default_factory=list)
    """Supernodes, pools, racks, fabrics or hosts; none for the whole room."""
    every: Period
    last: Date | None = None


@dataclass(slots=True, kw_only=True)
class AcceptSection(Placed):
    """A finding of ``sn check`` that the site lives with."""

    rule: RuleName
    on: list[HostList] | HostList = field(default_factory=list)
    """What the finding is about; none for all."""
    why: Remark
    until: Date | None = None


@dataclass(slots=True, kw_only=True)
class AbsentSection(Placed):
    """Hosts that no source showed any more."""

    hosts: HostList
    since: Date


@dataclass(slots=True, kw_only=True)
class DerateSection(Placed):
    """Supernodes or pools whose cards run under a power cap."""

    on: HostList
    cap: Power
    """Of one card."""


Versions = dict[Component, dict[VersionText, HostList]]
"""The hosts of each version of each component."""
