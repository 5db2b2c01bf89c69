"""The scripts: syntax, usage errors, and that slurm-lab passes on what it is given."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "scripts"
RELEASES = ("22.05", "24.11", "26.05")
BASH = [SCRIPTS / "check", SCRIPTS / "quickstart", SCRIPTS / "slurm-lab", SCRIPTS / "test"]
BASH += [SCRIPTS / "placement-proofs", SCRIPTS / "lib.sh", ROOT / ".ci" / "run"]


def run(
    argv: Sequence[object], user: str | None = None, **extra: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(argument) for argument in argv],
        cwd="/",
        env={**os.environ, **extra},
        user=user,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def slurm_lab(*arguments: str | Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return run([SCRIPTS / "slurm-lab", *arguments], **extra)


def copy_scripts(place: Path) -> Path:
    """Copy the scripts to where another user may read them, and return the directory."""
    shutil.copytree(SCRIPTS, place / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    return place / "scripts"


@pytest.fixture
def fake_lab() -> Iterator[Path]:
    """Lay out a lab that anybody can read and that looks complete; no program in it can run."""
    with TemporaryDirectory() as name:
        lab = Path(name)
        lab.chmod(0o755)
        for program in ("sbin/slurmctld", "sbin/slurmd", "sbin/munged", "bin/sinfo", "bin/python3"):
            for release in RELEASES:
                path = lab / release / "usr" / program
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        yield lab


@pytest.mark.parametrize("script", BASH, ids=lambda path: path.name)
def test_scripts_are_valid_bash(script: Path) -> None:
    done = run(["bash", "-n", script])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("script", BASH, ids=lambda path: path.name)
def test_scripts_satisfy_shellcheck(script: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck on this machine")
    done = run(["shellcheck", "-x", "-P", ROOT, script])
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("script", BASH, ids=lambda path: path.name)
def test_what_is_called_is_executable_and_the_library_is_not(script: Path) -> None:
    assert os.access(script, os.X_OK) == (script.name != "lib.sh")


@pytest.mark.parametrize("script", ["check", "quickstart", "slurm-lab", "test"])
def test_help_explains_and_succeeds(script: str) -> None:
    done = run([SCRIPTS / script, "--help"])
    assert done.returncode == 0
    assert f"usage: {script}" in done.stdout + done.stderr


@pytest.mark.parametrize("script", ["check", "quickstart"])
def test_unknown_arguments_are_a_usage_error(script: str) -> None:
    done = run([SCRIPTS / script, "--no-such-option"])
    assert (done.returncode, done.stdout) == (2, "")
    assert f"usage: {script}" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["install"],
        ["install", "1.2"],
        ["install", "../24.11"],
        ["exec"],
        ["exec", "native"],
        ["exec", "native", "--"],
        ["exec", "native", "true"],
        ["exec", "1.2", "--", "true"],
        ["list", "native"],
        ["no-such-command"],
    ],
    ids=" ".join,
)
def test_slurm_lab_refuses_what_it_does_not_know(arguments: list[str]) -> None:
    done = slurm_lab(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def foreign_release() -> str:
    """Return a release that is not this machine's own."""
    native = slurm_lab("list", SLURM_LAB="/nonexistent").stdout
    return next(release for release in RELEASES if not native.startswith(release))


def test_slurm_lab_says_that_a_release_is_not_installed(tmp_path: Path) -> None:
    release = foreign_release()
    done = slurm_lab("exec", release, "--", "true", SLURM_LAB=str(tmp_path))
    assert (done.returncode, done.stdout) == (69, "")
    assert f"slurm-lab install {release}" in done.stderr


def test_slurm_lab_needs_root_for_a_debian_root(fake_lab: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    argv = [copy_scripts(fake_lab) / "slurm-lab", "exec", foreign_release(), "--", "true"]
    done = run(argv, user="nobody", SLURM_LAB=str(fake_lab))
    assert (done.returncode, done.stdout) == (77, "")
    assert "needs root" in done.stderr


def test_slurm_lab_does_not_offer_what_only_root_can_use(fake_lab: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    argv = [copy_scripts(fake_lab) / "slurm-lab", "list"]
    done = run(argv, user="nobody", SLURM_LAB=str(fake_lab))
    assert (done.returncode, done.stderr) == (0, "")
    assert str(fake_lab) not in done.stdout


@pytest.mark.parametrize(("release", "code"), [("24.11", 1), ("26.05", 69)])
def test_only_a_release_of_debian_testing_may_be_out_of_reach(
    release: str, code: int, tmp_path: Path
) -> None:
    if shutil.which("debootstrap") is None or run(["unshare", "--mount", "true"]).returncode:
        pytest.skip("building a Debian root needs debootstrap and a mount namespace")
    if slurm_lab("list", SLURM_LAB="/nonexistent").stdout.startswith(release):
        pytest.skip(f"{release} is this machine's own")
    closed = tmp_path / "apt.conf"
    closed.write_text('Acquire::http::Proxy "http://127.0.0.1:9";\n')
    done = slurm_lab("install", release, APT_CONFIG=str(closed), SLURM_LAB=str(tmp_path / "lab"))
    assert (done.returncode, done.stdout) == (code, "")
    last = done.stderr.splitlines()[-1]
    assert (f"no {release}: Debian forky cannot be had" in last) == (code == 69)
    assert not (tmp_path / "lab" / release).exists()


@pytest.mark.slurm
def test_slurm_lab_native_passes_on_arguments_and_exit_code() -> None:
    program = 'printf "%s|" "$PWD" "$@"; exit 7'
    arguments = ["a b", "", "'; x", "$(y)", "--", "ü\n"]
    done = slurm_lab("exec", "native", "--", "bash", "-c", program, "name", *arguments)
    assert done.returncode == 7, done.stderr
    assert done.stdout.split("|") == [str(ROOT), *arguments, ""]


def installed_roots() -> list[str]:
    lines = slurm_lab("list").stdout.splitlines()
    return [line.split()[0] for line in lines if not line.endswith(" native")]


def test_slurm_lab_root_passes_on_arguments_environment_and_exit_code(hostile_path: Path) -> None:
    roots = installed_roots()
    if not roots:
        pytest.skip("no Debian root here: run scripts/slurm-lab install 24.11 as root")
    scripts = copy_scripts(hostile_path)
    program = 'printf "%s|" "$PWD" "$MARK" "$(slurmctld -V)" "$@"; exit 7'
    arguments = ["a b", "", "'; x", "$(y)", "--", "ü\n"]
    for release in roots:
        command = ["bash", "-c", program, "name", *arguments]
        done = run([scripts / "slurm-lab", "exec", release, "--", *command], MARK="m 1")
        assert done.returncode == 7, done.stderr
        where, mark, version, *rest = done.stdout.split("|")
        assert (where, mark, rest) == (str(hostile_path), "m 1", [*arguments, ""])
        assert release in version


def test_slurm_lab_root_leaves_no_mount_behind() -> None:
    roots = installed_roots()
    if not roots:
        pytest.skip("no Debian root here: run scripts/slurm-lab install 24.11 as root")
    before = Path("/proc/self/mounts").read_text(encoding="utf-8")
    for release in roots:
        slurm_lab("exec", release, "--", "true")
    assert Path("/proc/self/mounts").read_text(encoding="utf-8") == before


def test_each_benchmark_says_the_command_that_runs_it() -> None:
    files = sorted((ROOT / "benchmarks").glob("*.py"))
    programs = [file for file in files if '\nif __name__ == "__main__":\n' in file.read_text()]
    assert len(programs) > 5
    for file in programs:
        head = file.read_text().split('"""')[1]
        assert f"python -m benchmarks.{file.stem}" in head, f"{file.name} imports its neighbours"


def test_a_venv_that_is_renewed_keeps_the_extras_that_it_had(tmp_path: Path) -> None:
    scripts = copy_scripts(tmp_path)
    for name in ("setup.cfg", "pyproject.toml"):
        (tmp_path / name).write_text("")
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
echo "$@" >> {log}
case "$2" in
    venv) mkdir -p "$4/bin"; cp {python} "$4/bin/python" ;;
    *realpath*) echo {python} ;;
esac
"""
    )
    python.chmod(0o755)
    lines = f"source {scripts}/lib.sh; ensure_venv test,dev; echo >> {tmp_path}/setup.cfg"
    script = f"{lines}; echo renewed >> {log}; ensure_venv ''"
    result = run(["bash", "-euc", script], PYTHON=str(python), SLURM_LAB_ROOT="")
    assert result.returncode == 0, result.stderr
    assert f"-e {tmp_path}[test,dev]" in log.read_text().partition("renewed")[2]
