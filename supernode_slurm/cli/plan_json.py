"""The answers of ``sn plan`` as JSON: everything that the text shows, and more."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from ..plan import Plan, dumps

if TYPE_CHECKING:
    from ..sizing import Curve, Explained, Move, Point, Study, Variant, Wiring

VERSION = 1
"""Raised when a key changes its meaning or goes away."""


def study_json(found: Study, tokens: float | None) -> dict[str, Any]:
    """Return the plans and what is said of them."""
    from ..sizing import training, where

    plans = []
    for item in found.ranked:
        plan = item.choice.plan
        shown = {
            "where": where(item.choice.slots),
            "tie": item.tie,
            "tight": item.tight,
            "usable_gib": list(item.usable_gib),
            "cost": _plain(item.cost),
            "plan": _plain(plan),
        }
        if tokens is not None:
            shown["training"] = _plain(training(item.cost, plan, tokens))
        plans.append(shown)
    return {
        "version": VERSION,
        "answer": "plans",
        "plans": plans,
        "strategy": _plain(found.best.choice.compared),
        **{
            name: _plain(getattr(found, name))
            for name in (
                "expected",
                "limit",
                "changes",
                "overlap_saves_s",
                "rejected",
                "stages",
                "explained",
                "explained_mix",
                "more_ties",
                "remarks",
            )
        },
    }


def explained_json(found: Explained) -> dict[str, Any]:
    """Return the user's own layout where no plan fits."""
    return {"version": VERSION, "answer": "plans", "plans": [], "explained": _plain(found)}


def curve_json(found: Curve, tokens: float | None) -> dict[str, Any]:
    """Return the points and what is to be read from them."""
    points = [_trained(item, tokens) for item in found.points]
    return {"version": VERSION, "answer": "curve", **_plain(found), "points": points}


def wiring_json(found: Wiring, tokens: float | None) -> dict[str, Any]:
    """Return the variants."""
    return {
        "version": VERSION,
        "answer": "variants",
        "where": found.choice.slots[0].shown,
        "uses_network": found.uses_network,
        "variants": [_trained(item, tokens) for item in found.variants],
        "best": found.variants.index(found.best),
        "expected": _plain(found.expected),
        "remarks": list(found.remarks),
    }


def _trained(item: Point | Variant, tokens: float | None) -> dict[str, Any]:
    """Return one number of cards or one wiring, with the cost of a training where one is asked."""
    from ..sizing import training

    shown: dict[str, Any] = _plain(item)
    if tokens is not None and item.plan and item.cost:
        shown["training"] = _plain(training(item.cost, item.plan, tokens))
    return shown


def move_json(found: Move) -> dict[str, Any]:
    """Return what a move changes."""
    names = [spec.name for spec in dataclasses.fields(found) if spec.name != "choice"]
    return {
        "version": VERSION,
        "answer": "move",
        "where": found.choice.slots[0].shown,
        "plan": _plain(found.choice.plan),
        **{name: _plain(getattr(found, name)) for name in names},
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it; a plan as it travels with a job."""
    if isinstance(value, Plan):
        return json.loads(dumps(value))
    if dataclasses.is_dataclass(value):
        return {spec.name: _plain(getattr(value, spec.name)) for spec in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
