"""A plan and a cluster: which nodes."""

from .choose import Ask, Choice, choose, remarks
from .gain import Gain
from .limits import Limits
from .slots import Room, Slot, describe, device_types
from .span import Span
from .view import View, inventory_view, live_view

__all__ = [
    "Ask",
    "Choice",
    "Gain",
    "Limits",
    "Room",
    "Slot",
    "Span",
    "View",
    "choose",
    "describe",
    "device_types",
    "inventory_view",
    "live_view",
    "remarks",
]
