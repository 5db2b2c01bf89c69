"""From the file's shape to the machine room: classes expanded, every name looked up."""

from __future__ import annotations

import re
from collections import Counter

from .. import hostlist
from ..catalogue import UnknownName, find_accelerator, platform
from ..errors import ConfigError, Problem, Where, nearest
from . import schema
from .fields import NAME
from .model import (
    Devices,
    Fabric,
    Interconnect,
    Inventory,
    NodeClass,
    Partition,
    Policy,
    Pool,
    Rack,
    Supernode,
)
from .switches import resolve_fabric
from .yamltree import place_of


class Resolver:
    """One run over an inventory file; ``problems`` holds what it found."""

    def __init__(self, raw: schema.InventoryFile, source: str, lost: list[str]) -> None:
        self.raw = raw
        self._lost = {name for text in lost for name in _names(text)}
        self.source = source
        self.problems: list[Problem] = []
        self._room_left = hostlist.HOST_LIMIT
        self._types = _gres_types(raw)

    def run(self) -> Inventory:
        """Return the machine room; incomplete where ``problems`` is not empty."""
        supernodes = tuple(sn for raw in self.raw.supernodes for sn in self._supernodes(raw))
        pools = tuple(self._pool(raw) for raw in self.raw.pools)
        domains: tuple[Supernode | Pool, ...] = (*supernodes, *pools)
        self._unique(domains)
        members = dict.fromkeys(self._lost, ()) | {item.name: item.hosts for item in domains}
        return Inventory(
            source=self.source,
            cluster=self.raw.cluster,
            release=self.raw.slurm.release,
            fabrics=self._fabrics(members),
            racks=self._racks({host for hosts in members.values() for host in hosts}),
            supernodes=supernodes,
            pools=pools,
            partitions=self._partitions(members),
            policy=self._policy(),
        )

    def problem(self, where: Where, what: str, todo: str = "") -> None:
        """Keep one problem."""
        self.problems.append(Problem(where, what, todo))

    def _supernodes(self, raw: schema.SupernodeSection) -> list[Supernode]:
        place = raw.at["name"]
        names = hostlist.expand(raw.name)
        numbers = _class_numbers(raw.name)
        if len(names) > 1 and len(numbers) != len(names):
            self.problem(place, f"'{raw.name}': a class has one bracket at the end, like sn[1-8]")
            return []
        link = raw.interconnect
        found = []
        for index, name in enumerate(names):
            number = numbers[index] if numbers else None
            nodes = tuple(self._nodes(item, number, len(names)) for item in _as_list(raw.nodes))
            supernode = Supernode(
                name=name,
                interconnect=Interconnect(link.kind, link.bandwidth, link.latency),
                nodes=nodes,
                spares=raw.spares,
                where=place,
            )
            if raw.spares >= max(len(supernode.hosts), 1):
                self.problem(
                    raw.at["spares"],
                    f"{raw.spares} spares of {len(supernode.hosts)} nodes leave nothing to plan",
                )
            found.append(supernode)
        return found

    def _pool(self, raw: schema.PoolSection) -> Pool:
        nodes = tuple(self._nodes(item, None, 1) for item in _as_list(raw.nodes))
        return Pool(name=raw.name, nodes=nodes, where=raw.at["name"])

    def _nodes(self, raw: schema.NodesSection, number: str | None, classes: int) -> NodeClass:
        text = raw.hosts
        if "{n}" in text and number is None:
            self.problem(raw.at["hosts"], "'{n}' needs a class of supernodes, like name: sn[1-8]")
        elif classes > 1 and "{n}" not in text:
            self.problem(raw.at["hosts"], "equal supernodes would share hosts", "write {n}")
        found = (self._devices(raw, name, count) for name, count in raw.devices.items())
        devices = tuple(item for item in found if item is not None)
        self._compatible(raw, devices)
        hosts = tuple(hostlist.expand(text.replace("{n}", number or "0")))
        self._room_left -= len(hosts)
        if self._room_left < 0:
            what = f"more than {hostlist.HOST_LIMIT:,} hosts in the whole inventory"
            raise ConfigError([*self.problems, Problem(raw.at["hosts"], what, "split the site")])
        return NodeClass(
            hosts=hosts,
            devices=devices,
            sockets=raw.sockets,
            cores=raw.cores,
            threads=raw.threads,
            memory_mib=raw.memory,
            where=raw.at["hosts"],
        )

    def _devices(self, raw: schema.NodesSection, name: str, count: int) -> Devices | None:
        try:
            accelerator = find_accelerator(name)
        except UnknownName as error:
            self.problem(place_of(name, raw.at["devices"]), str(error))
            return None
        gres_type = raw.type or self._types.get(accelerator.id, accelerator.id)
        return Devices(accelerator.id, count, raw.gres, gres_type)

    def _compatible(self, raw: schema.NodesSection, devices: tuple[Devices, ...]) -> None:
        """Report cards that one node's gres.conf cannot tell apart, or not hold together."""
        place = raw.at.get("devices", raw.at[""])
        if len({item.type for item in devices}) < len(devices):
            what = "two entries are of the same GRES type"
            self.problem(place, what, "name each kind of card once, without 'type'")
        flags = {platform(find_accelerator(d.accelerator).vendor).slurm_env_flag for d in devices}
        if len(flags) > 1 and raw.gres == "gpu":
            self.problem(
                place,
                "cards of two vendors in one node: slurmd takes one vendor's environment only",
                "give them another GRES name: gres: npu",
            )

    def _unique(self, domains: tuple[Supernode | Pool, ...]) -> None:
        names = Counter(domain.name for domain in domains)
        types = {
            item.type for domain in domains for nodes in domain.nodes for item in nodes.devices
        }
        owner: dict[str, str] = {}
        for domain in domains:
            if domain.name in types:
                what = f"'{domain.name}' names a kind of card too: as a feature it says both"
                self.problem(domain.where, what, f"call it 'pool-{domain.name}'")
            if names[domain.name] > 1:
                self.problem(domain.where, f"'{domain.name}' names two supernodes or pools")
            for nodes in domain.nodes:
                for host in nodes.hosts:
                    if host in names:
                        what = f"host {host} has the name of a supernode or pool"
                        self.problem(nodes.where, what, "rename one")
                    if host in owner:
                        other = owner[host]
                        self.problem(
                            nodes.where, f"host {host} is in '{other}' and in '{domain.name}'"
                        )
                        break
                    owner[host] = domain.name

    def _fabrics(self, members: dict[str, tuple[str, ...]]) -> tuple[Fabric, ...]:
        seen: dict[str, str] = {}
        found = []
        for raw in self.raw.fabrics:
            fabric, problems = resolve_fabric(raw, members)
            self.problems.extend(problems)
            for switch in fabric.switches:
                if switch.name in seen:
                    self.problem(
                        raw.at["switches"],
                        f"switch '{switch.name}' is in fabric '{seen[switch.name]}' too",
                    )
                seen[switch.name] = raw.name
            found.append(fabric)
        self._covered(found, members)
        return tuple(found)

    def _covered(self, fabrics: list[Fabric], members: dict[str, tuple[str, ...]]) -> None:
        """Report hosts under two leaves, and domains that are only partly under switches."""
        leaf: dict[str, str] = {}
        for fabric in fabrics:
            for switch in fabric.switches:
                hosts = [*switch.hosts, *(h for name in switch.members for h in members[name])]
                twice = [h for h, times in Counter(hosts).items() if times > 1 or h in leaf]
                leaf.update(dict.fromkeys(set(hosts) - leaf.keys(), switch.name))
                if twice:
                    what = f"{hostlist.fold(twice)} under '{leaf[twice[0]]}' and '{switch.name}'"
                    self.problem(fabric.where, f"hosts hang under switches twice: {what}")
        for name, hosts_of in members.items():
            bare = [host for host in hosts_of if host not in leaf]
            if 0 < len(bare) < len(hosts_of):
                self.problem(
                    fabrics[0].where,
                    f"'{name}' is only partly under switches: {hostlist.fold(bare)} are not",
                    "hang all of its hosts under one, or none",
                )

    def _racks(self, known: set[str]) -> tuple[Rack, ...]:
        found = []
        for raw in self.raw.racks:
            hosts = tuple(hostlist.expand(raw.hosts))
            stray = [host for host in hosts if host not in known]
            if stray and not self._lost:
                self.problem(
                    raw.at["hosts"],
                    f"rack '{raw.name}' holds unknown {hostlist.fold(stray)}",
                    "name hosts of supernodes or pools",
                )
            found.append(Rack(raw.name, hosts, raw.power, raw.cooling, raw.at["name"]))
        return tuple(found)

    def _partitions(self, members: dict[str, tuple[str, ...]]) -> tuple[Partition, ...]:
        found = []
        for name, raw in self.raw.partitions.items():
            names = [
                (member, place_of(text, raw.at[key]))
                for key in ("supernodes", "pools")
                for text in getattr(raw, key)
                for member in hostlist.expand(text)
            ]
            for member, place in names:
                if member not in members:
                    self.problem(
                        place, f"no supernode or pool '{member}'", nearest(member, members)
                    )
            hosts = tuple(host for member, _ in names for host in members.get(member, ()))
            if not names:
                self.problem(raw.at[""], f"partition '{name}' has no supernodes and no pools")
            chosen = tuple(member for member, _ in names)
            found.append(Partition(name, chosen, hosts, raw.max_time, raw.default, raw.at[""]))
        defaults = [partition for partition in found if partition.default]
        for partition in defaults[1:]:
            self.problem(partition.where, "two partitions are the default", "leave it at one")
        return tuple(found)

    def _policy(self) -> Policy:
        raw = self.raw.policy
        target = raw.small_jobs_to
        if target is not None and target not in self.raw.partitions:
            self.problem(
                raw.at["small_jobs_to"],
                f"no partition '{target}'",
                nearest(target, self.raw.partitions),
            )
        return Policy(raw.whole_supernode_from, target)


def _gres_types(raw: schema.InventoryFile) -> dict[str, str]:
    """Return the GRES type of each accelerator: its short name, or its id where two share it."""
    found: dict[str, str] = {}
    sections = [item.nodes for item in raw.supernodes] + [item.nodes for item in raw.pools]
    for name in (name for nodes in sections for part in _as_list(nodes) for name in part.devices):
        try:
            accelerator = find_accelerator(name)
        except UnknownName:
            continue
        found[accelerator.id] = accelerator.gres_type
    shared = Counter(found.values())
    return {key: key if shared[short] > 1 else short for key, short in found.items()}


def _as_list(nodes: schema.NodesSection | list[schema.NodesSection]) -> list[schema.NodesSection]:
    return nodes if isinstance(nodes, list) else [nodes]


def _names(text: str) -> list[str]:
    try:
        return hostlist.expand(text)
    except ValueError:
        return [text]


def _class_numbers(name: str) -> list[str]:
    """Return the numbers of ``sn[1-8]`` as written, none for a name without a bracket."""
    found = re.fullmatch(r"([^\[\]]+)(\[[^\[\]]*\])", name)
    if found is None or not NAME.match(found.group(1)):
        return []
    stem = len(found.group(1))
    return [host[stem:] for host in hostlist.expand(name)]
