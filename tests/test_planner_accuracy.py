"""The planner's error on published runs that its fit has not seen, and the documents' figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import accuracy, readings, scored
from supernode_slurm.calibration.document import read_runs
from supernode_slurm.calibration.fit import MIXED, TIMES
from supernode_slurm.calibration.judge import judge
from supernode_slurm.calibration.runs import Run
from supernode_slurm.planner import PUBLISHED, trust
from supernode_slurm.planner.table import TABLE

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
DOCUMENT = ROOT / "docs/accuracy.md"

NUMBER = re.compile(r"[-+]?\d+\.\d+")
CLOSE = 0.3
"""Of the documents' figures, in points: other machines sum in another order."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return scored.given(read_runs(scored.RUNS))


@pytest.fixture(scope="module")
def done(runs: list[Run]) -> accuracy.Evaluated:
    return accuracy.evaluate(runs)


@pytest.fixture(scope="module")
def left_out(done: accuracy.Evaluated) -> str:
    return accuracy.one_source_out(done)


def test_the_committed_runs_are_the_shared_ones(runs: list[Run]) -> None:
    source = SHARED / "data/published_measurements.yaml"
    if not source.is_file():
        pytest.skip(f"{source} is not on this machine")
    shared = scored.given(read_runs(source))
    assert [run.id for run in shared] == [run.id for run in runs]
    pairs = zip(judge(shared), judge(runs), strict=True)
    assert all(one.step_time_s == pytest.approx(other.step_time_s) for one, other in pairs)


def test_unseen_runs_are_predicted_as_well_as_must_be(done: accuracy.Evaluated) -> None:
    size = done.size
    for name, belongs, must, _ in accuracy.LINES:
        chosen = size[[belongs(run) for run in done.predictor.runs]]
        assert chosen.size, name
        assert chosen.mean() * 100 <= must, name
    median = sorted(size)[size.size // 2]
    assert median * 100 <= 5.5
    seen = abs(done.trained / done.measured - 1).mean()
    assert size.mean() / seen <= 1.35


def test_the_layout_ranked_first_is_the_best_or_nearly(done: accuracy.Evaluated) -> None:
    for ranked in accuracy.orders(done):
        assert ranked.groups >= 12
        assert ranked.regret <= 0.02
        assert ranked.worst <= 0.10
        assert ranked.right >= 0.90


def test_runs_on_several_kinds_of_cards_are_predicted(done: accuracy.Evaluated) -> None:
    assert done.mixed_size.size >= 20
    assert done.mixed_size.mean() <= 0.10


def test_the_model_beats_the_nearest_run_twofold(done: accuracy.Evaluated) -> None:
    assert accuracy.neighbours(done).mean() > 2 * done.size.mean()


def test_memory_is_read_and_runs_that_ran_fit(runs: list[Run]) -> None:
    ran = [item for item in judge(runs) if not item.run.failed]
    read = readings.readings([item for item in ran if not item.run.mixed])
    assert read.size >= 25
    assert read.mean() <= 0.09
    assert sum(not item.fits for item in ran) / len(ran) <= 0.01


def test_the_table_of_constants_is_what_the_fit_gives(done: accuracy.Evaluated) -> None:
    table = {item.name: item.value for item in TABLE}
    for name in (*TIMES, *MIXED):
        assert done.values[name] == pytest.approx(table[name], rel=0.02), name


def test_the_error_that_plans_show_is_the_one_measured(
    done: accuracy.Evaluated, left_out: str
) -> None:
    found = accuracy.trusted(done)
    assert found.keys() == PUBLISHED.keys()
    for key, (count, error) in found.items():
        assert PUBLISHED[key][0] == count
        assert PUBLISHED[key][1] == pytest.approx(error, abs=CLOSE / 100), key
    runs, error = trust.SEVERAL
    assert runs == done.mixed_size.size
    assert error == pytest.approx(done.mixed_size.mean(), abs=CLOSE / 100)
    figures = NUMBER.findall(left_out.splitlines()[-1])
    assert float(figures[-1]) == pytest.approx(trust.UNSEEN * 100, abs=CLOSE)


def test_the_document_shows_what_the_command_prints(
    done: accuracy.Evaluated, runs: list[Run], left_out: str
) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for printed in (
        accuracy.required(done),
        accuracy.by_source(done),
        accuracy.by_card(done),
        left_out,
        readings.memory(runs),
        readings.parts(read_runs(scored.RUNS)),
        accuracy.largest(done, 8),
        accuracy.peers(done),
    ):
        for line in printed.splitlines()[2:]:
            _has(text, line)


def _has(text: str, line: str) -> None:
    """Find the line in a document, its figures but for a last digit."""
    pattern = NUMBER.sub("@", line)
    found = [other for other in text.splitlines() if NUMBER.sub("@", other) == pattern]
    figures = [float(number) for number in NUMBER.findall(line)]
    assert any(
        all(
            abs(float(shown) - figure) <= CLOSE
            for shown, figure in zip(NUMBER.findall(other), figures, strict=True)
        )
        for other in found
    ), f"docs/accuracy.md has not: {line}"
