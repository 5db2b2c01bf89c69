"""What a release of Slurm makes of a room, and the one door to all rules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from .. import hostlist
from ..errors import Where
from ..inventory import Finding, Inventory, Supernode
from ..inventory.lint import Fault, Rule, Subject, judge
from ..inventory.lint_accept import ACCEPT_RULES
from ..inventory.lint_cards import CARD_RULES
from ..inventory.lint_network import NETWORK_RULES
from ..inventory.lint_power import POWER_RULES
from ..inventory.lint_room import ROOM_RULES
from ..inventory.lint_sizes import SIZE_RULES
from ..inventory.lint_upkeep import UPKEEP_RULES
from . import blocks, shapes
from .generate import generate
from .levels import refuses
from .release import Release, assumed_release
from .render import Blocks
from .topology import choose, topologies

_LONGEST_NUMBER = 19
"""Digits at the end of a name that Slurm's host lists can count."""
_PAGE = 4096


def lint(inventory: Inventory, today: date, release: str | None = None) -> list[Finding]:
    """Return what all rules find for a release of Slurm, in the order of the file.

    None for the inventory's release. What the inventory accepts is marked.
    Raises ``ConfigError`` for a release that nobody knows.
    """
    subject = Subject(inventory, today, release or inventory.release)
    assumed_release(subject.release)
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
    for body, members in _block_topologies(inventory, release):
        devices = min(nodes.device_count for item in members for nodes in item.nodes)
        held = tuple(len(block.nodes) for block in body.blocks)
        base = body.sizes[0] if body.sizes else blocks.base_size(members[0], release)
        levels = [(size // base).bit_length() - 1 for size in body.sizes]
        wrong = [
            size
            for size in (inventory.policy.job_sizes if devices and levels else ())
            if -(-size // devices) <= sum(held) and refuses(base, held, levels, -(-size // devices))
        ]
        if wrong:
            names = tuple(item.name for item in members)
            what = (
                f"jobs of {', '.join(map(str, wrong))} devices on {hostlist.fold(names)} find no "
                f"place in blocks of {', '.join(map(str, body.sizes))} nodes without --segment"
            )
            yield Fault(members[0].where, what, names)


def _block_topologies(
    inventory: Inventory, release: Release
) -> Iterator[tuple[Blocks, list[Supernode]]]:
    by_name = {item.name: item for item in inventory.supernodes}
    for topology in topologies(inventory, release) if inventory.partitions else ():
        if isinstance(topology.body, Blocks):
            names = [block.name for block in topology.body.blocks]
            yield topology.body, [by_name[name] for name in names if name in by_name]


def _no_shape(subject: Subject) -> Iterator[Fault]:
    inventory, release = subject.inventory, _release(subject)
    if "torus3d" not in release.topologies:
        return
    for item in inventory.supernodes:
        devices = min(nodes.device_count for nodes in item.nodes)
        if item.interconnect.kind != "torus" or not item.interconnect.dims or not devices:
            continue
        fitting = shapes.job_sizes(item)
        wrong = [
            size
            for size in inventory.policy.job_sizes
            if (nodes := -(-size // devices)) <= len(item.hosts) and nodes not in fitting
        ]
        if wrong:
            what = (
                f"jobs of {', '.join(map(str, wrong))} devices have no shape in the torus "
                f"{item.name}: its shapes hold {', '.join(map(str, sorted(fitting)))} nodes"
            )
            yield Fault(item.where, what, (item.name,))


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
                f"Slurm {release.name} has no --segment: jobs of {', '.join(map(str, wide))} "
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


def _digits(subject: Subject) -> Iterator[Fault]:
    inventory = subject.inventory
    named = [(item.name, item.where) for item in inventory.domains]
    named += [
        (switch.name, fabric.where) for fabric in inventory.fabrics for switch in fabric.switches
    ]
    for name, where in named:
        if len(hostlist.digit_tail(name)) > _LONGEST_NUMBER:
            what = f"{name} ends in {len(hostlist.digit_tail(name))} digits"
            yield Fault(where, what, (name,))


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
    Rule(
        "name-digits",
        "error",
        "slurmctld reads digits at the end of a name as a number, and ends if it is too large",
        "give it another name",
        _digits,
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
