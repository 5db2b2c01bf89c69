"""Quantities as people write them, turned into one unit each.

Decimal prefixes (k, M, G, T) are powers of 1000, binary ones (Ki, Mi, Gi, Ti)
powers of 1024; ``b`` is a bit and ``B`` a byte. Every function raises
``ValueError`` with a message that shows the accepted forms.
"""

from __future__ import annotations

import re

_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_NUMBER = re.compile(
    r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]+)\s*([A-Za-z/%]*)\s*\Z"
)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_SLURM_TIME = re.compile(
    r"(?:[0-9]{1,7}(?::[0-9]{1,2}){0,2}|[0-9]{1,5}-[0-9]{1,2}(?::[0-9]{1,2}){0,2})\Z"
)
_MOST_MIB = 2**32
"""4 PiB: beyond any node, and far below where Slurm's numbers end."""
_WHOLE = re.compile(r"[0-9]{1,15}\Z")


def whole_number(text: str) -> int:
    """Return a count written in up to 15 plain digits."""
    if not _WHOLE.match(text):
        raise ValueError(f"expected a whole number, got {text[:40]!r}")
    return int(text)


def _split(text: str, examples: str) -> tuple[float, str]:
    found = _NUMBER.match(text)
    if found is None or len(text) > 64:
        raise ValueError(f"expected a quantity like {examples}, got {text[:64]!r}")
    value = float(found.group(1))
    if value > 1e15:
        raise ValueError(f"expected a quantity like {examples}, got {text!r}: too large")
    return value, found.group(2)


def bandwidth_gbs(text: str) -> float:
    """Return a bandwidth in GB/s (1e9 bytes per second, one direction)."""
    examples = "'900 GB/s' or '400 Gb/s'"
    value, unit = _split(text, examples)
    found = re.fullmatch(r"(k|K|M|G|T|P|Ki|Mi|Gi|Ti|Pi|)(b|B|bit)(?:/s|ps)", unit)
    if found is None:
        raise ValueError(f"expected a quantity like {examples}, got {text!r}")
    scale = {**_PREFIX, **_BINARY}[found.group(1)]
    bits = 1.0 if found.group(2) == "B" else 8.0
    return value * scale / bits / 1e9


def latency_ns(text: str) -> float:
    """Return a duration in nanoseconds."""
    examples = "'500 ns' or '2 us'"
    value, unit = _split(text, examples)
    if unit not in _SECONDS:
        raise ValueError(f"expected a quantity like {examples}, got {text!r}")
    return value * _SECONDS[unit] * 1e9


def memory_mib(text: str) -> int:
    """Return an amount of memory in whole MiB, rounded down as Slurm does."""
    examples = "'940 GiB' or '2 TB'"
    value, unit = _split(text, examples)
    found = re.fullmatch(r"(k|K|M|G|T|Ki|Mi|Gi|Ti)B", unit)
    if found is None:
        raise ValueError(f"expected a quantity like {examples}, got {text!r}")
    amount = int(value * {**_PREFIX, **_BINARY}[found.group(1)] / 2.0**20)
    if not 1 <= amount <= _MOST_MIB:
        raise ValueError(f"expected from 1 MiB to 4096 TiB, got {text!r}")
    return amount


def tflops(text: str) -> float:
    """Return a rate in TFLOPS (1e12 operations per second)."""
    examples = "'312 TFLOPS' or '2.5 PFLOPS'"
    value, unit = _split(text, examples)
    if unit not in ("GFLOPS", "TFLOPS", "PFLOPS"):
        raise ValueError(f"expected a quantity like {examples}, got {text!r}")
    return value * _PREFIX[unit[0]] / 1e12


def price_per_hour(text: str) -> tuple[float, str]:
    """Return an amount of money per hour, and its currency in three letters."""
    examples = "'3.1 CNY/h'"
    value, unit = _split(text, examples)
    found = re.fullmatch(r"([A-Z]{3})/h", unit)
    if found is None:
        raise ValueError(f"expected a price like {examples}, got {text!r}")
    return value, found.group(1)


def power_w(text: str) -> float:
    """Return a power in watts."""
    examples = "'132 kW' or '700 W'"
    value, unit = _split(text, examples)
    if unit not in ("W", "kW", "MW"):
        raise ValueError(f"expected a quantity like {examples}, got {text!r}")
    return value * _PREFIX[unit[:-1]]


def days(text: str) -> float:
    """Return a period of upkeep in days; a year has 365."""
    examples = "'180 d' or '1 y'"
    value, unit = _split(text, examples)
    scale = {"h": 1 / 24, "d": 1.0, "w": 7.0, "y": 365.0}
    if unit not in scale or not value > 0:
        raise ValueError(f"expected a period like {examples}, got {text!r}")
    return value * scale[unit]


def slurm_time(text: str) -> str:
    """Return a time limit as Slurm writes it, unchanged once it is known to be one."""
    unlimited = text.isascii() and text.upper() in ("INFINITE", "UNLIMITED")
    if unlimited or _SLURM_TIME.match(text):
        return text
    raise ValueError(f"expected a time limit like '7-00:00:00' or '48:00:00', got {text[:64]!r}")


def minutes(text: str) -> float:
    """Return a time limit in minutes.

    Slurm's forms: ``M``, ``M:S``, ``H:M:S``, ``D-H``, ``D-H:M``, ``D-H:M:S``.
    """
    slurm_time(text)
    if text.upper() in ("INFINITE", "UNLIMITED"):
        return float("inf")
    days, dash, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if dash:
        hours, more, seconds = [*parts, 0, 0][:3]
    else:
        hours, more, seconds = {1: [0, *parts, 0], 2: [0, *parts], 3: parts}[len(parts)]
    return int(days or 0) * 1440 + hours * 60 + more + seconds / 60
