"""From the file's shape to the machine room: classes expanded, every name looked up."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import starmap

from .. import hostlist
from ..catalogue import Accelerator, UnknownName, find_accelerator
from ..errors import Problem, Where, nearest
from . import schema
from .fields import class_numbers
from .model import (
    Fabric,
    Foreign,
    Interconnect,
    Inventory,
    Partition,
    Policy,
    Pool,
    Price,
    SlurmSettings,
    Supernode,
)
from .nodes import NodeResolver, as_list
from .switches import resolve_fabric
from .upkeep_build import UpkeepResolver
from .yamltree import place_of


class Resolver:
    """One run over an inventory file; ``problems`` holds what it found."""

    def __init__(self, raw: schema.InventoryFile, source: str, lost: list[str]) -> None:
        self.raw = raw
        self._lost = {name for text in lost for name in _names(text)}
        self.source = source
        self.problems: list[Problem] = []
        self._nodes = NodeResolver(raw, self.problems)

    def run(self) -> Inventory:
        """Return the machine room; incomplete where ``problems`` is not empty."""
        supernodes = tuple(sn for raw in self.raw.supernodes for sn in self._supernodes(raw))
        pools = tuple(self._pool(raw) for raw in self.raw.pools)
        domains: tuple[Supernode | Pool, ...] = (*supernodes, *pools)
        foreign = tuple(
            Foreign(raw.name, tuple(hostlist.expand(raw.hosts)), raw.at["name"])
            for raw in self.raw.foreign
        )
        self._unique(domains, foreign)
        members = dict.fromkeys(self._lost, ()) | {
            item.name: item.hosts for item in (*domains, *foreign)
        }
        upkeep = UpkeepResolver(self.raw, self.problems, domains, bool(self._lost))
        return Inventory(
            source=self.source,
            cluster=self.raw.cluster,
            slurm=self._slurm(),
            accelerators=tuple(filter(None, starmap(self._figures, self.raw.accelerators.items()))),
            fabrics=self._fabrics(members),
            racks=upkeep.racks({host for hosts in members.values() for host in hosts}),
            supernodes=supernodes,
            pools=pools,
            foreign=foreign,
            partitions=self._partitions(members, {item.name for item in domains}),
            policy=self._policy(),
            upkeep=upkeep.run(),
        )

    def _figures(self, name: str, raw: schema.FiguresSection) -> Accelerator | None:
        try:
            card = find_accelerator(name)
        except UnknownName as error:
            self.problem(place_of(name, raw.at[""]), str(error))
            return None
        memory = None if raw.memory is None else raw.memory / 1024

        def card_figure(said: float | None, known: float | None) -> float | None:
            return known if said is None else said * card.devices_per_card

        return replace(
            card,
            card_bf16_tflops=card_figure(raw.bf16, card.card_bf16_tflops),
            card_fp16_tflops=card_figure(raw.fp16, card.card_fp16_tflops),
            card_fp8_tflops=card_figure(raw.fp8, card.card_fp8_tflops),
            card_matmul_bf16_tflops=card_figure(raw.matmul, card.card_matmul_bf16_tflops),
            card_memory_gib=card_figure(memory, card.card_memory_gib),
            card_memory_gbs=card_figure(raw.memory_bandwidth, card.card_memory_gbs),
            card_scale_up_gbs=card_figure(raw.link, card.card_scale_up_gbs),
            card_p2p_gbs=card.card_p2p_gbs if raw.link is None else None,
            card_tdp_w=card_figure(raw.power, card.card_tdp_w),
            card_least_w=card_figure(raw.least_power, card.card_least_w),
        )

    def problem(self, where: Where, what: str, todo: str = "") -> None:
        """Keep one problem."""
        self.problems.append(Problem(where, what, todo))

    def _supernodes(self, raw: schema.SupernodeSection) -> list[Supernode]:
        place = raw.at["name"]
        names = hostlist.expand(raw.name)
        numbers = class_numbers(raw.name)
        if len(names) > 1 and len(numbers) != len(names):
            self.problem(place, f"'{raw.name}': a class has one bracket at the end, like sn[1-8]")
            return []
        link = raw.interconnect
        found = []
        for index, name in enumerate(names):
            number = numbers[index] if numbers else None
            nodes = tuple(
                self._nodes.resolve(item, number, len(names)) for item in as_list(raw.nodes)
            )
            supernode = Supernode(
                name=name,
                interconnect=Interconnect(
                    kind=link.kind,
                    bandwidth_gbs=link.bandwidth,
                    latency_ns=link.latency,
                    dims=tuple(link.dims),
                    placements=tuple(map(tuple, link.placements)),
                ),
                nodes=nodes,
                spares=raw.spares,
                where=place,
            )
            if raw.spares >= max(len(supernode.hosts), 1):
                self.problem(
                    raw.at["spares"],
                    f"{raw.spares} spares of {len(supernode.hosts)} nodes leave nothing to plan",
                )
            self._check_torus(raw.interconnect, len(supernode.hosts))
            found.append(supernode)
        return found

    def _check_torus(self, raw: schema.InterconnectSection, nodes: int) -> None:
        """Report dimensions that do not hold the nodes, and shapes that do not fit in them."""
        dims = raw.dims
        shapes = {key for key in ("dims", "placements") if getattr(raw, key)}
        if shapes and raw.kind != "torus":
            key = min(shapes)
            self.problem(raw.at[key], f"{key} are for kind: torus, not {raw.kind}", "leave it out")
        elif raw.placements and not dims:
            self.problem(raw.at["placements"], "placements without dims", "add dims: [x, y, z]")
        elif dims and (len(dims) != 3 or math.prod(dims) != nodes):
            shown = " x ".join(map(str, dims))
            what = f"dims {shown} do not hold the {nodes} nodes of the supernode"
            self.problem(raw.at["dims"], what, "give nodes along x, y and z, 1 for none")
        for shape in raw.placements if len(dims) == 3 else ():
            if len(shape) != 3 or any(a > b for a, b in zip(shape, dims, strict=True)):
                what = f"placement {shape} does not fit into {dims}"
                self.problem(raw.at["placements"], what, "give nodes along x, y and z")

    def _pool(self, raw: schema.PoolSection) -> Pool:
        nodes = tuple(self._nodes.resolve(item, None, 1) for item in as_list(raw.nodes))
        return Pool(name=raw.name, nodes=nodes, where=raw.at["name"])

    def _slurm(self) -> SlurmSettings:
        raw = self.raw.slurm
        if raw.billing and not raw.slurmdbd:
            what = "billing counts by kind of card, which only slurmdbd can track"
            self.problem(raw.at["billing"], what, "run slurmdbd and add slurmdbd: true")
        return SlurmSettings(
            release=raw.release,
            slurmdbd=raw.slurmdbd,
            billing=raw.billing,
            carry_launcher=raw.carry_launcher,
            job_submit=raw.job_submit,
            task_prolog=raw.task_prolog,
        )

    def _unique(self, domains: tuple[Supernode | Pool, ...], foreign: tuple[Foreign, ...]) -> None:
        names = Counter(item.name for item in (*domains, *foreign))
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
        for item in foreign:
            if names[item.name] > 1:
                what = f"'{item.name}' names a supernode or pool too"
                self.problem(item.where, what, "rename one")
            ours = [host for host in item.hosts if host in owner]
            if ours:
                what = f"{hostlist.fold(ours)} of foreign '{item.name}' are in '{owner[ours[0]]}'"
                self.problem(item.where, what, "a node is ours or foreign")

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

    def _partitions(
        self, members: dict[str, tuple[str, ...]], ours: set[str]
    ) -> tuple[Partition, ...]:
        found = []
        owner = {host: name for name, hosts in members.items() for host in hosts}
        for name, raw in self.raw.partitions.items():
            names = [
                (member, place_of(text, raw.at[key]))
                for key in ("supernodes", "pools", "foreign")
                for text in getattr(raw, key)
                for member in hostlist.expand(text)
            ]
            for member, place in names:
                if member not in members:
                    self.problem(
                        place, f"no supernode or pool '{member}'", nearest(member, members)
                    )
            whole = [host for member, _ in names for host in members.get(member, ())]
            single = [host for text in raw.hosts for host in hostlist.expand(text)]
            stray = [host for host in single if host not in owner]
            if stray and not self._lost:
                what = f"partition '{name}' holds unknown {hostlist.fold(stray)}"
                self.problem(raw.at["hosts"], what, nearest(stray[0], owner))
            if not names and not single:
                self.problem(raw.at[""], f"partition '{name}' has no supernodes and no pools")
            held = [*(member for member, _ in names), *(owner.get(host, "") for host in single)]
            found.append(
                Partition(
                    name=name,
                    members=tuple(item for item in dict.fromkeys(held) if item in ours),
                    hosts=tuple(dict.fromkeys([*whole, *single])),
                    max_time=raw.max_time,
                    default=raw.default,
                    where=raw.at[""],
                    options=tuple(raw.options.items()),
                    workload=tuple(dict.fromkeys(raw.workload)),
                    mixed=raw.mixed,
                )
            )
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
        defaults = {
            "framework": raw.defaults.framework,
            "sequence": raw.defaults.sequence,
            "global-batch": raw.defaults.global_batch,
        }
        return Policy(
            whole_supernode_from=raw.whole_supernode_from,
            small_jobs_to=target,
            supernode_gain=raw.supernode_gain,
            defaults=tuple((name, str(value)) for name, value in defaults.items() if value),
            prices=self._prices(raw),
            job_sizes=tuple(sorted(set(raw.job_sizes))),
        )

    def _prices(self, raw: schema.PolicySection) -> tuple[tuple[str, Price], ...]:
        found: dict[str, Price] = {}
        for name, price in raw.price.items():
            place = place_of(name, raw.at["price"])
            try:
                card = find_accelerator(name).id
            except UnknownName as error:
                self.problem(place, str(error))
                continue
            if card in found:
                self.problem(place, f"price: {card} stands twice", "leave it at one")
            found[card] = Price(*price)
        return tuple(found.items())


def _names(text: str) -> list[str]:
    try:
        return hostlist.expand(text)
    except ValueError:
        return [text]
