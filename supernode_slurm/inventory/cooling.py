"""What cooling takes of a rack, as the inventory says or as it is usually taken to be."""

from __future__ import annotations

from dataclasses import dataclass

from .upkeep import Cooling

AIR_W = 30e3
"""Most that air takes of a rack in practice (flashgenius.net, guide to power and cooling: 25 to 30
kW); with aggressive air flow 40 kW are printed, in an ordinary room 10 to 15."""

DIRECT_LIQUID_W = 120e3
"""Most that direct liquid cooling takes of a rack (the same guide: 50 to 120 kW); racks of 190 kW
and more are sold with cooling of their own, so that this default says too little of them."""

_DEFAULT_LIQUID_W = {"air": 0.0, "cold-plate": DIRECT_LIQUID_W, "liquid": DIRECT_LIQUID_W}
"""Of rear doors and immersion nobody has printed a figure for all of them."""

_DEFAULT_AIR_W = {"liquid": 0.0, "immersion": 0.0}
"""Where all of a node is in the liquid, no air reaches it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit in watts, and where it comes from."""

    w: float
    source: str
    is_default: bool
    """A part of it is not the inventory's."""


def cooling_limit(cooling: Cooling | None) -> Limit | None:
    """Return what the cooling of a rack takes, liquid and air together; None for unknown."""
    if cooling is None:
        return None
    liquid_w, air_w = cooling.liquid_w, cooling.air_w
    if cooling.kind == "immersion" and liquid_w is not None and air_w is None:
        return Limit(liquid_w, "the inventory", False)
    taken = _DEFAULT_LIQUID_W.get(cooling.kind) if liquid_w is None else liquid_w
    if taken is None:
        return None
    default = air_w is None or (liquid_w is None and cooling.kind != "air")
    whole = taken + air_limit(cooling).w
    return Limit(whole, _source(cooling, default), default)


def air_limit(cooling: Cooling | None) -> Limit:
    """Return what the air takes of a rack when its liquid has failed."""
    if cooling is not None and cooling.air_w is not None:
        return Limit(cooling.air_w, "the inventory", False)
    kind = cooling.kind if cooling else "air"
    watts = _DEFAULT_AIR_W.get(kind, AIR_W)
    return Limit(watts, "the usual figure for air" if watts else f"{kind}: no air", True)


def _source(cooling: Cooling, default: bool) -> str:
    return f"the usual figure for {cooling.kind}" if default else "the inventory"
