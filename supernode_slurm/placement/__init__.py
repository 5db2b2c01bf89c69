"""A plan and a cluster: which nodes."""

from .choose import Ask, Choice, choose, compare_alone
from .slots import Room, Slot, device_types
from .span import Span
from .view import View, inventory_view, live_view

__all__ = [
    "Ask",
    "Choice",
    "Room",
    "Slot",
    "Span",
    "View",
    "choose",
    "compare_alone",
    "device_types",
    "inventory_view",
    "live_view",
]
