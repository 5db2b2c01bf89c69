"""TRESBillingWeights: what a job is billed for, by what its cards deliver.

The unit is one TFLOPS of dense bf16 matrix multiplication as delivered: an H100 counts 794
and an A100 271. Slurm cuts a job's sum to a whole number, so a coarser unit would give
parts of a card away. CPUs and memory count nothing: a job takes the share that comes with
its cards. Partitions without cards keep Slurm's default, which is CPUs.
"""

from __future__ import annotations

from collections import Counter

from ..errors import ConfigError, Problem
from ..inventory import GresDevice, Inventory, Partition, gres_devices

_SEVENTHS = 7


def billing_weights(inventory: Inventory, partition: Partition) -> str:
    """Return the weights of the cards of a partition, empty where none are wanted.

    A partition with one kind of card bills the GRES whatever its type. With several kinds
    each type has its weight, and a job that names none is billed for what it got (seen on
    22.05 with slurmdbd; slurm.conf(5), AccountingStorageTRES, promises less).
    Raises ``ConfigError`` for a card that nobody has given a rate.
    """
    if not inventory.slurm.billing:
        return ""
    held = set(partition.hosts)
    weights: dict[tuple[str, str], float] = {}
    for domain in map(inventory.domain, partition.members):
        for nodes in domain.nodes:
            if held.isdisjoint(nodes.hosts):
                continue
            for device in gres_devices(nodes.devices):
                weight = _weight(inventory, device, partition)
                weights[device.gres, device.type] = weight
                if device.shards:
                    # Slurm picks the card: where kinds differ, a share costs what the best does.
                    share = max(weights.get(("shard", ""), 0.0), weight / device.shards)
                    weights["shard", ""] = share
    kinds = Counter(name for name, _ in weights)
    found = {
        f"GRES/{name}:{kind}" if kinds[name] > 1 else f"GRES/{name}": weight
        for (name, kind), weight in weights.items()
    }
    return ",".join(f"{name}={weight:.0f}" for name, weight in sorted(found.items()))


def _weight(inventory: Inventory, device: GresDevice, partition: Partition) -> float:
    rate = inventory.accelerator(device.accelerator).matmul_tflops("bf16")
    if rate is None:
        what = (
            f"partition {partition.name} bills {device.accelerator}, which has no known bf16 rate"
        )
        todo = "give the partition its own TRESBillingWeights under 'options'"
        raise ConfigError([Problem(partition.where, what, todo)])
    return rate * (device.slices or _SEVENTHS) / _SEVENTHS
