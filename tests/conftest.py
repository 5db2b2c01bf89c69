"""What all tests share: which of them can run here, and a few fixtures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A shared machine may be slow at any moment; no test here is about time.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
PROGRAMS = ("slurmctld", "slurmd", "sinfo", "munged")


def missing_programs() -> list[str]:
    """Return the programs of Slurm that this machine lacks."""
    path = f"{os.environ.get('PATH', os.defpath)}:{SBIN}"
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = missing_programs()
    for item in items:
        if item.get_closest_marker("live") is not None:
            item.add_marker("slurm")
        if item.get_closest_marker("slurm") is not None and missing:
            reason = f"no {', '.join(missing)} on PATH: run scripts/slurm-lab install native"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a file, or write the file under ``--update-golden``."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path}: run pytest --update-golden"

    return compare


@pytest.fixture
def hostile_path(tmp_path: Path) -> Path:
    """Return a directory whose name holds what careless quoting trips over."""
    path = tmp_path / "a b'; $(x) \"ü\nz"
    path.mkdir()
    return path
