"""Which accelerator a GRES type means: sites and AutoDetect spell them in many ways."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from ..catalogue import Accelerator, UnknownName, find_accelerator

_MIG = re.compile(r"[_.-]?([1-7]g\.[0-9]{1,3}gb(?:[.+-]me)?)\Z", re.IGNORECASE)
_BRAND = re.compile(
    r"(?:nvidia|tesla|geforce|quadro|amd|instinct|huawei|gpu)[_\s-]+", re.IGNORECASE
)
_TAIL = re.compile(r"[_\s-]?(?:hbm[0-9]e?|[0-9]{1,3}gb?|sxm[0-9]?|pcie|oam)\Z", re.IGNORECASE)
_MEMORY = re.compile(r"(?<![0-9])([0-9]{1,3})gb?(?![a-z0-9])", re.IGNORECASE)
_MEMORY_SLACK = 0.15
"""Names round: a card of 96 GB is sold as 94, one of 141 as 144."""


def split_mig(text: str) -> tuple[str, str]:
    """Return a GRES type without its MIG profile, and the profile: ``h100``, ``1g.10gb``."""
    found = _MIG.search(text)
    return (text[: found.start()], found[1].casefold()) if found else (text, "")


def accelerator_of(text: str, given: Mapping[str, str]) -> Accelerator | None:
    """Return the accelerator that a GRES type without MIG profile means, None if nobody knows.

    ``given`` maps types to names of the catalogue, as the user says; it may hold names
    of GRES for those without a type. Raises ``UnknownName`` for a wrong name in it.
    """
    if text in given:
        return find_accelerator(given[text])
    return _by_spelling(text)


@cache
def _by_spelling(text: str) -> Accelerator | None:
    said = _MEMORY.search(text)
    for name in _spellings(text):
        try:
            found = find_accelerator(name)
        except UnknownName:
            continue
        memory = found.card_memory_gib
        # A10G is a name; what stands in a name of the catalogue is no memory to compare.
        if (
            said
            and said[0] not in name
            and memory
            and abs(memory - int(said[1])) > _MEMORY_SLACK * memory
        ):
            continue
        return found
    return None


def _spellings(text: str) -> Iterator[str]:
    """Yield a name with less and less around it: brand first, then memory and slot."""
    yield text
    while found := _BRAND.match(text):
        text = text[found.end() :]
        yield text
    while found := _TAIL.search(text):
        if found.start() == 0:
            return
        if re.search(r"[0-9]gb\Z", text, re.IGNORECASE):
            yield text[:-1]
        text = text[: found.start()]
        yield text
