"""The package as users get it: sdist, wheel, editable install and plain checkout."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = ("job_templates", "topology_conf")
LIST_DATA = f"""
from supernode_slurm.data import data_dir

def show(place, name):
    for entry in place.iterdir():
        if entry.name == "__pycache__":  # made by pip when it installs
            continue
        if entry.is_dir():
            show(entry, f"{{name}}/{{entry.name}}")
        else:
            entry.read_bytes()
            print(f"{{name}}/{{entry.name}}")

for name in {DATA!r}:
    show(data_dir(name), name)
"""


def run(argv: Sequence[object], cwd: Path, **extra: str) -> str:
    """Run a program without the caller's Python settings, and return what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(argument) for argument in argv],
        cwd=cwd,
        env={**env, **extra},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
    return done.stdout


def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def data_files() -> set[str]:
    """Return the data files of this checkout, none of which may be missing anywhere."""
    return {
        path.relative_to(ROOT).as_posix()
        for name in DATA
        for path in (ROOT / name).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }


def package_files() -> set[str]:
    """Return the modules and the data files inside the package itself."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "supernode_slurm").rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the checkout without what builds leave behind, which would end up in the wheel."""
    target = tmp_path_factory.mktemp("checkout") / "supernode-slurm"
    shutil.copytree(
        ROOT,
        target,
        ignore=shutil.ignore_patterns(
            ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
        ),
    )
    return target


@pytest.fixture(scope="module")
def archives(checkout: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel out of the sdist."""
    out = checkout.parent / "dist"
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, checkout], checkout)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def make_venv(place: Path) -> Path:
    """Make a venv that sees the dependencies installed here, but not this project."""
    run([sys.executable, "-m", "venv", "--without-pip", place], place.parent)
    python = place / "bin" / "python"
    purelib = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], place)
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # A .pth file is not followed from here: an editable install of this project stays unseen.
    Path(purelib.strip(), "dependencies.pth").write_text("\n".join(sorted(here)), encoding="utf-8")
    return python


def pip_install(python: Path, *what: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    options = ["--no-deps", "--no-index", "--no-build-isolation"]
    run([*pip, "install", "-q", *options, *what], python.parent)


@pytest.fixture(scope="module")
def installed(archives: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a venv of its own and return that venv's interpreter."""
    python = make_venv(tmp_path_factory.mktemp("wheel") / "venv")
    pip_install(python, archives[1])
    return python


def test_packages_listed_equal_the_packages_there() -> None:
    listed = set(setup_cfg()["options"]["packages"].split())
    there = {
        path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for path in ROOT.glob("supernode_slurm/**/*.py")
    }
    assert listed == there | {f"supernode_slurm.{name}" for name in DATA}


def test_every_package_has_an_init() -> None:
    packages = {path.parent for path in ROOT.glob("supernode_slurm/**/*.py")}
    assert [str(path) for path in packages if not (path / "__init__.py").is_file()] == []


def test_there_is_data_of_each_kind() -> None:
    files = data_files()
    assert [file for file in files if file.startswith("job_templates/")]
    assert [file for file in files if file.startswith("topology_conf/inventories/")]


def test_the_wheel_holds_every_module_and_every_data_file(archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    data = {f"supernode_slurm/{name}" for name in data_files()}
    assert names == package_files() | data


def test_the_sdist_holds_the_tests_scripts_and_docs(archives: tuple[Path, Path]) -> None:
    with tarfile.open(archives[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = {"LICENSE", "CHANGELOG.md", "README.md", "scripts/test", "tests/test_packaging.py"}
    assert wanted | package_files() | data_files() <= names


def test_the_wheel_finds_its_data_from_anywhere(installed: Path) -> None:
    shown = run([installed, "-c", LIST_DATA], Path("/"))
    assert set(shown.split()) == data_files()


def test_the_wheel_brings_the_licence(installed: Path) -> None:
    program = (
        "from importlib.metadata import distribution\n"
        "d = distribution('supernode-slurm')\n"
        "print(d.metadata['License-Expression'], d.read_text('licenses/LICENSE').split()[:2])"
    )
    assert run([installed, "-c", program], Path("/")).strip() == "Apache-2.0 ['Apache', 'License']"


@pytest.mark.parametrize("command", ["sn", "sn-submit", "sn-launch"])
def test_the_wheel_installs_the_commands(installed: Path, command: str) -> None:
    assert command in run([installed.parent / command, "--help"], Path("/"))


def test_an_editable_install_finds_its_data_from_anywhere(checkout: Path, tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    shutil.copytree(checkout, copy)
    python = make_venv(tmp_path / "venv")
    pip_install(python, "-e", copy)
    assert set(run([python, "-c", LIST_DATA], Path("/")).split()) == data_files()
    where = run([python, "-c", "import supernode_slurm as s; print(s.__file__)"], Path("/"))
    assert Path(where.strip()) == copy / "supernode_slurm" / "__init__.py"


def test_a_plain_checkout_finds_its_data_from_anywhere(checkout: Path) -> None:
    shown = run([sys.executable, "-c", LIST_DATA], Path("/"), PYTHONPATH=str(checkout))
    assert set(shown.split()) == data_files()
