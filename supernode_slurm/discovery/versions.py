"""The versions that probes found, as an inventory has them."""

from __future__ import annotations

from collections.abc import Container
from typing import get_args

from .. import hostlist
from ..inventory import fields
from .document import Leaf, Tree
from .probes import place_of
from .room import Room


def versions_of(room: Room, known: Container[str]) -> dict[str, Tree]:
    """Return each component with its versions and their hosts, without what fits no field."""
    found: dict[str, Tree] = {}
    for component, versions in sorted(room.versions.items()):
        kept: dict[str, Tree] = {}
        for version, hosts in versions.items():
            mine = [host for host in hosts if host in known]
            if mine and _fits(fields.Component, component) and _fits(fields.VersionText, version):
                kept[version] = Leaf(hostlist.fold(mine), (place_of(mine),))
        if kept:
            found[component] = kept
    return found


def _fits(kind: object, text: str) -> bool:
    try:
        get_args(kind)[1].read(text)
    except ValueError:
        return False
    return True
