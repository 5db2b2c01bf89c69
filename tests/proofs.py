"""What a real Slurm makes of an inventory: where it puts jobs of the sizes that people use.

The tests hold it against the inventory, and scripts/placement-proofs prints it as a table.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from supernode_slurm import hostlist
from supernode_slurm.data import data_dir
from supernode_slurm.frameworks import capabilities
from supernode_slurm.inventory import (
    Inventory,
    NodeClass,
    Partition,
    Pool,
    Supernode,
    gres_devices,
    load,
)
from supernode_slurm.placement import Ask, Limits, Room, choose, live_view
from supernode_slurm.slurm.run import run
from supernode_slurm.slurmconf import Generated, find_release, generate
from supernode_slurm.slurmconf.shapes import compact_shapes
from supernode_slurm.submission.compose import compose
from supernode_slurm.twin import Twin, TwinSpec, installed_release

INVENTORIES = sorted((Path(str(data_dir("topology_conf"))) / "inventories").glob("*.yaml"))
WHOLE, BY_US, TWO, ONE_DOWN = "planning block", "by sn-submit", "two blocks", "one down"
_NOT_SEEN = ("None", "Priority")
"""Reasons of a job that the scheduler has not looked at yet."""
_LATEST_S = 30.0
_PATIENCE_S = 5.0
"""How long a job that the scheduler has found no place for may still get one."""

Hosts = frozenset[str]


@dataclass(frozen=True, slots=True)
class Group:
    """Equal nodes of a partition, by what holds them together."""

    partition: str
    topology: str
    """Kind of topology that places its jobs."""
    cards: tuple[tuple[str, str, int], ...]
    """GRES name, type and number in a node."""
    members: tuple[Supernode | Pool, ...]
    units: Mapping[str, tuple[str, ...]]
    """Hosts in order, by supernode, or by lowest switch where the nodes are of a pool."""
    size: int
    """Of the planning block."""

    @property
    def is_wide(self) -> bool:
        """Return whether the units are supernodes."""
        return is_wide(self.members[0])

    @property
    def hosts(self) -> Hosts:
        """Return all hosts."""
        return frozenset(host for unit in self.units.values() for host in unit)

    def held(self, hosts: Hosts) -> list[str]:
        """Return the names of the units that hold some of these hosts."""
        return [name for name, unit in self.units.items() if hosts.intersection(unit)]

    def fewest(self, nodes: int, down: Hosts) -> int:
        """Return how many units so many nodes need at least."""
        sizes = sorted((len(set(unit) - down) for unit in self.units.values()), reverse=True)
        return next(n for n in range(1, len(sizes) + 1) if sum(sizes[:n]) >= nodes)


@dataclass(frozen=True, slots=True)
class Job:
    """A job to be placed."""

    group: Group
    what: str
    nodes: int
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a job went."""

    job: Job
    hosts: Hosts
    """Empty if it waits."""
    reason: str
    down: Hosts

    @property
    def wrong(self) -> str:
        """Return what is wrong with the place, empty if nothing is."""
        job, held = self.job, self.job.group.held(self.hosts)
        label = f"{job.group.partition}, {job.what} of {job.nodes} nodes"
        if not self.hosts:
            return f"{label}: waits ({self.reason})"
        most = job.group.fewest(job.nodes, self.down) if job.what == TWO else 1
        inside = len(self.hosts) == job.nodes and self.hosts <= job.group.hosts - self.down
        if not inside or len(held) > most or not self._fits_the_links(held[0]):
            return f"{label}: {hostlist.fold(self.hosts)} in {', '.join(held)}"
        return ""

    def _fits_the_links(self, unit: str) -> bool:
        """Return whether the hosts are a row of their ring, or a box of their torus."""
        group = self.job.group
        hosts = group.units[unit]
        places = {index for index, host in enumerate(hosts) if host in self.hosts}
        if group.topology == "ring":
            return _is_row(places, len(hosts))
        if group.topology == "torus3d":
            x, y, z = group.members[0].interconnect.dims  # type: ignore[union-attr]
            axes = [{p % x for p in places}, {p // x % y for p in places}]
            axes.append({p // (x * y) for p in places})
            full = math.prod(map(len, axes)) == len(places)
            return full and all(map(_is_row, axes, (x, y, z)))
        return True


def _is_row(places: set[int], size: int) -> bool:
    """Return whether places follow each other on a ring of a size."""
    return sum((place + 1) % size not in places for place in places) <= 1


def is_wide(domain: Supernode | Pool) -> bool:
    """Return whether a domain is a supernode of several nodes."""
    return isinstance(domain, Supernode) and len(domain.hosts) > 1


def cards_of(nodes: NodeClass) -> tuple[tuple[str, str, int], ...]:
    """Return how many of each GRES name and type a node has."""
    counts: Counter[tuple[str, str]] = Counter()
    for device in gres_devices(nodes.devices):
        counts[device.gres, device.type] += 1
        counts["shard", device.type] += device.shards
    return tuple((name, kind, count) for (name, kind), count in counts.items() if count)


def groups(room: Inventory, generated: Generated) -> Iterator[Group]:
    """Yield the groups of equal nodes of each partition."""
    for partition in room.partitions:
        alike: dict[object, list[tuple[Supernode | Pool, NodeClass]]] = {}
        for domain in map(room.domain, partition.members):
            for nodes in domain.nodes:
                if set(nodes.hosts).intersection(partition.hosts):
                    key = (is_wide(domain), cards_of(nodes))
                    alike.setdefault(key, []).append((domain, nodes))
        for parts in alike.values():
            yield _group(room, partition, generated.kinds[partition.name], parts)


def _group(
    room: Inventory,
    partition: Partition,
    topology: str,
    parts: list[tuple[Supernode | Pool, NodeClass]],
) -> Group:
    units: dict[str, tuple[str, ...]] = {}
    for domain, nodes in parts:
        for name, hosts in _units(room, domain, nodes):
            mine = tuple(host for host in hosts if host in partition.hosts)
            if mine:
                units[name] = (*units.get(name, ()), *mine)
    members = tuple({domain.name: domain for domain, _ in parts}.values())
    planning = [domain.planning_nodes for domain in members if is_wide(domain)]
    cards = tuple(card for card in cards_of(parts[0][1]) if card[0] != "shard")
    size = min([*planning, *map(len, units.values())])
    return Group(partition.name, topology, cards, members, units, size)


def _units(
    room: Inventory, domain: Supernode | Pool, nodes: NodeClass
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a supernode with its nodes, or each lowest switch with those of a pool."""
    switches = [
        (switch.name, hosts)
        for fabric in room.fabrics
        for switch in fabric.switches
        if (hosts := tuple(host for host in nodes.hosts if host in switch.hosts))
    ]
    if is_wide(domain) or len(switches) < 2:
        yield domain.name, nodes.hosts
    else:
        yield from switches


def site_files(room: Inventory, generated: Generated) -> dict[str, str]:
    """Return the files as a site includes them, with lines for the nodes of its own."""
    files = dict(generated.files)
    if room.foreign:
        files["site.conf"] = "".join(
            f"NodeName={hostlist.fold(item.hosts)} CPUs=64 RealMemory=250000 State=UNKNOWN\n"
            f"PartitionName={item.name} Nodes={hostlist.fold(item.hosts)} State=UP\n"
            for item in room.foreign
        )
        files["supernode.conf"] += "Include site.conf\n"
    return files


def ask(twin: Twin, *argv: str) -> str:
    """Return what a program of Slurm prints."""
    return run(list(argv), timeout_s=60, env=twin.environment({})).stdout


def refused(twin: Twin, *argv: str) -> str:
    """Return why sbatch would refuse a job, empty if it would not."""
    words = ["sbatch", "--test-only", *argv, "--wrap=true"]
    result = run(words, timeout_s=60, env=twin.environment({}))
    return result.stderr if result.returncode else ""


class Proof:
    """Jobs of every group of nodes of an inventory, on a twin."""

    def __init__(self, room: Inventory, generated: Generated, twin: Twin) -> None:
        self._room = room
        self._twin = twin
        self._client = twin.client()
        self.groups = tuple(groups(room, generated))
        kinds = generated.kinds
        self._blocks = frozenset(name for name, kind in kinds.items() if kind == "block")
        self._down: Hosts = frozenset(
            host
            for nodes in room.node_classes
            if dict(nodes.options).get("State") == "DOWN"
            for host in nodes.hosts
        )

    def run(self) -> list[Placed]:
        """Return where jobs went: a planning block, two, and one with a node down everywhere."""
        batches = _disjoint(self.groups)
        self._drain(self._down)
        found = []
        for batch in batches:
            whole = [job for group in batch for job in self._whole(group)]
            found += self._round(*[[job for job in whole if job.what == w] for w in (WHOLE, BY_US)])
            found += self._round([job for group in batch for job in self._two(group)])
        for group in self.groups:
            self._drain(frozenset(self._one_of_each(group)))
        for batch in batches:
            found += self._round([job for group in batch for job in self._one_down(group)])
        return found

    def plain(self, group: Group, nodes: int) -> tuple[str, ...]:
        """Return sbatch's arguments for whole nodes of a group."""
        gres = ",".join(f"{name}:{kind}:{count}" for name, kind, count in group.cards)
        asked = (f"--partition={group.partition}", f"--nodes={nodes}", "--exclusive")
        return (*asked, f"--gres={gres}")

    def first_refused(self, group: Group) -> int | None:
        """Return the fewest whole nodes of a group that sbatch refuses, None if it takes all."""
        up = [host for host in group.hosts if host not in self._down]
        return next(
            (n for n in range(1, len(up) + 1) if refused(self._twin, *self.plain(group, n))), None
        )

    def by_us(self, group: Group, nodes: int) -> tuple[str, ...]:
        """Return the arguments that sn-submit gives sbatch for the same."""
        room = Room(self._room, live_view(self._room, self._client.nodes()), self._blocks)
        cards = tuple((kind, nodes * count) for _, kind, count in group.cards)
        limits = (Limits(partitions=(group.partition,)),)
        asked = Ask(cards, capabilities("megatron"), limits=limits)
        (component,) = compose(choose(room, asked)[0], self._blocks).components
        return tuple(f"--{name}={value}" if value else f"--{name}" for name, value in component)

    def _whole(self, group: Group) -> Iterator[Job]:
        yield Job(group, WHOLE, group.size, self.plain(group, group.size))
        if group.topology == "tree" and group.is_wide and len(group.units) > 1:
            yield Job(group, BY_US, group.size, self.by_us(group, group.size))

    def _two(self, group: Group) -> Iterator[Job]:
        if group.topology in ("tree", "block") and len(group.units) > 1:
            yield Job(group, TWO, 2 * group.size, self.plain(group, 2 * group.size))

    def _one_down(self, group: Group) -> Iterator[Job]:
        """Yield a job for each unit, as large as the planning block or what is left."""
        left = min(len(set(unit) - self._down) for unit in group.units.values())
        nodes = min(group.size, left)
        if group.topology == "torus3d":
            dims = group.members[0].interconnect.dims  # type: ignore[union-attr]
            nodes = max(n for n in map(math.prod, compact_shapes(dims)) if n <= left)
        if group.hosts & self._down:
            by_us = group.topology == "tree" and group.is_wide
            argv = self.by_us(group, nodes) if by_us else self.plain(group, nodes)
            yield from [Job(group, ONE_DOWN, nodes, argv)] * len(group.units)

    def _one_of_each(self, group: Group) -> Iterator[str]:
        """Yield a node of each unit, from its middle, where none is down already."""
        for unit in group.units.values():
            if len(unit) > 1 and not self._down.intersection(unit):
                yield unit[len(unit) // 2]

    def _drain(self, hosts: Hosts) -> None:
        if hosts:
            names = f"nodename={hostlist.fold(hosts)}"
            ask(self._twin, "scontrol", "update", names, "state=drain", "reason=proof")
            self._down |= hosts

    def _round(self, *waves: Sequence[Job]) -> list[Placed]:
        """Submit jobs, each wave once the one before has its place or has none; cancel them all."""
        wrap = ("--output=/dev/null", "--wrap=true")
        found, every = [], []
        for jobs in waves:
            names = [str(self._client.submit([*job.argv, *wrap])) for job in jobs]
            seen = self._settled(names)
            every += names
            found += [
                Placed(job, *seen[name], self._down) for name, job in zip(names, jobs, strict=True)
            ]
        if every:
            ask(self._twin, "scancel", *every)
        return found

    def _settled(self, names: Iterable[str]) -> dict[str, tuple[Hosts, str]]:
        """Return the hosts of each job, and why it waits."""
        started = time.monotonic()
        while True:
            lines = ask(self._twin, "squeue", "-h", "-o", "%i|%N|%r").splitlines()
            fields = {line.split("|")[0]: line.split("|")[1:] for line in lines}
            waits = [reason for hosts, reason in map(fields.__getitem__, names) if not hosts]
            seen = not any(reason in _NOT_SEEN for reason in waits)
            passed = time.monotonic() - started
            if not waits or passed > (_PATIENCE_S if seen else _LATEST_S):
                return {
                    name: (frozenset(hostlist.expand(hosts) if hosts else ()), reason)
                    for name, (hosts, reason) in fields.items()
                }
            time.sleep(0.05)


def _disjoint(every: Iterable[Group]) -> list[list[Group]]:
    """Return batches of groups that share no host."""
    batches: list[list[Group]] = []
    for group in every:
        for batch in batches:
            if not any(group.hosts & other.hosts for other in batch):
                batch.append(group)
                break
        else:
            batches.append([group])
    return batches


def row(
    release: str, name: str, group: Group, placed: Sequence[Placed], first: int | None
) -> list[str]:
    """Return a row of the table: where the jobs of a group went, and the first refused size.

    Of jobs that are submitted together it shows the places, and not which job got which.
    """
    mine = [item for item in placed if item.job.group == group]
    cells = []
    for what in (WHOLE, BY_US, TWO, ONE_DOWN):
        jobs = [item for item in mine if item.job.what == what]
        held = sorted(hostlist.fold(group.held(item.hosts)) or "waits" for item in jobs)
        cells.append(f"{jobs[0].job.nodes}: {', '.join(held)}" if jobs else "-")
    whole = max(map(len, group.units.values()))
    sizes = f"{group.size} of {whole}"
    return [release, name, group.partition, group.topology, sizes, *cells, str(first or "-")]


def main() -> int:
    """Print where the jobs of every inventory go on the Slurm on PATH; return the exit code."""
    head = ["Slurm", "inventory", "partition", "topology", "block"]
    head += [WHOLE, BY_US, TWO, ONE_DOWN, "refused from"]
    rows, problems = [head, ["---"] * len(head)], []
    release = find_release(installed_release())
    for path in INVENTORIES:
        room = load(path)
        generated = generate(room, release)
        with Twin(TwinSpec(site_files(room, generated))) as twin:
            proof = Proof(room, generated, twin)
            first = [proof.first_refused(group) for group in proof.groups]
            placed = proof.run()
        rows += [
            row(release.name, path.stem, group, placed, size)
            for group, size in zip(proof.groups, first, strict=True)
        ]
        problems += [f"{path.stem}: {item.wrong}" for item in placed if item.wrong]
    print("\n".join(f"| {' | '.join(cells)} |" for cells in rows))
    for problem in problems:
        print(f"placement-proofs: error: {problem}", file=sys.stderr)
    return 5 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
