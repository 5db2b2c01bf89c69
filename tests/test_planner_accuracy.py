from __future__ import annotations

import runpy
import statistics
from pathlib import Path

import pytest

from supernode_slurm.planner import PUBLISHED_ERROR

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks/accuracy.py"


def test_predictions_stay_close_to_published_step_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    benchmark = runpy.run_path(str(BENCHMARK))
    if not benchmark["DEFAULT"].is_file():
        pytest.skip("no table of published measurements beside the repository")
    rows, _ = benchmark["evaluate"](benchmark["DEFAULT"])
    assert len(rows) > 150
    # The figures that 'sn plan' prints, and a bound that only better predictions may move.
    found = {
        card: [row.error for row in rows if row.card == card]
        for card in sorted({row.card for row in rows})
    }
    assert found.keys() == PUBLISHED_ERROR.keys()
    for card, (runs, error) in PUBLISHED_ERROR.items():
        assert len(found[card]) == runs
        assert statistics.mean(found[card]) == pytest.approx(error, abs=0.001)
    assert statistics.mean(row.error for row in rows) < 0.13
    assert sum(not row.fits for row in rows) < 0.08 * len(rows)
    assert benchmark["main"](["accuracy.py"]) == 0
    assert "false OOM" in capsys.readouterr().out


def test_a_missing_table_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    benchmark = runpy.run_path(str(BENCHMARK))
    assert benchmark["main"](["accuracy.py", str(tmp_path / "none.yaml")]) == 2
    assert "is missing" in capsys.readouterr().err
