"""How far the predictions of a kind of run were from what was measured."""

from __future__ import annotations

from collections.abc import Mapping

from ..catalogue import Accelerator, Model, UnknownName, find_model
from ..errors import SupernodeError
from ..plan import Plan
from .answers import Expected

PUBLISHED: dict[tuple[str, str], tuple[int, float]] = {
    ("dense", "a100-sxm-40g"): (57, 0.039),
    ("dense", "a100-sxm-80g"): (67, 0.044),
    ("dense", "a800-sxm-80g"): (4, 0.085),
    ("dense", "ascend-910b2"): (37, 0.124),
    ("dense", "gb200"): (11, 0.061),
    ("dense", "gb300"): (12, 0.064),
    ("dense", "gh200"): (16, 0.136),
    ("dense", "h100-sxm"): (39, 0.032),
    ("dense", "h100-sxm-96g"): (8, 0.054),
    ("dense", "t4"): (39, 0.037),
    ("experts", "ascend-910b2"): (3, 0.197),
    ("experts", "b200-sxm"): (7, 0.059),
    ("experts", "b300-sxm"): (3, 0.183),
    ("experts", "gb200"): (11, 0.101),
    ("experts", "gb300"): (12, 0.091),
    ("experts", "h100-sxm"): (9, 0.092),
}
"""By kind of model and card: published runs, and the mean of |predicted / measured - 1| of their
step time, each predicted by constants fitted without its configuration (docs/accuracy.md). A card
that is not here was compared with no run.
"""


def kind_of(model: Model, accelerator: Accelerator) -> tuple[str, str]:
    """Return what runs are told apart by: the kind of model and the card."""
    return "experts" if model.mixture else "dense", accelerator.id


def expected_error(
    plan: Plan, own: Mapping[tuple[str, str], tuple[int, float]] | None = None
) -> Expected:
    """Return the error of the kind of run that is known least among the plan's cards.

    ``own`` holds what a site compared itself, in the form of ``PUBLISHED``; it goes first.
    """
    own = own or {}
    kinds = [
        ("experts" if _experts(plan) else "dense", card)
        for card in sorted({group.accelerator for group in plan.groups})
    ]
    known = [own.get(kind) or PUBLISHED.get(kind, (0, 0.0)) for kind in kinds]
    runs = min(count for count, _ in known)
    share = max(error for _, error in known) if runs else 0.0
    shown = "mixtures of experts" if kinds[0][0] == "experts" else "dense models"
    cards = " and ".join(card for _, card in kinds)
    return Expected(share, runs, f"{shown} on {cards}", all(own.get(kind) for kind in kinds))


def _experts(plan: Plan) -> bool:
    if any(mesh.ep > 1 for pipeline in plan.pipelines for mesh in pipeline.meshes):
        return True
    try:
        return find_model(plan.model).mixture is not None
    except (UnknownName, SupernodeError):
        return False
