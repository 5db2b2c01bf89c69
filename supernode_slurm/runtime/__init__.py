"""Inside the job. Travels with it: Python 3.8, standard library only.

For a training loop of one's own; docs/training.md shows one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .share import Share, equal_share, share

if TYPE_CHECKING:
    from .balance import Balance
    from .exchange import SumOverRanks, over_torch
    from .loss import loss_scale
    from .micro import balanced_shares, cut_by_length, micro_steps
    from .sampler import ShareSampler
    from .stopwatch import Stopwatch

__all__ = [
    "Balance",
    "Share",
    "ShareSampler",
    "Stopwatch",
    "SumOverRanks",
    "balanced_shares",
    "cut_by_length",
    "equal_share",
    "loss_scale",
    "micro_steps",
    "over_torch",
    "share",
]

_MODULES = {
    "Balance": "balance",
    "ShareSampler": "sampler",
    "Stopwatch": "stopwatch",
    "SumOverRanks": "exchange",
    "balanced_shares": "micro",
    "cut_by_length": "micro",
    "loss_scale": "loss",
    "micro_steps": "micro",
    "over_torch": "exchange",
}
"""Loaded on use: each rank's launcher imports this package and needs none of them."""


def __getattr__(name: str) -> object:
    """Return a public name. Raises ``AttributeError`` for any other."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
