"""Rules about what runs on nodes and what care they need: versions, maintenance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from .. import hostlist
from ..errors import Where
from .lint import Fault, Rule, Subject
from .model import Inventory, Pool, Supernode
from .upkeep import Installed, Maintenance

SOON_SHARE = 0.1
"""Of the interval: so long before its day, care is due soon."""
SOON_DAYS = 30.0
"""At most."""


def _in_supernodes(subject: Subject) -> Iterator[Fault]:
    return _differ(subject.inventory, subject.inventory.supernodes)


def _in_pools(subject: Subject) -> Iterator[Fault]:
    return _differ(subject.inventory, subject.inventory.pools)


def _differ(inventory: Inventory, domains: Iterable[Supernode | Pool]) -> Iterator[Fault]:
    """Yield each component whose version is not one among equal nodes, the minority named."""
    for domain in domains:
        for hosts in _equal_nodes(domain):
            for component, installed in _by_component(inventory).items():
                found = _versions(installed, hosts)
                if len(found) > 1:
                    yield _minority(domain.name, component, installed, found)


def _minority(
    name: str, component: str, installed: list[Installed], found: dict[str, list[str]]
) -> Fault:
    ranked = sorted(found, key=lambda version: len(found[version]))
    most = ranked[-1]
    tied = len(found[ranked[-2]]) == len(found[most])
    few = ranked if tied else ranked[:-1]
    shown = ", ".join(f"{version} on {hostlist.fold(found[version])}" for version in few)
    rest = "" if tied else f", {most} on the other {len(found[most])}"
    hosts = tuple(host for version in few for host in found[version])
    where = next(item.where for item in installed if item.version == few[0])
    todo = "" if tied else f"bring {hostlist.fold(hosts)} to {most}, or the others to theirs"
    return Fault(where, f"{component} in {name}: {shown}{rest}", (name, component), hosts, todo)


def _across(subject: Subject) -> Iterator[Fault]:
    """Yield components that are one within each supernode or pool, and differ between them."""
    inventory = subject.inventory
    for partition in inventory.partitions:
        domains = [inventory.domain(name) for name in partition.members]
        for component, installed in _by_component(inventory).items():
            kinds: dict[object, dict[str, list[str]]] = {}
            for domain in domains:
                for nodes in domain.nodes:
                    versions = _versions(installed, list(nodes.hosts))
                    kind = tuple(item.accelerator for item in nodes.devices)
                    for version in versions if len(versions) == 1 else ():
                        names = kinds.setdefault(kind, {}).setdefault(version, [])
                        names += [domain.name] if domain.name not in names else []
            for found in kinds.values():
                if len(found) > 1 and len({name for names in found.values() for name in names}) > 1:
                    shown = ", ".join(
                        f"{version} on {hostlist.fold(names)}" for version, names in found.items()
                    )
                    what = f"{component} in partition {partition.name}: {shown}"
                    yield Fault(_place(installed, found), what, (partition.name, component))


def _place(installed: list[Installed], found: dict[str, list[str]]) -> Where:
    rare = min(found, key=lambda version: len(found[version]))
    return next(item.where for item in installed if item.version == rare)


def _unsaid(subject: Subject) -> Iterator[Fault]:
    inventory = subject.inventory
    for domain in inventory.domains:
        for hosts in _equal_nodes(domain):
            for component, installed in _by_component(inventory).items():
                known = {host for item in installed for host in item.hosts}
                missing = tuple(host for host in hosts if host not in known)
                if missing and len(missing) < len(hosts):
                    what = (
                        f"{component} in {domain.name}: nobody has said that of "
                        f"{hostlist.fold(missing)}, and that of {len(hosts) - len(missing)} others"
                    )
                    yield Fault(installed[0].where, what, (domain.name, component), missing)


def _equal_nodes(domain: Supernode | Pool) -> list[list[str]]:
    """Return the hosts with the same cards: others may well need other drivers."""
    found: dict[object, list[str]] = {}
    for nodes in domain.nodes:
        kind = tuple(item.accelerator for item in nodes.devices)
        found.setdefault(kind, []).extend(nodes.hosts)
    return list(found.values())


def _by_component(inventory: Inventory) -> dict[str, list[Installed]]:
    found: dict[str, list[Installed]] = {}
    for item in inventory.upkeep.installed:
        found.setdefault(item.component, []).append(item)
    return found


def _versions(installed: list[Installed], hosts: list[str]) -> dict[str, list[str]]:
    """Return the hosts of each version that any of them has."""
    wanted = set(hosts)
    found = {item.version: [h for h in item.hosts if h in wanted] for item in installed}
    return {version: some for version, some in found.items() if some}


def _overdue(subject: Subject) -> Iterator[Fault]:
    for item in subject.inventory.upkeep.maintenance:
        late = _days_late(subject, item)
        if late is not None and late > 0:
            what = (
                f"{_name(item)} is overdue by {_days(late)}: every {_days(item.every_days)}, last "
                f"{item.last}"
            )
            yield Fault(item.where, what, (item.name, *item.on))


def _due(subject: Subject) -> Iterator[Fault]:
    for item in subject.inventory.upkeep.maintenance:
        late = _days_late(subject, item)
        if late is not None and -min(SOON_DAYS, item.every_days * SOON_SHARE) <= late <= 0:
            day = subject.today + timedelta(days=-late)
            what = (
                f"{_name(item)} is due on {day}, {'today' if late > -1 else f'in {_days(-late)}'}"
            )
            yield Fault(item.where, what, (item.name, *item.on))


def _undated(subject: Subject) -> Iterator[Fault]:
    for item in subject.inventory.upkeep.maintenance:
        if item.last is None:
            what = f"{_name(item)}: nobody has said when it was last done"
            yield Fault(item.where, what, (item.name, *item.on))
        elif item.last > subject.today:
            what = f"{_name(item)} was last done on {item.last}, which is to come"
            yield Fault(item.where, what, (item.name, *item.on))


def _days_late(subject: Subject, item: Maintenance) -> float | None:
    """Return the days since care was due, below 0 before that day; None if unknown."""
    if item.last is None or item.last > subject.today:
        return None
    return (subject.today - item.last).days - item.every_days


def _name(item: Maintenance) -> str:
    return f"{item.name} of {hostlist.fold(item.on)}" if item.on else item.name


def _days(count: float) -> str:
    return f"{count:g} day" if count == 1 else f"{count:g} days"


UPKEEP_RULES = (
    Rule(
        "versions-supernode",
        "error",
        "nodes of one supernode with unlike firmware, drivers or libraries fail as one",
        "bring them to one version",
        _in_supernodes,
    ),
    Rule(
        "versions-pool",
        "warning",
        "a job over nodes with unlike firmware, drivers or libraries may hang",
        "bring them to one version",
        _in_pools,
    ),
    Rule(
        "versions-partition",
        "warning",
        "a job over supernodes with unlike firmware, drivers or libraries may hang",
        "bring them to one version",
        _across,
    ),
    Rule(
        "versions-unknown",
        "warning",
        "a node whose version nobody has said cannot be compared",
        "run the probe there, and 'sn import --update'",
        _unsaid,
    ),
    Rule(
        "maintenance-overdue",
        "error",
        "care that its interval asks for was not done",
        "do it, and write the day under 'last'",
        _overdue,
    ),
    Rule(
        "maintenance-due",
        "warning",
        "care is due within a tenth of its interval, 30 days at most",
        "plan it, and write the day under 'last' when it is done",
        _due,
    ),
    Rule(
        "maintenance-date",
        "warning",
        "care without the day on which it was last done is never overdue",
        "write the day under 'last'",
        _undated,
    ),
)
