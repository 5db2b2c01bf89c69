"""How long 100,000 host names take to fold into a list, and the list to expand again.

    python -m benchmarks.hostlist [HOSTS]

Prints, for each way of naming nodes, the seconds of the fastest of five runs: to fold the
names in order, shuffled, and with the order kept; and to expand; and the length of the list.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from benchmarks.best import best
from supernode_slurm.hostlist import expand, fold


def namings(count: int) -> dict[str, list[str]]:
    """Return as many names of each kind."""
    racks = [f"r{number // 64:04d}n{number % 64:02d}" for number in range(count * 11 // 10 + 11)]
    return {
        "one row": [f"n{number:06d}" for number in range(count)],
        "unpadded": [f"n{number}" for number in range(count)],
        "racks": racks[:count],
        "racks with gaps": [name for place, name in enumerate(racks) if place % 11][:count],
        "every other": [f"n{2 * number + 1}" for number in range(count)],
        "domain names": [f"n{number}.example.com" for number in range(count)],
    }


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print(f"{count:,} hosts     fold  shuffled  order kept  expand  characters")
    for kind, names in namings(count).items():
        shuffled = random.Random(0).sample(names, len(names))
        text = fold(names)
        if sorted(expand(text)) != sorted(names):
            raise SystemExit(f"{kind}: other hosts came back")
        works: tuple[Callable[[], object], ...] = (
            lambda names=names: fold(names),  # type: ignore[misc]
            lambda names=shuffled: fold(names),  # type: ignore[misc]
            lambda names=names: fold(names, sort=False),  # type: ignore[misc]
            lambda text=text: expand(text),  # type: ignore[misc]
        )
        a, b, c, d = map(best, works)
        print(f"{kind:15}  {a:6.3f}  {b:8.3f}  {c:10.3f}  {d:6.3f}  {len(text):10,}")


if __name__ == "__main__":
    main()
