"""What a person wrote and a source says otherwise: never changed, always told."""

from __future__ import annotations

from collections import Counter

from ...errors import Where
from ...inventory import Fabric, Inventory, Partition
from ...units import minutes
from ..live import PLACE
from .changes import Log
from .told import Told

_TODO = "kept as written: correct it by hand if the source is right"


def tell(room: Inventory, told: Told, log: Log) -> None:
    """Tell of speeds, limits and places that a source says otherwise."""
    for theirs in told.fabrics:
        votes = Counter(fabric.name for fabric in room.fabrics for _ in fabric.hosts & theirs.hosts)
        if votes:
            name = votes.most_common(1)[0][0]
            _fabric(next(item for item in room.fabrics if item.name == name), theirs, log)
    _groups(room, told, log)
    if told.waits:
        what = "slurmctld is older than its files: what it says of cards was left aside"
        log.differs(PLACE, what, "restart slurmctld, it reads cards at a start alone")
    files = {item.name: item.where for item in told.room.partitions}
    by_name = {item.name: item for item in told.imported.inventory.partitions}
    for here in room.partitions:
        if here.name in by_name and files[here.name].file not in told.room.ours:
            _partition(here, by_name[here.name], files[here.name], log)


_OURS = frozenset({"TRESBillingWeights"})
"""Options of partitions that follow from the cards."""


def _fabric(here: Fabric, theirs: Fabric, log: Log) -> None:
    pairs = {
        "rails": (here.rails, theirs.rails, ""),
        "rails' bandwidth": (here.rail_gbs, theirs.rail_gbs, " GB/s"),
    }
    for what, (mine, said, unit) in pairs.items():
        if mine is not None and said is not None and abs(mine - said) > 0.01 * mine:
            log.differs(
                here.where,
                f"{what} of fabric {here.name}: {mine:g}{unit} here, {said:g}{unit} measured",
                _TODO,
            )


def _groups(room: Inventory, told: Told, log: Log) -> None:
    owner = {host: item.name for item in room.domains for host in item.hosts}
    supernodes = {item.name for item in room.supernodes}
    for group in told.groups:
        parts: dict[str, int] = {}
        for host in group.hosts:
            if host in owner:
                parts[owner[host]] = parts.get(owner[host], 0) + 1
        place = told.room.sources[0] if told.room.sources else "sources"
        if parts and not parts.keys() & supernodes:
            what = f"nodes of {', '.join(parts)} share a scale-up fabric ({group.name})"
            log.differs(Where(place), what, "write a supernode by hand")
        elif len(parts) > 1:
            what = f"nodes of {', '.join(parts)} are in one scale-up fabric ({group.name})"
            log.differs(Where(place), what, "move them by hand: names and spares follow")


def _partition(here: Partition, theirs: Partition, where: Where, log: Log) -> None:
    if _limit(here.max_time) != _limit(theirs.max_time):
        limits = [item.max_time or "no limit" for item in (here, theirs)]
        what = f"max_time of partition {here.name}: {limits[0]} here, {limits[1]} in Slurm"
        log.differs(where, what, _TODO)
    if here.default != theirs.default:
        what = (
            f"partition {here.name} is {_not(here.default)} here, {_not(theirs.default)} in Slurm"
        )
        log.differs(where, what, _TODO)
    mine, said = dict(here.options), dict(theirs.options)
    for key in sorted((mine.keys() | said.keys()) - _OURS):
        if mine.get(key) != said.get(key):
            what = f"{key} of partition {here.name}: {mine.get(key, 'none')} here"
            log.differs(where, f"{what}, {said.get(key, 'none')} in Slurm", _TODO)


def _limit(text: str | None) -> float:
    return minutes(text) if text else float("inf")


def _not(default: bool) -> str:
    return "the default" if default else "no default"
