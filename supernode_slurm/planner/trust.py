"""How far the predictions of a kind of run were from what was measured."""

from __future__ import annotations

from collections.abc import Mapping

from ..catalogue import Accelerator, Model, UnknownName, find_model
from ..errors import SupernodeError
from ..plan import Plan
from .answers import Expected
from .stacks import stack_of

Kind = tuple[str, str, str, str]
"""``dense`` or ``experts``, the card, the family of software, ``16 bit`` or ``8 bit``."""

PUBLISHED: dict[Kind, tuple[int, float]] = {
    ("dense", "a100-sxm-40g", "torch", "16 bit"): (57, 0.039),
    ("dense", "a100-sxm-80g", "deepspeed", "16 bit"): (3, 0.078),
    ("dense", "a100-sxm-80g", "megatron", "16 bit"): (25, 0.042),
    ("dense", "a100-sxm-80g", "torch", "16 bit"): (39, 0.045),
    ("dense", "a800-sxm-80g", "megatron", "16 bit"): (4, 0.088),
    ("dense", "ascend-910b2", "mindspeed", "16 bit"): (37, 0.118),
    ("dense", "gb200", "megatron", "8 bit"): (11, 0.058),
    ("dense", "gb300", "megatron", "8 bit"): (12, 0.044),
    ("dense", "gh200", "eager", "16 bit"): (16, 0.124),
    ("dense", "h100-sxm", "megatron", "8 bit"): (4, 0.045),
    ("dense", "h100-sxm", "torch", "16 bit"): (35, 0.03),
    ("dense", "h100-sxm-96g", "torch", "16 bit"): (3, 0.012),
    ("dense", "h100-sxm-96g", "torch", "8 bit"): (5, 0.073),
    ("dense", "t4", "deepspeed", "16 bit"): (39, 0.037),
    ("experts", "ascend-910b2", "mindspeed", "16 bit"): (3, 0.211),
    ("experts", "b200-sxm", "megatron", "16 bit"): (1, 0.06),
    ("experts", "b200-sxm", "megatron", "8 bit"): (6, 0.077),
    ("experts", "b300-sxm", "megatron", "16 bit"): (1, 0.346),
    ("experts", "b300-sxm", "megatron", "8 bit"): (2, 0.145),
    ("experts", "gb200", "megatron", "16 bit"): (2, 0.268),
    ("experts", "gb200", "megatron", "8 bit"): (9, 0.102),
    ("experts", "gb300", "megatron", "16 bit"): (2, 0.257),
    ("experts", "gb300", "megatron", "8 bit"): (10, 0.083),
    ("experts", "h100-sxm", "megatron", "16 bit"): (6, 0.06),
    ("experts", "h100-sxm", "megatron", "8 bit"): (3, 0.031),
}
"""By kind of run: how many were published, and the mean of |predicted / measured - 1| of their step
time, each predicted by constants fitted without its configuration (docs/accuracy.md).
"""

SEVERAL = (25, 0.080)
"""The same of dense models on several kinds of cards."""

UNSEEN = 0.144
"""The mean over sources of the error of one that the fit saw nothing of."""

FEW = 5
"""Fewer runs than these say little of their kind."""

_MODELS = {"dense": "dense models", "experts": "mixtures of experts"}


def kind_of(model: Model, accelerator: Accelerator, stack: str, precision: str) -> Kind:
    """Return what runs are told apart by."""
    experts = "experts" if model.mixture else "dense"
    return experts, accelerator.id, stack_of(stack).family, _bits(precision)


def expected_error(
    plan: Plan, own: Mapping[tuple[str, str, str], tuple[int, float]] | None = None
) -> Expected:
    """Return the error of the kind of run that a plan is.

    ``own`` holds what a site compared itself, by kind of model, card and 16 or 8 bit; it goes
    first, and where its constants were fitted to other runs of such cards, nothing is known. Of a
    kind that was not published it is the larger one of what is known of the card and of the
    software; where either is unknown, that of a source that the fit saw nothing of, with no runs.
    """
    own = own or {}
    cards = sorted({group.accelerator for group in plan.groups})
    experts = "experts" if _experts(plan) else "dense"
    shown = f"{_MODELS[experts]} on {' and '.join(cards)}"
    bits = _bits(plan.precision)
    if plan.training == "lora":
        return Expected(UNSEEN, 0, f"LoRA of {shown}")
    compared = [own[experts, card, bits] for card in cards if (experts, card, bits) in own]
    if len(compared) == len(cards):
        runs, share = min(compared)[0], max(error for _, error in compared)
        return Expected(share, runs, f"{shown}, {bits}", own=True)
    if any(key[1] in cards for key in own):
        fitted = "with constants that this site fitted to other runs"
        return Expected(UNSEEN, 0, f"{shown}, {bits}, {fitted}")
    if len(cards) > 1:
        runs, share = SEVERAL
        if experts == "dense" and {key[1] for key in PUBLISHED}.issuperset(cards):
            return Expected(share, runs, "dense models on several kinds of cards")
        return Expected(UNSEEN, 0, shown)
    return _of_one_card(plan, experts, cards[0])


def _of_one_card(plan: Plan, experts: str, card: str) -> Expected:
    family, bits = stack_of(plan.framework).family, _bits(plan.precision)
    shown = _MODELS[experts]
    runs, share = PUBLISHED.get((experts, card, family, bits), (0, 0.0))
    if runs >= FEW:
        return Expected(share, runs, f"{shown} on {card}, {bits}, with such software")
    same = {key: value for key, value in PUBLISHED.items() if key[0] == experts}
    alike = [
        _together({key: value for key, value in same.items() if key[place] == name})
        for place, name in ((1, card), (2, family))
    ]
    if min(count for count, _ in alike) < FEW:
        return Expected(UNSEEN, 0, f"{shown} on {card}, {bits}")
    return Expected(
        max(error for _, error in alike),
        sum(count for count, _ in alike),
        f"{shown} on {card} with other software or precision, and with such software elsewhere",
    )


def _together(found: Mapping[Kind, tuple[int, float]]) -> tuple[int, float]:
    """Return the number of runs of several kinds, and the mean of their errors."""
    runs = sum(count for count, _ in found.values())
    return runs, sum(count * error for count, error in found.values()) / max(runs, 1)


def _bits(precision: str) -> str:
    return "16 bit" if precision in ("bf16", "fp16") else "8 bit"


def _experts(plan: Plan) -> bool:
    if any(mesh.ep > 1 for pipeline in plan.pipelines for mesh in pipeline.meshes):
        return True
    try:
        return find_model(plan.model).mixture is not None
    except (UnknownName, SupernodeError):
        return False
