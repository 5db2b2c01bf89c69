"""What the documents show is what the commands print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import complaints

REPOSITORY = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- ((?:sn|python -m) [^\n]*) -->\n(.*?)<!-- end -->", re.DOTALL)
BLOCKS = [
    (path, found[1])
    for path in sorted((REPOSITORY / "docs").glob("*.md"))
    for found in BLOCK.finditer(path.read_text("utf-8"))
]
PAGES = [*sorted(REPOSITORY.glob("README*.md")), *sorted((REPOSITORY / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize(("path", "command"), BLOCKS, ids=lambda item: getattr(item, "name", item))
def test_a_document_shows_what_its_command_prints(
    path: Path, command: str, request: pytest.FixtureRequest
) -> None:
    program, *words = shlex.split(command)
    if program == "sn":
        words = ["-c", "from supernode_slurm.cli.main import main; main()", *words]
    done = subprocess.run(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=300, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    # What cannot be planned is told with 3, and shown as well.
    assert done.returncode in (0, 3), done.stdout
    # Notes on progress appear on a machine that is slow just then.
    shown = [line for line in done.stdout.splitlines() if not line.startswith("sn: note: planning")]
    # A benchmark prints a table of the document.
    lines = [f"    {line}".rstrip() for line in [f"$ {command}", *shown]]
    printed = "".join(f"{line}\n" for line in (lines if program == "sn" else shown))
    text = path.read_text("utf-8")
    old = next(found[2] for found in BLOCK.finditer(text) if found[1] == command)
    if request.config.getoption("--update-golden"):
        path.write_text(text.replace(f"-->\n{old}<!-- end", f"-->\n{printed}<!-- end", 1), "utf-8")
    else:
        assert old == printed, f"{path.name}: run pytest --update-golden"


def test_there_are_such_blocks() -> None:
    assert BLOCKS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_point_to_files(page: Path) -> None:
    links = [link.partition("#")[0] for link in LINK.findall(page.read_text("utf-8"))]
    files = [link for link in links if link and not re.match(r"[a-z]+:", link)]
    assert [link for link in files if not (page.parent / link).exists()] == []


def test_the_readme_has_such_links_in_both_languages() -> None:
    for name in ("README.md", "README.zh-CN.md"):
        assert "](docs/topology.md)" in (REPOSITORY / name).read_text("utf-8")


def test_every_complaint_has_a_row_with_tests_that_exist() -> None:
    for row in complaints.rows():
        assert row.tests, row.reported
        for name in row.tests:
            file, _, test = name.partition("::")
            text = (REPOSITORY / "tests" / file).read_text("utf-8")
            assert f"def {test}(" in text or not test, name
