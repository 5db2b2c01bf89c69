"""Where a number of devices of one kind could run: one supernode of a class, several, a pool."""

from __future__ import annotations

from dataclasses import dataclass

from .. import hostlist
from ..catalogue import find_accelerator, platform
from ..errors import PlanError
from ..inventory import Devices, Inventory, NodeClass, Pool, Supernode
from ..plan import DeviceGroup
from ..planner import Offer
from .view import View

NODE_LATENCY_NS = 1000.0
"""Between two cards of a node whose interconnect the inventory does not describe: the order
of a small NVLink or PCIe transfer."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Nodes that one group of a job could get."""

    domains: tuple[str, ...]
    """Supernodes of one class, or one pool: alternatives, the best first."""
    spans: bool
    """The group takes several of the domains together, not one of them."""
    partition: str
    devices: Devices
    cpus_per_device: int
    planning_nodes: int
    """Size of the planning block of each domain: its nodes less the spares."""
    offer: Offer

    @property
    def group(self) -> DeviceGroup:
        """Return the group of devices that the plan sees."""
        return self.offer.group


@dataclass(frozen=True, slots=True)
class Wanted:
    """So many devices of one kind, in one partition if the user said which."""

    type: str
    """GRES type."""
    devices: int
    partition: str | None = None


def device_types(inventory: Inventory) -> list[str]:
    """Return the GRES types of the site, in the order written."""
    types = [item.type for nodes in inventory.node_classes for item in nodes.devices]
    return list(dict.fromkeys(types))


def find_slots(inventory: Inventory, wanted: Wanted, view: View) -> list[Slot]:
    """Return the slots that could hold these devices.

    Raises ``PlanError`` with the reason if there is none.
    """
    holders = [
        (domain, nodes, devices)
        for domain in inventory.domains
        for nodes in domain.nodes
        for devices in nodes.devices
        if devices.type == wanted.type
    ]
    if not holders:
        known = ", ".join(device_types(inventory))
        raise PlanError(f"no device of type '{wanted.type}' at this site; it has {known}")
    found: list[Slot] = []
    reasons: list[str] = []
    for alike in _classes(holders):
        slot, reason = _class_slot(inventory, wanted, view, alike)
        if slot is not None:
            found.append(slot)
        reasons.append(reason)
    if not found:
        raise PlanError(f"no place for {wanted.devices} {wanted.type}: {'; '.join(reasons)}")
    return found


Holder = tuple[Supernode | Pool, NodeClass, Devices]


def _classes(holders: list[Holder]) -> list[list[Holder]]:
    """Return supernodes of one shape together, every pool alone."""
    groups: dict[object, list[Holder]] = {}
    for domain, nodes, devices in holders:
        key: object = domain.name
        if isinstance(domain, Supernode):
            key = (domain.interconnect, len(domain.hosts), domain.spares, devices)
        groups.setdefault(key, []).append((domain, nodes, devices))
    return list(groups.values())


def _class_slot(
    inventory: Inventory, wanted: Wanted, view: View, alike: list[Holder]
) -> tuple[Slot | None, str]:
    """Return the slot of a class of domains, or why it has none."""
    devices = alike[0][2]
    names = ", ".join(domain.name for domain, _, _ in alike)
    nodes, per_node = _shape(wanted.devices, devices.count)
    if nodes == 0:
        return None, f"{names}: {wanted.devices} is no multiple of {devices.count} per node"
    partition, members = _partition(inventory, wanted.partition, [d.name for d, _, _ in alike])
    alike = [holder for holder in alike if holder[0].name in members]
    if partition is None:
        where = f"partition {wanted.partition}" if wanted.partition else "any partition"
        return None, f"{names}: not in {where}"
    usable = {d.name: [h for h in n.hosts if h in view.usable] for d, n, _ in alike}
    free = {d.name: sum(h in view.free for h in n.hosts) for d, n, _ in alike}
    fitting = [holder for holder in alike if len(usable[holder[0].name]) >= nodes]
    # Best fit: the fewest free nodes that suffice now; those without room now come last.
    fitting.sort(key=lambda h: (free[h[0].name] < nodes, free[h[0].name], h[0].name))
    spans = not fitting and isinstance(alike[0][0], Supernode)
    if spans and sum(map(len, usable.values())) >= nodes:
        fitting = alike
    if not fitting:
        most = max(map(len, usable.values()), default=0)
        return None, f"{names}: {nodes} nodes wanted, {most} usable"
    return _slot(inventory, fitting, (nodes, per_node), (partition, spans)), ""


def _shape(devices: int, per_node: int) -> tuple[int, int]:
    """Return (nodes, devices per node), (0, 0) where whole nodes do not give the number."""
    if devices <= per_node:
        return 1, devices
    return (devices // per_node, per_node) if devices % per_node == 0 else (0, 0)


def _partition(
    inventory: Inventory, asked: str | None, names: list[str]
) -> tuple[str | None, set[str]]:
    """Return the partition that holds most of these domains, and which of them it holds."""
    best: tuple[str | None, set[str]] = (None, set())
    for partition in inventory.partitions:
        held = set(names) & set(partition.members)
        if (asked is None or partition.name == asked) and len(held) > len(best[1]):
            best = (partition.name, held)
    return best


def _slot(
    inventory: Inventory,
    holders: list[Holder],
    shape: tuple[int, int],
    place: tuple[str, bool],
) -> Slot:
    (domain, nodes, devices), (partition, spans) = holders[0], place
    folded = tuple(hostlist.fold(part.hosts, sort=False) for _, part, _ in holders)
    accelerator = find_accelerator(devices.accelerator)
    group = DeviceGroup(
        name=devices.type,
        accelerator=accelerator.id,
        vendor=accelerator.vendor,
        visible_env=platform(accelerator.vendor).visible_env,
        gres=devices.gres,
        hosts=",".join(folded),
        nodes=shape[0],
        devices_per_node=shape[1],
        domains=() if spans or len(folded) == 1 else folded,
    )
    return Slot(
        domains=tuple(holder[0].name for holder in holders),
        spans=spans,
        partition=partition,
        devices=devices,
        cpus_per_device=max(nodes.sockets * nodes.cores * nodes.threads // nodes.device_count, 1),
        planning_nodes=domain.planning_nodes,
        offer=_offer(inventory, domain, group, nodes.device_count),
    )


def _offer(
    inventory: Inventory, domain: Supernode | Pool, group: DeviceGroup, node_devices: int
) -> Offer:
    accelerator = find_accelerator(group.accelerator)
    fabric = inventory.fabric_of(domain.hosts[0])
    network_gbs = fabric.node_gbs if fabric else 0.0
    if isinstance(domain, Supernode):
        link, domain_nodes = domain.interconnect, max(domain.planning_nodes, group.nodes)
        domain_nodes = min(domain_nodes, len(domain.hosts))
        return Offer(
            group=group,
            accelerator=accelerator,
            domain_nodes=domain_nodes,
            scale_up_gbs=link.bandwidth_gbs,
            scale_up_latency_ns=link.latency_ns,
            network_gbs=network_gbs,
            node_devices=node_devices,
        )
    if accelerator.scale_up_gbs is None:
        raise PlanError(
            f"nobody has said how fast {accelerator.id} cards of one node reach each other: "
            f"declare '{domain.name}' as supernodes of one node with their interconnect"
        )
    return Offer(
        group=group,
        accelerator=accelerator,
        domain_nodes=1,
        scale_up_gbs=accelerator.scale_up_gbs,
        scale_up_latency_ns=NODE_LATENCY_NS,
        network_gbs=network_gbs,
        node_devices=node_devices,
    )
