"""A plan and a cluster: which nodes."""

from .choose import Ask, Choice, choose
from .slots import Slot, device_types
from .view import View, inventory_view, live_view

__all__ = [
    "Ask",
    "Choice",
    "Slot",
    "View",
    "choose",
    "device_types",
    "inventory_view",
    "live_view",
]
