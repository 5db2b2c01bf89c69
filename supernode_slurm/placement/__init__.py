"""A plan and a cluster: which nodes."""

from .ask import Ask, Choice, Reached, workload_of
from .choose import choose, places, settled
from .gain import Gain, in_supernode, mesh_words, ordinary_offer
from .limits import Limits
from .remarks import calibrated, doubts, remarks
from .slots import Room, Slot, Wanted, describe, device_types, find_slots, meshed
from .span import Span
from .strategy import STRATEGIES, Compared, strategy_words
from .view import View, inventory_view, live_view

__all__ = [
    "STRATEGIES",
    "Ask",
    "Choice",
    "Compared",
    "Gain",
    "Limits",
    "Reached",
    "Room",
    "Slot",
    "Span",
    "View",
    "Wanted",
    "calibrated",
    "choose",
    "describe",
    "device_types",
    "doubts",
    "find_slots",
    "in_supernode",
    "inventory_view",
    "live_view",
    "mesh_words",
    "meshed",
    "ordinary_offer",
    "places",
    "remarks",
    "settled",
    "strategy_words",
    "workload_of",
]
