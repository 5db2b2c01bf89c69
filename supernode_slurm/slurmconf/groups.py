"""The inventory's groups for ClusterShell: ``clush -w @supernode:sn1 uptime``.

Each dictionary of a YAML file in ClusterShell's ``groups.d`` is a source of groups
(its documentation, "YAML group files").
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from .. import hostlist
from ..data import write_atomically
from ..errors import ConfigError
from ..inventory import Inventory
from .facts import MARK

FILE = "/etc/clustershell/groups.d/supernode.yaml"
"""Where ClusterShell looks, with ``autodir`` as its groups.conf has it."""


def groups_yaml(inventory: Inventory) -> str:
    """Return the sources supernode, pool, rack, accelerator and partition, those that hold any."""
    sources: dict[str, dict[str, list[str]]] = {
        "supernode": {item.name: list(item.hosts) for item in inventory.supernodes},
        "pool": {item.name: list(item.hosts) for item in inventory.pools},
        "rack": {item.name: list(item.hosts) for item in inventory.racks},
        "accelerator": _by_card(inventory),
        "partition": {item.name: list(item.hosts) for item in inventory.partitions},
    }
    lines = [
        f"{MARK} for ClusterShell: cluster {inventory.cluster}.",
        f"# Put it into {FILE}.",
    ]
    for source, groups in sources.items():
        if any(groups.values()):
            lines.append(f"{source}:")
            lines += [f"  {_quoted(name)}: {_quoted(_set(h))}" for name, h in groups.items() if h]
    return "\n".join(lines) + "\n"


def write_groups(inventory: Inventory, path: Path) -> bool:
    """Write the groups if the file differs, and say whether it did.

    Raises ``ConfigError`` for a file that a person wrote.
    """
    text = groups_yaml(inventory)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ConfigError.one(str(path), "is no regular file", "name another one")
    old = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
    if old is not None and not old.startswith(MARK):
        raise ConfigError.one(str(path), "was not written by 'sn generate'", "name another one")
    if old != text:
        write_atomically({path: text})
    return old != text


def _by_card(inventory: Inventory) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for nodes in inventory.node_classes:
        for name in dict.fromkeys(
            word for item in nodes.devices for word in (item.accelerator, item.type)
        ):
            found.setdefault(name, []).extend(nodes.hosts)
    return found


def _set(hosts: Iterable[str]) -> str:
    return hostlist.fold(dict.fromkeys(hosts))


def _quoted(text: str) -> str:
    """Return a text in double quotes: JSON's strings are YAML's."""
    return json.dumps(text)
