"""The table of what went wrong elsewhere, in docs/submission.md, and the tests that hold it here.

    python -m tests.complaints

runs them all and prints the result of each row.
"""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "submission.md"
_TABLE = re.compile(r"<!-- complaints -->\n(.*?)<!-- complaints end -->", re.DOTALL)
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Row:
    """One report: what went wrong, what happens here, which tests hold it."""

    reported: str
    here: str
    tests: tuple[str, ...]
    """``file.py::test``, or a whole file."""


def rows() -> list[Row]:
    """Return the rows of the page."""
    found = _TABLE.search(PAGE.read_text("utf-8"))
    if found is None:
        raise ValueError(f"{PAGE}: no table of complaints")
    lines = found[1].strip().splitlines()[2:]
    cells = [[cell.strip() for cell in _CELL.split(line.strip("|"))] for line in lines]
    return [Row(a, b, tuple(re.findall(r"`([\w.]+(?:::\w+)?)`", tests))) for a, b, tests in cells]


def run(tests: set[str]) -> dict[str, list[str]]:
    """Run tests; return the outcomes of each by name."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [f"tests/{name}" for name in sorted(tests)]
        argv = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", *words]
        subprocess.run(argv, cwd=REPOSITORY, check=False, stdout=sys.stderr)
        cases = list(ET.parse(report).iter("testcase"))
    outcomes: dict[str, list[str]] = {name: [] for name in tests}
    for case in cases:
        file = case.get("classname", "").rpartition(".")[2] + ".py"
        name = f"{file}::{case.get('name', '').partition('[')[0]}"
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        for key in {name, file} & outcomes.keys():
            outcomes[key] += kinds or ["passed"]
    return outcomes


def result(row: Row, outcomes: dict[str, list[str]]) -> str:
    """Return the result of a row in a word or two."""
    kinds = [kind for name in row.tests for kind in outcomes[name] or ["missing"]]
    bad = [kind for kind in kinds if kind in ("failure", "error", "missing")]
    if bad:
        return f"FAILED ({len(bad)} of {len(kinds)})"
    skipped = kinds.count("skipped")
    passed = len(kinds) - skipped
    if not passed:
        return "skipped"
    return f"passed ({passed})" if not skipped else f"passed ({passed}, {skipped} skipped)"


def main() -> int:
    """Print the table with its results; return 5 if a row failed."""
    table = rows()
    outcomes = run({name for row in table for name in row.tests})
    results = [result(row, outcomes) for row in table]
    for row, found in zip(table, results, strict=True):
        print(f"{found:<24} {row.reported.partition(':')[0]}: {row.here}")
    return 5 if any(found.startswith("FAILED") for found in results) else 0


if __name__ == "__main__":
    sys.exit(main())
