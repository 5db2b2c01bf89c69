"""Whether gres.conf gives each node what its Gres says: slurmctld of 22.05 keeps silent on it.

Where gres.conf has fewer files, a node has as many; where it has none for a gpu, the node
is drained as soon as its slurmd reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from .. import hostlist, units
from ..errors import Problem, SlurmError
from ..slurm import parse
from ..slurmconf.grammar import Said
from .reading import Conf, GresRecord, Nodes, listed, strangers

_SHARED = frozenset({"shard", "mps"})
"""Resources that share the files of gpu."""


def check(conf: Conf, known: Collection[str]) -> Iterator[Problem]:
    """Yield where gres.conf and the node lines contradict each other."""
    for record in conf.gres:
        if stray := strangers(record.hosts or (), known):
            yield Problem(record.named.where, stray, "delete or define them")
    by_host: dict[str, list[GresRecord]] = {}
    for record in conf.gres:
        for host in record.hosts or ():
            by_host.setdefault(host, []).append(record)
    everywhere = [record for record in conf.gres if record.hosts is None]
    for item in conf.nodes:
        if "gres" in item.keys and not _detects(everywhere):
            yield from _gres_of(item, everywhere, by_host)


def _gres_of(
    item: Nodes, everywhere: list[GresRecord], by_host: Mapping[str, list[GresRecord]]
) -> Iterator[Problem]:
    """Yield where the files of nodes are fewer or more than their Gres."""
    said = item.keys["gres"]
    try:
        meant = Counter[tuple[str, str]]()
        for gres in parse.gres(said.text):
            meant[gres.name, gres.type] += gres.count
    except SlurmError as error:
        yield Problem(said.where, str(error), "write it like gpu:h100:8")
        return
    alike: dict[tuple[int, ...], list[str]] = {}
    for host in item.hosts:
        alike.setdefault(tuple(map(id, by_host.get(host, ()))), []).append(host)
    for hosts in alike.values():
        records = [*everywhere, *by_host.get(hosts[0], ())]
        if _detects(records):
            continue
        for (name, kind), count in meant.items():
            there = _provided(records, name, kind)
            if there is not None and there != count:
                label = f"{name}:{kind}" if kind else name
                what = f"{hostlist.fold(hosts)}: {count} {label} here, {there} in gres.conf"
                yield Problem(said.where, what, "let both say what the node has")


def _detects(records: Iterable[GresRecord]) -> bool:
    return any(
        record.keys["autodetect"].text.lower() != "off"
        for record in records
        if "autodetect" in record.keys
    )


def _provided(records: Iterable[GresRecord], name: str, kind: str) -> int | None:
    """Return how many of a resource gres.conf gives a node; None where slurm.conf's word counts.

    A gpu needs a file. A record without a type serves any.
    """
    if name in _SHARED:
        return None
    named = [item.keys for item in records if "name" in item.keys]
    ours = [keys for keys in named if keys["name"].text == name]
    if not ours and name != "gpu":
        return None
    typed = [keys for keys in ours if "type" in keys]
    if kind and len(typed) == len(ours):
        ours = [keys for keys in typed if keys["type"].text == kind]
    return sum(_count(keys, name) for keys in ours)


def _count(keys: Mapping[str, Said], name: str) -> int:
    if "multiplefiles" in keys:
        return 1
    for key in ("file", "files"):
        if key in keys:
            try:
                names = (part.rpartition("/")[2] for part in listed(keys[key].text))
                return sum(len(hostlist.expand(part)) for part in names)
            except ValueError:
                return 0
    if name == "gpu":
        return 0
    try:
        return units.whole_number(keys["count"].text) if "count" in keys else 1
    except ValueError:
        return 0
