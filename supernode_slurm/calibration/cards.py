"""Which card of the catalogue a source's words mean."""

from __future__ import annotations

import re
from contextlib import suppress

from ..catalogue import Accelerator, UnknownName, accelerators, find_accelerator
from ..errors import PlanError
from .fields import folded

MAKERS = (
    *("nvidia", "amd", "huawei", "tesla", "geforce", "instinct", "radeon", "gpu", "gpus", "npu"),
    *("npus", "accelerator", "accelerators", "tensor", "core", "dgx", "hgx", "oam", "nvlink"),
)
"""Words that do not tell cards apart."""

FORMS = {"sxm": "sxm", "pcie": "pcie", "nvl": "nvl", "nvlink": "sxm"}

NEAR = 0.05
"""Sizes of memory that differ by less are the same: sources round, and count in GB or GiB."""

_MEMORY = re.compile(r"(\d{1,3})\s*g(?:i?b)?(?![a-z0-9])", re.IGNORECASE)
_NOISE = re.compile(r"hbm\d?e?|gddr\d?x?|\d+w|gen\d|x?16|\d+x", re.IGNORECASE)
_SERVER = re.compile(r"atlas\s*[89]00\s*t?\s*(?:pod)?\s*a2(?!\d)|910b(?!\d)(?!c)", re.IGNORECASE)


def card_of(name: object, memory_gib: float | None) -> tuple[Accelerator, str]:
    """Return the card that words mean, and what was assumed if they leave it open.

    ``memory_gib`` is what the run prints of it. Raises ``PlanError`` with near names.
    """
    text = str(name).strip()
    head, _, remark = text.partition("(")
    exact = _exact(text)
    if exact is None and _SERVER.search(text):
        # The 910B2 is in Atlas 900 A2 PODc, which most published runs were made on.
        card = find_accelerator("ascend-910b2")
        return card, f"card {card.id}: {text!r:.60} may be any 910B"
    taken = exact or _exact(head)
    base = taken or _base(head) or _base(remark.rstrip(")"))
    if base is None:
        raise PlanError(_unknown(text))
    # An alias is taken as it is; else form and memory are told by the rest of the words.
    rest = "" if exact else remark if taken else text
    form = _form(rest) or (_form(taken.id) if taken else "")
    kinds = [item for item in _siblings(base) if _form(item.id) in ("", form) or not form]
    printed = _MEMORY.search(rest)
    wanted = float(printed[1]) if printed else memory_gib or 0.0
    fitting = [item for item in kinds if _apart(item, wanted) <= NEAR] if wanted else kinds
    if not kinds or (printed and not fitting):
        raise PlanError(_unknown(text))
    return min(fitting or [base], key=lambda item: (_apart(item, wanted), item is not base)), ""


def _exact(text: str) -> Accelerator | None:
    """Return the card whose id, alias or short name this is; no remark is left out."""
    word = folded(text)
    for item in accelerators():
        if word in (folded(item.id), *map(folded, item.aliases)) and word:
            return item if not re.fullmatch(r"(?:ascend)?910b", word) else None
    with suppress(UnknownName):
        return find_accelerator(text) if "(" not in text and word != "910b" else None
    return None


def _base(text: str) -> Accelerator | None:
    """Return a card by its name without maker, form and memory."""
    words = re.split(r"[\s,_/-]+", _MEMORY.sub(" ", text))
    kept = [
        word
        for word in words
        if word and word.casefold() not in MAKERS and not _NOISE.fullmatch(word) and not _form(word)
    ]
    for start in range(len(kept)):
        found = _exact(" ".join(kept[start:]))
        if found:
            return found
    return _exact(text) if kept else None


def _form(text: str) -> str:
    found = re.search(r"(?<![a-z])(sxm|pcie|nvlink|nvl)\d*(?![a-z])", text, re.IGNORECASE)
    return FORMS[found[1].casefold()] if found else ""


def _siblings(card: Accelerator) -> list[Accelerator]:
    return [item for item in accelerators() if item.gres_type == card.gres_type]


def _apart(card: Accelerator, wanted: float) -> float:
    """Return how far a card's memory is from this, as a share; 0 if any will do."""
    sizes = [size for size in (card.memory_gib, card.card_memory_gib) if size]
    return min((abs(size / wanted - 1) for size in sizes), default=1.0) if wanted else 0.0


def _unknown(text: str) -> str:
    """Return the message for a card that is not in the catalogue, with near names."""
    near = []
    with suppress(UnknownName):
        found = _base(text.partition("(")[0])
        near = [item.id for item in _siblings(found)] if found else []
    if not near:
        try:
            find_accelerator(text)
        except UnknownName as error:
            near = re.findall(r"\S+(?= or |\?)", str(error).partition("did you mean ")[2])
    hint = f"near are {', '.join(near)}" if near else "sn show accelerators lists those"
    return f"the card {text!r:.60} is not in the catalogue; {hint}"
