"""The best plan and place for a job; where there is none, which of its options are in the way."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ..errors import PlanError, UsageError
from ..placement import Ask, Choice, Room, choose, remarks
from .ask import FIXED, ask_at
from .bounds import BOUNDS, host_list
from .devices import DEVICE_OPTIONS
from .settings import Settings
from .site import Site


def room_for(site: Site, parts: Sequence[Settings]) -> Room:
    """Return the room less the nodes that the job excludes."""
    view = site.view.without(host for given in parts for host in host_list(given, "exclude"))
    return Room(site.inventory, view, site.blocks)


def find_choice(
    site: Site, ask: Ask, asked: Settings, parts: Sequence[Settings]
) -> tuple[Choice, tuple[str, ...]]:
    """Return the best choice, and what the user should know of it.

    Raises ``UsageError`` where the user's own options leave no choice, ``PlanError`` where
    there is none at all.
    """
    try:
        choice, notes = best_choice(room_for(site, parts), ask, asked)
    except PlanError as error:
        if culprits := _culprits(site, asked, parts):
            said = " and ".join(dict.fromkeys(culprits))
            raise UsageError(f"{said} cannot be had together: {error}") from error
        raise
    return choice, (*notes, *remarks(site.inventory, ask.settled_by(choice), choice))


def best_choice(room: Room, ask: Ask, asked: Settings) -> tuple[Choice, tuple[str, ...]]:
    """Return the best choice in a room, and why it is only placed if it is.

    A job that cannot be planned is placed if nobody asked for a plan of it: its model was
    read in its script, or the room was rebuilt from Slurm, which knows no speeds. Raises
    ``PlanError``.
    """
    if ask.model is None:
        return choose(room, ask)[0], ("placed, not planned: no model was named",)
    try:
        return choose(room, ask)[0], ()
    except PlanError as error:
        if not (room.inventory.rebuilt or "model" in asked.read):
            raise
        with suppress(PlanError):
            placed = choose(room, replace(ask, model=None))[0]
            return placed, (f"placed, not planned: {error}",)
        raise


def _culprits(site: Site, asked: Settings, parts: Sequence[Settings]) -> list[str]:
    """Return what the user wrote and, left out alone, would leave a choice; with the cards."""
    found = []
    for name in BOUNDS:
        less = [given.without(name) for given in parts]
        if less != list(parts) and _has_choice(site, asked, less):
            found += [given.said(name) for given in parts if name in given.values]
    for name in FIXED:
        less_asked = asked.without(name)
        if less_asked != asked and _has_choice(site, less_asked, parts):
            found.append(asked.said(name))
    if found and "cards" in asked.values:
        found.append(asked.said("cards"))
    elif found:
        sizes = [given.said(n) for n in DEVICE_OPTIONS for given in parts if n in given.values]
        found += sizes
    return found


def _has_choice(site: Site, asked: Settings, parts: Sequence[Settings]) -> bool:
    with suppress(PlanError, UsageError):
        choose(room_for(site, parts), ask_at(site, asked, parts))
        return True
    return False
