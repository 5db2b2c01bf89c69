"""What a class of nodes should say of a host, by what sources see there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...inventory import Devices, NodeClass
from .changes import shown
from .told import Seen

SPARE_MEMORY = 0.1
"""A site keeps memory back for the system: only this much more was built in."""


def wanted(current: NodeClass, domain: str, seen: Seen) -> NodeClass:
    """Return a class of nodes with what is measured otherwise on a host changed.

    Where sources say nothing, what stands there stays. Memory that a probe measures may be
    more than what is written, up to ``SPARE_MEMORY``: a site keeps some back.
    """
    found: dict[str, Any] = {
        key: value
        for key, value in seen.shape.items()
        if value != getattr(current, key)
        and not (key == "memory_mib" and seen.is_measured and _is_enough(current, value))
    }
    if seen.devices is not None:
        devices = _devices(current.devices, seen)
        if devices != current.devices:
            found["devices"] = devices
    if seen.others is not None and set(seen.others) != set(current.other_gres):
        found["other_gres"] = seen.others
    if seen.features is not None:
        ours = {domain, *(item.type for item in (*current.devices, *(seen.devices or ())))}
        own = tuple(name for name in seen.features if name not in ours)
        if set(own) != set(current.features) - ours:
            kept = [name for name in current.features if name in own or name in ours]
            found["features"] = tuple(dict.fromkeys([*kept, *own]))
    if seen.cloud is not None and seen.cloud != current.cloud:
        found["cloud"] = seen.cloud
    hcas = current.network.hcas
    if seen.adapters and hcas and not set(hcas) <= set(seen.adapters):
        left = tuple(name for name in hcas if name in seen.adapters)
        found["network"] = replace(current.network, hcas=left or seen.adapters)
    return replace(current, **found) if found else current


def differences(old: NodeClass, new: NodeClass) -> dict[str, tuple[object, object]]:
    """Return what differs, by its key in the file, as words of each."""
    found: dict[str, tuple[object, object]] = {}
    for key in ("sockets", "cores", "threads", "cloud"):
        if getattr(old, key) != getattr(new, key):
            found[key] = (getattr(old, key), getattr(new, key))
    if old.memory_mib != new.memory_mib:
        found["memory"] = (memory_text(old.memory_mib), memory_text(new.memory_mib))
    if old.features != new.features:
        found["features"] = (list(old.features), list(new.features))
    if old.network.hcas != new.network.hcas:
        found["network.hcas"] = (list(old.network.hcas), list(new.network.hcas))
    if old.devices != new.devices:
        found["devices"] = (_cards(old, new), _cards(new, old))
    if old.other_gres != new.other_gres:
        found["other_gres"] = (_others(old), _others(new))
    return found


def memory_text(mib: int) -> str:
    """Return memory as an inventory has it."""
    return f"{mib >> 10} GiB" if mib % 1024 == 0 else f"{mib} MiB"


def _is_enough(current: NodeClass, mib: int) -> bool:
    return current.memory_mib <= mib <= current.memory_mib * (1 + SPARE_MEMORY)


def _devices(current: tuple[Devices, ...], seen: Seen) -> tuple[Devices, ...]:
    devices = seen.devices or ()
    if seen.has_types and not seen.has_files and any(item.mig for item in current):
        return current  # instances are told by their files alone
    by_kind: dict[str, list[Devices]] = {}
    for item in devices:
        by_kind.setdefault(item.accelerator, []).append(item)
    found: list[Devices] = []
    for old in current:
        same = by_kind.get(old.accelerator)
        if same:
            found.append(_as_seen(old, same.pop(0), seen))
    found += [item for kind in by_kind.values() for item in kind]
    return tuple(found)


def _as_seen(old: Devices, item: Devices, seen: Seen) -> Devices:
    if not seen.has_types:
        item = replace(item, gres=old.gres, type=old.type, shards=old.shards)
    elif seen.has_files:
        return item
    found = replace(old, count=item.count, gres=item.gres, type=item.type, shards=item.shards)
    if seen.has_files:
        found = replace(found, files=item.files, missing=item.missing, mig=item.mig)
    elif found.count != old.count:
        found = replace(found, files=(), missing=())
    if found.count != old.count:  # what was said of each card holds no more
        cores = old.cores if old.cores and not found.count % len(old.cores) else ()
        found = replace(found, links=(), cores=cores)
    return found


def _cards(nodes: NodeClass, other: NodeClass) -> str:
    """Return the cards that the other class has otherwise."""
    before = {item.accelerator: item for item in other.devices}
    found = [_card(d, before.get(d.accelerator)) for d in nodes.devices if d not in other.devices]
    return ", ".join(found) or "none"


def _card(item: Devices, other: Devices | None) -> str:
    parts = [f"{item.count} {item.accelerator}"]
    if other is not None and (item.gres, item.type) != (other.gres, other.type):
        parts.append(f"as {item.gres}:{item.type}")
    if item.missing:
        parts.append(f"without {','.join(map(str, item.missing))}")
    if item.files:
        parts.append(f"at {item.files[0]}..{item.files[-1].rpartition('/')[2]}")
    if other is not None:
        for key in ("cores", "links", "shards", "mig"):
            if getattr(item, key) != getattr(other, key):
                parts.append(f"{key} {shown(getattr(item, key) or 'none')}")
    return " ".join(parts)


def _others(nodes: NodeClass) -> str:
    names = (f"{':'.join(filter(None, (o.name, o.type)))}:{o.count}" for o in nodes.other_gres)
    return ", ".join(names) or "none"
