"""What the machine room holds: the file's schema, its loader, the expanded model."""

from .calibration import Calibration, Compared
from .cards import GresDevice, gres_devices
from .lint import Finding, lint
from .load import load, loads
from .model import (
    Devices,
    Fabric,
    Foreign,
    Interconnect,
    Inventory,
    Network,
    NodeClass,
    OtherGres,
    Partition,
    Policy,
    Pool,
    Price,
    Rack,
    SlurmSettings,
    Supernode,
    Switch,
)

__all__ = [
    "Calibration",
    "Compared",
    "Devices",
    "Fabric",
    "Finding",
    "Foreign",
    "GresDevice",
    "Interconnect",
    "Inventory",
    "Network",
    "NodeClass",
    "OtherGres",
    "Partition",
    "Policy",
    "Pool",
    "Price",
    "Rack",
    "SlurmSettings",
    "Supernode",
    "Switch",
    "gres_devices",
    "lint",
    "load",
    "loads",
]
