"""Nodes by pyslurm where it is installed and of the controller's release; the rest as ever.

pyslurm needs a Slurm of its own release, so that most sites have none that fits; what it
saves is starting scontrol.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SlurmTimeout
from . import parse
from .client import CliClient
from .model import Gres, LiveNode


@dataclass(frozen=True, slots=True)
class NoBindings:
    """Why pyslurm is not used."""

    reason: str


class BoundClient(CliClient):
    """A client that asks for nodes through pyslurm."""

    def __init__(self, env: Mapping[str, str], library: Any) -> None:
        """Take the environment of the programs, and the imported pyslurm."""
        super().__init__(env)
        self._library = library

    def nodes(self) -> tuple[LiveNode, ...]:
        """Return all nodes, cloud nodes included."""
        try:
            loaded = self._library.Nodes.load()
        except self._library.RPCError as error:
            raise SlurmTimeout(f"pyslurm: {error}") from error
        return tuple(_node(node.to_dict()) for node in loaded.values())


def bound_client(
    env: Mapping[str, str], load: Callable[[str], Any] = importlib.import_module
) -> BoundClient | NoBindings:
    """Return a client by pyslurm, or why there is none."""
    try:
        library = load("pyslurm")
    except ImportError as error:
        return NoBindings(f"pyslurm cannot be imported: {error}")
    release = CliClient(env).release()
    own = ".".join(str(library.__version__).split(".")[:2])
    if own != release:
        return NoBindings(f"pyslurm {own} does not fit Slurm {release}")
    return BoundClient(env, library)


def _node(item: Mapping[str, Any]) -> LiveNode:
    return LiveNode(
        name=item["name"],
        states=parse.states(item["state"]),
        reason=(item["reason"] or "").partition("\n")[0],
        gres=_gres(item["configured_gres"]),
        gres_used=_gres(item["allocated_gres"]),
        features=tuple(item["active_features"] or ()),
        partitions=tuple(item["partitions"] or ()),
        cpus=item["total_cpus"],
        cpus_allocated=item["allocated_cpus"],
        memory_mib=item["real_memory"],
        address=item["address"] or "",
    )


def _gres(found: Mapping[str, int] | None) -> tuple[Gres, ...]:
    return tuple(
        Gres(key.partition(":")[0], key.partition(":")[2], count)
        for key, count in (found or {}).items()
    )
