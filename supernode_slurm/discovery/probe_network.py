"""Which network cards of a node carry the data of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from .probe_facts import ProbedAdapter

FASTEST = {
    "MT4115": 100,
    "MT4117": 50,
    "MT4119": 100,
    "MT4121": 100,
    "MT4123": 200,
    "MT4125": 100,
    "MT4127": 50,
    "MT4129": 400,
    "MT4131": 800,
    "MT41682": 100,
    "MT41686": 200,
    "MT41692": 400,
}
"""Gb/s of a port of ConnectX-4 to -8 and BlueField-1 to -3, by the number of the device.

A port that is down shows a rate that says nothing.
"""
_DPUS = ("MT41682", "MT41686", "MT41692")


def rails_of(adapters: Sequence[ProbedAdapter]) -> tuple[ProbedAdapter, ...]:
    """Return the cards of the fastest kind, in order, whether their ports are up or not.

    Left out are bridges to the switches inside the box, bonds, and slower cards beside
    them, which serve storage and management. A DPU counts where there is nothing else.
    """
    outside = [item for item in adapters if not item.internal and "bond" not in item.name]
    kinds: dict[str, list[ProbedAdapter]] = {}
    for item in outside:
        kinds.setdefault(item.type, []).append(item)
    if not kinds:
        return ()
    fastest = max(kinds, key=lambda kind: _rank(kind, kinds[kind]))
    return tuple(kinds[fastest])


def _rank(kind: str, cards: Sequence[ProbedAdapter]) -> tuple[bool, int, int]:
    speed = FASTEST.get(kind, 0) or max(card.gbits for card in cards)
    return kind not in _DPUS, speed, len(cards)
