"""What the machine room holds: the file's schema, its loader, the expanded model."""

from .lint import Finding, lint
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
    "Finding",
    "Interconnect",
    "Inventory",
    "NodeClass",
    "Partition",
    "Policy",
    "Pool",
    "Rack",
    "Supernode",
    "Switch",
    "lint",
    "load",
    "loads",
]
