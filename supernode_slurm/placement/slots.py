"""Where a number of devices of one kind could run: one supernode of a class, several, a pool."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .. import hostlist
from ..catalogue import Accelerator, capped, platform
from ..errors import PlanError
from ..inventory import Devices, Inventory, NodeClass, Pool, Supernode
from ..plan import DeviceGroup
from ..planner import Offer
from .limits import Limits
from .network import network_environment
from .span import Span, span
from .view import View

NODE_LATENCY_NS = 1000.0
"""Between two cards of a node whose interconnect the inventory does not describe: the order
of a small NVLink or PCIe transfer."""
POOL = "switch"
"""How the cards of a node are taken to be wired; those with links of their own say so."""
_SHOWN_APART = 4
"""More domains than this are shown folded, like host names."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a job is placed in: the inventory, what of it can be used, and how Slurm sees it."""

    inventory: Inventory
    view: View
    blocks: frozenset[str] = frozenset()
    """Partitions whose jobs Slurm places by topology/block."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """So many devices of one kind, and where they may be."""

    type: str
    """GRES type."""
    devices: int
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Slot:
    """Nodes that one group of a job could get."""

    domains: tuple[str, ...]
    """Supernodes of one class, or one pool: alternatives, the best first; or all that it spans."""
    span: Span | None
    """How the group lies over several domains; None where it lies within one of them."""
    partition: str
    devices: Devices
    alone: bool
    """No other nodes of the partition have such devices."""
    cpus_per_device: int
    node_cpus: int
    memory_mib: int
    """The share of a node's memory that belongs to the devices used on it."""
    planning_nodes: int
    """Size of the planning block of each domain: its nodes less the spares."""
    offer: Offer
    unknown: str = ""
    """Which figure nobody has said, so that a job here can be placed and not planned."""

    @property
    def group(self) -> DeviceGroup:
        """Return the group of devices that the plan sees."""
        return self.offer.group

    @property
    def shown(self) -> str:
        """Return the domains for a person: the alternatives, or all that it spans."""
        if len(self.domains) > _SHOWN_APART:
            return hostlist.fold(self.domains)
        return ("|" if self.span is None else "&").join(self.domains)

    @property
    def node_devices(self) -> int:
        """Return the number of devices of one node, of all kinds."""
        return self.offer.node_devices


@dataclass(frozen=True, slots=True)
class _Holder:
    """A domain that has such devices, and the hosts that have enough of them."""

    domain: Supernode | Pool
    nodes: NodeClass
    devices: Devices
    hosts: tuple[str, ...]
    per_node: int

    def shape(self, inventory: Inventory) -> object:
        """Return what must be equal for a job not to mind which of two domains it gets."""
        if isinstance(self.domain, Pool):
            return self.domain.name
        fabric = inventory.fabric_of(self.hosts[0])
        nodes = self.nodes
        size = (nodes.sockets, nodes.cores, nodes.threads, nodes.memory_mib, nodes.network)
        link = (self.domain.interconnect, len(self.hosts), self.domain.spares)
        return (self.devices, size, link, fabric.name if fabric else "")


def device_types(inventory: Inventory) -> list[str]:
    """Return the GRES types of the site, in the order written."""
    devices = (item for nodes in inventory.node_classes for item in nodes.devices)
    types = [item.type for item in devices if item.is_whole]
    return list(dict.fromkeys(types))


def find_slots(room: Room, wanted: Wanted) -> list[Slot]:
    """Return the slots that could hold these devices.

    Raises ``PlanError`` with the reason if there is none.
    """
    holders, reasons = _holders(room.inventory, wanted)
    if not holders and not reasons:
        known = ", ".join(device_types(room.inventory))
        raise PlanError(f"no device of type '{wanted.type}' at this site; it has {known}")
    found, refused = _in_classes(room, wanted, holders, by_speed=True)
    if not found and any(room.inventory.upkeep.cap_w(item.domain.name) for item in holders):
        # Cards under a power cap and others: all as fast as the slowest.
        found, refused = _in_classes(room, wanted, holders, by_speed=False)
    if not found:
        refused = [*reasons, *refused]
        raise PlanError(f"no place for {wanted.devices} {wanted.type}: {'; '.join(refused)}")
    return found


def _in_classes(
    room: Room, wanted: Wanted, holders: list[_Holder], by_speed: bool
) -> tuple[list[Slot], list[str]]:
    """Return the slots of each class of equal domains, and why the other classes have none."""
    classes: dict[object, list[_Holder]] = {}
    for holder in holders:
        cap_w = room.inventory.upkeep.cap_w(holder.domain.name) if by_speed else None
        classes.setdefault((holder.shape(room.inventory), cap_w), []).append(holder)
    found: list[Slot] = []
    reasons: list[str] = []
    for alike in classes.values():
        try:
            found.append(_slot(room, wanted, alike, holders))
        except PlanError as error:
            names = ", ".join(holder.domain.name for holder in alike)
            reasons.append(f"{names}: {error}")
    return found, reasons


def _holders(inventory: Inventory, wanted: Wanted) -> tuple[list[_Holder], list[str]]:
    """Return the domains with such devices, and why others that have them are none."""
    found, reasons = [], []
    for domain in inventory.domains:
        parts = [
            (nodes, devices)
            for nodes in domain.nodes
            for devices in nodes.devices
            if devices.type == wanted.type and devices.is_whole
        ]
        if not parts:
            continue
        nodes, devices = max(parts, key=lambda part: part[1].count)
        per_node = min(wanted.devices, devices.count)
        if wanted.limits.nodes or wanted.limits.per_node:
            try:
                per_node = wanted.limits.devices_on_node(wanted.devices, devices.count)
            except PlanError as error:
                of_all = devices.count < (wanted.limits.per_node or 0) <= nodes.device_count
                own = "; plans give each kind nodes of its own" if of_all else ""
                reasons.append(f"{domain.name}: {error}{own}")
                continue
        hosts = tuple(host for part, item in parts if item.count >= per_node for host in part.hosts)
        found.append(_Holder(domain, nodes, devices, hosts, per_node))
    return found, reasons


def _slot(room: Room, wanted: Wanted, alike: list[_Holder], all_: list[_Holder]) -> Slot:
    """Return the slot of a class of domains; ``PlanError`` says why it has none."""
    count, more = divmod(wanted.devices, alike[0].per_node)
    if more:
        raise PlanError(_uneven(wanted.devices, alike[0].per_node))
    partition, alike = _partition(room, wanted.limits, _allowed(wanted.limits, alike), count)
    usable = {h.domain.name: len(room.view.usable.intersection(h.hosts)) for h in alike}
    free = {h.domain.name: len(room.view.free.intersection(h.hosts)) for h in alike}
    segment = wanted.limits.segment
    whole = segment is None or segment >= count or isinstance(alike[0].domain, Pool)
    fitting = [holder for holder in alike if whole and usable[holder.domain.name] >= count]
    # Best fit: the fewest free nodes that suffice now; those without room now come last.
    fitting.sort(key=lambda h: (free[h.domain.name] < count, free[h.domain.name], h.domain.name))
    over = None
    if not fitting and isinstance(alike[0].domain, Supernode) and sum(usable.values()) >= count:
        most = min(alike[0].domain.planning_nodes, segment or count)
        over = span(count, most, usable, free)
        chosen = set(usable) if partition in room.blocks else set(over.counts)
        fitting = sorted((h for h in alike if h.domain.name in chosen), key=lambda h: h.domain.name)
    if not fitting:
        joined = sum if isinstance(alike[0].domain, Supernode) else max
        raise PlanError(f"{count} nodes wanted, {joined(usable.values())} usable")
    mine = {host for holder in fitting for host in holder.hosts}
    held = set(room.inventory.partition(partition).hosts)
    others = {host for holder in all_ for host in holder.hosts if host in held}
    nodes = fitting[0].nodes
    offer = _offer(room.inventory, fitting, count, over)
    return Slot(
        domains=tuple(holder.domain.name for holder in fitting),
        span=over,
        partition=partition,
        devices=fitting[0].devices,
        alone=others <= mine,
        cpus_per_device=nodes.cpus_per_device,
        node_cpus=nodes.cpus,
        memory_mib=nodes.memory_mib * alike[0].per_node // nodes.device_count,
        planning_nodes=fitting[0].domain.planning_nodes,
        offer=offer,
        unknown=_unknown(room.inventory, fitting[0], offer),
    )


def _uneven(devices: int, most: int) -> str:
    """Say that devices do not fill nodes, and with how many nodes they would lie evenly."""
    nodes = next(n for n in range(1, devices + 1) if devices % n == 0 and devices // n <= most)
    full = devices // most * most
    return (
        f"{devices} is no multiple of {most} per node; take {full} or {full + most}, or ask for "
        f"{nodes} nodes with {devices // nodes} on each"
    )


def _allowed(limits: Limits, alike: list[_Holder]) -> list[_Holder]:
    """Return the holders with the hosts that the user allows, all those named among them."""
    found = []
    for holder in alike:
        hosts = holder.hosts
        if limits.hosts is not None:
            hosts = tuple(host for host in hosts if host in limits.hosts)
        if hosts and limits.named <= set(hosts):
            found.append(replace(holder, hosts=hosts))
    if not found:
        raise PlanError("none of the nodes asked for")
    return found


def _partition(
    room: Room, limits: Limits, alike: list[_Holder], count: int
) -> tuple[str, list[_Holder]]:
    """Return the partition that holds most of these hosts, and which of them it holds."""
    best: tuple[str, list[_Holder]] = ("", [])
    most = 0
    reasons = []
    for partition in room.inventory.partitions:
        if limits.partitions and partition.name not in limits.partitions:
            continue
        hosts = set(partition.hosts)
        parts = [replace(h, hosts=tuple(n for n in h.hosts if n in hosts)) for h in alike]
        held = sum(len(part.hosts) for part in parts)
        if not held:
            continue
        if refusal := limits.refuses(partition.name, count):
            reasons.append(f"partition {partition.name}: {refusal}")
        elif held > most:
            best, most = (partition.name, [part for part in parts if part.hosts]), held
    if reasons and not best[1]:
        raise PlanError("; ".join(reasons))
    if not best[1]:
        where = f"partition {','.join(limits.partitions)}" if limits.partitions else "any partition"
        raise PlanError(f"not in {where}")
    return best


def describe(inventory: Inventory, kind: str, host: str) -> DeviceGroup:
    """Return the devices of a kind in one node, and how its processes reach them."""
    for nodes in inventory.node_classes:
        for devices in nodes.devices:
            if devices.type == kind and host in nodes.hosts:
                return replace(_group(inventory, nodes, devices), hosts=host)
    raise PlanError(f"node {host} has no devices of type '{kind}'")


def _group(inventory: Inventory, nodes: NodeClass, devices: Devices) -> DeviceGroup:
    accelerator = inventory.accelerator(devices.accelerator)
    return DeviceGroup(
        name=devices.type,
        accelerator=accelerator.id,
        vendor=accelerator.vendor,
        visible_env=platform(accelerator.vendor).visible_env,
        environment=network_environment(nodes.network, accelerator.vendor),
        gres=devices.gres,
        hosts="",
        nodes=1,
        devices_per_node=devices.count,
    )


def _offer(inventory: Inventory, holders: list[_Holder], count: int, over: Span | None) -> Offer:
    holder = holders[0]
    folded = tuple(hostlist.fold(item.hosts, sort=False) for item in holders)
    caps = (inventory.upkeep.cap_w(item.domain.name) for item in holders)
    cap_w = min((watts for watts in caps if watts is not None), default=None)
    accelerator = capped(inventory.accelerator(holder.devices.accelerator), cap_w)
    group = replace(
        _group(inventory, holder.nodes, holder.devices),
        hosts=",".join(folded),
        nodes=count,
        devices_per_node=holder.per_node,
        domains=folded if len(folded) > 1 else (),
        together=over.together if over else 0,
    )
    fabric = inventory.fabric_of(holder.hosts[0])
    domain = holder.domain
    if isinstance(domain, Supernode):
        domain_nodes, kind = over.together if over else count, domain.interconnect.kind
        link, latency = domain.interconnect.bandwidth_gbs, domain.interconnect.latency_ns
    else:
        domain_nodes, kind = 1, POOL
        link, latency = accelerator.scale_up_gbs, NODE_LATENCY_NS
    if kind == "full-mesh" and accelerator.card_p2p_gbs is None:
        accelerator = meshed(accelerator, link or 0.0, domain)
    node_devices = holder.nodes.device_count
    rail_gbs = fabric.rail_gbs if fabric and (fabric.rails or 0) < node_devices else None
    return Offer(
        group=group,
        accelerator=accelerator,
        domain_nodes=domain_nodes,
        scale_up_gbs=link or 0.0,
        scale_up_latency_ns=latency,
        network_gbs=(fabric.node_gbs if fabric else None) or 0.0,
        node_devices=node_devices,
        interconnect=kind,
        rail_gbs=rail_gbs or 0.0,
        calibration=_calibration(inventory, accelerator.id),
    )


def _calibration(inventory: Inventory, accelerator: str) -> tuple[tuple[str, float], ...]:
    """Return the site's own constants for a card; ``ConfigError`` for one that no model knows."""
    own = inventory.calibration
    if not own.constants:
        return ()
    from ..planner.constants import checked

    constants = checked(own.constants, own.source)
    return constants if own.concerns(accelerator) else ()


def meshed(card: Accelerator, link_gbs: float, domain: Supernode | Pool) -> Accelerator:
    """Return a card whose bandwidth is that of its links to all others of a supernode."""
    count = sum(len(nodes.hosts) * nodes.device_count for nodes in domain.nodes)
    return replace(card, card_p2p_gbs=link_gbs * card.devices_per_card / max(count - 1, 1))


def _unknown(inventory: Inventory, holder: _Holder, offer: Offer) -> str:
    """Say which speed between the devices nobody has said, and where to write it."""
    fabric = inventory.fabric_of(holder.hosts[0])
    card = offer.accelerator.id
    if isinstance(holder.domain, Supernode):
        if holder.domain.interconnect.bandwidth_gbs is None:
            return f"nobody has said how fast '{holder.domain.name}' is: add its bandwidth"
    elif offer.accelerator.scale_up_gbs is None:
        return (
            f"nobody has said how fast {card} cards of one node reach each other: give it in "
            f"the inventory, like 'accelerators: {{{card}: {{link: 64 GB/s}}}}'"
        )
    if fabric and fabric.node_gbs is None and offer.group.nodes > offer.domain_nodes:
        return f"nobody has said how fast fabric {fabric.name} is: add its rails"
    return ""
