"""Classes of equal nodes: their hosts expanded, their cards looked up and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from .. import hostlist
from ..catalogue import UnknownName, find_accelerator
from ..errors import ConfigError, Problem, Where
from . import schema
from .cardcheck import check_devices, check_node, check_other
from .cards import expand_files
from .model import Devices, Network, NodeClass, OtherGres
from .upkeep_build import node_power
from .yamltree import place_of


class NodeResolver:
    """Turns the sections of nodes of one file into classes; adds to ``problems``."""

    def __init__(self, raw: schema.InventoryFile, problems: list[Problem]) -> None:
        self.problems = problems
        self._room_left = hostlist.HOST_LIMIT
        self._types = _gres_types(raw)

    def problem(self, where: Where, what: str, todo: str = "") -> None:
        """Keep one problem."""
        self.problems.append(Problem(where, what, todo))

    def resolve(self, raw: schema.NodesSection, number: str | None, classes: int) -> NodeClass:
        """Return the class of nodes of one supernode, whose number in its class is given."""
        text = raw.hosts
        if "{n}" in text and number is None:
            self.problem(raw.at["hosts"], "'{n}' needs a class of supernodes, like name: sn[1-8]")
        elif classes > 1 and "{n}" not in text:
            self.problem(raw.at["hosts"], "equal supernodes would share hosts", "write {n}")
        problems = len(self.problems)
        found = [self._devices(raw, name, item) for name, item in raw.devices.items()]
        devices = tuple(item for item in found if item is not None)
        if len(self.problems) == problems:
            self.problems.extend(check_node(raw.at.get("devices", raw.at[""]), devices))
        if raw.cloud and "State" in raw.options:
            what = "cloud nodes with a State of their own: theirs is CLOUD"
            self.problem(raw.at["options"], what, "leave out one of cloud and State")
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
            features=tuple(dict.fromkeys(raw.features)),
            cloud=raw.cloud,
            options=tuple(raw.options.items()),
            other_gres=self._other_gres(raw, devices),
            network=Network(
                interface=raw.network.interface or "",
                hcas=tuple(raw.network.hcas),
                environment=tuple(raw.network.environment.items()),
            ),
            power=node_power(raw),
        )

    def _other_gres(
        self, raw: schema.NodesSection, devices: tuple[Devices, ...]
    ) -> tuple[OtherGres, ...]:
        found = []
        for key, item in raw.other_gres.items():
            name, _, kind = key.partition(":")
            section = None if isinstance(item, int) else item
            files = expand_files(section.files) if section and section.files else ()
            count = section.count if section else item
            found.append(OtherGres(name, kind, count if isinstance(count, int) else 0, files))
        self.problems.extend(check_other(raw.at.get("other_gres", raw.at[""]), found, devices))
        return tuple(found)

    def _devices(
        self, raw: schema.NodesSection, name: str, item: int | schema.DeviceSection
    ) -> Devices | None:
        try:
            accelerator = find_accelerator(name)
        except UnknownName as error:
            self.problem(place_of(name, raw.at["devices"]), str(error))
            return None
        usual = self._types.get(accelerator.id, accelerator.id)
        if isinstance(item, int):
            return Devices(accelerator.id, item, raw.gres, raw.type or usual)
        self.problems.extend(check_devices(item, raw))
        return Devices(
            accelerator=accelerator.id,
            count=item.count,
            gres=item.gres or raw.gres,
            type=item.type or raw.type or usual,
            files=expand_files(item.files) if item.files else (),
            missing=tuple(sorted(set(item.missing))),
            cores=tuple(item.cores),
            links=tuple(item.links),
            shards=item.shards or 0,
            mig=tuple((profile, tuple(ids)) for profile, ids in item.mig.items()),
        )


def as_list(
    nodes: schema.NodesSection | list[schema.NodesSection],
) -> list[schema.NodesSection]:
    """Return the sections of nodes, of which a file may give one or several."""
    return nodes if isinstance(nodes, list) else [nodes]


def _gres_types(raw: schema.InventoryFile) -> dict[str, str]:
    """Return the GRES type of each accelerator in a file."""
    found: dict[str, str] = {}
    sections = [item.nodes for item in raw.supernodes] + [item.nodes for item in raw.pools]
    for name in (name for nodes in sections for part in as_list(nodes) for name in part.devices):
        try:
            accelerator = find_accelerator(name)
        except UnknownName:
            continue
        found[accelerator.id] = accelerator.gres_type
    return usual_types(found)


def usual_types(found: Mapping[str, str]) -> dict[str, str]:
    """Return the GRES type of each accelerator: its short name, or its id where two share it.

    ``found`` maps the ids in one inventory to their short names.
    """
    shared = Counter(found.values())
    return {key: key if shared[short] > 1 else short for key, short in found.items()}
