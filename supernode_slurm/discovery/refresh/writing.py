"""A class of nodes into its mapping of the file: only the keys of what differs change."""

from __future__ import annotations

from ... import hostlist
from ...catalogue import UnknownName, find_accelerator
from ...inventory import Devices, NodeClass, OtherGres
from .sheet import drop, put
from .spans import Item, new
from .wanted import memory_text


def write(body: Item, old: NodeClass, wanted: NodeClass) -> None:
    """Make the mapping of a class say what is wanted."""
    for key in ("sockets", "cores", "threads"):
        if getattr(old, key) != getattr(wanted, key):
            put(body, key, getattr(wanted, key))
    if old.memory_mib != wanted.memory_mib:
        put(body, "memory", memory_text(wanted.memory_mib))
    if old.features != wanted.features:
        _put_or_drop(body, "features", list(wanted.features))
    if old.cloud != wanted.cloud:
        put(body, "cloud", wanted.cloud)
    if old.network.hcas != wanted.network.hcas:
        network = body.at("network")
        if network is None or not isinstance(network.value, dict):
            put(body, "network", {"hcas": list(wanted.network.hcas)})
        else:
            put(network, "hcas", list(wanted.network.hcas))
    if old.devices != wanted.devices:
        _write_devices(body, old, wanted)
    if old.other_gres != wanted.other_gres:
        found = {":".join(filter(None, (o.name, o.type))): _other(o) for o in wanted.other_gres}
        _put_or_drop(body, "other_gres", found)


def _put_or_drop(body: Item, key: str, value: list[str] | dict[str, object]) -> None:
    if value:
        put(body, key, value)
    else:
        drop(body, key)


def _write_devices(body: Item, old: NodeClass, wanted: NodeClass) -> None:
    there = body.at("devices")
    if there is None or not isinstance(there.value, dict):
        put(body, "devices", {})
        there = body.at("devices")
    if there is None or not isinstance(there.value, dict):
        return
    before = {item.accelerator: item for item in old.devices}
    names = {_accelerator(key): key for key in there.value}
    gone = names.keys() - {item.accelerator for item in wanted.devices}
    for accelerator in gone:
        drop(there, names[accelerator])
    for item in wanted.devices:
        name = names.get(item.accelerator)
        if name is None:
            there.value[item.accelerator] = new(_said(item, body))
        elif item != before.get(item.accelerator):
            _write_device(there, name, before[item.accelerator], item)
    if not there.value:
        drop(body, "devices")


def _accelerator(name: str) -> str:
    try:
        return find_accelerator(name).id
    except UnknownName:
        return name


def _said(item: Devices, body: Item) -> object:
    """Return cards that a mapping did not have yet."""
    found: dict[str, object] = {"count": item.count}
    if item.gres != (body.text("gres") or "gpu"):
        found["gres"] = item.gres
    if item.type != find_accelerator(item.accelerator).gres_type:
        found["type"] = item.type
    found |= {key: value for key, value in _details(item).items() if value}
    return found if len(found) > 1 else item.count


def _write_device(there: Item, name: str, old: Devices, item: Devices) -> None:
    found = there.at(name)
    if found is None:
        return
    changed: dict[str, object] = {}
    if item.count != old.count:
        changed["count"] = item.count
    for key in ("gres", "type"):
        if getattr(item, key) != getattr(old, key):
            changed[key] = getattr(item, key)
    before = _details(old)
    changed |= {key: value for key, value in _details(item).items() if value != before[key]}
    if not isinstance(found.value, dict):
        if changed.keys() == {"count"}:
            found.value = item.count
            return
        put(there, name, {"count": old.count})
        found = there.value[name] if isinstance(there.value, dict) else found
    for key, value in changed.items():
        if value:
            put(found, key, value)
        else:
            drop(found, key)


def _details(item: Devices) -> dict[str, object]:
    return {
        "files": _folded_files(item.files),
        "missing": list(item.missing),
        "cores": list(item.cores),
        "links": list(item.links),
        "shards": item.shards,
        "mig": {profile: list(ids) for profile, ids in item.mig},
    }


def _folded_files(files: tuple[str, ...]) -> str:
    if not files:
        return ""
    folder = files[0].rpartition("/")[0]
    return f"{folder}/{hostlist.fold((file[len(folder) + 1 :] for file in files), sort=False)}"


def _other(item: OtherGres) -> object:
    if not item.files:
        return item.count
    return {"count": item.count, "files": _folded_files(item.files)}
