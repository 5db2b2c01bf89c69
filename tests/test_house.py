"""The house rules that a machine can check: who imports whom, sizes, and what is never done."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "supernode_slurm"

# From the ground up. A module imports from earlier rows only, never from its own.
ROWS = (
    ("__init__", "errors"),
    ("units", "hostlist", "data", "probe"),
    ("plan",),
    ("runtime",),
    ("catalogue",),
    ("inventory",),
    ("planner", "slurm"),
    ("slurmconf", "frameworks", "placement", "calibration", "derating"),
    ("submission", "discovery", "twin", "sizing", "report"),
    ("apply", "whatif", "acceptance", "triage"),
    ("cli",),
)
ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names}

TRAVELLERS = ("plan", "runtime")
MAY_RUN_PROGRAMS = ("slurm/", "twin/", "runtime/", "probe/")
RUNNERS = re.compile(
    r"os\.(system|popen|fork|forkpty|exec\w+|spawn\w+|posix_spawnp?)"
    r"|(subprocess|pty|multiprocessing|concurrent\.futures\.ProcessPoolExecutor)(\..*)?"
    r"|asyncio\.create_subprocess_\w+"
)
COSTLY = {"asyncio", "jinja2", "networkx", "numpy", "rich", "yaml"}


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def part_of(path: Path) -> str:
    """Return the package or module of the top level that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the absolute dotted name of everything that a file imports."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*base, node.module) if node.module else base)
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def own_part(imported: str) -> str | None:
    """Return the part of this project that a dotted name reaches into, if any."""
    first, *rest = imported.split(".")
    if first != PACKAGE.name:
        return None
    return rest[0] if rest and rest[0] in ROW_OF else "__init__"


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def travellers() -> list[Path]:
    """Return the files that travel into the job, with all that they import from here."""
    found = {PACKAGE / "__init__.py"}
    todo = [path for path in sources() if part_of(path) in TRAVELLERS]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        for _, imported in imports_of(path):
            if own_part(imported) is not None:
                stem = ROOT.joinpath(*imported.split("."))
                todo += [
                    file
                    for base in (stem, stem.parent)
                    for file in (base.with_suffix(".py"), base / "__init__.py")
                    if file.is_file()
                ]
    return sorted(found)


def test_every_part_has_its_place_in_the_house() -> None:
    assert {part_of(path) for path in sources()} <= set(ROW_OF)


def test_imports_only_go_down() -> None:
    wrong = []
    for path in sources():
        part = part_of(path)
        for line, imported in imports_of(path):
            other = own_part(imported)
            if other not in (None, part, "__init__") and ROW_OF[other] >= ROW_OF[part]:
                wrong.append(f"{name_of(path)}:{line}: {part} imports {other}")
    assert wrong == []


def test_only_the_boundary_runs_programs() -> None:
    wrong = []
    for path in sources():
        if name_of(path).startswith(MAY_RUN_PROGRAMS):
            continue
        used = {imported: line for line, imported in imports_of(path)}
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used[f"{node.value.id}.{node.attr}"] = node.lineno
        wrong += [
            f"{name_of(path)}:{line}: {name}"
            for name, line in used.items()
            if RUNNERS.fullmatch(name)
        ]
    assert wrong == []


def test_nothing_goes_through_a_shell() -> None:
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "shell"
    ]
    assert wrong == []


def test_no_error_is_swallowed_whole() -> None:
    wrong = []
    for path in sources():
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            )
            ends = node.body[-1]
            if broad and not (isinstance(ends, ast.Raise) and ends.exc is None):
                wrong.append(f"{name_of(path)}:{node.lineno}")
    assert wrong == []


def test_assert_checks_no_input() -> None:
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assert)
    ]
    assert wrong == []


def test_what_travels_needs_only_the_standard_library() -> None:
    wrong = [
        f"{name_of(path)}:{line}: {imported}"
        for path in travellers()
        for line, imported in imports_of(path)
        if imported.split(".")[0] not in {*sys.stdlib_module_names, PACKAGE.name}
    ]
    assert wrong == []


def test_what_travels_parses_as_python_3_8() -> None:
    for path in travellers():
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))


def find_python38() -> str | None:
    """Return a Python 3.8 that starts; the shims of version managers may exist and not start."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = shutil.which("python3.8")
    candidates: list[str | Path] = [
        *([found] if found else []),
        *pyenv.glob("versions/3.8.*/bin/python3.8"),
    ]
    for candidate in candidates:
        with contextlib.suppress(OSError):
            tried = subprocess.run(
                [candidate, "-c", ""], capture_output=True, check=False, timeout=60
            )
            if tried.returncode == 0:
                return str(candidate)
    return None


def test_what_travels_imports_on_a_real_python_3_8(tmp_path: Path) -> None:
    python = find_python38()
    if python is None:
        pytest.skip("no python3.8 on this machine")
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in travellers()
    ]
    program = f"import importlib\nfor name in {names!r}: importlib.import_module(name)"
    done = subprocess.run(
        [python, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr


def test_modules_stay_under_400_lines() -> None:
    lengths = {
        name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()
    }
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_functions_stay_under_60_lines() -> None:
    wrong = [
        f"{name_of(path)}:{node.lineno}: {node.name} has {length} lines"
        for path in sources()
        for node in functions_of(path)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > 60
    ]
    assert wrong == []


def is_click_callback(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        re.search(r"\b(command|group|option|argument)\(", ast.unparse(decorator) + "(")
        for decorator in node.decorator_list
    )


def test_functions_take_at_most_7_parameters() -> None:
    wrong = []
    for path in sources():
        for node in functions_of(path):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = sum(argument.arg not in ("self", "cls") for argument in arguments)
            if count > 7 and not is_click_callback(node):
                wrong.append(f"{name_of(path)}:{node.lineno}: {node.name} takes {count}")
    assert wrong == []


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    # The checkout may belong to another user than the one who runs the tests.
    argv = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_place_of_one_machine() -> None:
    # One letter of each in brackets, so that this file passes its own test.
    places = re.compile(r"(?<![\w.~-])/[w]ork/|/tmp/[b]ash|/tmp/[v]env|/root/[.]pyenv")
    wrong = []
    for path in tracked_files():
        text = path.read_text(encoding="utf-8", errors="replace")
        wrong += [f"{path.relative_to(ROOT)}: {found.group()}" for found in places.finditer(text)]
    assert wrong == []


@pytest.mark.parametrize("module", ["supernode_slurm.cli.main", "supernode_slurm.cli.submit"])
@pytest.mark.parametrize("arguments", [[], ["--help"]], ids=["import", "help"])
def test_starting_up_loads_nothing_costly(module: str, arguments: list[str]) -> None:
    program = (
        "import importlib, sys\n"
        f"main = importlib.import_module({module!r}).main\n"
        f"sys.argv = ['sn', *{arguments!r}]\n"
        "try:\n"
        f"    main() if {bool(arguments)} else None\n"
        "except SystemExit as done:\n"
        "    if done.code: raise\n"
        f"print(*sorted({COSTLY!r} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.split() == []
