"""What a release of Slurm makes of a room, and the one door to all rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date

from .. import hostlist
from ..errors import Where
from ..inventory import Finding, Inventory, Partition, Supernode
from ..inventory.lint import Fault, Rule, Subject, judge
from ..inventory.lint_accept import ACCEPT_RULES
from ..inventory.lint_cards import CARD_RULES
from ..inventory.lint_network import NETWORK_RULES
from ..inventory.lint_power import POWER_RULES
from ..inventory.lint_room import ROOM_RULES
from ..inventory.lint_sizes import SIZE_RULES
from ..inventory.lint_upkeep import UPKEEP_RULES
from ..inventory.power import room_power
from . import shapes
from .choice import DEFAULT
from .generate import generate
from .levels import Held, refuses
from .release import Release, assumed_release
from .render import Blocks
from .rows import rows_of
from .topology import choose, topologies

_PAGE = 4096


def lint(inventory: Inventory, today: date, release: str | None = None) -> list[Finding]:
    """Return what all rules find for a release of Slurm, in the order of the file.

    None for the inventory's release. What the inventory accepts is marked.
    Raises ``ConfigError`` for a release that nobody knows.
    """
    assumed_release(release or inventory.release)
    power = room_power(inventory)
    subject = Subject(inventory, today, release or inventory.release, power)
    last = {rule.name for rule in ACCEPT_RULES}
    return judge(subject, [rule for rule in RULES if rule.name not in last], ACCEPT_RULES)


def _release(subject: Subject) -> Release:
    return assumed_release(subject.release)


def _losses(subject: Subject) -> Iterator[Fault]:
    inventory = subject.inventory
    if inventory.partitions:
        release = _release(subject)
        for note in choose(inventory, release).notes:
            yield Fault(Where(inventory.source), note, (release.name,))


def _refused(subject: Subject) -> Iterator[Fault]:
    """Yield sizes of jobs that topology/block has no place for without --segment."""
    inventory, release = subject.inventory, _release(subject)
    sizes = inventory.policy.job_sizes if inventory.partitions else ()
    if not sizes:
        return
    bound = choose(inventory, release).bound
    blocks = {item.name: item.body for item in topologies(inventory, release)}
    for partition in inventory.partitions:
        body = blocks[bound.get(partition.name, DEFAULT)]
        devices = _devices(inventory, partition)
        if isinstance(body, Blocks) and body.sizes and devices:
            base = body.sizes[0]
            levels = [(size // base).bit_length() - 1 for size in body.sizes]
            rows = rows_of(inventory, list(body.blocks), [partition], base).rows
            wrong = [
                size
                for size in sizes
                if any(_finds_none(base, row.held, levels, -(-size // devices)) for row in rows)
            ]
            if wrong:
                what = (
                    f"jobs of {_listed(wrong)} devices in partition {partition.name} find no place "
                    f"in blocks of {_listed(body.sizes)} nodes without --segment, or none when the "
                    "spares are down"
                )
                yield Fault(partition.where, what, (partition.name,))


def _finds_none(base: int, held: Held, levels: list[int], nodes: int) -> bool:
    return nodes <= sum(held) and refuses(base, held, levels, nodes)


def _devices(inventory: Inventory, partition: Partition) -> int:
    """Return the devices of a node of a partition, the least where they differ."""
    mine = set(partition.hosts)
    counts = [
        nodes.device_count
        for domain in map(inventory.domain, partition.members)
        for nodes in domain.nodes
        if not mine.isdisjoint(nodes.hosts)
    ]
    return min(counts, default=0)


def _no_shape(subject: Subject) -> Iterator[Fault]:
    inventory, release = subject.inventory, _release(subject)
    sizes = inventory.policy.job_sizes if inventory.partitions else ()
    kinds = choose(inventory, release).kinds if sizes else {}
    for partition in inventory.partitions if sizes else ():
        devices = _devices(inventory, partition)
        held = [item for item in inventory.supernodes if item.name in partition.members]
        if kinds[partition.name] != "torus3d" or not devices:
            continue
        fitting = sorted({size for item in held for size in shapes.job_sizes(item)})
        wrong = [
            size
            for size in sizes
            if -(-size // devices) <= max(fitting) and -(-size // devices) not in fitting
        ]
        if wrong:
            what = (
                f"jobs of {_listed(wrong)} devices in partition {partition.name} have no shape in "
                f"its torus: shapes hold {_listed(fitting)} nodes"
            )
            yield Fault(partition.where, what, (partition.name,))


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _no_segment(subject: Subject) -> Iterator[Fault]:
    inventory, release = subject.inventory, _release(subject)
    if release.segment:
        return
    for item in inventory.supernodes:
        devices = min(nodes.device_count for nodes in item.nodes)
        most = item.planning_nodes * devices
        wide = [size for size in inventory.policy.job_sizes if size > most]
        if wide and devices and len(item.hosts) > 1:
            what = (
                f"Slurm {release.name} has no --segment: jobs of {_listed(wide)} "
                f"devices, more than {most} of {item.name}, are cut over supernodes as it happens"
            )
            yield Fault(item.where, what, (item.name,))
            return


def _dropped(subject: Subject) -> Iterator[Fault]:
    inventory, release = subject.inventory, _release(subject)
    places = choose(inventory, release).places if inventory.partitions else {}
    alike: dict[Where, list[Supernode]] = {}
    for item in inventory.supernodes:
        if any(host in places for host in item.hosts):
            alike.setdefault(item.where, []).append(item)
    for where, items in alike.items():
        names = tuple(item.name for item in items)
        what = (
            f"{hostlist.fold(names)}: Slurm {release.name}.0 to {release.name}.2 drop cloud nodes "
            "that power down from their block; Topology= on their lines keeps them"
        )
        yield Fault(where, what, names)


def _dies(subject: Subject) -> Iterator[Fault]:
    release = _release(subject)
    if not release.reconfigure_survives:
        what = (
            f"Slurm {release.name}: a mistake in any file ends slurmctld at 'scontrol "
            "reconfigure', and nodes are added or removed by a restart only"
        )
        yield Fault(Where(subject.inventory.source), what, (release.name,))


def _page(subject: Subject) -> Iterator[Fault]:
    inventory, release = subject.inventory, _release(subject)
    if release.lone_4096 or not inventory.partitions or not inventory.node_classes:
        return
    text = generate(inventory, release).files["topology.yaml"]
    if text.endswith("\n\n") and (len(text.encode()) - 1) % _PAGE == 0:
        what = (
            f"topology.yaml would be {len(text.encode()) - 1} bytes, of which slurmctld "
            f"{release.name} dies: it ends with an empty line more"
        )
        yield Fault(Where(inventory.source), what, ("topology.yaml",))


def _options(subject: Subject) -> Iterator[Fault]:
    inventory, release = subject.inventory, _release(subject)
    lines = [("partition", item.name, item.where, item.options) for item in inventory.partitions]
    lines += [
        ("nodes", hostlist.fold(nodes.hosts), nodes.where, nodes.options)
        for nodes in inventory.node_classes
    ]
    for kind, name, where, options in lines:
        for key, _ in options:
            if key in release.unknown_options:
                what = f"{kind} {name}: Slurm {release.name} does not know {key}, and ends"
                yield Fault(where, what, (name, key))


SLURM_RULES = (
    Rule(
        "release-loses",
        "note",
        "a release of Slurm cannot say all that the room is",
        "a newer release may hold more ('sn show releases'); the files say it at their top",
        _losses,
    ),
    Rule(
        "size-refused",
        "error",
        "Slurm takes a job into blocks of one level only, and refuses what no aggregate holds",
        "submit these with --segment (sn-submit does), or choose sizes of whole blocks",
        _refused,
    ),
    Rule(
        "size-no-shape",
        "error",
        "topology/torus3d never starts a job whose number of nodes no shape has",
        "choose other sizes, or list shapes for them under 'placements'",
        _no_shape,
    ),
    Rule(
        "no-segment",
        "warning",
        "without --segment nothing keeps the parts of a large job equal, each in one supernode",
        "a release from 24.05 on has it; until then submit by sn-submit, which places by features",
        _no_segment,
    ),
    Rule(
        "cloud-blocks",
        "warning",
        "25.11.0 to 25.11.2 lose cloud nodes from their block, and whole-block jobs wait for ever",
        "run 25.11.3 or later; keep Topology= on these lines until then",
        _dropped,
    ),
    Rule(
        "reconfigure-dies",
        "note",
        "a release whose slurmctld ends at a bad file leaves no scheduler behind",
        "try files on a private Slurm first: 'sn twin', or 'sn apply', which does",
        _dies,
    ),
    Rule(
        "topology-4096",
        "note",
        "slurmctld 25.05, and 25.11 before .6, dies of a topology.yaml of n x 4096 bytes",
        "leave the last line of the file as it is",
        _page,
    ),
    Rule(
        "option-unknown",
        "error",
        "slurmctld ends at a key that its release does not know",
        "take the option out, or write for a release that knows it",
        _options,
    ),
)

RULES = (
    *POWER_RULES,
    *NETWORK_RULES,
    *CARD_RULES,
    *SIZE_RULES,
    *UPKEEP_RULES,
    *ROOM_RULES,
    *SLURM_RULES,
    *ACCEPT_RULES,
)
"""All rules, by what they are about."""
