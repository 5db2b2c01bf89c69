"""What the machine room holds: the file's schema, its loader, the expanded model."""

from .load import load, loads
from .model import (
    Devices,
    Fabric,
    Interconnect,
    Inventory,
    NodeClass,
    Partition,
    Policy,
    Pool,
    Rack,
    Supernode,
    Switch,
)

__all__ = [
    "Devices",
    "Fabric",
    "Interconnect",
    "Inventory",
    "NodeClass",
    "Partition",
    "Policy",
    "Pool",
    "Rack",
    "Supernode",
    "Switch",
    "load",
    "loads",
]
