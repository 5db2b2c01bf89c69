"""What the machine room holds: the file's schema, its loader, the expanded model."""

from .lint import Finding, lint
from .load import load, loads
from .model import (
    Devices,
    Fabric,
    Foreign,
    Interconnect,
    Inventory,
    NodeClass,
    Partition,
    Policy,
    Pool,
    Rack,
    SlurmSettings,
    Supernode,
    Switch,
)

__all__ = [
    "Devices",
    "Fabric",
    "Finding",
    "Foreign",
    "Interconnect",
    "Inventory",
    "NodeClass",
    "Partition",
    "Policy",
    "Pool",
    "Rack",
    "SlurmSettings",
    "Supernode",
    "Switch",
    "lint",
    "load",
    "loads",
]
