"""Why nothing fits, in words."""

from __future__ import annotations

from ..errors import PlanError
from .device import Device
from .workload import Offer, Workload


class Shortage:
    """The least memory that any layout needed, and what else stood in the way."""

    def __init__(self) -> None:
        self.least_gib: float | None = None
        self.indivisible = False

    def note(self, needed_gib: float) -> None:
        """Record a layout that did not fit."""
        self.least_gib = min(needed_gib, self.least_gib or needed_gib)

    def error(self, workload: Workload, offer: Offer, device: Device) -> PlanError:
        """Return the error that tells what is missing, per device, and what would help."""
        name, count = offer.accelerator.id, offer.devices
        if self.least_gib is not None:
            return PlanError(
                f"{workload.model.name} does not fit on {count} x {name}: every layout needs "
                f"at least {self.least_gib:.1f} GiB per device, a training process gets "
                f"{device.memory_bytes / 2**30:.1f} of {offer.accelerator.memory_gib:g} GiB; "
                "take more devices, devices with more memory, or shorter sequences"
            )
        if self.indivisible:
            return PlanError(
                f"a global batch of {workload.global_batch} does not divide over {count} x "
                f"{name} in any layout that {workload.framework} runs; "
                f"take a multiple of {count}, or another number of devices"
            )
        return PlanError(
            f"{workload.framework} has no layout for {workload.model.name} "
            f"({workload.model.layers} layers, {workload.model.heads} heads) on {count} x {name}; "
            "take another number of devices, or a framework with uneven stages"
        )
