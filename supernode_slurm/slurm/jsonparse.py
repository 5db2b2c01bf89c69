"""Read what ``scontrol --json=v0.0.42`` prints: the same types as from its text."""

from __future__ import annotations

import json
from typing import Any

from ..errors import SlurmError
from .model import LiveNode
from .words import gres


def nodes(text: str) -> tuple[LiveNode, ...]:
    """Return the nodes of ``scontrol -a show nodes --json``; ``SlurmError`` for half an answer."""
    try:
        return tuple(_node(item) for item in json.loads(text)["nodes"])
    except (KeyError, TypeError, ValueError) as error:
        raise SlurmError(
            f"cannot read scontrol's JSON ({type(error).__name__}: {error}): "
            f"{len(text)} letters that end with {text[-80:]!r}"
        ) from error


def _node(item: Any) -> LiveNode:
    return LiveNode(
        name=item["name"],
        states=frozenset(item["state"]),
        reason=item["reason"].partition("\n")[0],  # scontrol's text knows the first line only
        gres=gres(item["gres"]),
        gres_used=gres(item["gres_used"]),
        features=tuple(item["active_features"]),
        partitions=tuple(item["partitions"]),
        cpus=item["cpus"],
        cpus_allocated=item["alloc_cpus"],
        memory_mib=item["real_memory"],
        address=item["address"],
    )
