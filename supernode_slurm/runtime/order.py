"""A random order of a data set's samples that is computed, not stored.

Python 3.8, standard library only. The order depends on the seed, the epoch and the number
of samples alone, on every machine and in every version of Python.
"""

from __future__ import annotations

import math

_ROUNDS = 8
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class Order:
    """A permutation of ``range(length)``.

    A Feistel network over pairs (a, b) with a * b just above the length; places outside are
    walked through (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). Its
    round function is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
    Pseudorandom Number Generators", 2014).
    """

    def __init__(self, length: int, seed: int, epoch: int) -> None:
        self._length = length
        self._rows = math.isqrt(max(length - 1, 0)) + 1
        self._columns = -(-length // self._rows)
        key = _mix(_mix(seed) ^ epoch)
        self._keys = [_mix(key + _GOLDEN * turn) for turn in range(1, _ROUNDS + 1)]

    def __getitem__(self, place: int) -> int:
        """Return the sample at a place. Raises ``IndexError`` outside of the length."""
        if not 0 <= place < self._length:
            raise IndexError(f"place {place} of {self._length} samples")
        rows, columns = self._rows, self._columns
        while True:
            row, column = divmod(place, columns)
            for turn in range(0, _ROUNDS, 2):
                row = (row + _mix(self._keys[turn] ^ column)) % rows
                column = (column + _mix(self._keys[turn + 1] ^ row)) % columns
            place = row * columns + column
            if place < self._length:
                return place


def _mix(value: int) -> int:
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
