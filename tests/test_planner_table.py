"""What docs/planning.md says of the search's size is what the search does."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from benchmarks import planner

PAIRS = list(product(planner.MODELS, planner.MACHINES))


@pytest.mark.parametrize(("model", "card"), PAIRS, ids=str)
def test_the_table_of_speed_counts_what_is_searched(model: str, card: str) -> None:
    name = f"| {planner.NAMES[model]}, {planner.NAMES[card]} |"
    (row,) = [line for line in planner.PAGE.read_text().splitlines() if line.startswith(name)]
    _, layouts, costed = planner.counted(model, card)
    # Rewritten by: python -m benchmarks.planner
    assert row.endswith(f"| {layouts} | {costed} |")


def test_the_table_is_put_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "planning.md"
    page.write_text("\n".join(["before", *planner.HEAD, "| old |", "after", ""]))
    monkeypatch.setattr(planner, "PAGE", page)
    planner.write([*planner.HEAD, "| new |"])
    assert page.read_text().splitlines() == ["before", *planner.HEAD, "| new |", "after"]
