"""Sections of nodes for a group: equal nodes together, their cards said the short way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import hostlist
from ..catalogue import find_accelerator
from ..errors import Where
from ..inventory import Devices, OtherGres
from ..inventory.nodes import usual_types
from .document import Leaf, Tree
from .machines import EACH_HAS_ITS_OWN, Host, Machine


def types_of(hosts: Mapping[str, Host]) -> dict[str, str]:
    """Return the GRES type that each accelerator in use has where none is given."""
    machines = {host.machine for host in hosts.values()}
    ids = {devices.accelerator for machine in machines for devices in machine.devices}
    return usual_types({name: find_accelerator(name).gres_type for name in ids})


def sections_of(members: Sequence[Host], types: Mapping[str, str]) -> list[dict[str, Tree]]:
    """Return a section for each class of equal nodes, in the order of their first ones."""
    classes: dict[tuple[Machine, tuple[str, ...], int], list[Host]] = {}
    said: dict[tuple[Where, ...], int] = {}
    for host in members:
        # Lines of our own files stay apart: each is a section that a person wrote.
        line = said.setdefault(host.origin[:1], len(said)) if host.domain else 0
        key = (host.machine, tuple(name for name, _ in host.own), line)
        classes.setdefault(key, []).append(host)
    return [_section(machine, hosts, types) for (machine, _, _), hosts in classes.items()]


def _section(machine: Machine, hosts: list[Host], types: Mapping[str, str]) -> dict[str, Tree]:
    origin = tuple(dict.fromkeys(where for host in hosts for where in host.origin))

    def leaf(value: str | int | bool | tuple[str, ...], shape: str = "") -> Leaf:
        remark = "no source says: see slurmd -C" if shape in machine.unsaid else ""
        return Leaf(value, origin, remark)

    names = {devices.gres for devices in machine.devices}
    gres = names.pop() if len(names) == 1 else "gpu"
    found: dict[str, Tree] = {"hosts": leaf(hostlist.fold((h.name for h in hosts), sort=False))}
    if machine.devices:
        found["devices"] = {
            devices.accelerator: _devices(devices, gres, types, origin)
            for devices in machine.devices
        }
    if gres != "gpu":
        found["gres"] = leaf(gres)
    if machine.others:
        found["other_gres"] = {
            ":".join(filter(None, (item.name, item.type))): _other(item, origin)
            for item in machine.others
        }
    found["sockets"] = leaf(machine.sockets, "sockets")
    found["cores"] = leaf(machine.cores, "cores")
    if machine.threads != 1:
        found["threads"] = leaf(machine.threads)
    found["memory"] = leaf(_memory(machine.memory_mib), "memory")
    if machine.adapters:
        found["network"] = {"hcas": leaf(machine.adapters)}
    if machine.features:
        found["features"] = leaf(machine.features)
    if machine.cloud:
        found["cloud"] = leaf(True)
    own = _own(hosts)
    options = {key: own.get(key, value) for key, value in machine.options}
    options = {key: value for key, value in options.items() if value != EACH_HAS_ITS_OWN}
    if options:
        found["options"] = {key: leaf(value) for key, value in options.items()}
    return found


def _devices(
    devices: Devices, gres: str, types: Mapping[str, str], origin: tuple[Where, ...]
) -> Tree:
    def leaf(value: str | int | tuple[str | int, ...]) -> Leaf:
        return Leaf(value, origin)

    found: dict[str, Tree] = {"count": leaf(devices.count)}
    if devices.gres != gres:
        found["gres"] = leaf(devices.gres)
    if devices.type != types[devices.accelerator]:
        found["type"] = leaf(devices.type)
    if devices.files:
        found["files"] = leaf(_folded_files(devices.files))
    if devices.missing:
        found["missing"] = leaf(devices.missing)
    if devices.cores:
        found["cores"] = leaf(devices.cores)
    if devices.links:
        found["links"] = leaf(devices.links)
    if devices.shards:
        found["shards"] = leaf(devices.shards)
    if devices.mig:
        found["mig"] = {profile: leaf(ids) for profile, ids in devices.mig}
    return found if len(found) > 1 else found["count"]


def _other(item: OtherGres, origin: tuple[Where, ...]) -> Tree:
    count = Leaf(item.count, origin)
    if not item.files:
        return count
    return {"count": count, "files": Leaf(_folded_files(item.files), origin)}


def _folded_files(files: tuple[str, ...]) -> str:
    folder = files[0].rpartition("/")[0]
    return f"{folder}/{hostlist.fold((file[len(folder) + 1 :] for file in files), sort=False)}"


def _memory(mib: int) -> str:
    return f"{mib >> 10} GiB" if mib % 1024 == 0 else f"{mib} MiB"


def _own(hosts: list[Host]) -> dict[str, str]:
    """Return the options of each host, listed in the order of the hosts."""
    found = {}
    for index, (key, _) in enumerate(hosts[0].own):
        values = [host.own[index][1] for host in hosts]
        if len(set(values)) == 1:
            found[key] = values[0]
        elif len(set(values)) == len(values):
            found[key] = hostlist.fold(values, sort=False)
        else:
            found[key] = ",".join(values)
    return found
