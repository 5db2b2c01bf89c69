"""job_submit.lua: the third door, for plain sbatch, salloc and srun.

slurmctld runs it for each new job. It never touches a job of ``sn-submit`` (known by the mark in
its comment, or by the plan in its script), nor one without cards of the inventory, and it
changes nothing of a running job. What it does, and tells the user with ``sn: ...``:

- **#SN lines.** A batch script with ``#SN --cards KIND:N`` gets the size that ``sn-submit`` would
  ask for, memory included, within what its user says of nodes, tasks, GRES, constraint, nodes
  by name, reservation and time. Where both cannot be had, and for several kinds, the job is
  refused with the options that would do: never is a line dropped without a word.
- **Partition.** A job that names none goes to ``small_jobs_to`` where it is smaller than
  ``whole_supernode_from`` and fits; elsewhere to a partition that can hold it, if the default
  one cannot. Only to one that Slurm shows this user as his, up, and with the time asked for.
- **One supernode.** A job of two nodes and more that fits into one supernode gets all of its
  nodes there, whatever its size: whoever asks for several nodes does not expect them on two
  fabrics. Blocks, rings and toruses do so by themselves; under a tree or ``flat`` the job gets
  the matching OR ``[sn1|sn2]``, joined to the user's own features by ``&``. Another constraint
  of the user stays as it is. ``--constraint='sn1|sn2'`` lets a job scatter. A job from
  ``whole_supernode_from`` on gets no pool, a smaller one tries the pools first.
- **Planning block.** A larger job is cut into equal segments where Lua can set them (Slurm
  25.11.2 and newer); elsewhere it is told the option. One that needs the spares is told that
  it waits for them.
- **Refused** is only what can never run in the partition, its time included, with the words
  that would. A QOS may lift the time of a partition: a job that names one is only told.

``-w``, ``--reservation`` and a constraint that names a supernode or pool leave the place to the
user. Components of a heterogeneous job are
kept together one by one; Slurm shows none of them the others, so they are not routed. The
matching OR costs the scheduler some milliseconds per pending job and thirty names.

It holds no state, opens no file, reads nothing of Slurm but the job, its partitions and its
reservation, and calls nothing but ``slurm.log_user`` and ``log_error``. An
error in it leaves the job as it was, and is logged; so it is on all releases.

A site that has a job_submit.lua of its own keeps it, saves this one under another name and
calls it (Lua reads it anew when the site's own file is touched)::

    dofile("/etc/slurm/supernode_submit.lua")
    local supernode_job_submit = slurm_job_submit
    function slurm_job_submit(job_desc, part_list, submit_uid)
        -- what the site wants first
        return supernode_job_submit(job_desc, part_list, submit_uid)
    end
    return slurm.SUCCESS
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from .. import hostlist, units
from ..catalogue import accelerators, find_accelerator
from ..catalogue.names import fold
from ..inventory import (
    Devices,
    Inventory,
    NodeClass,
    Partition,
    Pool,
    Supernode,
    gres_devices,
)
from .blocks import base_size
from .plugin_fill import FILL
from .plugin_room import ROOM
from .plugin_rules import RULES
from .plugin_view import VIEW
from .release import Release
from .shapes import job_sizes

PLUGIN = "job_submit.lua"

_WORD = re.compile(r"[A-Za-z0-9_.\-]+\Z")
_KEYWORDS = """
    and break do else elseif end false for function goto if in local nil not or repeat return
    then true until while
"""

_Lua = str | int | bool | None | Sequence["_Lua"] | Mapping[str, "_Lua"]


def job_submit(inventory: Inventory, release: Release, placed_by: Mapping[str, str]) -> str | None:
    """Return the plugin without its head, None where no node has cards that a job can have whole.

    ``placed_by`` holds the kind of topology that places the jobs of each partition.
    """
    whole = [
        (nodes, item) for nodes in inventory.node_classes for item in nodes.devices if item.is_whole
    ]
    if not whole:
        return None
    site = _site(inventory, release, whole)
    lines = ["local site = {"]
    lines += [f"    {key} = {_lua(item)}," for key, item in site.items() if item is not None]
    lines += ["}", "site.partitions = {"]
    for partition in inventory.partitions:
        kind = placed_by[partition.name]
        lines.append(f"    [{_lua(partition.name)}] = {{")
        lines += [f"        {item}," for item in _fields(inventory, partition, kind)]
        lines += [f"        {_lua(row)}," for row in _rows(inventory, release, partition, kind)]
        lines.append("    },")
    return "\n".join([*lines, "}", ""]) + VIEW + ROOM + FILL + RULES


def _site(
    inventory: Inventory, release: Release, whole: Sequence[tuple[NodeClass, Devices]]
) -> dict[str, _Lua]:
    """Return what holds for all partitions."""
    policy = inventory.policy
    kinds = _kinds(whole)
    every = [key for nodes in inventory.node_classes for key in _cards(nodes)]
    return {
        "default": next((item.name for item in inventory.partitions if item.default), None),
        "whole_supernode_from": policy.whole_supernode_from,
        "small_jobs_to": policy.small_jobs_to,
        "segment": release.segment,
        "prefix": release.gres_prefix,
        "order": [item.name for item in inventory.partitions],
        "domains": {item.name: True for item in inventory.domains},
        "gres": {key: True for key in every if ":" not in key},
        "known": {key: True for key in every},
        "features": dict.fromkeys(sorted(_features(inventory)), True),
        "kinds": list(kinds.values()),
        "kind_names": ", ".join(kinds),
        "called": {name: list(kinds).index(kind) + 1 for name, kind in _names(whole).items()},
    }


def _kinds(whole: Sequence[tuple[NodeClass, Devices]]) -> dict[str, dict[str, _Lua]]:
    """Return what a job of each GRES type asks for, in the order written."""
    found: dict[str, dict[str, _Lua]] = {}
    for _, item in whole:
        per_card = find_accelerator(item.accelerator).devices_per_card
        kind: dict[str, _Lua] = {"type": item.type, "gres": item.gres, "devices_per_card": per_card}
        found.setdefault(item.type, kind)
    return found


def _names(whole: Sequence[tuple[NodeClass, Devices]]) -> dict[str, str]:
    """Return the GRES type that sn-submit takes each name of a card for."""
    found = {item.type: item.type for _, item in whole}
    types = {item.accelerator: item.type for _, item in reversed(whole)}
    for accelerator in accelerators():
        for name in (accelerator.id, *accelerator.aliases, accelerator.gres_type):
            meant = types.get(find_accelerator(name).id)
            if meant is not None and _WORD.match(fold(name)):
                found.setdefault(fold(name), meant)
    return found


def _fields(inventory: Inventory, partition: Partition, kind: str) -> Iterator[str]:
    """Yield what holds for a partition as a whole."""
    yield f"placed_by = {_lua(kind)}"
    ours = {host for nodes in inventory.node_classes for host in nodes.hosts}
    if not ours.issuperset(partition.hosts):
        yield "foreign = true"
    if partition.max_time is not None and (most := units.minutes(partition.max_time)) < math.inf:
        yield f"max_minutes = {math.ceil(most)}"
    decided = _decided(partition)
    if any(name.startswith("DefMem") for name in decided):
        yield "says_memory = true"
    if "DefCpuPerGPU" in decided:
        yield "says_cpus = true"
    if kind == "torus3d":
        members = (inventory.domain(name) for name in partition.members)
        torus = [item for item in members if isinstance(item, Supernode)]
        sizes = sorted({size for item in torus for size in job_sizes(item)})
        shapes = ", ".join(f"[{size}] = true" for size in sizes)
        yield f"shapes = {{said = {_lua(', '.join(map(str, sizes)))}, {shapes}}}"


def _decided(partition: Partition) -> set[str]:
    """Return the defaults of Slurm that a partition sets by itself."""
    options = dict(partition.options)
    jobs = options.pop("JobDefaults", "").replace("=", ",").split(",")
    return {*(name for name, value in options.items() if value != "UNLIMITED"), *jobs}


def _features(inventory: Inventory) -> set[str]:
    """Return the words that nodes of the inventory have for a constraint."""
    classes = inventory.node_classes
    types = (item.type for nodes in classes for item in nodes.devices)
    own = (name for nodes in classes for name in nodes.features)
    return {*(item.name for item in inventory.domains), *types, *own}


def _rows(
    inventory: Inventory, release: Release, partition: Partition, kind: str
) -> Iterator[dict[str, _Lua]]:
    """Yield a row for each class of nodes with cards of each supernode and pool."""
    held = set(partition.hosts)
    for domain in map(inventory.domain, partition.members):
        for nodes in domain.nodes:
            hosts = [host for host in nodes.hosts if host in held]
            cards = _cards(nodes)
            if hosts and cards:
                yield {
                    "domain": domain.name,
                    "supernode": isinstance(domain, Supernode),
                    "nodes": len(hosts),
                    "planning": _planning(domain, release, kind),
                    "cards": cards,
                    "devices": nodes.device_count,
                    "cpus": nodes.cpus_per_device,
                    "memory": nodes.memory_mib,
                    "hosts": hostlist.fold(hosts),
                    "has": dict.fromkeys(nodes.features_in(domain.name), True),
                }


def _planning(domain: Supernode | Pool, release: Release, kind: str) -> int:
    if isinstance(domain, Supernode) and kind == "block":
        return base_size(domain, release)
    return domain.planning_nodes


def _cards(nodes: NodeClass) -> dict[str, int]:
    """Return how many cards of a node Slurm counts, by GRES name, and by name and type."""
    devices = gres_devices(nodes.devices)
    counts = Counter(device.gres for device in devices)
    counts.update(f"{device.gres}:{device.type}" for device in devices)
    return dict(counts)


def _lua(value: _Lua) -> str:
    """Return a value as Lua writes it; names of an inventory need no escapes."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nil"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_lua(item)}" for key, item in value.items() if item is not None)
        return f"{{{', '.join(pairs)}}}"
    return f"{{{', '.join(map(_lua, value))}}}"


def _key(name: str) -> str:
    return name if name.isidentifier() and name not in _KEYWORDS.split() else f'["{name}"]'
