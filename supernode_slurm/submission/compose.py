"""A plan with its place, as the arguments that sbatch needs for it."""

from __future__ import annotations

from dataclasses import dataclass

from ..placement import Choice, Slot

Component = tuple[tuple[str, str], ...]
"""sbatch's long options and their values, empty for a flag."""


@dataclass(frozen=True, slots=True)
class Request:
    """What sbatch is asked for: one component for an ordinary job, more for a heterogeneous."""

    components: tuple[Component, ...]
    why: str
    """In words, for the user."""


def compose(choice: Choice, blocks: frozenset[str], apart: bool = False) -> Request:
    """Return the request that gives a plan its nodes.

    ``blocks`` are the partitions whose jobs Slurm places by topology/block; ``apart`` makes
    each group a component of its own.
    """
    slots = choice.slots
    if len(slots) == 1:
        return _single(slots[0], slots[0].partition in blocks)
    if not apart and slots[0].partition not in blocks and _counted_fit(slots):
        return _counted(slots)
    names = " + ".join(slot.shown for slot in slots)
    return Request(
        tuple(_component(slot, slot.partition in blocks) for slot in slots),
        f"heterogeneous job over {names}: only backfill starts it, and it takes no --array",
    )


def _single(slot: Slot, block: bool) -> Request:
    nodes = f"{slot.group.nodes} node{'s' if slot.group.nodes > 1 else ''}"
    names = slot.shown
    if slot.span is not None:
        why = f"{nodes} over {names}, each {slot.span.together} in a row within one"
    elif len(slot.domains) > 1:
        why = f"{nodes} within one of {names}, Slurm chooses"
    else:
        why = f"{nodes} within {names}"
    return Request((_component(slot, block),), why)


def _component(slot: Slot, block: bool) -> Component:
    group = slot.group
    options = [
        ("partition", slot.partition),
        ("nodes", str(group.nodes)),
        ("ntasks-per-node", str(group.devices_per_node)),
        ("gres", f"{group.gres}:{group.name}:{group.devices_per_node}"),
        ("cpus-per-task", str(slot.cpus_per_device)),
        ("mem", _memory(slot)),
    ]
    if group.gres != "gpu" and group.devices_per_node < slot.devices.count:
        # Slurm tells a step which devices it has for gres/gpu only: no neighbours, then.
        options.append(("exclusive", ""))
    return (*options, *_where(slot, block))


def _memory(*slots: Slot) -> str:
    """Return the memory on each node: all of it with all devices, else the devices' share."""
    if all(slot.group.devices_per_node == slot.node_devices for slot in slots):
        return "0"
    return f"{min(slot.memory_mib for slot in slots)}M"


def _where(slot: Slot, block: bool) -> list[tuple[str, str]]:
    """Return the options that keep a group within its supernodes."""
    if slot.span is None:
        if block and slot.alone and slot.group.nodes <= slot.planning_nodes:
            return []
        return [("constraint", _one_of(slot.domains))]
    if not block:
        counts = "&".join(f"{name}*{nodes}" for name, nodes in slot.span.counts.items())
        return [("constraint", f"[{counts}]")]
    options = [("segment", str(slot.span.together))]
    if not slot.alone:
        options.append(("constraint", "|".join(slot.domains)))
    return options


def _one_of(names: tuple[str, ...]) -> str:
    """Return a matching OR, under which all nodes carry the same of these features."""
    return f"[{'|'.join(names)}]" if len(names) > 1 else names[0]


def _counted_fit(slots: tuple[Slot, ...]) -> bool:
    """Say whether one ordinary job with counted features can hold all groups."""
    first = slots[0]
    return all(
        slot.partition == first.partition
        and slot.group.gres == first.group.gres
        and slot.group.devices_per_node == first.group.devices_per_node
        and slot.span is None
        and (slot.group.gres == "gpu" or slot.group.devices_per_node == slot.devices.count)
        for slot in slots
    ) and len({slot.domains[0] for slot in slots}) == len(slots)


def _counted(slots: tuple[Slot, ...]) -> Request:
    """Return an ordinary job: so many nodes with each feature, the best supernode of each."""
    group = slots[0].group
    counts = "&".join(f"{slot.domains[0]}*{slot.group.nodes}" for slot in slots)
    nodes = sum(slot.group.nodes for slot in slots)
    options = (
        ("partition", slots[0].partition),
        ("nodes", str(nodes)),
        ("ntasks-per-node", str(group.devices_per_node)),
        ("gres", f"{group.gres}:{group.devices_per_node}"),
        ("cpus-per-task", str(min(slot.cpus_per_device for slot in slots))),
        ("mem", _memory(*slots)),
        ("constraint", f"[{counts}]"),
    )
    parts = ", ".join(f"{slot.group.nodes} in {slot.domains[0]}" for slot in slots)
    return Request((options,), f"one job of {nodes} nodes: {parts}")
