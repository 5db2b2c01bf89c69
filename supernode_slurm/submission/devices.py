"""The devices that sbatch's own options ask for: --gres, --gpus, --gpus-per-*, --tres-per-task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import SlurmError, UsageError
from ..inventory import Inventory
from ..slurm import Gres, parse
from .settings import Settings

_GPU_OPTIONS = ("gpus", "gpus-per-node", "gpus-per-task")
DEVICE_OPTIONS = ("gres", *_GPU_OPTIONS, "tres-per-task")
"""Options of sbatch that ask for devices."""
_SHARES = ("shard", "mps")


@dataclass(frozen=True, slots=True)
class Asked:
    """What one option asks for."""

    option: str
    gres: str
    kind: str
    """GRES type, empty for any."""
    count: int
    others: tuple[Gres, ...] = ()
    """What else it asks for, of which no plan speaks."""


def asked_devices(inventory: Inventory, given: Settings) -> dict[str, Asked]:
    """Return what each of a component's options asks for, by option.

    Raises ``UsageError`` for what cannot be read, for none, and for two kinds at once.
    """
    cards = {item.gres for nodes in inventory.node_classes for item in nodes.devices}
    found = {}
    for option in DEVICE_OPTIONS:
        if option not in given.values:
            continue
        items = _items(given, option)
        if any(item.name in _SHARES for item in items):
            raise UsageError(f"{given.said(option)}: a share of a card is no card: plain sbatch")
        mine = [item for item in items if item.name in cards]
        if len(mine) > 1:
            raise UsageError(f"{given.said(option)}: one kind of card for each component")
        if mine and not mine[0].count:
            raise UsageError(f"{given.said(option)}: no card at all")
        if mine:
            others = tuple(item for item in items if item not in mine)
            found[option] = Asked(option, mine[0].name, mine[0].type, mine[0].count, others)
    return found


def tasks_per_node(given: Settings) -> int | None:
    """Return the tasks on each node that the user says, by one option or by two."""
    each = number(given, "ntasks-per-node")
    tasks, nodes = number(given, "ntasks"), number(given, "nodes")
    if each is None and tasks and nodes and tasks % nodes == 0:
        return tasks // nodes
    return each


def per_node(given: Settings, asked: Mapping[str, Asked]) -> Asked | None:
    """Return what is asked for on each node, None where nothing says so."""
    for option in ("gres", "gpus-per-node"):
        if option in asked:
            return asked[option]
    return _of_tasks(asked, tasks_per_node(given))


def in_all(given: Settings, asked: Mapping[str, Asked]) -> Asked | None:
    """Return what is asked for in all, None where nothing says so."""
    if "gpus" in asked:
        return asked["gpus"]
    return _of_tasks(asked, number(given, "ntasks"))


def _of_tasks(asked: Mapping[str, Asked], tasks: int | None) -> Asked | None:
    """Return what so many tasks ask for, each for its own."""
    for option in ("gpus-per-task", "tres-per-task"):
        if option in asked and tasks:
            return replace(asked[option], count=asked[option].count * tasks, others=())
    return None


def number(given: Settings, option: str) -> int | None:
    """Return a positive number that an option says, None for anything else."""
    text = given.values.get(option, "")
    return int(text) if re.fullmatch(r"0*[1-9][0-9]{0,6}", text) else None


def _items(given: Settings, option: str) -> list[Gres]:
    text = given.values[option]
    if not text:
        raise UsageError(f"{given.said(option)} is empty: leave it out")
    if option in _GPU_OPTIONS:
        text = f"gpu:{text}"
    elif option == "tres-per-task":
        text = ",".join(item for item in text.split(",") if item.startswith("gres"))
    try:
        return list(parse.gres(text))
    except SlurmError as error:
        raise UsageError(f"{given.said(option)}: {error}") from error
